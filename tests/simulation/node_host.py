"""A machine that runs one node after the other, all on one disk: the real SDK."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.simulation.disk import SimDisk
from tests.simulation.faults.troubles import Troubles
from tests.simulation.handlers import Journal, make_handlers
from tests.simulation.history import History
from tests.simulation.host import Host
from tests.simulation.network import End, Network
from tests.simulation.routing import labels_of, weight_of
from tests.simulation.scheduler import Process, SimLoop
from tickwheel_executor.errors import SpoolError
from tickwheel_executor.node.node import Node
from tickwheel_executor.settings import NodeSettings

MOST_SLOTS_SET = 4  # what operators give a node at most


class NodeHost(Host):
    """One place for a node, and the process that fills it now, if any."""

    def __init__(
        self,
        name: str,
        *,
        executor: str,
        token: str,
        admins: tuple[str, ...],
        slots: int,
        disk: SimDisk,
        journal: Journal,
        loop: SimLoop,
        network: Network,
        random: Random,
        history: History,
        seed: int,
        now: Callable[[], int],
        troubles: Troubles,
    ) -> None:
        super().__init__(
            "node", name, loop=loop, network=network, history=history, troubles=troubles
        )
        self.executor = executor
        self.slots = slots
        self.disk = disk
        self._token = token
        self.admins = admins  # URLs that it is started with; it learns of the others
        self._journal = journal
        self._random = random
        self._seed = seed
        self._now = now
        self.processes: dict[str, Process] = {}  # by node key, all that there ever were
        self._clock_is_off_by = random.randrange(-3_600_000, 3_600_000)

    def start(self) -> None:
        """Start a new process; nothing happens while there is one."""
        if self.process.is_dead:
            self._troubles.end_of(node=self.name)
            super().start()
            self.process.on_death = self.disk.died

    def stop(self, grace_seconds: float) -> None:
        """As SIGTERM."""
        if self.is_up:
            self._troubles.begin(node=self.name)
            self._history.note(self.process.name, f"is asked to stop within {grace_seconds:.1f} s")
            self.is_serving = False
            self.process.spawn(self._stop(self.process, grace_seconds), name="stop")

    async def _main(self, process: Process) -> None:
        async def connect(url: str, token: str) -> End:
            return await self._network.connect(self.name, process, url, token)

        self.node = Node(
            NodeSettings(
                executor=self.executor,
                admins=self.admins,
                token=self._token,
                name=self.name,
                slots=self.slots,
                labels=labels_of(self.name),
                weight=weight_of(self.name),
            ),
            make_handlers(self._journal, process, seed=self._seed, slots=self._most_slots),
            connect=connect,
            spool=self.disk.spool(process),
            clock=lambda: self._now() + self._clock_is_off_by,
            random=self._random,
        )
        self.processes[self.node.key] = process
        try:
            await self.node.start()
        except SpoolError:
            self._history.note(process.name, "cannot use its disk")
            self._loop.world_soon(self._exit, process)
            self._loop.world_later(2.0, self.start)
            return
        self.is_serving = True

    def _most_slots(self) -> int:
        """The most that it may run at once; less was perhaps set by somebody meanwhile."""
        return max(self.slots, MOST_SLOTS_SET)

    async def _stop(self, process: Process, grace_seconds: float) -> None:
        clean = await self.node.drain(grace_seconds)
        self._history.note(process.name, f"has stopped, {'' if clean else 'not '}clean")
        self._loop.world_soon(self._exit, process)
