"""What is here of an installation when its import is planned."""

from __future__ import annotations

import sqlalchemy as sa

from tickwheel_admin.domain.imports.merge import ImportKind
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.store.imports.records import Imports, read_imports
from tickwheel_admin.store.jobs import jobs as store_jobs

CONFIGS_AT_ONCE = 500


class KnownHere:
    """What earlier imports made."""

    def __init__(self, conn: sa.Connection, source: str) -> None:
        """`source` names the installation."""
        self.imports: Imports = read_imports(conn, source)
        of_jobs = {
            their_id: stored.our_id
            for (kind, their_id), stored in self.imports.items()
            if kind is ImportKind.JOB
        }
        self.their_job = {our_id: their_id for their_id, our_id in of_jobs.items()}
        stored = list(of_jobs.values())
        self.brief = store_jobs.brief_jobs(conn, stored)  # of jobs that are not deleted, by our id
        self.configs: dict[int, JobConfig] = {}  # the same
        for start in range(0, len(stored), CONFIGS_AT_ONCE):
            some = stored[start : start + CONFIGS_AT_ONCE]
            self.configs |= store_jobs.current_configs(conn, some)
