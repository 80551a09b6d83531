"""Figures of the whole installation, kept for some seconds, and never read twice at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import sqlalchemy as sa

from tickwheel_admin.store.database.database import DatabaseUnavailable, Store
from tickwheel_admin.store.overview.metric_figures import InstallationFigures, read_installation
from tickwheel_admin.store.triggers.pauses import read_pauses

KEPT_SECONDS = 5.0
READ_SECONDS = 5.0  # then the scrape goes on without them


def _read_all(conn: sa.Connection, *, jobs: Sequence[tuple[str, str]]) -> InstallationFigures:
    pauses = read_pauses(conn)
    paused = None if pauses.everything is not None else set(pauses.executors)
    return read_installation(conn, paused=paused, jobs=jobs)


class InstallationReader:
    """However many ask however often, the database is asked once in `KEPT_SECONDS`."""

    def __init__(
        self, store: Store, *, jobs: Sequence[tuple[str, str]], clock: Callable[[], float]
    ) -> None:
        """Read from this store.

        Args:
            jobs: executor and name of jobs that have series of their own.
            clock: seconds, for what is kept.
        """
        self._store = store
        self._jobs = jobs
        self._clock = clock
        self._kept: tuple[float, InstallationFigures] | None = None
        self._reading: asyncio.Task[InstallationFigures] | None = None

    async def read(self) -> InstallationFigures | None:
        """The figures, a few seconds old at most; None: the database does not answer."""
        if self._kept is not None and self._clock() - self._kept[0] < KEPT_SECONDS:
            return self._kept[1]
        if self._reading is None:
            self._reading = asyncio.create_task(self._read(), name="installation figures")
            self._reading.add_done_callback(self._over)
        try:
            async with asyncio.timeout(READ_SECONDS):
                return await asyncio.shield(self._reading)  # others wait for it as well
        except (TimeoutError, DatabaseUnavailable):
            return None

    async def _read(self) -> InstallationFigures:
        began_at = self._clock()
        found = await self._store.read(_read_all, jobs=self._jobs)
        self._kept = (began_at, found)
        return found

    def _over(self, task: asyncio.Task[InstallationFigures]) -> None:
        self._reading = None
        if not task.cancelled():
            task.exception()  # whoever still waits gets it; nobody may
