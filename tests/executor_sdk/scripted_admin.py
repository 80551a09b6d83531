"""A scripted admin on an in-memory channel, a disk in memory, and a node to try against them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from tickwheel_executor.attempt_key import Claim, claim_of
from tickwheel_executor.errors import ConnectError, SpoolError, UnauthorizedError
from tickwheel_executor.handlers.handlers import Handlers
from tickwheel_executor.node.node import Node
from tickwheel_executor.settings import NodeSettings
from tickwheel_shared.protocol import (
    Heartbeat,
    HeartbeatAck,
    Held,
    Hello,
    LogChunk,
    LogReceipt,
    Message,
    Receipt,
    Result,
    ResultReceipt,
    RunRequest,
    Welcome,
    decode_from_node,
    encode_frames,
)

TOKEN = "t" * 40
URL = "http://admin-1:8500"
_M = TypeVar("_M", bound=Message)


class MemoryChannel:
    """The node's end; the Session below is the other one."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.closed: tuple[int, str] | None = None
        self.close_reason = ""

    async def send(self, frame: bytes) -> None:
        if self.session.admin.send_seconds:
            await asyncio.sleep(self.session.admin.send_seconds)
        if self.closed is not None:
            raise ConnectError("closed")
        self.session.take(frame)

    async def receive(self) -> bytes | None:
        if self.closed is not None and self.incoming.empty():
            return None
        frame = await self.incoming.get()
        if frame is None:
            self.closed = self.closed or (1001, "")
        return frame

    async def close(self, code: int = 1000, reason: str = "") -> None:
        if self.closed is None:
            self.closed = (code, reason)
            self.close_reason = reason
            self.incoming.put_nowait(None)

    def abort(self) -> None:
        if self.closed is None:
            self.closed = (1006, "aborted")
            self.close_reason = "aborted"
            while not self.incoming.empty():
                self.incoming.get_nowait()
            self.incoming.put_nowait(None)


class Session:
    """The admin's end of one socket: everything it received, and what it says by itself."""

    def __init__(self, admin: FakeAdmin) -> None:
        self.admin = admin
        self.channel = MemoryChannel(self)
        self.received: list[Any] = []
        self.frames = 0
        self.seen = 0  # how far `expect` has read

    def send(self, *messages: Message) -> None:
        for frame in encode_frames(messages):
            self.channel.incoming.put_nowait(frame)

    def send_raw(self, frame: bytes) -> None:
        self.channel.incoming.put_nowait(frame)

    def close(self) -> None:
        self.channel.closed = (1001, "")
        self.channel.incoming.put_nowait(None)

    def take(self, frame: bytes) -> None:
        self.frames += 1
        for message in decode_from_node(frame):
            self.received.append(message)
            self.admin.journal.append(message)
            self._answer(message)

    def _answer(self, message: Message) -> None:
        admin = self.admin
        if isinstance(message, Hello) and admin.welcomes:
            self.send(admin.welcome())
            for older in (session for same in admin.same_as for session in same.sessions):
                if older is not self and older.channel.closed is None:
                    older.close()
        elif isinstance(message, Heartbeat) and admin.acknowledges:
            admin.acknowledged_at.append(asyncio.get_running_loop().time())
            self.send(HeartbeatAck(seq=message.seq))
        elif isinstance(message, Result) and admin.receipts:
            self.send(receipt(message))
        elif isinstance(message, LogChunk) and admin.log_receipts:
            self.send(
                LogReceipt(run=message.run, attempt=message.attempt, first_seq=message.first_seq)
            )

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


class FakeAdmin:
    """Listens on URLs in memory; the switches say what it does by itself."""

    def __init__(self, name: str = "admin-1", *, url: str = URL) -> None:
        self.name = name
        self.url = url
        self.admins = [url]
        self.up = True
        self.unauthorized = False
        self.welcomes = True
        self.acknowledges = True
        self.receipts = True
        self.log_receipts = True
        self.send_seconds = 0.0  # how long a frame takes to leave a node
        self.heartbeat_ms = 3_000
        self.lease_ms = 15_000
        self.slots: int | None = None
        self.same_as: list[FakeAdmin] = []  # other URLs of this very process, itself included
        self.sessions: list[Session] = []
        self.attempts: list[float] = []  # when it was tried to connect
        self.acknowledged_at: list[float] = []  # when heartbeats came, and left the node
        self.journal: list[Any] = []  # all messages of all sessions

    async def accept(self, token: str) -> MemoryChannel:
        self.attempts.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0)
        if not self.up:
            raise ConnectError("connection refused")
        if self.unauthorized or token != TOKEN:
            raise UnauthorizedError("the admin answered 401")
        session = Session(self)
        self.sessions.append(session)
        return session.channel

    def welcome(self) -> Welcome:
        return Welcome(
            version=1,
            node_id=7,
            admin=self.name,
            admins=self.admins,
            heartbeat_ms=self.heartbeat_ms,
            lease_ms=self.lease_ms,
            slots=self.slots,
        )

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
    *admins: FakeAdmin,
    handlers: dict[str, Callable[..., Any]] | None = None,
    spool: Any = None,
    slots: int = 4,
    configured: Sequence[str] | None = None,
    seed: int = 1,
) -> Node:
    """A node that reaches these admins; `configured` when it is not to know all of them."""
    offered = Handlers()
    for name, function in (handlers or {}).items():
        offered.add(name, function)

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
    )


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


def receipt(result: Result, kind: Receipt = Receipt.RECORDED, *, reason: str = "") -> ResultReceipt:
    """What an admin answers to a result."""
    return ResultReceipt(
        run=result.run, attempt=result.attempt, token=result.token, receipt=kind, reason=reason
    )


def value(result: Result) -> Any:
    """What a result carries, decoded."""
    return msgspec.json.decode(result.result)
