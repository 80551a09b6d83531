"""What hides the secrets of runs in what executors of XXL-JOB say of them.

Their nodes cannot hide anything. Whichever admin hears from them looks up which secrets a run was
given; a value that was replaced since then is not found any more. Where a value cannot be read, all
that is said of the run is hidden.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.jobs.secret_references import secrets_of_run
from tickwheel_admin.domain.xxl_job.bridge import ExpectedLog, RunFacts
from tickwheel_admin.domain.xxl_job.hidden_text import UnknownSecrets
from tickwheel_admin.services.secrets.values import SecretReader, SecretValues
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_shared.secret_mask import SecretMask

log = structlog.get_logger(__name__)

T = TypeVar("T", RunFacts, ExpectedLog)


class RunMasks:
    """Looks masks up; configurations are kept, values are not."""

    def __init__(self, secrets: SecretReader, configs: JobConfigs) -> None:
        self._secrets = secrets
        self._configs = configs
        self._unknown: dict[int, set[str]] = {}  # by executor: secrets that the log was told of

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
        values: dict[int, Mapping[str, str]] = {}
        for executor_id, needed in wanted.items():
            read = self._secrets.read(conn, executor_id, needed, now=now)
            values[executor_id] = read.values
            self._tell_unknown(executor_id, needed, read)
        return [
            each
            if place not in names or each.given is None
            else replace(each, mask=_mask(values[each.given.executor_id], names[place]))
            for place, each in enumerate(runs)
        ]

    def _tell_unknown(self, executor_id: int, needed: set[str], read: SecretValues) -> None:
        """Once for each secret, until it can be read again."""
        unknown = needed.difference(read.values)
        told = self._unknown.pop(executor_id, set()).difference(read.values)
        if unknown - told:
            log.warning(
                "xxl.secret_unknown",
                executor_id=executor_id,
                unreadable=sorted(unknown.intersection(read.unreadable)),
                missing=sorted(unknown.difference(read.unreadable)),
            )
        if unknown | told:
            self._unknown[executor_id] = unknown | told


def _mask(values: Mapping[str, str], names: frozenset[str]) -> SecretMask:
    unknown = names.difference(values)
    return UnknownSecrets(unknown) if unknown else SecretMask(values[name] for name in names)
