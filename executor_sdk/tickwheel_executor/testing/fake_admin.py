"""An admin for tests: with real sockets, without a database."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar, Unpack

from tickwheel_executor.process.loop_thread import LoopThread
from tickwheel_shared.protocol import Level, Notice, Rejected

from .attempts import FakeAttempt
from .dispatcher import ConnectedNode, FakeDispatcher
from .handler_end import HandlerEnd, LoggedLine, ReportedProgress
from .http_api import HttpApi
from .pending import Pending
from .requests import RequestFields
from .session import FakeAdminState

_T = TypeVar("_T")


class FakeAdmin:
    """Speaks the complete protocol with nodes that connect to its `url` with its `token`.

        async with FakeAdmin() as admin:  # or: with FakeAdmin() as admin
            async with Executor("billing", admins=[admin.url], token=admin.token) as executor:
                end = await admin.run("send-invoices", {"month": "2026-03"})

    It runs in a background thread. Its methods start at once and return a Pending: `await` it, or
    call its `.result()` where no event loop is running. After `within_seconds` they raise
    TimeoutError.

    Args:
        executor: Accept only nodes of this executor; any when omitted.
        name: Name of the admin.
        within_seconds: Longest wait for a node and for the end of a run.
        heartbeat_seconds: Interval of heartbeats.
        lease_seconds: How long a node counts as alive after a heartbeat.
    """

    def __init__(
        self,
        executor: str | None = None,
        *,
        name: str = "fake-admin",
        within_seconds: float = 30.0,
        heartbeat_seconds: float = 3.0,
        lease_seconds: float = 15.0,
    ) -> None:
        self.token = f"twx_{secrets.token_hex(20)}"
        """The executor token, for nodes."""
        self.api_token = f"twt_{secrets.token_hex(20)}"
        """The API token, for `Client`: each handler of a connected node is a job of that name."""
        self.refuses_token = False
        """Whether new connections are answered with 401."""
        self._state = FakeAdminState(
            name=name,
            executor=executor,
            heartbeat_ms=round(heartbeat_seconds * 1000),
            lease_ms=round(lease_seconds * 1000),
        )
        self._dispatcher = FakeDispatcher(
            self._state, knows=self._knows, within_seconds=within_seconds
        )
        self._thread: LoopThread | None = None
        self._last_run = 0
        api = HttpApi(
            self._dispatcher, knows=lambda token: token == self.api_token, next_run=self._next_run
        )
        self._dispatcher.server.add_routes = api.add_to

    @property
    def url(self) -> str:
        """Base URL, valid inside the `with` block."""
        return f"http://127.0.0.1:{self._dispatcher.server.port}"

    def _next_run(self) -> int:
        self._last_run += 1
        return self._last_run

    def _knows(self, token: str) -> bool:
        return token == self.token and not self.refuses_token

    # --- the block --------------------------------------------------------------------------------

    def __enter__(self) -> FakeAdmin:
        """Listen."""
        self._thread = LoopThread("tickwheel fake admin")
        self._call(self._dispatcher.server.listen()).result()
        return self

    def __exit__(self, *error: object) -> None:
        """Close all connections and stop."""
        self._call(self._dispatcher.server.stop()).result()
        self._end()

    async def __aenter__(self) -> FakeAdmin:
        """Listen."""
        self._thread = LoopThread("tickwheel fake admin")
        await self._call(self._dispatcher.server.listen())
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close all connections and stop."""
        await self._call(self._dispatcher.server.stop())
        self._end()

    def _end(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.end()

    def _call(self, coroutine: Coroutine[Any, Any, _T]) -> Pending[_T]:
        if self._thread is None:
            coroutine.close()
            raise RuntimeError("use it within its `with` block")
        return Pending(self._thread.submit(coroutine))

    def _call_soon(self, function: Callable[..., object], *arguments: object) -> Pending[None]:
        async def call() -> None:
            function(*arguments)

        return self._call(call())

    # --- nodes and runs ---------------------------------------------------------------------------

    def node(self, name: str | None = None) -> Pending[ConnectedNode]:
        """Wait for a node that accepts runs: the one of that name, or any."""
        return self._call(self._dispatcher.node(name))

    def no_node(self) -> Pending[None]:
        """Wait until no node is connected."""
        return self._call(self._dispatcher.nodes_gone())

    def run(
        self,
        handler: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        node: str | None = None,
        **fields: Unpack[RequestFields],
    ) -> Pending[HandlerEnd]:
        """Run a handler on a node and wait for the end.

        Args:
            node: Name of the node; else any with the handler, as soon as there is one.
            fields: `state`, `checkpoint`, `try_number`, `timeout` … as in `run_handler`.

        Raises:
            RunRefusedError: the node did not start it.
            ValueError: parameters, state or checkpoint that an admin would refuse.
        """
        return self._call(self._run(handler, parameters or {}, node, fields))

    def begin(
        self,
        handler: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        node: str | None = None,
        **fields: Unpack[RequestFields],
    ) -> Pending[FakeRun]:
        """The same without waiting for the end: to inspect or cancel the run."""
        return self._call(self._begin(handler, parameters or {}, node, fields))

    async def _run(
        self, handler: str, parameters: Mapping[str, Any], node: str | None, fields: RequestFields
    ) -> HandlerEnd:
        attempt = await self._dispatcher.dispatch(
            self._next_run(), handler, parameters, node=node, fields=fields
        )
        return await self._dispatcher.end(attempt)

    async def _begin(
        self, handler: str, parameters: Mapping[str, Any], node: str | None, fields: RequestFields
    ) -> FakeRun:
        attempt = await self._dispatcher.dispatch(
            self._next_run(), handler, parameters, node=node, fields=fields
        )
        await self._dispatcher.accepted(attempt)
        return FakeRun(attempt, self)

    # --- failures and operators -------------------------------------------------------------------

    def break_links(self) -> Pending[None]:
        """Break all connections, like a network failure; nodes reconnect by themselves."""
        return self._call_soon(self._dispatcher.server.break_off)

    def go_away(self) -> Pending[None]:
        """Stop listening, like an admin that is shut down."""
        return self._call(self._dispatcher.server.stop())

    def come_back(self) -> Pending[None]:
        """Listen again, at the same URL."""
        return self._call(self._dispatcher.server.listen())

    def drain(self, *, on: bool = True) -> Pending[None]:
        """Tell all nodes to accept no new runs; with `on=False`, to accept runs again."""
        return self._call_soon(self._dispatcher.drain, on)

    def notice(self, text: str, *, level: str = "warning") -> Pending[None]:
        """Send a message for operators, which nodes write to their logs."""
        return self._call_soon(self._dispatcher.broadcast, Notice(level=Level(level), text=text))

    def reject(self, code: str, message: str = "") -> None:
        """Answer every hello with this fatal rejection from now on."""
        self._state.rejects = Rejected(code=code, message=message, fatal=True)

    def welcome(self) -> None:
        """Undo `reject`."""
        self._state.rejects = None

    @property
    def gives_receipts(self) -> bool:
        """Whether results get receipts; a node keeps and resends results without one."""
        return self._state.gives_receipts

    @gives_receipts.setter
    def gives_receipts(self, on: bool) -> None:
        self._state.gives_receipts = on

    @property
    def answers_heartbeats(self) -> bool:
        """Whether leases are renewed; a node without renewal is cut off."""
        return self._state.answers_heartbeats

    @answers_heartbeats.setter
    def answers_heartbeats(self, on: bool) -> None:
        self._state.answers_heartbeats = on


class FakeRun:
    """A run that was sent to a node."""

    def __init__(self, attempt: FakeAttempt, admin: FakeAdmin) -> None:
        self._attempt = attempt
        self._admin = admin

    @property
    def id(self) -> int:
        """Id of the run."""
        return self._attempt.request.run

    @property
    def log(self) -> list[LoggedLine]:
        """Lines that have arrived so far."""
        return self._attempt.log

    @property
    def progress(self) -> list[ReportedProgress]:
        """Reports that have arrived; a node sends the latest, once a second."""
        return self._attempt.progress

    def cancel(self) -> Pending[None]:
        """Cancel it, like a user; `end` returns the outcome."""
        return self._admin._call_soon(self._admin._dispatcher.cancel, self._attempt)

    def end(self) -> Pending[HandlerEnd]:
        """Wait for the end.

        Raises:
            RunRefusedError: the node did not start it.
        """
        return self._admin._call(self._admin._dispatcher.end(self._attempt))
