"""A machine that runs one node after the other, all on one disk: the real SDK."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.simulation.disk import SimDisk
from tests.simulation.faults.troubles import Troubles
from tests.simulation.handlers import Journal, make_handlers
from tests.simulation.history import History
from tests.simulation.network import End, Network
from tests.simulation.routing import labels_of, weight_of
from tests.simulation.scheduler import Process, SimLoop
from tickwheel_executor.errors import SpoolError
from tickwheel_executor.node.node import Node
from tickwheel_executor.settings import NodeSettings

MOST_SLOTS_SET = 4  # what operators give a node at most


class NodeHost:
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
        self.name = name
        self.executor = executor
        self.slots = slots
        self.disk = disk
        self.process = Process(loop, name)
        self.process.kill()
        self.is_ready = False
        self._token = token
        self.admins = admins  # URLs that it is started with; it learns of the others
        self._journal = journal
        self._loop = loop
        self._network = network
        self._random = random
        self._history = history
        self._seed = seed
        self._now = now
        self._troubles = troubles
        self._starts = 0
        self.processes: dict[str, Process] = {}  # by node key, all that there ever were
        self._clock_is_off_by = random.randrange(-3_600_000, 3_600_000)

    @property
    def is_up(self) -> bool:
        return self.is_ready and not self.process.is_dead

    def start(self) -> None:
        """Start a new process; nothing happens while there is one."""
        if not self.process.is_dead:
            return
        self._starts += 1
        self.process = Process(self._loop, f"{self.name}.{self._starts}")
        self.process.on_fuse = self.kill
        self.process.on_death = self.disk.died
        self._troubles.end_of(node=self.name)
        self.is_ready = False
        self._history.note(self.process.name, "starts")
        self.process.spawn(self._main(self.process), name="node")

    def kill(self, *, vanished: bool = False) -> None:
        """As `kill -9`, or as if its machine were gone."""
        if self.process.is_dead:
            return
        self._history.note(self.process.name, "vanishes" if vanished else "is killed")
        self._troubles.begin(node=self.name)
        self.process.kill()
        self.is_ready = False
        self._network.died(self.process, vanished=vanished)

    def stop(self, grace_seconds: float) -> None:
        """As SIGTERM."""
        if self.is_up:
            self._troubles.begin(node=self.name)
            self._history.note(self.process.name, f"is asked to stop within {grace_seconds:.1f} s")
            self.is_ready = False
            self.process.spawn(self._stop(self.process, grace_seconds), name="stop")

    def freeze(self) -> None:
        if not self.process.is_dead:
            self._history.note(self.process.name, "freezes")
            self._troubles.begin(node=self.name)
            self.process.freeze()
            self._network.froze(self.process)

    def thaw(self) -> None:
        if not self.process.is_dead:
            self._history.note(self.process.name, "thaws")
            self._troubles.end_of(node=self.name)
            self.process.thaw()

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
        self.is_ready = True

    def _most_slots(self) -> int:
        """The most that it may run at once; less was perhaps set by somebody meanwhile."""
        return max(self.slots, MOST_SLOTS_SET)

    async def _stop(self, process: Process, grace_seconds: float) -> None:
        clean = await self.node.drain(grace_seconds)
        self._history.note(process.name, f"has stopped, {'' if clean else 'not '}clean")
        self._loop.world_soon(self._exit, process)

    def _exit(self, process: Process) -> None:
        if process is self.process and not process.is_dead:
            process.kill()
            self._network.died(process, vanished=False)
