"""A client that sends exactly the bytes it is given, and reads an answer within a time."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

ANSWER_SECONDS = 20
"""An answer that takes longer counts as a hang, on a slow machine as well."""
BODY_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; status 0 is none: the connection closed, or nothing came in time."""

    status: int
    headers: dict[str, str]
    body: bytes


class Wire:
    """One connection, opened anew when the server closed it."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> Answer:
        """Send one request as it is; streams are left after their headers."""
        used_before = self._stream is not None
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._ask(request)
                if answer.status == 0 and used_before:
                    # Closed while idle: after an answer that said so, or by the server's timer.
                    answer = await self._ask(request)
                return answer
        except TimeoutError:
            await self.close()
            return Answer(0, {}, b"no answer within %d s" % ANSWER_SECONDS)

    async def _ask(self, request: bytes) -> Answer:
        try:
            if self._stream is None:
                self._stream = await asyncio.open_connection(*self._address, limit=BODY_BYTES)
            reader, writer = self._stream
            writer.write(request)
            answer = await _read(reader, is_head=request.startswith(b"HEAD "))
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            answer = Answer(0, {"connection": "close"}, repr(error).encode())
        if answer.headers.get("connection", "").lower() == "close" or _is_endless(answer):
            await self.close()
        return answer

    async def close(self) -> None:
        """Leave."""
        if self._stream is not None:
            writer, self._stream = self._stream[1], None
            writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


async def _read(reader: asyncio.StreamReader, *, is_head: bool) -> Answer:
    while True:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(lines[0].split()[1])
        if status != 100:
            break
    headers = {
        name.lower(): value
        for name, _, value in (line.partition(": ") for line in lines[1:] if line)
    }
    if lines[0].startswith("HTTP/1.0"):
        headers["connection"] = "close"
    answer = Answer(status, headers, b"")
    if is_head or status in (204, 304) or _is_endless(answer):
        return answer
    if "content-length" in headers:
        return Answer(status, headers, await reader.readexactly(int(headers["content-length"])))
    if headers.get("transfer-encoding") == "chunked":
        return Answer(status, headers, await _read_chunks(reader))
    return Answer(status, headers | {"connection": "close"}, await reader.read())


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        body += (await reader.readexactly(size + 2))[:-2]
        if size == 0:
            return bytes(body)


def _is_endless(answer: Answer) -> bool:
    return answer.headers.get("content-type", "").startswith("text/event-stream")
