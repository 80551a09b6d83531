"""Server-sent events for programs: one answer that stays open while its asker may see them.

The streams of an admin, and of one user, are bounded. A stream ends when the admin stops, when its
session or token does not hold any more, and when its reader takes nothing for a while; a reader
comes back with the number of the last event.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import hdrs, web

from tickwheel_admin.api.runs.shapes import RunEventJson
from tickwheel_admin.domain.errors import Gone, TooMany
from tickwheel_admin.domain.fields import instant_to_iso
from tickwheel_admin.domain.runs.events import EventState
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.events.events import USERS
from tickwheel_admin.services.runs.events import EventFilter, NumberedEvent, RunEventFeed
from tickwheel_admin.web.errors import error_view
from tickwheel_admin.web.i18n import language_of
from tickwheel_admin.web.identity import actor_of, is_still_allowed
from tickwheel_admin.web.keys import SERVICES, UNAVAILABLE_WHEN

EVENT_STREAM: Final = "text/event-stream"
MOST_STREAMS = 200  # of one admin
MOST_OF_USER = 10
BEAT_SECONDS = 10.0  # proxies close what is silent for some 30 s
CHECK_SECONDS = 5.0  # between two looks at whether its asker may see it
_WRITE_SECONDS = 30.0  # a reader that takes nothing for so long has gone
_AWAY_SECONDS = 1.0  # between two tries while the database is away
_PIECE_BYTES = 64 * 1024
AGAIN_SECONDS = 15


class OpenEventStreams:
    """All of this admin. Used from the event loop's thread only."""

    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        self._open: dict[int, tuple[web.Request, int]] = {}  # with the id of the user

    @asynccontextmanager
    async def room_for(self, request: web.Request) -> AsyncIterator[None]:
        """Raises TooMany. A stream whose reader has gone takes no room, also if it has not noticed
        that yet.
        """
        user_id = actor_of(request).user_id
        users = [user for each, user in self._open.values() if not is_gone(each)]
        if len(users) >= MOST_STREAMS or users.count(user_id) >= MOST_OF_USER:
            raise TooMany(
                "events.too_many_streams",
                "Too many streams of events are open at once. Close some, or try again in"
                " %(retry_after_seconds)d seconds.",
                retry_after_seconds=AGAIN_SECONDS,
            )
        self._open[id(request)] = request, user_id
        try:
            yield
        finally:
            del self._open[id(request)]


def is_gone(request: web.Request) -> bool:
    """Whether its client has closed the connection."""
    return request.transport is None or request.transport.is_closing()


OPEN_EVENT_STREAMS: web.AppKey[OpenEventStreams] = web.AppKey(
    "open_event_streams", OpenEventStreams
)


async def end_streams(app: web.Application) -> None:
    """For `app.on_shutdown`, which aiohttp runs before it waits for open requests."""
    app[OPEN_EVENT_STREAMS].stopping.set()


async def close_feed(app: web.Application) -> None:
    """For `app.on_cleanup`."""
    await app[SERVICES].run_events.close()


async def stream(
    request: web.Request, wanted: EventFilter, after: int | None
) -> web.StreamResponse:
    """Answer with the events that there are after this number, and those to come.

    Args:
        after: None: only those to come.

    Raises:
        NotFound, Gone: as of `RunEventFeed.check`.
        TooMany: there are as many streams as there may be.
    """
    feed = request.app[SERVICES].run_events
    actor = actor_of(request)
    async with request.app[OPEN_EVENT_STREAMS].room_for(request):
        await feed.check(actor, wanted, after)
        response = web.StreamResponse(
            headers={
                hdrs.CONTENT_TYPE: EVENT_STREAM,
                hdrs.CACHE_CONTROL: "no-store",
                "X-Accel-Buffering": "no",  # nginx would hold the events back
            }
        )
        await response.prepare(request)
        if request.method == hdrs.METH_HEAD:
            return response
        try:
            async with feed.listening():
                await _Stream(request, response, feed, wanted, after).run()
        except ConnectionError:
            pass  # the reader went away: the usual end
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()  # it cannot take this for the end
    return response


class _Stream:
    """One answer."""

    def __init__(
        self,
        request: web.Request,
        response: web.StreamResponse,
        feed: RunEventFeed,
        wanted: EventFilter,
        after: int | None,
    ) -> None:
        self._request = request
        self._response = response
        self._feed = feed
        self._wanted = wanted
        self._seq = after
        self._told: int | None = None  # the number that the reader has
        self._loop = asyncio.get_running_loop()
        self._beat_at = 0.0
        self._check_at = self._loop.time() + CHECK_SECONDS
        self._users_changed = asyncio.Event()

    async def run(self) -> None:
        """Until it has to end."""
        events = self._request.app[SERVICES].events
        stop_listening = events.listen(USERS, self._users_changed.set)
        await self._write(b"retry: 2000\n\n")
        try:
            while await self._is_wanted():
                changed = self._feed.changed
                try:
                    if await self._tell():
                        continue
                except self._request.app[UNAVAILABLE_WHEN]:
                    await asyncio.sleep(_AWAY_SECONDS)
                await self._beat()
                await self._wait(changed)
        except Gone as error:
            told = {"error": error_view(error, language_of(self._request))}
            await self._write(_event("gone", json.dumps(told, ensure_ascii=False)))
        finally:
            stop_listening()

    async def _tell(self) -> bool:
        """Write some events; whether there may be more."""
        if self._seq is None:
            self._seq = self._feed.place()
        if self._seq is None:
            return False
        if self._told is None:
            # From here on nothing is left out.
            await self._write(_event("ready", json.dumps({"after": self._seq}), self._seq))
            self._told = self._seq
        numbered, self._seq = await self._feed.after(self._seq)
        scope = actor_of(self._request).scope(Permission.VIEW)
        await self._write_all([e for e in numbered if self._wanted.takes(e.event, scope)])
        return bool(numbered)

    async def _write_all(self, numbered: Sequence[NumberedEvent]) -> None:
        piece = bytearray()
        for each in numbered:
            piece += _event("run", json.dumps(event_view(each)), each.seq)
            self._told = each.seq
            if len(piece) >= _PIECE_BYTES:
                await self._write(bytes(piece))
                piece.clear()
        if piece:
            await self._write(bytes(piece))

    async def _beat(self) -> None:
        """A comment now and then; with the number of what was passed over, if anything was."""
        if self._loop.time() < self._beat_at:
            return
        if self._seq is None:
            await self._write(b": waiting until every admin writes events\n\n")
        elif self._seq != self._told:
            await self._write(f": beat\nid: {self._seq}\n\n".encode())
            self._told = self._seq
        else:
            await self._write(b": beat\n\n")

    async def _write(self, piece: bytes) -> None:
        async with asyncio.timeout(_WRITE_SECONDS):
            await self._response.write(piece)
        self._beat_at = self._loop.time() + BEAT_SECONDS

    async def _is_wanted(self) -> bool:
        if self._request.app[OPEN_EVENT_STREAMS].stopping.is_set() or is_gone(self._request):
            return False
        if self._loop.time() >= self._check_at or self._users_changed.is_set():
            self._users_changed.clear()
            try:
                if not await is_still_allowed(self._request):
                    return False
            except self._request.app[UNAVAILABLE_WHEN]:
                pass  # nothing is read for anybody meanwhile; the next look is soon
            self._check_at = self._loop.time() + CHECK_SECONDS
        return True

    async def _wait(self, changed: asyncio.Event) -> None:
        """Until there may be something to do."""
        stopping = self._request.app[OPEN_EVENT_STREAMS].stopping
        until = min(self._beat_at, self._check_at)
        waits = [
            asyncio.ensure_future(event.wait())
            for event in (changed, stopping, self._users_changed)
        ]
        try:
            await asyncio.wait(
                waits,
                timeout=max(until - self._loop.time(), 0.01),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for each in waits:
                each.cancel()


def event_view(numbered: NumberedEvent) -> RunEventJson:
    """An event as programs read it."""
    event = numbered.event
    return {
        "seq": numbered.seq,
        "at": instant_to_iso(numbered.at),
        "run_id": event.run_id,
        "job_id": event.job_id,
        "executor_id": event.executor_id,
        "attempt": event.attempt,
        "before": None if event.before is None else EventState(event.before),
        "state": EventState(event.state),
        "reason": event.reason,
        "node_id": event.node_id,
        "origin": Origin(event.origin),
        "is_part": event.part,
    }


def _event(name: str, data: str, seq: int | None = None) -> bytes:
    head = "" if seq is None else f"id: {seq}\n"
    return f"{head}event: {name}\ndata: {data}\n\n".encode()
