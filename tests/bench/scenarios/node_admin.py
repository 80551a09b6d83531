"""An admin that only keeps one node busy: as little of it as possible beside what it measures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
from aiohttp import WSMsgType, web

from tickwheel_shared.protocol import (
    LINK_PATH,
    MAX_FRAME_BYTES,
    FromNode,
    Heartbeat,
    HeartbeatAck,
    Held,
    Hello,
    LogChunk,
    LogReceipt,
    Message,
    ReceiptCode,
    Refused,
    Result,
    ResultReceipt,
    RunRequest,
    Welcome,
    decode_from_node,
    encode_frames,
)

_EMPTY = msgspec.Raw(b"{}")


@dataclass(slots=True)
class _Load:
    """Runs of one handler: so many in all, so many at once."""

    handler: str
    left: int
    unfinished: int
    done: asyncio.Event


class NodeAdmin:
    """Gives one node as many runs as it can take, and receipts."""

    def __init__(self) -> None:
        self.parameters = _EMPTY  # of the next runs
        self.ready = asyncio.Event()
        self.url = ""
        self._socket: web.WebSocketResponse | None = None
        self._last_run = 0
        self._load: _Load | None = None
        self._result: asyncio.Future[Result] | None = None

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[NodeAdmin]:
        """On a free port."""
        app = web.Application()
        app.router.add_get(LINK_PATH, self._link)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def flood(self, handler: str, *, runs: int, at_once: int) -> float:
        """Let the node do so many runs; seconds from the first request to the last result."""
        at_once = min(at_once, runs)
        self._load = _Load(handler, runs - at_once, runs, asyncio.Event())
        began = time.perf_counter()
        await self._send([self._request(handler) for _ in range(at_once)])
        await self._load.done.wait()
        return time.perf_counter() - began

    async def one(self, handler: str) -> tuple[int, Result]:
        """One run alone: nanoseconds just before its request was encoded and sent; its result."""
        self._result = asyncio.get_running_loop().create_future()
        request = self._request(handler)
        sent_at = time.perf_counter_ns()
        await self._send([request])
        result = await self._result
        self._result = None
        return sent_at, result

    def _request(self, handler: str) -> RunRequest:
        self._last_run += 1
        return RunRequest(
            run=self._last_run,
            attempt=1,
            token="a-token-of-a-claim",
            job_id=1,
            job="bench",
            handler=handler,
            parameters=self.parameters,
            scheduled_at=1_750_000_000_000,
            timeout_ms=None,
            try_number=1,
            max_tries=1,
            origin="manual",
        )

    async def _link(self, request: web.Request) -> web.StreamResponse:
        self._socket = socket = web.WebSocketResponse(max_msg_size=MAX_FRAME_BYTES)
        await socket.prepare(request)
        async for frame in socket:
            if frame.type is WSMsgType.TEXT:
                answers: list[Message] = []
                for message in decode_from_node(frame.data):
                    self._answer(message, answers)
                await self._send(answers)
        return socket

    async def _send(self, messages: list[Message] | list[RunRequest]) -> None:
        assert self._socket is not None
        for frame in encode_frames(messages):
            await self._socket.send_str(frame.decode())

    def _answer(self, message: FromNode, answers: list[Message]) -> None:
        if isinstance(message, Result):
            answers.append(
                ResultReceipt(
                    run=message.run,
                    attempt=message.attempt,
                    token=message.token,
                    receipt=ReceiptCode.RECORDED,
                )
            )
            self._ended(message, answers)
        elif isinstance(message, LogChunk):
            answers.append(
                LogReceipt(run=message.run, attempt=message.attempt, first_seq=message.first_seq)
            )
        elif isinstance(message, Heartbeat):
            answers.append(HeartbeatAck(seq=message.seq))
        elif isinstance(message, Hello):
            answers.append(
                Welcome(
                    version=1, node_id=1, admin="bench", admins=[], heartbeat_ms=3_000,
                    lease_ms=15_000,
                )
            )  # fmt: skip
        elif isinstance(message, Held):
            self.ready.set()
        elif isinstance(message, Refused):
            raise AssertionError(f"the node refused a run: {message}")

    def _ended(self, result: Result, answers: list[Message]) -> None:
        if result.outcome != "succeeded":
            raise AssertionError(f"a run did not succeed: {result}")
        load = self._load
        if self._result is not None:
            self._result.set_result(result)
        elif load is not None:
            load.unfinished -= 1
            if load.left:
                load.left -= 1
                answers.append(self._request(load.handler))
            elif not load.unfinished:
                load.done.set()
