"""Connections between nodes and admins: late, cut, half open, and in harsh weather out of order.

A connection behaves like a WebSocket: frames arrive in order or not at all, and an end that hears
nothing for 15 s (pongs included) finds out by itself. Harsh weather is worse than any real one:
frames come twice, or overtake each other by seconds. The protocol must bear that too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.history import History
from tests.simulation.scheduler import Life, Process, SimLoop
from tickwheel_executor.errors import ConnectError

if TYPE_CHECKING:
    from tests.simulation.admin_host import AdminHost

SILENCE = (10.0, 15.0)  # seconds after which an end notices that nothing comes any more
Route = tuple[str, str]  # (node host, admin host)


class End:
    """One end of a connection; both the SDK's and the admin's Channel."""

    def __init__(self, pipe: Pipe, process: Process, error: type[Exception]) -> None:
        self.pipe = pipe
        self.process = process
        self.peer: End
        self.closed = False
        self.close_reason = ""
        self.is_reset = False  # what is still on its way from here does not arrive
        self._error = error
        self._frames: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._last_arrival = 0.0
        self._sent = 0

    async def send(self, frame: bytes) -> None:
        network = self.pipe.network
        network.check_not_over()
        if self.closed:
            raise self._error("the connection is closed")
        if network.random.random() < 0.1:
            await asyncio.sleep(network.random.uniform(0, 0.02))
        self._sent += 1
        if network.harsh and self._sent > 1:
            self._send_harshly(frame)
        else:
            self._send_in_order(frame)

    async def receive(self) -> bytes | None:
        while not self._frames:
            self.pipe.network.check_not_over()
            if self.closed:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._frames.popleft()

    @property
    def is_gone(self) -> bool:
        return self.closed

    async def close(self, code: int = 1000, reason: str = "") -> None:
        if not self.closed:
            self._send_in_order(None)
            self.shut(reason or str(code))
            self._frames.clear()

    def abort(self) -> None:
        if not self.closed:
            self.is_reset = True
            self._send_in_order(None)
            self.shut("broken off")
            self._frames.clear()

    # --- what the network does with it -----------------------------------------------------------

    def shut(self, reason: str) -> None:
        """Take no more frames; those that have arrived may still be read."""
        if not self.closed:
            self.closed = True
            self.close_reason = reason
            self._wake()

    def lose(self) -> None:
        """Notice that the other end is not heard any more."""
        if not self.closed:
            self.is_reset = self.pipe.network.random.random() < 0.5
            self.shut("nothing came for 15 s")
            self._send_in_order(None)

    def arrive(self, frame: bytes | None) -> None:
        """A frame, or the end, comes from the other side."""
        if self.closed:
            return
        if frame is None:
            self.shut("closed by the other side")
        else:
            self._frames.append(frame)
            self._wake()

    def _send_in_order(self, frame: bytes | None) -> None:
        network = self.pipe.network
        # A hair later than the one before: equal timers have no order.
        self._last_arrival = max(self._last_arrival + 1e-6, network.loop.now + network.latency())
        network.loop.world_at(self._last_arrival, self.pipe.carry, self, frame)

    def _send_harshly(self, frame: bytes) -> None:
        network = self.pipe.network
        if network.random.random() < 0.03:
            delay = network.random.uniform(0, 4)
            network.loop.world_later(delay, self.pipe.carry, self, frame)
            if network.random.random() < 0.5:
                return  # only late, so that others overtake it
        self._send_in_order(frame)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        self._waiter = None


class Pipe:
    """One connection from a node to an admin."""

    def __init__(self, network: Network, route: Route, node: Process, admin: Process) -> None:
        self.network = network
        self.route = route
        self.is_broken = False  # nothing arrives any more, on either side
        self.node_end = End(self, node, ConnectError)
        self.admin_end = End(self, admin, ConnectionError)
        self.node_end.peer, self.admin_end.peer = self.admin_end, self.node_end
        self.answer: asyncio.Future[Exception | None] = network.loop.create_future()
        self._held: list[tuple[End, bytes | None]] = []
        self._stalled: list[End] = []  # a proxy keeps what these send
        self._late: list[tuple[End, bytes | None]] = []

    @property
    def is_over(self) -> bool:
        return self.node_end.closed and self.admin_end.closed and not self._late

    def respond(self, refusal: Exception | None) -> None:
        """Tell the node whether the admin takes the connection."""
        self.network.loop.world_later(self.network.latency(), self._respond, refusal)

    def _respond(self, refusal: Exception | None) -> None:
        if not self.answer.done():
            self.answer.set_result(refusal)

    def carry(self, sender: End, frame: bytes | None) -> None:
        """A frame has crossed the network, unless something has happened to it."""
        if sender in self._stalled:
            # Whoever sent it may be gone meanwhile, and connected anew: the proxy has it still.
            self._late.append((sender, frame))
            return
        if self.is_broken or (sender.is_reset and frame is not None):
            return
        if self.route in self.network.cut:
            self._held.append((sender, frame))
        else:
            sender.peer.arrive(frame)

    def restore(self) -> None:
        """The network works again: what waited on the way arrives."""
        held, self._held = self._held, []
        for sender, frame in held:
            self.carry(sender, frame)

    def stall(self, sender: End) -> None:
        """Let a proxy keep what one end sends; it answers the other end's pings meanwhile."""
        if sender not in self._stalled:
            self._stalled.append(sender)

    def unstall(self) -> None:
        """The proxy delivers what it kept, to whom still listens."""
        self._stalled.clear()
        late, self._late = self._late, []
        for sender, frame in late:
            if self.is_broken:
                return
            sender.peer.arrive(frame)

    def break_off(self, node_notices: float, admin_notices: float) -> None:
        """Break; each end finds out after its own time."""
        self.is_broken = True
        self.network.loop.world_later(node_notices, self.node_end.lose)
        self.network.loop.world_later(admin_notices, self.admin_end.lose)


class Network:
    """All connections, and what befalls them."""

    def __init__(self, loop: SimLoop, random: Random, history: History, *, harsh: bool) -> None:
        self.loop = loop
        self.random = random
        self.harsh = harsh
        self.cut: set[Route] = set()
        self.over = False
        self.slow = False
        self.refuse_share = 0.0  # of connects
        self._history = history
        self._listening: dict[str, AdminHost] = {}
        self._pipes: list[Pipe] = []
        self._epochs: dict[Route, object] = {}  # which cut of a route it is
        self.on_mend: list[Callable[[Route], None]] = []

    def check_not_over(self) -> None:
        if self.over:
            raise asyncio.CancelledError

    def latency(self) -> float:
        """Seconds a frame takes."""
        random = self.random.random()
        if random < (0.3 if self.slow else 0.01):
            return self.random.uniform(0.05, 2.0)
        return 0.0002 + 0.003 * random

    def listen(self, url: str, admin: AdminHost) -> None:
        self._listening[url] = admin

    def unlisten(self, url: str) -> None:
        self._listening.pop(url, None)

    async def connect(self, host: str, process: Process, url: str, token: str) -> End:
        """What the SDK's `connect` does: a WebSocket is opened, or an error says why not."""
        await asyncio.sleep(self.latency())
        self.check_not_over()
        admin = self._listening.get(url)
        if admin is None or admin.process.is_dead or self.random.random() < self.refuse_share:
            raise ConnectError("connection refused")
        route = (host, admin.name)
        if route in self.cut:
            await asyncio.sleep(self.random.uniform(1, 20))
            raise ConnectError("no route to host")
        pipe = Pipe(self, route, process, admin.process)
        self._pipes = [pipe for pipe in self._pipes if not pipe.is_over]
        self._pipes.append(pipe)
        admin.process.spawn(admin.serve(pipe, token), name="session")
        try:
            refusal = await pipe.answer
        except asyncio.CancelledError:
            pipe.node_end.abort()
            raise
        if refusal is not None:
            pipe.node_end.abort()
            raise refusal
        return pipe.node_end

    # --- what befalls it -------------------------------------------------------------------------

    def died(self, process: Process, *, vanished: bool) -> None:
        """A process was killed (the system closes its sockets) or its whole machine is gone."""
        for pipe, own in self._ends_of(process):
            if vanished:
                pipe.is_broken = True
                self.loop.world_later(self.random.uniform(*SILENCE), own.peer.lose)
            else:
                own.is_reset = self.random.random() < 0.5  # unread input makes it a reset
                own._send_in_order(None)
            own.shut("dead")
            if not pipe.answer.done():
                pipe.respond(ConnectError("connection reset"))

    def froze(self, process: Process) -> None:
        """A process answers no pings from now on."""
        freeze = process.freezes
        for _, own in self._ends_of(process):

            def notice(own: End = own) -> None:
                if process.freezes == freeze and process.life is Life.FROZEN:
                    own.peer.lose()

            self.loop.world_later(self.random.uniform(*SILENCE), notice)

    def cut_route(self, route: Route) -> None:
        """Nothing passes between two hosts until it is repaired."""
        self.cut.add(route)
        epoch = object()
        self._epochs[route] = epoch
        for pipe in self._pipes:
            if pipe.route == route:
                for end in (pipe.node_end, pipe.admin_end):

                    def notice(end: End = end) -> None:
                        if self._epochs.get(route) is epoch:
                            end.lose()

                    self.loop.world_later(self.random.uniform(*SILENCE), notice)

    def mend_route(self, route: Route) -> None:
        self.cut.discard(route)
        self._epochs.pop(route, None)
        for pipe in self._pipes:
            if pipe.route == route:
                pipe.restore()
        for told in self.on_mend:
            told(route)

    def pipes_of(self, route: Route) -> list[Pipe]:
        """Open connections on a route."""
        return [pipe for pipe in self.open_pipes() if pipe.route == route]

    def unstall_all(self) -> None:
        for pipe in self._pipes:
            pipe.unstall()

    def open_pipes(self) -> list[Pipe]:
        return [pipe for pipe in self._pipes if not pipe.is_over and not pipe.is_broken]

    def _ends_of(self, process: Process) -> list[tuple[Pipe, End]]:
        return [
            (pipe, end)
            for pipe in self._pipes
            for end in (pipe.node_end, pipe.admin_end)
            if end.process is process
        ]
