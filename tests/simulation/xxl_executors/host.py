"""A machine that runs one process of an executor of XXL-JOB's protocol after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.simulation.faults.troubles import Troubles
from tests.simulation.handlers import Journal
from tests.simulation.history import History
from tests.simulation.host import Host
from tests.simulation.network import Network
from tests.simulation.scheduler import Process, SimLoop
from tests.simulation.xxl_executors.executor import SimExecutor
from tests.simulation.xxl_executors.truth import Mishap, Truth, key_of
from tests.simulation.xxl_executors.wire import Wire


@dataclass(slots=True)
class Ways:
    """How an executor behaves; in none of these as it should."""

    slow_seconds: float = 0.0  # that an answer takes at most
    late_kill_seconds: float = 0.0  # that a call to end a run lies about, at most
    drop_share: float = 0.0  # of the runs that it says it runs, and forgets
    says_idle: bool = False  # whatever runs
    denies_logs: bool = False
    silenced_share: float = 0.0  # of the reports that it never sends
    twice_share: float = 0.0  # of the reports that it sends twice
    unanswered_share: float = 0.0  # of the calls that it carries out and does not answer


class XxlHost(Host):
    """One address, and the process that listens there now, if any."""

    def __init__(
        self,
        name: str,
        number: int,
        *,
        app_name: str,
        dialect: str,
        admins: Sequence[str],
        keeps_disk: bool,
        wire: Wire,
        truth: Truth,
        journal: Journal,
        loop: SimLoop,
        network: Network,
        random: Random,
        history: History,
        seed: int,
        troubles: Troubles,
    ) -> None:
        super().__init__(
            "node", name, loop=loop, network=network, history=history, troubles=troubles
        )
        self.address = f"http://10.0.0.{number}:9999"
        self.app_name = app_name
        self.dialect = dialect
        self.admins = admins  # names, in the order in which it tries them
        self.ways = Ways()
        self.wire = wire
        self.truth = truth
        self.journal = journal
        self.seed = seed
        self.is_vanished = False
        self.logs: dict[int, list[str]] = {}  # by logId; on its disk
        self.files: list[list[dict[str, Any]]] = []  # reports that nobody took; on its disk
        self.processes: list[Process] = []
        self._keeps_disk = keeps_disk  # a container loses it with its process
        self._random = random
        wire.hosts[self.address] = self

    def start(self) -> None:
        """Start a new process; nothing happens while there is one."""
        if self.process.is_dead:
            self.is_vanished = False
            self._troubles.end_of(node=self.name)
            if not self._keeps_disk:
                for log_id in self.logs:
                    self.truth.note(key_of(log_id), Mishap.DISK_LOST)
                self.logs.clear()
                self.files.clear()
            super().start()
            self.processes.append(self.process)

    def kill(self, *, vanished: bool = False) -> None:
        """As `kill -9`, or as if its machine were gone."""
        if not self.process.is_dead:
            process = self.process
            self.is_vanished = vanished
            super().kill(vanished=vanished)
            self.wire.died(process, vanished=vanished)

    def stop(self, _grace_seconds: float) -> None:
        """As SIGTERM."""
        if self.is_up:
            self._troubles.begin(node=self.name)
            self._history.note(self.process.name, "is asked to stop")
            self.is_serving = False
            self.process.spawn(self._stop(self.process), name="stop")

    async def _main(self, process: Process) -> None:
        self.executor = SimExecutor(self, process, self._random)
        self.is_serving = True
        process.spawn(self.executor.live(), name="executor")

    async def _stop(self, process: Process) -> None:
        await self.executor.stop()
        self._history.note(process.name, "has stopped")
        self._loop.world_soon(self._exit, process)

    def _exit(self, process: Process) -> None:
        super()._exit(process)
        self.wire.died(process, vanished=False)
