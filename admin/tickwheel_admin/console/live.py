"""The stream of small events that tells open pages to fetch their live parts again.

It carries topics and no data: what a page may see is decided where it fetches. Changes made by this
admin arrive by `Events`; while other admins share the database, a steady tick covers theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from tickwheel_admin.console.admins import ADMINS
from tickwheel_admin.console.streams import Stream
from tickwheel_admin.domain.user import Permission
from tickwheel_admin.services import events
from tickwheel_admin.web.keys import EVENTS
from tickwheel_admin.web.routes import Routes

GATHER_SECONDS = 0.3  # changes within this time are told as one
TICK_SECONDS = 2

# What the browser is told, for each topic of the process.
_TOPICS: dict[str, tuple[str, ...]] = {
    events.RUNS: ("runs", "stats"),
    events.QUEUED: ("runs", "stats"),
    events.JOBS: ("jobs", "stats"),
    events.CALENDARS: ("jobs",),  # they change when jobs fire next
    events.NODES: ("nodes", "stats"),
}
_ALL = frozenset(("runs", "jobs", "nodes", "stats"))

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
    admins = request.app[ADMINS]
    try:
        async with Stream(request) as stream:
            await stream.send("hello")
            while await stream.is_wanted():
                await admins.refresh(request)
                tick = TICK_SECONDS if admins.are_several else None
                if not await stream.wait(woken, at_most=tick) and tick is not None:
                    changed.update(_ALL)
                if changed:
                    await asyncio.sleep(GATHER_SECONDS)
                    woken.clear()
                    for topic in sorted(changed):
                        await stream.send(topic)
                    changed.clear()
    finally:
        for stop in stops:
            stop()
    return stream.response
