"""What hides the secrets of runs in what executors of XXL-JOB say of them.

Their nodes cannot hide anything. Whichever admin hears from them looks up which secrets a run was
given; a value that was replaced since then is not found any more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import sqlalchemy as sa

from tickwheel_admin.domain.jobs.secret_references import secrets_of_run
from tickwheel_admin.domain.xxl_job.bridge import ExpectedLog, RunFacts
from tickwheel_admin.services.secrets.values import SecretReader
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_shared.secret_mask import SecretMask

T = TypeVar("T", RunFacts, ExpectedLog)


class RunMasks:
    """Looks masks up; configurations are kept, values are not."""

    def __init__(self, secrets: SecretReader) -> None:
        self._secrets = secrets
        self._configs = JobConfigs(keep=2_000)

    def add(self, conn: sa.Connection, runs: Sequence[T]) -> list[T]:
        """The same runs, each with its mask, if it has secrets."""
        given = [each.given for each in runs if each.given is not None]
        configs = self._configs.get_many(conn, {(e.job_id, e.job_revision) for e in given})
        names: dict[int, frozenset[str]] = {}  # by place
        wanted: defaultdict[int, set[str]] = defaultdict(set)  # by executor
        for place, each in enumerate(runs):
            if each.given is None:
                continue
            executor_id, job_id, revision, parameters = each.given
            config = configs.get((job_id, revision))
            if config is not None and (found := secrets_of_run(config, parameters)):
                names[place] = found
                wanted[executor_id] |= found
        if not names:  # nearly always
            return list(runs)
        now = now_ms(conn)
        values = {
            executor_id: self._secrets.read(conn, executor_id, needed, now=now).values
            for executor_id, needed in wanted.items()
        }
        return [
            each
            if place not in names or each.given is None
            else replace(each, mask=_mask(values[each.given.executor_id], names[place]))
            for place, each in enumerate(runs)
        ]


def _mask(values: Mapping[str, str], names: frozenset[str]) -> SecretMask | None:
    known = [values[name] for name in names if name in values]
    return SecretMask(known) if known else None
