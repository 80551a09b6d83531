"""Needs attention: what somebody should look at; a list that costs little and is kept briefly."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.lists.scope import visible_executors
from tickwheel_admin.services.overview.attention.admins import admins_behind, database_slow
from tickwheel_admin.services.overview.attention.alarms import with_alarms
from tickwheel_admin.services.overview.attention.concern import AlarmKind as AlarmKind
from tickwheel_admin.services.overview.attention.concern import Concern as Concern
from tickwheel_admin.services.overview.attention.concern import Severity as Severity
from tickwheel_admin.services.overview.attention.coverage import coverage_gaps
from tickwheel_admin.services.overview.attention.deadlines import deadline_warnings
from tickwheel_admin.services.overview.attention.declared_jobs import (
    declared_broken,
    declared_waiting,
)
from tickwheel_admin.services.overview.attention.executors import executor_concerns, late_planning
from tickwheel_admin.services.overview.attention.failure_groups import failing_alike
from tickwheel_admin.services.overview.attention.failures import failing_jobs
from tickwheel_admin.services.overview.attention.jobs import slow_runs, trigger_errors
from tickwheel_admin.services.overview.attention.nodes import nodes_lost
from tickwheel_admin.services.overview.attention.outcomes import (
    DAY_MS,
    HOUR_MS,
    low_success,
    read_outcomes,
)
from tickwheel_admin.store.alarms.alarms import count_open_alarms
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.overview.attention import MAX_SUCCESSES
from tickwheel_admin.store.triggers.pauses import read_pauses

KEPT_MS = 10_000  # answers are kept so long, for everybody who sees the same executors
MAX_SCOPES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What needs attention, and what was looked at to find it."""

    at: int
    concerns: list[Concern]  # errors first, the newest first; then what somebody looks after
    since: int  # runs that were scheduled since then were looked at
    succeeded: int = 0  # of them
    failed: int = 0  # of them
    counts_all: bool = True  # False: there were more successes than are counted
    paused: bool = False  # everything is
    open_alarms: int = 0  # that the caller may see, counted up to 1,000

    @property
    def is_well(self) -> bool:
        """Nothing is the matter, and nothing is held back that would show it."""
        return not self.concerns and not self.paused and not self.open_alarms


class Attention:
    """The use case of the overview's “Needs attention”. It reads without locks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[frozenset[int] | None, Looked] = {}

    async def get(self, actor: Actor) -> list[Concern]:
        """What needs attention as far as the caller may see: errors first, the newest first."""
        return list((await self.look(actor)).concerns)

    async def look(self, actor: Actor) -> Looked:
        """The same, with what was looked at."""
        return await self._store.read(self._read, visible_executors(actor))

    def _read(self, conn: sa.Connection, scope: frozenset[int] | None) -> Looked:
        now = now_ms(conn)
        kept = self._kept.get(scope)
        # Threads may both look; either answer is right.
        if kept is None or not 0 <= now - kept.at < KEPT_MS:
            kept = _look(conn, scope, now=now)
            if len(self._kept) >= MAX_SCOPES:
                self._kept = {}
            self._kept[scope] = kept
        return kept


def _look(conn: sa.Connection, scope: frozenset[int] | None, *, now: int) -> Looked:
    if scope is not None and not scope:
        return Looked(at=now, concerns=[], since=now)
    pauses = read_pauses(conn, None)
    day = read_outcomes(conn, scope, since=now - DAY_MS)
    hour = read_outcomes(conn, scope, since=now - HOUR_MS)
    failing = failing_jobs(conn, scope, day.all_failures, now=now)
    told = {each.job_id for each in failing}
    failing = failing_alike(conn, scope, failing, now=now)
    found = [
        *late_planning(conn, scope, pauses, now=now),
        *executor_concerns(conn, scope, now=now),
        *deadline_warnings(conn, scope, now=now),
        *coverage_gaps(conn, scope, now=now),
        *trigger_errors(conn, scope),
        *failing,
        *low_success(conn, [hour, day], told=told, now=now),
        *nodes_lost(conn, scope, day.all_failures, now=now),
        *slow_runs(conn, scope, now=now),
        *declared_broken(conn, scope),
        *declared_waiting(conn, scope),
        *admins_behind(conn, now=now),
        *database_slow(conn, now=now),
    ]
    return Looked(
        at=now,
        concerns=sorted(with_alarms(conn, scope, found), key=_urgency),
        since=day.since,
        succeeded=day.succeeded,
        failed=day.failed,
        counts_all=day.succeeded < MAX_SUCCESSES,
        paused=pauses.everything is not None,
        open_alarms=count_open_alarms(conn, executor_ids=scope),
    )


def _urgency(concern: Concern) -> tuple[bool, bool, int]:
    newest_first = -(concern.last_at or concern.since or 0)
    return concern.is_treated, concern.severity != Severity.ERROR, newest_first
