"""Tells other admins that something changed here, so that pages that are open there reload it."""

from __future__ import annotations

from collections.abc import Callable

from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.executors.admins import statuses_of_others, tell_status


class Notifier(Loop):
    """Writes this admin's counts of changes, at most once a second, if there are other admins.

    Each renewal of the lease writes them as well, every two seconds: a little late for people who
    watch a page. No run waits for this.
    """

    interval_seconds = 1.0

    def __init__(
        self, store: Store, events: Events, *, admin_id: int, status: Callable[[], str]
    ) -> None:
        """Start with the current counts as written.

        Args:
            status: the admin's status as JSON, with the counts in it.
        """
        super().__init__()
        self._store = store
        self._events = events
        self._admin_id = admin_id
        self._status = status
        self._written = events.counts()

    @property
    def name(self) -> str:
        return "herald"  # its name in the status that admins of all versions read

    async def run_once(self) -> bool:
        counts = self._events.counts()
        if counts == self._written:
            return False
        if await self._store.read(statuses_of_others, self._admin_id):
            await self._store.run(tell_status, admin_id=self._admin_id, status=self._status())
        self._written = counts
        return False
