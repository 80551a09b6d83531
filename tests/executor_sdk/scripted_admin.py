"""A scripted admin on an in-memory channel, a disk in memory, and a node to try against them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from tickwheel_executor.attempt_key import Claim, claim_of
from tickwheel_executor.errors import ConnectError, SpoolError, UnauthorizedError
from tickwheel_executor.handlers.handlers import Handlers, Limits
from tickwheel_executor.node.node import Node
from tickwheel_executor.settings import NodeSettings
from tickwheel_executor.testing.memory import MemoryChannel
from tickwheel_executor.testing.session import FakeAdminState, FakeSession
from tickwheel_executor.tracing.spans import AttemptTracer
from tickwheel_shared.protocol import (
    FromNode,
    Heartbeat,
    Held,
    Hello,
    Message,
    ReceiptCode,
    Result,
    ResultReceipt,
    RunRequest,
    Welcome,
)

TOKEN = "t" * 40
URL = "http://admin-1:8500"
_M = TypeVar("_M", bound=Message)


class Session(FakeSession):
    """The admin's end of one socket; keeps everything it received."""

    def __init__(self, admin: ScriptedAdmin) -> None:
        self.admin = admin
        self.channel = _Channel(self)
        super().__init__(admin, self.channel.deliver, on_change=lambda: None)
        self.received: list[Any] = []
        self.frames = 0
        self.seen = 0  # how far `expect` has read

    def send_raw(self, frame: bytes) -> None:
        self.channel.incoming.put_nowait(frame)

    def close(self) -> None:
        self.channel.closed = (1001, "")
        self.channel.incoming.put_nowait(None)

    def take(self, message: FromNode) -> None:
        self.received.append(message)
        self.admin.journal.append(message)
        if isinstance(message, Hello) and not self.admin.welcomes:
            return
        if isinstance(message, Heartbeat) and self.admin.answers_heartbeats:
            self.admin.acknowledged_at.append(asyncio.get_running_loop().time())
        super().take(message)
        if isinstance(message, Hello):
            for older in (session for same in self.admin.same_as for session in same.sessions):
                if older is not self and older.channel.closed is None:
                    older.close()

    def _welcome(self, version: int) -> Welcome:
        admin = self.admin
        welcome = super()._welcome(version)
        return msgspec.structs.replace(welcome, admins=admin.admins, slots=admin.slots)

    def all(self, kind: type[_M]) -> list[_M]:
        return [message for message in self.received if isinstance(message, kind)]

    async def expect(self, kind: type[_M], *, within: float = 30.0) -> _M:
        """The next message of this kind; those before it are passed over."""
        deadline = asyncio.get_running_loop().time() + within
        while True:
            while self.seen < len(self.received):
                message = self.received[self.seen]
                self.seen += 1
                if isinstance(message, kind):
                    return message
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"no {kind.__name__}; received {self.received}")
            await asyncio.sleep(0.01)


class _Channel(MemoryChannel):
    """The node's end of a Session."""

    session: Session

    def __init__(self, session: Session) -> None:
        super().__init__(session.admin, on_change=lambda: None)
        self.session = session

    async def send(self, frame: bytes) -> None:
        if self.session.admin.send_seconds:
            await asyncio.sleep(self.session.admin.send_seconds)
        self.session.frames += self.closed is None
        await super().send(frame)


class ScriptedAdmin(FakeAdminState):
    """Listens on a URL in memory; the switches say what it does by itself."""

    def __init__(self, name: str = "admin-1", *, url: str = URL) -> None:
        super().__init__(name=name)
        self.url = url
        self.admins = [url]
        self.up = True
        self.unauthorized = False
        self.welcomes = True
        self.send_seconds = 0.0  # how long a frame takes to leave a node
        self.slots: int | None = None
        self.same_as: list[ScriptedAdmin] = []  # other URLs of this very process, itself included
        self.sessions: list[Session] = []
        self.connected_at: list[float] = []  # when a node tried to connect
        self.acknowledged_at: list[float] = []  # when heartbeats came, and left the node
        self.journal: list[Any] = []  # all messages of all sessions

    async def accept(self, token: str) -> MemoryChannel:
        self.connected_at.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0)
        if not self.up:
            raise ConnectError("connection refused")
        if self.unauthorized or token != TOKEN:
            raise UnauthorizedError("the admin answered 401")
        session = Session(self)
        self.sessions.append(session)
        return session.channel

    async def session(self, number: int = 0, *, within: float = 60.0) -> Session:
        """The session of that number, when it has said Held."""
        deadline = asyncio.get_running_loop().time() + within
        while len(self.sessions) <= number or not self.sessions[number].all(Held):
            assert asyncio.get_running_loop().time() < deadline, "no session"
            await asyncio.sleep(0.01)
        return self.sessions[number]


class MemorySpool:
    """A disk that outlives nodes."""

    def __init__(self) -> None:
        self.disk: dict[Claim, Result] = {}
        self.left_over: list[Result] = []  # of a process that died
        self.fails = ""
        self.write_seconds = 0.0
        self.writes: list[list[tuple[int, int]]] = []
        self.closed = False

    async def open(self) -> None:
        if self.fails:
            raise SpoolError(self.fails)

    async def adopt(self) -> list[Result]:
        found, self.left_over = self.left_over, []
        self.disk.update({claim_of(result): result for result in found})
        return found

    async def write(self, results: Sequence[Result]) -> None:
        await asyncio.sleep(self.write_seconds)
        if self.fails:
            raise SpoolError(self.fails)
        self.writes.append([(result.run, result.attempt) for result in results])
        self.disk.update({claim_of(result): result for result in results})

    def remove(self, result: Result) -> None:
        self.disk.pop(claim_of(result), None)

    async def close(self) -> None:
        self.closed = True
        if self.fails:
            raise SpoolError(self.fails)


def make_node(
    *admins: ScriptedAdmin,
    handlers: dict[str, Callable[..., Any]] | None = None,
    spool: Any = None,
    slots: int = 4,
    configured: Sequence[str] | None = None,
    seed: int = 1,
    limits: Limits | None = None,
    tracer: AttemptTracer | None = None,
    **hooks: Callable[..., Any],
) -> Node:
    """A node that reaches these admins; `configured` when it is not to know all of them.

    With `limits` its handlers have processes; `hooks` are `started`, `ended` and `lost`.
    """
    offered = Handlers()
    for name, function in (handlers or {}).items():
        offered.add(name, function, limits)
    for kind, hook in hooks.items():
        getattr(offered.hooks, kind).append(hook)

    async def connect(url: str, token: str) -> MemoryChannel:
        for admin in admins:
            if admin.url == url:
                return await admin.accept(token)
        raise ConnectError("no such host")

    return Node(
        NodeSettings(
            executor="billing",
            admins=tuple(configured or [admin.url for admin in admins]),
            token=TOKEN,
            name="node-1",
            slots=slots,
            weight=3,
        ),
        offered,
        connect=connect,
        spool=spool if spool is not None else MemorySpool(),
        clock=lambda: 1_700_000_000_000,
        random=random.Random(seed),
        tracer=tracer,
    )


async def connect(
    handlers: dict[str, Callable[..., Any]] | None = None,
    *,
    admin: ScriptedAdmin | None = None,
    **options: Any,
) -> tuple[ScriptedAdmin, Node, Session]:
    """An admin, a node that has started, and their session; options as of `make_node`."""
    admin = admin or ScriptedAdmin()
    node = make_node(admin, handlers=handlers, **options)
    await node.start()
    return admin, node, await admin.session()


def request(run: int = 1, attempt: int = 1, *, handler: str = "work", **changes: Any) -> RunRequest:
    """A run message."""
    fields: dict[str, Any] = {
        "token": f"token-{run}-{attempt}",
        "job_id": 5,
        "job": "a job",
        "parameters": msgspec.Raw(b"{}"),
        "scheduled_at": 1_700_000_000_123,
        "timeout_ms": None,
        "try_number": 1,
        "max_tries": 3,
        "origin": "schedule",
    }
    return RunRequest(run=run, attempt=attempt, handler=handler, **{**fields, **changes})


def receipt(
    result: Result, kind: ReceiptCode = ReceiptCode.RECORDED, *, reason: str = ""
) -> ResultReceipt:
    """What an admin answers to a result."""
    return ResultReceipt(
        run=result.run, attempt=result.attempt, token=result.token, receipt=kind, reason=reason
    )


def value(result: Result) -> Any:
    """What a result carries, decoded."""
    return msgspec.json.decode(result.result)
