"""The stream of small events that tells open pages to fetch their live parts again.

It carries topics and no data: what a page may see is decided where it fetches. Changes made by this
admin arrive by `Events`, those of other admins are relayed there (`events.relay`). A browser
says how old its page is, so that what changed between the page and the stream is not lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from aiohttp import web

from tickwheel_admin.console.frame.streams import EVENTS_PATH, Stream
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.events import events
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

GATHER_SECONDS = 0.3  # changes within this time are told as one
MARGIN_SECONDS = 1.0  # between what a browser says of its page's age and what we know
MAX_AGE_SECONDS = 86_400

# What the browser is told, for each topic of the process.
TOPICS: dict[str, tuple[str, ...]] = {
    events.RUNS: ("runs", "stats"),
    events.QUEUED: ("runs", "stats"),
    events.JOBS: ("jobs", "stats"),
    events.ALARMS: ("alarms",),
    events.CALENDARS: ("jobs",),  # they change when jobs fire next
    events.NODES: ("nodes", "stats"),
}

routes = Routes()


class Listener:
    """What one stream has yet to tell."""

    def __init__(self) -> None:
        self.changed: set[str] = set()
        self.woken = asyncio.Event()

    def taken(self) -> list[str]:
        """What has gathered; from here on it gathers anew."""
        topics = sorted(self.changed)
        self.changed.clear()
        self.woken.clear()
        return topics


class Broadcast:
    """Gathers what changed, once for all streams. Used from the event loop's thread only."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._ears: set[Listener] = set()
        self._changed: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._stops: list[Callable[[], None]] = []

    @contextmanager
    def ear(self) -> Iterator[Listener]:
        """Hear what changes for as long as this is open."""
        ear = Listener()
        if not self._ears:
            self._stops = [
                self._events.listen(topic, partial(self._note, names))
                for topic, names in TOPICS.items()
            ]
        self._ears.add(ear)
        try:
            yield ear
        finally:
            self._ears.discard(ear)
            if not self._ears:
                self._end()

    def _note(self, names: tuple[str, ...]) -> None:
        self._changed.update(names)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(GATHER_SECONDS, self._tell)

    def _tell(self) -> None:
        self._timer = None
        for ear in self._ears:
            ear.changed |= self._changed
            ear.woken.set()
        self._changed.clear()

    def _end(self) -> None:
        for stop in self._stops:
            stop()
        self._stops = []
        self._changed.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


BROADCAST: web.AppKey[Broadcast] = web.AppKey("broadcast", Broadcast)


@routes.get(EVENTS_PATH, permission=Permission.LOGGED_IN)
async def stream_events(request: web.Request) -> web.StreamResponse:
    """Topics that changed, as they change, until the browser or the session goes."""
    stream = Stream(request)
    with request.app[BROADCAST].ear() as ear:
        async with stream:
            ear.changed.update(await _missed(request))
            await stream.send("hello", f"{stream.heartbeat_seconds * 1000:.0f}")
            while await stream.is_wanted():
                # Taken before the first is sent: what changes while a slow browser takes them in
                # is told next.
                for topic in ear.taken():
                    await stream.send(topic)
                await stream.wait(ear.woken)
    return stream.response


async def _missed(request: web.Request) -> set[str]:
    """What may have changed since the page was made that opens this stream."""
    age = _age_seconds(request) + MARGIN_SECONDS
    topics = request.app[SERVICES].events.changed_within(age)
    if not await request.app[SERVICES].relay.has_watched_for(age):
        topics = frozenset(TOPICS)
    return {name for topic in topics for name in TOPICS.get(topic, ())}


def _age_seconds(request: web.Request) -> float:
    """How old the page is, as its browser says; what is no number counts as very old."""
    told = request.query.get("age", "0")
    known = told.isascii() and told.isdigit() and len(told) <= 12
    return min(int(told) / 1000, MAX_AGE_SECONDS) if known else MAX_AGE_SECONDS
