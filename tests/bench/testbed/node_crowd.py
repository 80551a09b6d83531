"""A process that plays very many nodes: hello, held, heartbeats, and coming back when cut off.

    python -m tests.bench.testbed.node_crowd --port 8500 --nodes 5000 < tokens

With several ports, every node is connected to the admin behind each.
The tokens of executors are read from standard input, a line "name token" each and an empty line at
the end; nodes belong to them by turns. After that each line "report" is answered with a line of
JSON (`Report`). The end of the input ends the process.

A run that is given to one of them succeeds at once; nothing is kept on a disk. It writes WebSocket
frames itself: a library would take more of the machine than what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import secrets
import sys
from collections import Counter
from collections.abc import Sequence

import msgspec

from tickwheel_shared.protocol import (
    LINK_PATH,
    PROTOCOL_VERSION,
    Accepted,
    FromAdmin,
    Heartbeat,
    HeartbeatAck,
    Held,
    Hello,
    Message,
    Outcome,
    Result,
    RunRequest,
    Welcome,
    decode_from_admin,
    encode_frames,
)

BACKOFF_SECONDS = (0.5, 15.0)  # as a node of the SDK comes back
STABLE_SECONDS = 10.0
CONNECTS_AT_ONCE = 200  # in the system's queue of the listening socket
_TEXT, _CLOSE, _PING, _PONG = 0x1, 0x8, 0x9, 0xA
_NO_MASK = b"\0\0\0\0"  # a client must mask; with zeros that changes nothing


class Report(msgspec.Struct):
    """How the nodes of this process are."""

    connected: int  # sockets of nodes that are open, and were welcomed
    welcomed: int  # so often in all
    cut_off: int  # so often no heartbeat was acknowledged for the time of a lease
    acknowledged_ms: dict[int, int]  # heartbeats by how long that took, since the last report


class Crowd:
    """What the nodes of the process share."""

    def __init__(self, *, tokens: Sequence[tuple[str, str]], slots: int) -> None:
        self.tokens = tokens
        self.slots = slots  # of each node
        self.connecting = asyncio.Semaphore(CONNECTS_AT_ONCE)
        self.connected = 0
        self.welcomed = 0
        self.cut_off = 0
        self.acknowledged: Counter[int] = Counter()

    def report(self) -> Report:
        """Also begins to count anew how long acknowledgements take."""
        acknowledged, self.acknowledged = self.acknowledged, Counter()
        return Report(
            connected=self.connected,
            welcomed=self.welcomed,
            cut_off=self.cut_off,
            acknowledged_ms=dict(acknowledged),
        )


class IdleNode(asyncio.Protocol):
    """One node at one admin, over all its sockets there."""

    def __init__(self, crowd: Crowd, number: int, *, key: str, port: int) -> None:
        self._crowd = crowd
        self._port = port
        self._loop = asyncio.get_running_loop()
        self._executor, self._token = crowd.tokens[number % len(crowd.tokens)]
        self._name = f"idle-{number}"
        self._key = key  # at each admin the same
        self._failures = 0
        self._begin()

    def _begin(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._upgraded = False
        self._is_welcome = False
        self._seq = 0
        self._sent_at: dict[int, float] = {}  # heartbeats that were not acknowledged
        self._acknowledged_at = self._loop.time()  # when the newest of the others was sent
        self._lease_seconds = self._beat_seconds = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def connect(self) -> None:
        """Open a socket; try again later when that fails."""
        self._began_at = self._loop.time()
        try:
            async with self._crowd.connecting:
                await self._loop.create_connection(lambda: self, "127.0.0.1", self._port)
        except OSError:
            self._come_back()

    # --- the socket ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(
            f"GET {LINK_PATH} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            f"Authorization: Bearer {self._token}\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._upgraded:
            head, end, rest = self._received.partition(b"\r\n\r\n")
            if not end:
                return
            if b" 101 " not in head[:20]:
                self._close()
                return
            self._upgraded, self._received = True, rest
            self._hello()
        answers: list[Message] = []
        while (frame := self._next_frame()) is not None:
            kind, payload = frame
            if kind == _TEXT:
                for message in decode_from_admin(payload):
                    if isinstance(message, RunRequest):
                        answers += _done(message)
                    else:
                        self._handle(message)
            elif kind == _PING:
                self._write(_PONG, payload)
            elif kind == _CLOSE:
                self._write(_CLOSE, payload)
                self._close()
        if answers:
            self._send(*answers)

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._is_welcome:
            self._crowd.connected -= 1
        if self._loop.time() - self._began_at >= STABLE_SECONDS:
            self._failures = 0
        self._come_back()

    def _come_back(self) -> None:
        least, most = BACKOFF_SECONDS
        ceiling = min(most, 2 * least * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        self._begin()
        wait = random.uniform(max(least, ceiling / 2), ceiling)
        self._loop.call_later(wait, lambda: _keep(self._loop.create_task(self.connect())))

    def _next_frame(self) -> tuple[int, bytes] | None:
        """Opcode and payload of a whole frame, as a server sends it."""
        data = self._received
        if len(data) < 2:
            return None
        size, start = data[1], 2
        if size >= 126:
            start = 4 if size == 126 else 10
            size = int.from_bytes(data[2:start])
        if len(data) < start + size:
            return None
        self._received = data[start + size :]
        return data[0] & 0x0F, data[start : start + size]

    def _write(self, kind: int, payload: bytes) -> None:
        size = len(payload)
        if size < 126:
            head = bytes((0x80 | kind, 0x80 | size))
        elif size >= 2**16:
            head = bytes((0x80 | kind, 0x80 | 127)) + size.to_bytes(8)
        else:
            head = bytes((0x80 | kind, 0x80 | 126)) + size.to_bytes(2)
        if self._transport is not None:
            self._transport.write(head + _NO_MASK + payload)

    def _send(self, *messages: Message) -> None:
        for frame in encode_frames(messages):
            self._write(_TEXT, frame)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # --- the protocol ----------------------------------------------------------------------------

    def _hello(self) -> None:
        self._acknowledged_at = self._loop.time()
        self._send(
            Hello(
                versions=[PROTOCOL_VERSION],
                executor=self._executor,
                node_key=self._key,
                name=self._name,
                sdk="bench",
                slots=self._crowd.slots,
                handlers=["noop"],
            )
        )

    def _handle(self, message: FromAdmin) -> None:
        if isinstance(message, HeartbeatAck):
            self._acknowledged(message.seq)
        elif isinstance(message, Welcome):
            self._is_welcome = True
            self._crowd.connected += 1
            self._crowd.welcomed += 1
            self._beat_seconds = message.heartbeat_ms / 1000
            self._lease_seconds = message.lease_ms / 1000
            self._send(Held(runs=[]))
            self._beat()

    def _beat(self) -> None:
        now = self._loop.time()
        if now - self._acknowledged_at > self._lease_seconds:
            self._crowd.cut_off += 1
            assert self._transport is not None
            self._transport.abort()
            return
        self._seq += 1
        self._sent_at[self._seq] = now
        self._send(Heartbeat(seq=self._seq, in_use=0))
        self._timer = self._loop.call_later(self._beat_seconds, self._beat)

    def _acknowledged(self, seq: int) -> None:
        sent_at = self._sent_at.get(seq)
        if sent_at is None:
            return
        self._acknowledged_at = sent_at
        self._crowd.acknowledged[round((self._loop.time() - sent_at) * 1000)] += 1
        self._sent_at = {beat: at for beat, at in self._sent_at.items() if beat > seq}


def _done(request: RunRequest) -> tuple[Accepted, Result]:
    run, attempt, token = request.run, request.attempt, request.token
    return (
        Accepted(run=run, attempt=attempt, token=token),
        Result(run=run, attempt=attempt, token=token, outcome=Outcome.SUCCEEDED, duration_ms=0),
    )


_tasks: set[asyncio.Task[None]] = set()  # asyncio itself holds them only weakly


def _keep(task: asyncio.Task[None]) -> None:
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def _run(ports: Sequence[int], *, nodes: int, first: int, slots: int) -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    tokens: list[tuple[str, str]] = []
    while line := (await lines.readline()).decode().strip():
        name, _, token = line.partition(" ")
        tokens.append((name, token))
    crowd = Crowd(tokens=tokens, slots=slots)
    for number in range(first, first + nodes):
        key = secrets.token_hex(16)
        for port in ports:
            _keep(asyncio.create_task(IdleNode(crowd, number, key=key, port=port).connect()))
    gc.collect()
    gc.freeze()  # what is there stays: to go through it again and again would take more than this
    while await lines.readline():
        print(msgspec.json.encode(crowd.report()).decode(), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.testbed.node_crowd", description=__doc__
    )
    parser.add_argument(
        "--port", type=int, action="append", required=True, help="of an admin, on this machine"
    )
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--first", type=int, default=0, help="number of the first node")
    parser.add_argument("--slots", type=int, default=16, help="of each node")
    asked = parser.parse_args()
    asyncio.run(_run(asked.port, nodes=asked.nodes, first=asked.first, slots=asked.slots))
    return 0


if __name__ == "__main__":
    sys.exit(main())
