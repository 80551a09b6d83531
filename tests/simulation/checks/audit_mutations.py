"""What the self-audit must notice, and the self-audit itself, switched off one by one.

Planner, edits and deletions lose or invent fires here, or leave no trace of what they did; the
second computation must find a difference. It is not told what was switched off.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.planning import fires
from tickwheel_admin.domain.runs.run import FINAL
from tickwheel_admin.domain.schedule.clock_changes import Gap
from tickwheel_admin.domain.schedule.cron import schedule
from tickwheel_admin.domain.self_audit import comparison
from tickwheel_admin.engine.maintenance import self_audit
from tickwheel_admin.engine.planner import drafts
from tickwheel_admin.services.triggers import cutover
from tickwheel_admin.store.database.tables import run
from tickwheel_admin.store.runs import purge, retention
from tickwheel_admin.store.self_audit import results
from tickwheel_admin.store.triggers import triggers


def planner_skips_instants() -> None:
    """G1: every other instant of a schedule is left out."""
    original = drafts.plan

    def plan(times: Any, **rest: Any) -> Any:
        found = original(times, **rest)
        if found.next_fire_at is None:
            return found
        return dataclasses.replace(found, next_fire_at=times.next_after(found.next_fire_at))

    drafts.plan = plan


def planner_plans_instants_twice() -> None:
    """G2: a second run of each fire, a second later."""
    original = drafts.plan

    def plan(times: Any, **rest: Any) -> Any:
        found = original(times, **rest)
        twice = sorted({*found.fires, *(at + 1_000 for at in found.fires)})
        return dataclasses.replace(found, fires=tuple(twice))

    drafts.plan = plan


def edits_lose_an_instant() -> None:
    """G11: planning goes on with the second instant after an edit."""
    original = cutover._cutover

    def cut(conn: Any, stored: Any, followed: Any, *rest: Any, **more: Any) -> Any:
        found = original(conn, stored, followed, *rest, **more)
        if found.next_fire_at is None or stored.trigger.spec.follows_runs:
            return found
        later = followed.schedule.next_after(found.next_fire_at)
        return dataclasses.replace(found, next_fire_at=later)

    cutover._cutover = cut


def clock_changes_lose_fires() -> None:
    """G1: what falls into the hour that clocks skip does not fire at its end."""
    original = schedule.Cron.__init__

    def init(self: Any, *args: Any, **rest: Any) -> None:
        original(self, *args, **rest | {"gap": Gap.SKIP})

    schedule.Cron.__init__ = init  # type: ignore[method-assign]


def retention_deletes_too_early() -> None:
    """G1: every ended run is deleted, however young."""
    original = retention.remove_old_runs

    def remove_old_runs(conn: sa.Connection, *, older_than_ms: int, limit: int) -> int:
        removed = original(conn, older_than_ms=older_than_ms, limit=limit)
        ended = sa.select(run.c.id).where(run.c.state.in_([each.value for each in FINAL]))
        ids = conn.execute(ended).scalars().all()
        retention.delete_runs(conn, ids)
        return removed + len(ids)

    retention.remove_old_runs = remove_old_runs


def purges_leave_no_trace() -> None:
    """G1: nobody can tell a purged run from one that was never planned."""
    purge.keep_purged = lambda conn, runs, *, now: None


def edits_leave_no_trace() -> None:
    """G11: nobody can tell how a trigger stood before it was edited, paused or deleted."""
    triggers.end_periods = lambda *args, **rest: None


def fixed_delays_follow_nothing() -> None:
    """G1: runs of fixed delays do not keep which run they follow."""
    original = fires.new_run

    def new_run(config: Any, **rest: Any) -> Any:
        return original(config, **rest | {"follows_at": None})

    fires.new_run = new_run


def audit_explains_everything() -> None:
    """G1: whatever is missing counts as paused."""
    comparison._Comparison._why_gone = lambda self, at: "paused"  # type: ignore[method-assign]


def audit_believes_every_run() -> None:
    """G2: a run for an instant that no schedule has counts as one that happened."""
    comparison._Comparison._is_possible = lambda self, fire: True  # type: ignore[method-assign]


def audit_looks_once() -> None:
    """G1: an hour is audited when it is over, and never again."""
    self_audit.AUDITED_AFTER_MS = self_audit.AUDITED_AFTER_MS[:1]


def audit_tells_nobody() -> None:
    """G1: a difference is written, and opens no alarm."""
    results.add_signals = lambda conn, signals: None


AUDIT_MUTATIONS: dict[str, Callable[[], None]] = {
    mutation.__name__: mutation
    for mutation in (
        planner_skips_instants,
        planner_plans_instants_twice,
        edits_lose_an_instant,
        clock_changes_lose_fires,
        retention_deletes_too_early,
        purges_leave_no_trace,
        edits_leave_no_trace,
        fixed_delays_follow_nothing,
        audit_explains_everything,
        audit_believes_every_run,
        audit_looks_once,
        audit_tells_nobody,
    )
}
