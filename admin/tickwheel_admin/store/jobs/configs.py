"""Configurations of jobs by revision: immutable, so a cache of them is never wrong."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from tickwheel_admin.domain.input.job import config_from_json
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.store.alarms.run_watch import RunWatch
from tickwheel_admin.store.database.tables import job_revision

Key = tuple[int, int]  # job id, revision


class JobConfigs:
    """Reads what is missing, keeps what was read; shared by the threads of one admin."""

    def __init__(self, *, keep: int = 20_000) -> None:
        self._known: dict[Key, JobConfig] = {}
        self._keep = keep
        self.watch = RunWatch()  # what is noticed of runs of these jobs; only engines set rules

    def get_many(self, conn: sa.Connection, keys: Iterable[Key]) -> dict[Key, JobConfig]:
        """The configurations that exist, by (job id, revision)."""
        wanted = set(keys)
        found = {key: config for key in wanted if (config := self._known.get(key)) is not None}
        missing = wanted - found.keys()
        if missing:
            found.update(read_configs(conn, missing))
            if len(self._known) + len(missing) > self._keep:
                self._known = {}  # rare; what is in use comes back with the next batches
            self._known.update(found)
        return found


def read_configs(conn: sa.Connection, keys: Iterable[Key]) -> dict[Key, JobConfig]:
    """Read configurations by primary key."""
    wanted = set(keys)
    rows = conn.execute(
        sa.select(job_revision.c.job_id, job_revision.c.revision, job_revision.c.config).where(
            job_revision.c.job_id.in_(sorted({job_id for job_id, _ in wanted})),
            job_revision.c.revision.in_(sorted({revision for _, revision in wanted})),
        )
    )
    return {
        (row.job_id, row.revision): config_from_json(row.config)
        for row in rows
        if (row.job_id, row.revision) in wanted
    }
