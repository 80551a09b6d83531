"""The stream of small events that tells open pages to fetch their live parts again.

It carries topics and no data: what a page may see is decided where it fetches. Changes made by this
admin arrive by `Events`, those of other admins are relayed there (`services.elsewhere`). A browser
says how old its page is, so that what changed between the page and the stream is not lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from tickwheel_admin.console.streams import Stream
from tickwheel_admin.domain.user import Permission
from tickwheel_admin.services import events
from tickwheel_admin.web.keys import ELSEWHERE, EVENTS
from tickwheel_admin.web.routes import Routes

GATHER_SECONDS = 0.3  # changes within this time are told as one
MARGIN_SECONDS = 1.0  # between what a browser says of its page's age and what we know
MAX_AGE_SECONDS = 86_400

# What the browser is told, for each topic of the process.
_TOPICS: dict[str, tuple[str, ...]] = {
    events.RUNS: ("runs", "stats"),
    events.QUEUED: ("runs", "stats"),
    events.JOBS: ("jobs", "stats"),
    events.CALENDARS: ("jobs",),  # they change when jobs fire next
    events.NODES: ("nodes", "stats"),
}

routes = Routes()


@routes.get("/events", permission=Permission.LOGGED_IN)
async def stream_events(request: web.Request) -> web.StreamResponse:
    """Topics that changed, as they change, until the browser or the session goes."""
    changed: set[str] = set()
    woken = asyncio.Event()

    def listener(names: tuple[str, ...]) -> Callable[[], None]:
        def note() -> None:
            changed.update(names)
            woken.set()

        return note

    bus = request.app[EVENTS]
    stops = [bus.listen(topic, listener(names)) for topic, names in _TOPICS.items()]
    try:
        async with Stream(request) as stream:
            changed.update(await _missed(request))
            await stream.send("hello")
            while await stream.is_wanted():
                woken.clear()
                # Taken before the first is sent: what changes while a slow browser takes them in
                # is told next.
                for topic in _taken(changed):
                    await stream.send(topic)
                if await stream.wait(woken):
                    await asyncio.sleep(GATHER_SECONDS)
    finally:
        for stop in stops:
            stop()
    return stream.response


def _taken(changed: set[str]) -> list[str]:
    """What has gathered; from here on it gathers anew."""
    topics = sorted(changed)
    changed.clear()
    return topics


async def _missed(request: web.Request) -> set[str]:
    """What may have changed since the page was made that opens this stream."""
    age = _age_seconds(request) + MARGIN_SECONDS
    topics = request.app[EVENTS].changed_within(age)
    if not await request.app[ELSEWHERE].has_watched_for(age):
        topics = frozenset(_TOPICS)
    return {name for topic in topics for name in _TOPICS.get(topic, ())}


def _age_seconds(request: web.Request) -> float:
    """How old the page is, as its browser says; what is no number counts as very old."""
    told = request.query.get("age", "0")
    known = told.isascii() and told.isdigit() and len(told) <= 12
    return min(int(told) / 1000, MAX_AGE_SECONDS) if known else MAX_AGE_SECONDS
