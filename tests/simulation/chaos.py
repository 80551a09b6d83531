"""Disasters, drawn from the seed: every one that a real cluster meets, and more often."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from tests.simulation.admin_host import AdminHost
from tests.simulation.database import SimDatabase
from tests.simulation.history import History
from tests.simulation.network import Network
from tests.simulation.node_host import NodeHost
from tests.simulation.scheduler import SimLoop
from tests.simulation.store import FaultShares

Host = AdminHost | NodeHost


class Chaos:
    """Sets off faults until it is healed."""

    def __init__(
        self,
        admins: Sequence[AdminHost],
        nodes: Sequence[NodeHost],
        *,
        loop: SimLoop,
        database: SimDatabase,
        network: Network,
        shares: FaultShares,
        random: Random,
        history: History,
        mean_gap_seconds: float,
    ) -> None:
        self.faults = 0
        self._admins = admins
        self._nodes = nodes
        self._loop = loop
        self._database = database
        self._network = network
        self._shares = shares
        self._random = random
        self._history = history
        self._gap = mean_gap_seconds
        self._is_over = False
        choices: list[tuple[int, Callable[[], None]]] = [
            (3, self._kill_admin),
            (2, self._kill_admin_between_steps),
            (2, self._crash_admin_at_transaction),
            (2, self._freeze_admin),
            (1, self._stop_admin),
            (3, self._kill_node),
            (2, self._kill_node_between_steps),
            (2, self._freeze_node),
            (2, self._stop_node),
            (3, self._break_connection),
            (3, self._cut_route),
            (1, self._isolate_node),
            (2, self._refuse_connects),
            (2, self._slow_network),
            (2, self._take_database_down),
            (1, self._slow_database),
            (3, self._fail_transactions),
            (1, self._fill_disk),
        ]
        # Each world has its own climate: some faults it never sees, others come in crowds.
        self._choices = [
            action
            for weight, action in choices
            for _ in range(weight * random.choice((0, 1, 1, 3)))
        ] or [self._kill_node]

    async def rage(self) -> None:
        """Set off one fault after the other, until cancelled."""
        while True:
            await asyncio.sleep(self._random.expovariate(1 / self._gap))
            self.faults += 1
            self._random.choice(self._choices)()

    def heal(self) -> None:
        """Undo everything, and keep what was going to happen from happening."""
        self._is_over = True
        self._network.refuse_share = 0.0
        self._network.slow = self._database.is_slow = self._database.is_down = False
        self._shares.crash = self._shares.rolled_back = self._shares.unknown_commit = 0.0
        for route in sorted(self._network.cut):
            self._network.mend_route(route)
        for host in (*self._admins, *self._nodes):
            host.process.fuse = None
            host.thaw()
            host.start()
        for node in self._nodes:
            node.disk.is_full = False

    def _later(self, low: float, high: float, action: Callable[[], None]) -> None:
        def unless_over() -> None:
            if not self._is_over:
                action()

        self._loop.world_later(self._random.uniform(low, high), unless_over)

    def _note(self, what: str) -> None:
        self._history.note("chaos", what)

    # --- processes -------------------------------------------------------------------------------

    def _kill_admin(self) -> None:
        self._kill(self._random.choice(self._admins))

    def _kill_node(self) -> None:
        self._kill(self._random.choice(self._nodes))

    def _kill(self, host: Host) -> None:
        host.kill(vanished=self._random.random() < 0.3)
        self._restart(host)

    def _kill_admin_between_steps(self) -> None:
        self._light_fuse(self._random.choice(self._admins))

    def _kill_node_between_steps(self) -> None:
        self._light_fuse(self._random.choice(self._nodes))

    def _light_fuse(self, host: Host) -> None:
        host.process.fuse = self._random.randint(1, 150)
        self._restart(host, after=5)

    def _restart(self, host: Host, *, after: float = 0.0) -> None:
        slow = self._random.random() < 0.3
        self._later(after + 0.2, after + (25 if slow else 4), host.start)

    def _freeze_admin(self) -> None:
        self._freeze(self._random.choice(self._admins))

    def _freeze_node(self) -> None:
        self._freeze(self._random.choice(self._nodes))

    def _freeze(self, host: Host) -> None:
        host.freeze()
        longest = self._random.choice((2, 10, 25, 60))
        self._later(0.1, longest, host.thaw)

    def _stop_admin(self) -> None:
        admin = self._random.choice(self._admins)
        admin.stop()
        # Like the supervisor that loses its patience.
        self._later(8, 15, admin.kill)
        self._later(16, 20, admin.start)

    def _stop_node(self) -> None:
        node = self._random.choice(self._nodes)
        grace = self._random.choice((0.0, 1.0, 10.0))
        node.stop(grace)
        self._later(grace + 15, grace + 16, node.kill)
        self._later(grace + 17, grace + 20, node.start)

    # --- network ---------------------------------------------------------------------------------

    def _break_connection(self) -> None:
        pipes = self._network.open_pipes()
        if not pipes:
            return
        pipe = self._random.choice(pipes)
        # Often only one side is told, and the other one talks into the void for 15 s.
        notices = [self._random.choice((0.01, 0.5, 14.0)) for _ in range(2)]
        self._note(f"breaks {pipe.route}: node notices {notices[0]} s, admin {notices[1]} s later")
        pipe.break_off(*notices)

    def _cut_route(self) -> None:
        node, admin = self._random.choice(self._nodes), self._random.choice(self._admins)
        self._cut((node.name, admin.name))

    def _isolate_node(self) -> None:
        node = self._random.choice(self._nodes)
        for admin in self._admins:
            self._cut((node.name, admin.name))

    def _cut(self, route: tuple[str, str]) -> None:
        if route in self._network.cut:
            return
        self._note(f"cuts {route}")
        self._network.cut_route(route)

        def mend() -> None:
            self._note(f"mends {route}")
            self._network.mend_route(route)

        self._later(0.5, self._random.choice((5, 20, 40)), mend)

    def _refuse_connects(self) -> None:
        self._note("half of all connects are refused")
        self._network.refuse_share = 0.5
        self._later(1, 15, lambda: setattr(self._network, "refuse_share", 0.0))

    def _slow_network(self) -> None:
        self._note("slows the network down")
        self._network.slow = True
        self._later(1, 15, lambda: setattr(self._network, "slow", False))

    # --- database and disks ----------------------------------------------------------------------

    def _take_database_down(self) -> None:
        self._note("takes the database down")
        self._database.is_down = True
        self._later(0.2, self._random.choice((2, 8, 20)), self._bring_database_up)

    def _bring_database_up(self) -> None:
        self._note("brings the database up")
        self._database.is_down = False

    def _slow_database(self) -> None:
        self._note("slows the database down")
        self._database.is_slow = True
        self._later(1, 8, lambda: setattr(self._database, "is_slow", False))

    def _fail_transactions(self) -> None:
        self._note("lets transactions fail")
        self._shares.rolled_back = self._random.choice((0.02, 0.2))
        self._shares.unknown_commit = self._random.choice((0.02, 0.2))

        def end() -> None:
            self._shares.rolled_back = self._shares.unknown_commit = 0.0

        self._later(1, 10, end)

    def _crash_admin_at_transaction(self) -> None:
        self._note("lets an admin die at a transaction")
        self._shares.crash = 0.05

        def end() -> None:
            self._shares.crash = 0.0
            for admin in self._admins:
                self._restart(admin)

        self._later(0.5, 3, end)

    def _fill_disk(self) -> None:
        node = self._random.choice(self._nodes)
        self._note(f"fills the disk of {node.name}")
        node.disk.is_full = True
        self._later(1, 12, lambda: setattr(node.disk, "is_full", False))
