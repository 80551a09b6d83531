"""HTTP between admins and executors over the simulated network: each request is one connection.

What was written before a cut may arrive after it, although the caller has given up: it lay in the
buffers of the caller's machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.history import History
from tests.simulation.network import Network, Route
from tests.simulation.scheduler import Process, SimLoop
from tickwheel_admin.xxl_job.caller import (
    CONNECT_SECONDS,
    MAX_ANSWER_BYTES,
    ConnectionRefused,
    NoAnswer,
    NodeCaller,
    NotSent,
    Reply,
)
from tickwheel_admin.xxl_job.dialects import Call

if TYPE_CHECKING:
    from tests.simulation.admin_host import AdminHost
    from tests.simulation.xxl_executors.host import XxlHost

TOKEN = "token-of-executors"
POST_SECONDS = 3.0  # that an executor waits for an admin


@dataclass(slots=True, eq=False)
class Exchange:
    """One request and its answer."""

    route: Route
    server: Process
    answer: asyncio.Future[bytes]
    sent_at: float
    is_done: bool = False  # an executor has done what it says
    is_given_up: bool = False  # nobody waits for the answer any more

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # looked at, also when nobody waits for it


class Wire:
    """All of it, and what befalls it."""

    def __init__(self, network: Network, loop: SimLoop, random: Random, history: History) -> None:
        self.hosts: dict[str, XxlHost] = {}  # by address
        self.admins: dict[str, AdminHost] = {}  # by name
        self.repeat_share = 0.0  # of the requests to executors that a proxy sends twice
        self._network = network
        self._loop = loop
        self._random = random
        self._history = history
        # Who answered the last beat of an admin: its connection is kept until it ends.
        self._kept: dict[tuple[str, str], Process] = {}
        self._open: list[Exchange] = []
        self._held: list[tuple[Exchange, Callable[[], None]]] = []  # by a cut
        network.on_mend.append(self._mended)

    # --- admins call executors -------------------------------------------------------------------

    async def beat(
        self, admin: str, address: str, call: Call, seconds: float
    ) -> tuple[bytes, bool]:
        """Make a beat; returns also whether it needed a new connection."""
        kept = self._kept.pop((admin, address), None)
        body = await self.call(admin, address, call, seconds)
        process = self.hosts[address].process
        self._kept[admin, address] = process
        return body, kept is not process

    async def call(self, admin: str, address: str, call: Call, seconds: float) -> bytes:
        """Make a call; raises as NodeCaller does."""
        host = self.hosts[address]
        route = (host.name, admin)
        exchange: Exchange | None = None
        try:
            async with asyncio.timeout(seconds):
                try:
                    async with asyncio.timeout(min(CONNECT_SECONDS, seconds * 0.95)):
                        await self._connect(route, lambda: host.is_vanished)
                except TimeoutError:
                    raise NotSent("no connection in time") from None
                if host.process.is_dead:
                    raise ConnectionRefused("connection refused")
                exchange = self._exchange(route, host.process)
                self._later(exchange, lambda: self._to_executor(exchange, host, call))
                if self._random.random() < self.repeat_share:
                    self._history.note("network", f"repeats {call.path} to {host.name}")
                    host.truth.note_repeated(call)
                    self._loop.world_later(
                        self._random.uniform(0.002, 0.3),
                        lambda: self._to_executor(exchange, host, call),
                    )
                return await exchange.answer
        except TimeoutError:
            raise NoAnswer(f"no answer within {seconds:g} s") from None
        finally:
            if exchange is not None:
                exchange.is_given_up = True

    def _to_executor(self, exchange: Exchange, host: XxlHost, call: Call) -> None:
        if exchange.server.is_dead:
            if not host.is_vanished:
                self._later(exchange, lambda: exchange.fail(NoAnswer("the connection broke")))
            return
        host.truth.note_delay(call, self._loop.now - exchange.sent_at)

        async def serve() -> None:
            body = await host.executor.answer(call, exchange)
            if body is None:
                self._later(exchange, lambda: exchange.fail(NoAnswer("closed unanswered")))
            else:
                self._later(exchange, lambda: _set(exchange.answer, body))

        exchange.server.spawn(serve(), name=f"call {call.path}")

    # --- executors call admins -------------------------------------------------------------------

    async def post(self, host: str, admin_name: str, path: str, body: bytes) -> bytes | None:
        """What an admin answers; None: nothing came, or nobody was there."""
        admin = self.admins[admin_name]
        route = (host, admin_name)
        exchange: Exchange | None = None
        try:
            async with asyncio.timeout(POST_SECONDS):
                await self._connect(route, lambda: False)
                if not admin.is_up:
                    return None
                exchange = self._exchange(route, admin.process)
                self._later(exchange, lambda: self._to_admin(exchange, admin, path, body))
                return await exchange.answer
        except (TimeoutError, NoAnswer):
            return None
        finally:
            if exchange is not None:
                exchange.is_given_up = True

    def _to_admin(self, exchange: Exchange, admin: AdminHost, path: str, body: bytes) -> None:
        if exchange.server.is_dead or not admin.is_up:
            exchange.fail(NoAnswer("the connection broke"))
            return

        async def serve() -> None:
            answer = await admin.serve_executor(path, TOKEN, body)
            if answer is None:
                self._later(exchange, lambda: exchange.fail(NoAnswer("closed unanswered")))
            else:
                self._later(exchange, lambda: _set(exchange.answer, answer))

        exchange.server.spawn(serve(), name=f"request {path}")

    # --- the way ---------------------------------------------------------------------------------

    async def _connect(self, route: Route, is_void: Callable[[], bool]) -> None:
        await asyncio.sleep(self._network.latency())
        self._network.check_not_over()
        while route in self._network.cut or is_void():  # asked again, as TCP does
            await asyncio.sleep(1)
            self._network.check_not_over()

    def _exchange(self, route: Route, server: Process) -> Exchange:
        exchange = Exchange(route, server, self._loop.create_future(), self._loop.now)
        self._open = [each for each in self._open if not each.answer.done()]
        self._open.append(exchange)
        return exchange

    def _later(self, exchange: Exchange, action: Callable[[], None]) -> None:
        def arrive() -> None:
            if exchange.route in self._network.cut:
                self._held.append((exchange, action))
            else:
                action()

        self._loop.world_later(self._network.latency(), arrive)

    def _mended(self, route: Route) -> None:
        held, self._held = self._held, []
        for exchange, action in held:
            if exchange.route != route:
                self._held.append((exchange, action))
            elif not exchange.is_given_up or self._random.random() < 0.3:
                self._loop.world_soon(action)

    def died(self, process: Process, *, vanished: bool) -> None:
        """A process was killed: the system closes its connections, unless its machine is gone."""
        for exchange in self._open:
            if exchange.server is process and not vanished:
                error = NoAnswer("the connection broke")
                self._later(exchange, lambda each=exchange, why=error: each.fail(why))  # type: ignore[misc]


class SimCaller(NodeCaller):
    """Calls of one admin."""

    def __init__(self, wire: Wire, admin: str) -> None:
        self._wire = wire
        self._admin = admin

    async def call(
        self,
        address: str,
        call: Call,
        headers: Mapping[str, str],
        *,
        seconds: float,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> Reply:
        is_new = False
        if call.path == "/beat":
            body, is_new = await self._wire.beat(self._admin, address, call, seconds)
        else:
            body = await self._wire.call(self._admin, address, call, seconds)
        return Reply(200, body[:max_bytes], len(body) > max_bytes, is_new)


def _set(answer: asyncio.Future[bytes], body: bytes) -> None:
    if not answer.done():
        answer.set_result(body)
