"""Tells other admins that something changed here, so that pages which are open there fetch it."""

from __future__ import annotations

from collections.abc import Callable

from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.executors.admins import statuses_of_others, tell_status


class Herald(Loop):
    """Writes this admin's counts of changes, at most once a second, and only when there are others.

    Renewing the lease writes them as well, every two seconds: that is a little late for people who
    watch. Nothing here lies in the way of a run.
    """

    interval_seconds = 1.0

    def __init__(
        self, store: Store, events: Events, *, admin_id: int, status: Callable[[], str]
    ) -> None:
        """Start with nothing to tell.

        Args:
            status: JSON of how this admin does, with the counts in it.
        """
        super().__init__()
        self._store = store
        self._events = events
        self._admin_id = admin_id
        self._status = status
        self._told = events.counts()

    async def run_once(self) -> bool:
        counts = self._events.counts()
        if counts == self._told:
            return False
        if await self._store.read(statuses_of_others, self._admin_id):
            await self._store.run(tell_status, admin_id=self._admin_id, status=self._status())
        self._told = counts
        return False
