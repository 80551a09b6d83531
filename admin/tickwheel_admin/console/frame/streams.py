"""Server-sent events: one response that stays open while its session holds and its admin runs.

The streams of one session, and of one person, are bounded. Whether sessions hold is asked for all
streams together, in one read: an open page must not cost a read of its own every few seconds.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TypeVar

import structlog
from aiohttp import web

from tickwheel_admin.domain.errors import TooMany
from tickwheel_admin.services.events.events import USERS
from tickwheel_admin.web.identity import actor_of, are_still_allowed, cookie_of
from tickwheel_admin.web.keys import SERVICES, UNAVAILABLE_WHEN

log = structlog.get_logger(__name__)

# A silent stream says "beat", which the page hears: a page that hears nothing for two and a half of
# these says that it has no news. Proxies close what is silent for longer than some 30 s.
HEARTBEAT_SECONDS = 7.0
# A stream ends at once after a session that ended here, within two seconds after one that another
# admin ended, and within these after one that ran out.
SESSION_CHECK_SECONDS = 5
LOOK_SECONDS = 0.1  # at least between two looks, however often people change
SESSIONS_AT_ONCE = 200  # asked about in one read
# A browser's tabs share one stream, and each log that is looked at has one more; browsers without
# shared workers have one for each visible tab.
MAX_OF_SESSION = 16
MAX_OF_PERSON = 48
MAX_STREAMS = 2_000  # of everybody; nodes and requests need connections as well
AGAIN_SECONDS = 15
# A browser that goes from page to page may ask for the next page's stream before it has closed the
# last one's, above all when it is busy. A session that has too many gets this long to close some.
ROOM_SECONDS = 1.0
LOOK_FOR_ROOM_SECONDS = 0.05
EVENTS_PATH = "/events"

K = TypeVar("K", int, str)

STOPPING: web.AppKey[asyncio.Event] = web.AppKey("console_stopping")
HEARTBEAT: web.AppKey[float] = web.AppKey("console_heartbeat")  # s; `HEARTBEAT_SECONDS`


class OpenStreams:
    """All open streams of this admin. Used from the event loop's thread only."""

    def __init__(self) -> None:
        self._streams: set[Stream] = set()
        self._of_person: Counter[int] = Counter()
        self._of_session: Counter[str] = Counter()
        self._of_cookie: dict[str, set[Stream]] = {}  # the same, by what a request brings along
        self._opening: dict[str, set[int]] = {}  # requests that are about to be streams, likewise
        self._waiting: Counter[str] = Counter()  # how many requests wait for room, likewise
        self._look_again_at = 0.0  # for streams that have gone
        self._watching: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """How many there are."""
        return len(self._streams)

    async def add(self, stream: Stream) -> None:
        """Raises TooMany: this session, this person or everybody has as many as there may be."""
        actor = stream.actor
        session = actor.session or ""

        def is_full() -> bool:
            return (
                self._of_session[session] >= MAX_OF_SESSION
                or self._of_person[actor.user_id] >= MAX_OF_PERSON
                or len(self._streams) >= MAX_STREAMS
            )

        await self._wait_for_room(stream.request, is_full)
        self._streams.add(stream)
        self._of_person[actor.user_id] += 1
        self._of_session[session] += 1
        self._of_cookie.setdefault(cookie_of(stream.request), set()).add(stream)
        self._opened(stream.request)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(stream.app), name="streams")

    def remove(self, stream: Stream) -> None:
        """It has ended."""
        if stream not in self._streams:
            return
        self._streams.discard(stream)
        _take_one(self._of_person, stream.actor.user_id)
        _take_one(self._of_session, stream.actor.session or "")
        cookie = cookie_of(stream.request)
        self._of_cookie[cookie].discard(stream)
        if not self._of_cookie[cookie]:
            del self._of_cookie[cookie]

    @asynccontextmanager
    async def opening(self, request: web.Request) -> AsyncIterator[None]:
        """Raise TooMany for one more stream of a session that has as many as there may be.

        Whoever is refused asks again. This tells them so before anything is read, also when very
        many are asked for at once: a stream counts from here on.
        """
        if request.path != EVENTS_PATH:
            yield
            return
        cookie = cookie_of(request)

        def is_full() -> bool:
            known = len(self._of_cookie.get(cookie, ())) + len(self._opening.get(cookie, ()))
            return known >= MAX_OF_SESSION or len(self._streams) >= MAX_STREAMS

        await self._wait_for_room(request, is_full)
        self._opening.setdefault(cookie, set()).add(id(request))
        try:
            yield
        finally:
            self._opened(request)

    def _opened(self, request: web.Request) -> None:
        cookie = cookie_of(request)
        if (opening := self._opening.get(cookie)) is not None:
            opening.discard(id(request))
            if not opening:
                del self._opening[cookie]

    async def _wait_for_room(self, request: web.Request, is_full: Callable[[], bool]) -> None:
        """Return when there is room, with no pause after it was seen; raise TooMany if none comes.

        It waits not for long, and not for many of a session at once. When everybody together has
        too many it does not wait at all.
        """
        if not is_full():
            return
        cookie = cookie_of(request)
        loop = asyncio.get_running_loop()
        end = loop.time() + ROOM_SECONDS
        may_wait = self._waiting[cookie] < MAX_OF_SESSION
        self._waiting[cookie] += 1
        try:
            while True:
                self._forget_gone(loop.time())
                if not is_full():
                    return
                if not may_wait or len(self._streams) >= MAX_STREAMS or loop.time() >= end:
                    raise _too_many()
                await asyncio.sleep(LOOK_FOR_ROOM_SECONDS)
        finally:
            _take_one(self._waiting, cookie)

    def _forget_gone(self, now: float) -> None:
        """Count no more those whose browser has gone; they see it themselves when they next write.

        Somebody who looks through many pages quickly leaves a stream behind with each. Looks at all
        of them, but not for each of many requests that are refused at once.
        """
        if now < self._look_again_at:
            return
        self._look_again_at = now + LOOK_FOR_ROOM_SECONDS
        for stream in [each for each in self._streams if each.is_gone]:
            stream.end()
            self.remove(stream)

    def end_all(self) -> None:
        """The admin stops."""
        for stream in self._streams:
            stream.end()

    async def close(self) -> None:
        """Stop asking about sessions."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def _watch(self, app: web.Application) -> None:
        changed = asyncio.Event()
        stop = app[SERVICES].events.listen(USERS, changed.set)
        try:
            while self._streams:
                try:
                    async with asyncio.timeout(SESSION_CHECK_SECONDS):
                        await changed.wait()
                except TimeoutError:
                    pass
                changed.clear()
                await self._look(app)
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            stop()

    async def _look(self, app: web.Application) -> None:
        """End the streams of sessions that do not hold any more, or may not see as much."""
        streams = list(self._streams)
        for begin in range(0, len(streams), SESSIONS_AT_ONCE):
            some = streams[begin : begin + SESSIONS_AT_ONCE]
            try:
                allowed = await are_still_allowed(app, [stream.request for stream in some])
            except app[UNAVAILABLE_WHEN]:
                return  # nothing is read for anybody meanwhile; the next look is soon
            except Exception:
                # Whatever it was: who cannot be known to be allowed is not.
                log.exception("streams.look_failed")
                allowed = [False] * len(some)
            for stream, is_allowed in zip(some, allowed, strict=True):
                if not is_allowed:
                    stream.end()


def _too_many() -> TooMany:
    return TooMany(
        "streams.too_many",
        "Too many live pages are open at once. Close some of them; this one goes on without"
        " live updates and tries again in %(retry_after_seconds)d s.",
        retry_after_seconds=AGAIN_SECONDS,
    )


def _take_one(counts: Counter[K], key: K) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]  # people and sessions come and go without end


OPEN_STREAMS: web.AppKey[OpenStreams] = web.AppKey("open_streams", OpenStreams)


class Stream:
    """An open stream of events."""

    def __init__(self, request: web.Request) -> None:
        self.request = request
        self.app = request.app
        self.actor = actor_of(request)  # as it was opened
        self._loop = asyncio.get_running_loop()
        self.heartbeat_seconds = request.app[HEARTBEAT]
        self._heartbeat_at = self._loop.time() + self.heartbeat_seconds
        self._over = False
        self._waits_for: asyncio.Event | None = None
        self._watching = request.app[SERVICES].relay.watching()
        self.response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",  # nginx would hold the events back
            }
        )

    async def __aenter__(self) -> Stream:
        await self.app[OPEN_STREAMS].add(self)
        try:
            await self.response.prepare(self.request)
            # A lost stream comes back after two seconds.
            await self.response.write(b"retry: 2000\n\n")
        except BaseException:
            self.app[OPEN_STREAMS].remove(self)
            raise
        self._watching.__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._watching.__exit__(None, None, None)
        self.app[OPEN_STREAMS].remove(self)
        # The browser went away while something was sent to it: the usual end of a stream.
        return isinstance(error, ConnectionError)

    @property
    def is_gone(self) -> bool:
        """Whether its browser has closed the connection."""
        transport = self.request.transport
        return transport is None or transport.is_closing()

    def end(self) -> None:
        """The session ended, the admin stops, or nobody listens any more."""
        self._over = True
        if self._waits_for is not None:
            self._waits_for.set()

    async def send(self, event: str, data: str = "", *, event_id: str | None = None) -> None:
        """One event; `data` holds no line end."""
        head = f"id: {event_id}\n" if event_id is not None else ""
        await self.response.write(f"{head}event: {event}\ndata: {data}\n\n".encode())
        self._heartbeat_at = self._loop.time() + self.heartbeat_seconds

    async def is_wanted(self) -> bool:
        """False when the admin stops or the session ended. Keeps a silent stream alive."""
        if self._over or self.app[STOPPING].is_set():
            return False
        now = self._loop.time()
        if now >= self._heartbeat_at:
            await self.send("beat")
        return True

    async def wait(self, event: asyncio.Event, *, at_most: float | None = None) -> bool:
        """Until the event or the end, but never past the next sign of life; whether it was the
        event."""
        limit = self._heartbeat_at - self._loop.time()
        seconds = max(min(limit, at_most if at_most is not None else limit), 0.01)
        self._waits_for = event
        try:
            if not self._over:
                async with asyncio.timeout(seconds):
                    await event.wait()
        except TimeoutError:
            pass
        finally:
            self._waits_for = None
        return event.is_set() and not self._over


async def stop_watching(app: web.Application) -> None:
    """For `app.on_cleanup`: there is no page left to relay anything to."""
    await app[OPEN_STREAMS].close()
    await app[SERVICES].relay.close()


async def stop_streams(app: web.Application) -> None:
    """For `app.on_shutdown`, which aiohttp runs before it waits for open requests."""
    app[STOPPING].set()
    app[OPEN_STREAMS].end_all()
