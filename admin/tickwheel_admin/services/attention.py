"""Needs attention: what somebody should look at; a list that costs little and is kept briefly."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.user import Actor
from tickwheel_admin.services.admin_concerns import admins_behind
from tickwheel_admin.services.concerns import Concern as Concern
from tickwheel_admin.services.concerns import ConcernKind as ConcernKind
from tickwheel_admin.services.concerns import Severity as Severity
from tickwheel_admin.services.declared_concerns import declared_broken, declared_waiting
from tickwheel_admin.services.executor_concerns import executor_concerns, late_planning
from tickwheel_admin.services.job_concerns import failing_streaks, slow_runs, trigger_errors
from tickwheel_admin.services.scope import visible_executors
from tickwheel_admin.store.clock import now_ms
from tickwheel_admin.store.database import Store
from tickwheel_admin.store.pauses import read_pauses

KEPT_MS = 10_000  # answers are kept so long, for everybody who sees the same executors
MAX_SCOPES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    at: int
    concerns: list[Concern]


class Attention:
    """The use case of the overview's “Needs attention”. It reads without locks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[frozenset[int] | None, _Kept] = {}

    async def get(self, actor: Actor) -> list[Concern]:
        """What needs attention as far as the caller may see: errors first, the newest first."""
        return await self._store.read(self._read, visible_executors(actor))

    def _read(self, conn: sa.Connection, scope: frozenset[int] | None) -> list[Concern]:
        now = now_ms(conn)
        kept = self._kept.get(scope)
        # Threads may both look; either answer is right.
        if kept is None or not 0 <= now - kept.at < KEPT_MS:
            kept = _Kept(at=now, concerns=_look(conn, scope, now=now))
            if len(self._kept) >= MAX_SCOPES:
                self._kept = {}
            self._kept[scope] = kept
        return list(kept.concerns)


def _look(conn: sa.Connection, scope: frozenset[int] | None, *, now: int) -> list[Concern]:
    if scope is not None and not scope:
        return []
    found = [
        *late_planning(conn, scope, read_pauses(conn, None), now=now),
        *executor_concerns(conn, scope, now=now),
        *trigger_errors(conn, scope),
        *failing_streaks(conn, scope, now=now),
        *slow_runs(conn, scope, now=now),
        *declared_broken(conn, scope),
        *declared_waiting(conn, scope),
        *admins_behind(conn, now=now),
    ]
    return sorted(found, key=lambda each: (each.severity != Severity.ERROR, -(each.since or 0)))
