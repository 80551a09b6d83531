"""Connections that break, flap, stall and are refused; hosts that cannot be reached."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tests.simulation.admin_host import AdminHost
from tests.simulation.faults.disasters import Actions, Disasters
from tests.simulation.network import Network, Route
from tests.simulation.node_host import NodeHost


class NetworkFaults:
    """What befalls the ways between nodes and admins."""

    def __init__(
        self,
        disasters: Disasters,
        nodes: Sequence[NodeHost],
        admins: Sequence[AdminHost],
        network: Network,
    ) -> None:
        self._disasters = disasters
        self._random = disasters.random
        self._nodes = nodes
        self._admins = admins
        self._network = network
        self.actions: Actions = {
            "break connection": (3, 2, self._break_connection),
            "cut route": (3, 2, self._cut_route),
            "isolate node": (1, 2, self._isolate_node),
            "flapping socket": (1, 2, self._flap),
            "stalled connection": (2, 2, self._stall),
            "refused connects": (2, 1, self._refuse_connects),
            "slow network": (2, 1, self._slow_down),
        }

    def heal(self) -> None:
        self._network.refuse_share = 0.0
        self._network.slow = False
        for route in sorted(self._network.cut):
            self._network.mend_route(route)
        self._network.unstall_all()

    def _a_route(self) -> Route:
        return self._random.choice(self._nodes).name, self._random.choice(self._admins).name

    def _break_connection(self) -> None:
        pipes = self._network.open_pipes()
        if not pipes:
            return
        pipe = self._random.choice(pipes)
        # Often only one side is told, and the other one talks into the void for 15 s.
        notices = [self._random.choice((0.01, 0.5, 14.0)) for _ in range(2)]
        self._disasters.note(
            f"breaks {pipe.route}: node notices {notices[0]} s, admin {notices[1]} s later"
        )
        trouble = self._disasters.troubles.begin(node=pipe.route[0], admin=pipe.route[1])
        pipe.break_off(*notices)
        self._disasters.later(15, 15, partial(self._disasters.troubles.end, trouble))

    def _cut_route(self) -> None:
        self._cut(self._a_route())

    def _isolate_node(self) -> None:
        node = self._random.choice(self._nodes)
        for admin in self._admins:
            self._cut((node.name, admin.name))

    def _cut(self, route: Route) -> None:
        if route in self._network.cut:
            return
        self._disasters.note(f"cuts {route}")
        self._network.cut_route(route)
        trouble = self._disasters.troubles.begin(node=route[0], admin=route[1])

        def mend() -> None:
            self._disasters.note(f"mends {route}")
            self._network.mend_route(route)
            self._disasters.troubles.end(trouble)

        self._disasters.later(0.5, self._random.choice((5, 20, 40)), mend)

    def _flap(self) -> None:
        """A socket that opens and breaks, while other admins may hear the node well."""
        route = self._a_route()
        self._disasters.note(f"lets {route} flap")
        trouble = self._disasters.troubles.begin(node=route[0], admin=route[1])

        def again(left: int) -> None:
            for pipe in self._network.pipes_of(route):
                pipe.break_off(0.01, self._random.choice((0.01, 0.3)))
            if left:
                self._disasters.later(0.3, 2, partial(again, left - 1))
            else:
                self._disasters.troubles.end(trouble)

        again(self._random.choice((5, 20)))

    def _stall(self) -> None:
        """A proxy keeps what is sent, and delivers it when nobody expects it any more."""
        pipes = self._network.open_pipes()
        if not pipes:
            return
        pipe = self._random.choice(pipes)
        ends = self._random.choice(
            ([pipe.node_end], [pipe.admin_end], [pipe.node_end, pipe.admin_end])
        )
        for end in ends:
            pipe.stall(end)
        names = " and ".join(end.process.name for end in ends)
        self._disasters.note(f"stalls what {names} sends on {pipe.route}")
        trouble = self._disasters.troubles.begin(node=pipe.route[0], admin=pipe.route[1])

        def end() -> None:
            self._disasters.note(f"delivers what was stalled on {pipe.route}")
            pipe.unstall()
            self._disasters.troubles.end(trouble)

        self._disasters.later(0.5, self._random.choice((3, 20, 60, 300)), end)

    def _refuse_connects(self) -> None:
        self._disasters.note("half of all connects are refused")
        self._network.refuse_share = 0.5
        trouble = self._disasters.troubles.begin()

        def end() -> None:
            self._network.refuse_share = 0.0
            self._disasters.troubles.end(trouble)

        self._disasters.later(1, 15, end)

    def _slow_down(self) -> None:
        self._disasters.note("slows the network down")
        self._network.slow = True
        self._disasters.later(1, 15, lambda: setattr(self._network, "slow", False))
