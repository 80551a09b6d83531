"""What other admins changed, seen in the database while somebody here has a page open.

Each admin counts its changes by topic in its own row (`engine.membership`). This module reads them
once a second, in one small read for all open pages together, and relays them to the pages when a
count has changed. Pages to which nothing happens cost only that read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.admin_status import status_from_json
from tickwheel_admin.services.events.events import SHARED, Events
from tickwheel_admin.store.database.database import DatabaseUnavailable, Store
from tickwheel_admin.store.executors.admins import statuses_of_others

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
# After the last page was closed: whoever goes from page to page closes one before the next opens.
LINGER_SECONDS = 60.0

_Counts = Mapping[str, int]


class EventRelay:
    """Watches for others while it is wanted. Used from the event loop's thread only."""

    def __init__(self, store: Store, events: Events) -> None:
        self._store = store
        self._events = events
        self.admin_id: int | None = None  # this process's own row, when it has one
        self._watchers = 0
        self._wanted_until = 0.0  # event loop time
        self._task: asyncio.Task[None] | None = None
        self._seen: dict[int, _Counts] | None = None  # by admin; None: not watching
        self._watched_since = 0.0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Relay what others change, for as long as this is open."""
        self._watchers += 1
        if self._task is None or self._task.done():
            self._seen = None
            self._task = asyncio.create_task(self._watch(), name="event relay")
        try:
            yield
        finally:
            self._watchers -= 1
            self._wanted_until = asyncio.get_running_loop().time() + LINGER_SECONDS

    async def has_watched_for(self, seconds: float) -> bool:
        """Whether nothing of the last so many seconds can have been overlooked."""
        if self._seen is None:
            with suppress(DatabaseUnavailable):
                await self.look()
        if self._seen is None:
            return False
        if not self._seen:
            return True  # nobody else is up
        return asyncio.get_running_loop().time() - self._watched_since >= seconds

    async def look(self) -> None:
        """Read the counts once, and relay what moved."""
        found = await self._store.read(_counts, self.admin_id)
        before, self._seen = self._seen, found
        if before is None:
            self._watched_since = asyncio.get_running_loop().time()
            return
        # An admin that came or went may have changed anything without our having seen its count.
        all_of_it = before.keys() != found.keys()
        for topic in SHARED:
            if all_of_it or any(
                counts.get(topic, 0) != before[admin_id].get(topic, 0)
                for admin_id, counts in found.items()
            ):
                self._events.relay(topic)

    async def close(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _watch(self) -> None:
        while self._watchers or asyncio.get_running_loop().time() < self._wanted_until:
            try:
                await self.look()
            except DatabaseUnavailable:
                pass  # in the log already; the next look sees what changed meanwhile
            except Exception:
                # Whatever one look met, such as what an admin of another version wrote: pages
                # stay open for hours, and must not go blind by it.
                log.exception("elsewhere.look_failed")
            await asyncio.sleep(LOOK_SECONDS)
        self._seen = None


def _counts(conn: sa.Connection, admin_id: int | None) -> dict[int, _Counts]:
    statuses = statuses_of_others(conn, admin_id)
    return {each: status_from_json(status).changes for each, status in statuses.items()}
