"""A database that is away, slow, unsure, or at another time; disks that are full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.simulation.admin_host import AdminHost
from tests.simulation.database import SimDatabase
from tests.simulation.faults.disasters import Actions, Disasters
from tests.simulation.node_host import NodeHost
from tests.simulation.store import FaultShares

if TYPE_CHECKING:
    from tests.simulation.faults.chaos import Weather


class StorageFaults:
    """What befalls the database and the disks of nodes."""

    def __init__(
        self,
        disasters: Disasters,
        nodes: Sequence[NodeHost],
        admins: Sequence[AdminHost],
        database: SimDatabase,
        shares: FaultShares,
        weather: Weather,
    ) -> None:
        self._disasters = disasters
        self._random = disasters.random
        self._nodes = nodes
        self._admins = admins
        self._database = database
        self._shares = shares
        self._weather = weather
        self.actions: Actions = {
            "database away": (2, 3, self._take_database_down),
            "slow database": (1, 1, self._slow_database),
            "failing transactions": (3, 2, self._fail_transactions),
            "database clock set": (2, 3, self._set_clock),
            "full disk": (1, 1, self._fill_disk),
        }

    def heal(self) -> None:
        self._database.is_slow = self._database.is_down = False
        self._shares.crash = self._shares.rolled_back = self._shares.unknown_commit = 0.0
        self._shares.freeze_after_claim = 0.0
        for node in self._nodes:
            node.disk.is_full = False
        # What was planned while the clock was ahead would have to wait for it else.
        if step := self._database.catch_up():
            self._disasters.note(f"sets the database's clock forward by {step} ms")

    def _take_database_down(self) -> None:
        self._disasters.note("takes the database down")
        self._database.is_down = True
        longest = self._random.choice((20, 60) if self._weather.is_siege else (2, 8, 20))
        self._disasters.later(0.2, longest, self._bring_database_up)

    def _bring_database_up(self) -> None:
        self._disasters.note("brings the database up")
        self._database.is_down = False

    def _slow_database(self) -> None:
        self._disasters.note("slows the database down")
        self._database.is_slow = True
        self._disasters.later(1, 8, lambda: setattr(self._database, "is_slow", False))

    def _fail_transactions(self) -> None:
        self._disasters.note("lets transactions fail")
        self._shares.rolled_back = self._random.choice((0.02, 0.2))
        self._shares.unknown_commit = self._random.choice((0.02, 0.2))

        def end() -> None:
            self._shares.rolled_back = self._shares.unknown_commit = 0.0

        self._disasters.later(1, 10, end)

    def _set_clock(self) -> None:
        """Set the database's clock; mostly it is set right again later."""
        longest = self._random.choice((300, 3_000, self._weather.clock_step_ms))
        step = self._random.randint(-longest, longest)
        self._step(step)
        if self._random.random() < 0.7:
            self._disasters.later(0.5, 20, lambda: self._step(-step))

    def _step(self, ms: int) -> None:
        self._disasters.note(f"sets the database's clock by {ms} ms")
        self._database.step_clock(ms)

    def _fill_disk(self) -> None:
        node = self._random.choice(self._nodes)
        self._disasters.note(f"fills the disk of {node.name}")
        node.disk.is_full = True
        self._disasters.later(1, 12, lambda: setattr(node.disk, "is_full", False))
