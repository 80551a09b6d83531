"""Server-sent events: one response that stays open while its session holds and its admin runs."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from types import TracebackType

from aiohttp import web

from tickwheel_admin.services.events import PEOPLE
from tickwheel_admin.web.identity import is_still_allowed
from tickwheel_admin.web.keys import ELSEWHERE, EVENTS

HEARTBEAT_SECONDS = 15  # proxies close what is silent for longer than some 30
# A stream ends at once after a session that ended here, within two seconds after one that another
# admin ended, and within these after one that ran out.
SESSION_CHECK_SECONDS = 5

STOPPING: web.AppKey[asyncio.Event] = web.AppKey("console_stopping")


class Stream:
    """An open stream of events."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._stopping = request.app[STOPPING]
        self._loop = asyncio.get_running_loop()
        self._heartbeat_at = self._loop.time() + HEARTBEAT_SECONDS
        self._check_at = self._loop.time() + SESSION_CHECK_SECONDS
        self._people_changed = asyncio.Event()
        self._open = ExitStack()
        self.response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",  # nginx would hold the events back
            }
        )

    async def __aenter__(self) -> Stream:
        await self.response.prepare(self._request)
        await self.response.write(b"retry: 2000\n\n")  # a lost stream comes back after two seconds
        self._open.enter_context(self._request.app[ELSEWHERE].watching())
        self._open.callback(self._request.app[EVENTS].listen(PEOPLE, self._people_changed.set))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._open.close()
        # The browser went away while something was sent to it: the usual end of a stream.
        return isinstance(error, ConnectionError)

    async def send(self, event: str, data: str = "", *, event_id: str | None = None) -> None:
        """One event; `data` holds no line end."""
        head = f"id: {event_id}\n" if event_id is not None else ""
        await self.response.write(f"{head}event: {event}\ndata: {data}\n\n".encode())
        self._heartbeat_at = self._loop.time() + HEARTBEAT_SECONDS

    async def is_wanted(self) -> bool:
        """False when the admin stops or the session ended. Keeps a silent stream alive."""
        now = self._loop.time()
        if now >= self._check_at or self._people_changed.is_set():
            self._people_changed.clear()
            self._check_at = now + SESSION_CHECK_SECONDS
            if not await is_still_allowed(self._request):
                return False
        if now >= self._heartbeat_at:
            self._heartbeat_at = now + HEARTBEAT_SECONDS
            await self.response.write(b": still here\n\n")
        return not self._stopping.is_set()

    async def wait(self, event: asyncio.Event, *, at_most: float | None = None) -> bool:
        """Until the event or the end, but never past the next check; whether it was the event."""
        limit = min(self._check_at, self._heartbeat_at) - self._loop.time()
        seconds = max(min(limit, at_most if at_most is not None else limit), 0.01)
        waits = [
            asyncio.create_task(e.wait()) for e in (event, self._people_changed, self._stopping)
        ]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return event.is_set()


async def stop_watching(app: web.Application) -> None:
    """For `app.on_cleanup`: there is no page left to relay anything to."""
    await app[ELSEWHERE].close()


async def stop_streams(app: web.Application) -> None:
    """For `app.on_shutdown`, which aiohttp runs before it waits for open requests."""
    app[STOPPING].set()
