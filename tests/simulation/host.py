"""A machine that runs one process after the other: started, stopped, killed, frozen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

from tests.simulation.faults.troubles import Troubles
from tests.simulation.history import History
from tests.simulation.network import Network
from tests.simulation.scheduler import Process, SimLoop


class Host(ABC):
    """One place for an admin or a node, and the process that fills it now, if any."""

    def __init__(
        self,
        kind: Literal["admin", "node"],
        name: str,
        *,
        loop: SimLoop,
        network: Network,
        history: History,
        troubles: Troubles,
    ) -> None:
        self.name = name
        self.process = Process(loop, name)
        self.process.kill()
        self.is_serving = False
        self._kind = kind
        self._loop = loop
        self._network = network
        self._history = history
        self._troubles = troubles
        self._subject = {kind: name}  # of troubles
        self._starts = 0

    @property
    def is_up(self) -> bool:
        """Whether it serves, as far as anybody can tell from outside."""
        return self.is_serving and not self.process.is_dead

    def start(self) -> None:
        """Start a new process; nothing happens while there is one."""
        if not self.process.is_dead:
            return
        self._starts += 1
        self.process = Process(self._loop, f"{self.name}.{self._starts}")
        self.process.on_fuse = self.kill
        self.is_serving = False
        self._history.note(self.process.name, "starts")
        self.process.spawn(self._main(self.process), name=self._kind)

    def kill(self, *, vanished: bool = False) -> None:
        """As `kill -9`, or as if its machine were gone."""
        if self.process.is_dead:
            return
        self._history.note(self.process.name, "vanishes" if vanished else "is killed")
        self._troubles.begin(**self._subject)
        self.process.kill()
        self.is_serving = False
        self._network.died(self.process, vanished=vanished)

    def freeze(self) -> None:
        if not self.process.is_dead:
            self._history.note(self.process.name, "freezes")
            self._troubles.begin(**self._subject)
            self.process.freeze()
            self._network.froze(self.process)

    def thaw(self) -> None:
        if not self.process.is_dead:
            self._history.note(self.process.name, "thaws")
            self._troubles.end_of(**self._subject)
            self.process.thaw()

    @abstractmethod
    async def _main(self, process: Process) -> None: ...

    def _exit(self, process: Process) -> None:
        """The process has come to its own end."""
        if process is self.process and not process.is_dead:
            process.kill()
            self._network.died(process, vanished=False)
