"""Processes that die, hang, freeze, and come back."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.admin_host import AdminHost
from tests.simulation.faults.disasters import Actions, Disasters
from tests.simulation.node_host import NodeHost
from tests.simulation.store import FaultShares

Host = AdminHost | NodeHost


class MachineFaults:
    """What befalls admins and nodes."""

    def __init__(
        self,
        disasters: Disasters,
        nodes: Sequence[NodeHost],
        admins: Sequence[AdminHost],
        shares: FaultShares,
    ) -> None:
        self._disasters = disasters
        self._random = disasters.random
        self._nodes = nodes
        self._admins = admins
        self._shares = shares
        self.actions: Actions = {
            "kill admin": (3, 1, lambda: self._kill(self._an_admin())),
            "kill admin between steps": (2, 1, lambda: self._light_fuse(self._an_admin())),
            "kill admin at transaction": (2, 0, self._crash_admin_at_transaction),
            "freeze admin": (2, 3, lambda: self._freeze(self._an_admin())),
            "freeze all admins": (1, 2, self._freeze_all_admins),
            "freeze admin after claim": (2, 2, self._freeze_after_claim),
            "stop admin": (1, 1, self._stop_admin),
            "kill node": (3, 1, lambda: self._kill(self._a_node())),
            "kill node between steps": (2, 0, lambda: self._light_fuse(self._a_node())),
            "freeze node": (2, 1, lambda: self._freeze(self._a_node())),
            "stop node": (2, 1, self._stop_node),
        }

    def _an_admin(self) -> AdminHost:
        return self._random.choice(self._admins)

    def _a_node(self) -> NodeHost:
        return self._random.choice(self._nodes)

    def _kill(self, host: Host) -> None:
        host.kill(vanished=self._random.random() < 0.3)
        self._restart(host)

    def _light_fuse(self, host: Host) -> None:
        host.process.fuse = self._random.randint(1, 150)
        self._restart(host, after=5)

    def _restart(self, host: Host, *, after: float = 0.0) -> None:
        slow = self._random.random() < 0.3
        self._disasters.later(after + 0.2, after + (25 if slow else 4), host.start)

    def _freeze(self, host: Host) -> None:
        host.freeze()
        longest = self._random.choice((2, 10, 25, 60))
        self._disasters.later(0.1, longest, host.thaw)

    def _freeze_all_admins(self) -> None:
        for admin in self._admins:
            admin.freeze()
        seconds = self._random.choice((5, 20, 60))
        for admin in self._admins:
            self._disasters.later(seconds, seconds + self._random.choice((0, 3)), admin.thaw)

    def _freeze_after_claim(self) -> None:
        self._disasters.note("lets admins freeze when they have claimed")
        self._shares.freeze_after_claim = 0.3
        self._disasters.later(2, 6, lambda: setattr(self._shares, "freeze_after_claim", 0.0))

    def _stop_admin(self) -> None:
        admin = self._an_admin()
        admin.stop()
        # Like the supervisor that loses its patience.
        self._disasters.later(8, 15, admin.kill)
        self._disasters.later(16, 20, admin.start)

    def _stop_node(self) -> None:
        node = self._a_node()
        grace = self._random.choice((0.0, 1.0, 10.0))
        node.stop(grace)
        self._disasters.later(grace + 15, grace + 16, node.kill)
        self._disasters.later(grace + 17, grace + 20, node.start)

    def _crash_admin_at_transaction(self) -> None:
        self._disasters.note("lets an admin die at a transaction")
        self._shares.crash = 0.05

        def end() -> None:
            self._shares.crash = 0.0
            for admin in self._admins:
                self._restart(admin)

        self._disasters.later(0.5, 3, end)
