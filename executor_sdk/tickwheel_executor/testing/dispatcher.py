"""The nodes of a fake admin, and which of them gets a run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from tickwheel_shared.protocol import Drain, Hello, Message

from .attempts import FakeAttempt
from .handler_end import HandlerEnd
from .requests import RequestFields, make_request
from .session import FakeAdminState, FakeSession
from .socket_server import SocketServer

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedNode:
    """Hello of a connected node."""

    name: str
    executor: str
    key: str  # new for every start
    sdk: str
    slots: int
    labels: dict[str, str]
    handlers: list[str]
    schemas: dict[str, Any]  # JSON Schema of the parameters, by handler
    jobs: list[dict[str, Any]]  # declared in code


class FakeDispatcher:
    """Waits for nodes and sends them runs. Runs on the fake admin's loop."""

    def __init__(
        self, state: FakeAdminState, *, knows: Callable[[str], bool], within_seconds: float
    ) -> None:
        self.state = state
        self.server = SocketServer(state, knows=knows, on_change=self._on_change)
        self._within_seconds = within_seconds
        self._changed = asyncio.Event()  # a node has connected, got ready or left

    async def node(self, name: str | None) -> ConnectedNode:
        """A node that accepts runs."""
        return described((await self._find(name, None)).hello)

    async def nodes_gone(self) -> None:
        """Wait until none is connected."""
        await self._until(lambda: not self.server.sessions, "the nodes to leave")

    async def dispatch(
        self,
        number: int,
        handler: str,
        parameters: Mapping[str, Any],
        *,
        node: str | None,
        fields: RequestFields,
    ) -> FakeAttempt:
        """Send a run to a node, as soon as there is one."""
        attempt = FakeAttempt(make_request(number, handler, parameters, **fields))
        (await self._find(node, handler)).dispatch(attempt)
        return attempt

    async def accepted(self, attempt: FakeAttempt) -> None:
        """Wait until its node has answered."""
        await self._within(attempt.accepted.wait(), attempt, "was not answered")

    async def end(self, attempt: FakeAttempt) -> HandlerEnd:
        """Wait for the end of a run."""
        return await self._within(attempt.end(), attempt, "did not end")

    async def _within(self, waits: Awaitable[T], attempt: FakeAttempt, what: str) -> T:
        try:
            async with asyncio.timeout(self._within_seconds):
                return await waits
        except TimeoutError:
            raise TimeoutError(
                f"run {attempt.request.run} {what} within {self._within_seconds:g} s; its log: "
                f"{attempt.log}"
            ) from None

    def cancel(self, attempt: FakeAttempt) -> None:
        """Tell its node to stop it."""
        for each in self.server.sessions:
            if each.is_ready and each.hello.node_key == attempt.dispatched_to:
                each.cancel(attempt.request)

    def drain(self, on: bool) -> None:
        """Tell all nodes, and those that connect later."""
        self.state.drains = on
        self.broadcast(Drain(on=on))

    def broadcast(self, message: Message) -> None:
        """Send a message to all nodes."""
        for each in self.server.sessions:
            if each.is_ready:
                each.send(message)

    async def _find(self, name: str | None, handler: str | None) -> FakeSession:
        found: list[FakeSession] = []

        def look() -> bool:
            found[:] = [each for each in self.server.sessions if _takes_runs(each, name)]
            return bool(found)

        await self._until(look, f"the node {name!r}" if name else "a node")
        # Prefer a node with the handler; without one, any node refuses the run.
        return next((each for each in found if handler in each.hello.handlers), found[0])

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(self._within_seconds):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            names = [each.hello.name for each in self.server.sessions if each.is_ready]
            raise TimeoutError(
                f"waited {self._within_seconds:g} s in vain for {what}; connected: {names or '-'}"
            ) from None

    def _on_change(self) -> None:
        self._changed.set()


def _takes_runs(session: FakeSession, name: str | None) -> bool:
    return session.is_ready and not session.is_leaving and name in (None, session.hello.name)


def described(hello: Hello) -> ConnectedNode:
    """The hello, decoded."""
    return ConnectedNode(
        name=hello.name,
        executor=hello.executor,
        key=hello.node_key,
        sdk=hello.sdk,
        slots=hello.slots,
        labels=dict(hello.labels),
        handlers=list(hello.handlers),
        schemas={name: msgspec.json.decode(text) for name, text in hello.schemas.items()},
        jobs=[msgspec.json.decode(text) for text in hello.jobs],
    )
