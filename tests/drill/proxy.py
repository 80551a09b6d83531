"""A TCP proxy that breaks what goes through it: cut, held back, late, or answered to nobody.

    with FaultProxy(8500, owner=lambda port: "node-1") as proxy:
        proxy.cut("node-1")       # its connections are reset; it may connect again
        proxy.hold("node-1")      # a vanished host: nothing passes, nothing is closed
        proxy.release("node-1")   # the network is back: what was held back arrives
        proxy.lose_answers()      # what the server says is thrown away from now on

A fault without an owner is for everybody. It runs on a thread of its own and works from any other.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

T = TypeVar("T")

ANYBODY = ""
_CHUNK = 65_536
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with RST, as a broken cable ends in the end


@dataclass(slots=True, eq=False)
class _Pair:
    """Two connections: from a client to us, from us to the server."""

    owner: str
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter | None = None
    flows: asyncio.Event = field(default_factory=asyncio.Event)  # cleared: nothing passes

    def reset(self) -> None:
        self.flows.set()
        for writer in (self.client, self.server):
            if writer is not None and not writer.is_closing():
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()


class FaultProxy:
    """Listens on a `port` of its own and passes on to the target port of 127.0.0.1."""

    def __init__(
        self,
        target: int,
        *,
        owner: Callable[[int], str] = lambda port: ANYBODY,
        host: str = "127.0.0.1",
    ) -> None:
        """Begin to listen.

        Args:
            target: the server's port.
            owner: who connected from a local port; called on the proxy's thread.
            host: address to listen on.
        """
        self._host = host
        self._target = target
        self._owner_of = owner
        self._pairs: set[_Pair] = set()
        self._held: set[str] = set()
        self._answers_lost: set[str] = set()
        self._delay_seconds = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy")
        self._thread.start()
        self._server = self._do(self._listen())
        self.port: int = self._server.sockets[0].getsockname()[1]

    @property
    def url(self) -> str:
        """For what speaks HTTP."""
        return f"http://{self._host}:{self.port}"

    # --- faults ----------------------------------------------------------------------------------

    def cut(self, owner: str = ANYBODY) -> int:
        """Reset the connections that are open now; returns how many."""
        return self._do(self._cut(owner))

    def hold(self, owner: str = ANYBODY) -> None:
        """Let nothing pass in either direction; new connections are accepted and hear nothing."""
        self._do(self._hold(owner))

    def release(self, owner: str = ANYBODY) -> None:
        """End `hold`; what was sent meanwhile arrives."""
        self._do(self._release(owner))

    def delay(self, seconds: float) -> None:
        """Pass every piece on so much later; 0 ends it."""
        self._delay_seconds = seconds

    def lose_answers(self, owner: str = ANYBODY) -> None:
        """Throw away what the server says from now on, until `keep_answers`."""
        self._answers_lost.add(owner)

    def keep_answers(self, owner: str = ANYBODY) -> None:
        """End `lose_answers`, and reset the connections that have a gap now."""
        self._answers_lost.discard(owner)
        self.cut(owner)

    def retarget(self, port: int) -> None:
        """Pass new connections on to another port; those that are open are reset."""
        self._target = port
        self.cut()

    def connections(self, owner: str = ANYBODY) -> int:
        """How many are open."""
        return self._do(self._count(owner))

    # --- life ------------------------------------------------------------------------------------

    def close(self) -> None:
        """Reset everything and end the thread."""
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- on the loop's thread --------------------------------------------------------------------

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(10)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, self._host, 0)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        owner = self._owner_of(writer.get_extra_info("peername")[1])
        pair = _Pair(owner, writer)
        if not self._held & {owner, ANYBODY}:
            pair.flows.set()
        self._pairs.add(pair)
        try:
            await pair.flows.wait()  # on a network that is away no connection is made
            from_server, pair.server = await asyncio.open_connection("127.0.0.1", self._target)
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(pair, reader, pair.server, answers=False))
                pumps.create_task(self._pump(pair, from_server, pair.client, answers=True))
            pair.client.close()
            pair.server.close()
        except* OSError:
            pair.reset()  # one side broke: so does the other
        finally:
            self._pairs.discard(pair)

    async def _pump(
        self,
        pair: _Pair,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        answers: bool,
    ) -> None:
        while data := await reader.read(_CHUNK):
            await pair.flows.wait()
            if self._delay_seconds:
                await asyncio.sleep(self._delay_seconds)
            if answers and self._answers_lost & {pair.owner, ANYBODY}:
                continue
            writer.write(data)
            await writer.drain()
        await pair.flows.wait()
        writer.write_eof()

    def _of(self, owner: str) -> list[_Pair]:
        return [pair for pair in self._pairs if owner in (ANYBODY, pair.owner)]

    async def _cut(self, owner: str) -> int:
        pairs = self._of(owner)
        for pair in pairs:
            pair.reset()
        return len(pairs)

    async def _hold(self, owner: str) -> None:
        self._held.add(owner)
        for pair in self._of(owner):
            pair.flows.clear()

    async def _release(self, owner: str) -> None:
        self._held.discard(owner)
        for pair in self._of(owner):
            if not self._held & {pair.owner, ANYBODY}:
                pair.flows.set()

    async def _count(self, owner: str) -> int:
        return len(self._of(owner))

    async def _close(self) -> None:
        self._server.close()
        for pair in self._pairs:
            pair.reset()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def process_of(port: int, pids: list[int]) -> int | None:
    """Which of these processes has a TCP socket with this local port (Linux)."""
    wanted = f"0100007F:{port:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    sockets = {f"socket:[{row[9]}]" for row in rows if row[1] == wanted}
    for pid in pids:
        if any(_target(file) in sockets for file in _entries(Path(f"/proc/{pid}/fd"))):
            return pid
    return None


def _entries(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []  # the process has ended


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""  # closed meanwhile
