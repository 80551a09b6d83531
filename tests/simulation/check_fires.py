"""Fires: every instant of every trigger is in the ledger exactly once, as its policy says."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.database import SimDatabase
from tests.simulation.history import History

THRESHOLD_MS = 5_000  # what could not be planned by then is a misfire
AHEAD_MS = 2_000  # fires are planned this long before their instant
MINUTE_MS = 60_000


@dataclass(slots=True, kw_only=True)
class _Period:
    """A time during which a trigger was active and did not change."""

    after: int  # exclusive
    until: int | None = None  # inclusive; None: to the end
    spec: dict[str, Any]
    ended_by_deletion: bool = False  # what was overdue then need not be there


@dataclass(slots=True, kw_only=True)
class _Trigger:
    id: int
    job_id: int
    created_at: int
    periods: list[_Period] = field(default_factory=list)


def check_fires(database: SimDatabase, history: History) -> None:
    """Compare the ledger with every trigger's schedule and edits."""
    fires: defaultdict[int, list[Any]] = defaultdict(list)
    for row in database.rows("SELECT * FROM run WHERE trigger_id IS NOT NULL ORDER BY id"):
        fires[row.trigger_id].append(row)
    triggers = _triggers(database, fires)
    edits = _edits(database)
    for trigger_id in fires.keys() - triggers.keys():
        history.violation(f"G2: fires of trigger {trigger_id}, which there never was")
    for trigger in triggers.values():
        rows = fires[trigger.id]
        _check_instants(trigger, rows, history, now=database.now())
        for row in rows:
            _check_policy(trigger, row, rows, history)
            revision = 1 + sum(1 for at in edits[trigger.job_id] if at < row.scheduled_at)
            undone = any(_was_undone(row, at) for at in edits[trigger.job_id])
            if row.job_revision != revision and not undone:
                history.violation(
                    f"G11: run {row.id} for {row.scheduled_at} has revision {row.job_revision},"
                    f" the job was at {revision}"
                )


def _triggers(database: SimDatabase, fires: Mapping[int, Sequence[Any]]) -> dict[int, _Trigger]:
    deleted = {
        (row.job_id, row.at)
        for row in database.rows("SELECT job_id, at FROM sim_change WHERE what = 'job-'")
    }
    triggers: dict[int, _Trigger] = {}
    for row in database.rows("SELECT * FROM sim_change WHERE what LIKE 'trigger%' ORDER BY seq"):
        trigger = triggers.setdefault(
            row.id, _Trigger(id=row.id, job_id=row.job_id, created_at=row.at)
        )
        if trigger.periods and trigger.periods[-1].until is None:
            trigger.periods[-1].until = row.at
            trigger.periods[-1].ended_by_deletion = (row.job_id, row.at) in deleted
        if row.what != "trigger-" and row.next_fire_at is not None:
            # What somebody cancelled before its instant stays, and planning goes on after it.
            standing = [each.scheduled_at for each in fires[row.id] if _was_undone(each, row.at)]
            after = max([row.at, *standing])
            trigger.periods.append(_Period(after=after, spec=json.loads(row.spec)))
    return triggers


def _was_undone(row: Any, at: int) -> bool:
    """Whether the run was planned ahead and had been cancelled before its instant by then."""
    return (
        row.state == "cancelled"
        and row.attempt == 0
        and row.created_at <= row.ended_at <= at < row.scheduled_at
    )


def _edits(database: SimDatabase) -> defaultdict[int, list[int]]:
    edits: defaultdict[int, list[int]] = defaultdict(list)
    for row in database.rows("SELECT job_id, at FROM sim_change WHERE what = 'job'"):
        edits[row.job_id].append(row.at)
    return edits


def _check_instants(trigger: _Trigger, rows: list[Any], history: History, *, now: int) -> None:
    due: set[int] = set()
    possible: set[int] = set()
    for period in trigger.periods:
        until = now if period.until is None else period.until
        instants = set(_instants(trigger, period.spec, after=period.after, until=until))
        if period.ended_by_deletion:
            # What was planned ahead was cancelled, and what was not planned any more is not due.
            planned = [row.scheduled_at for row in rows if row.scheduled_at <= until]
            due |= {instant for instant in instants if instant <= max(planned, default=0)}
            ahead = until + AHEAD_MS
            possible |= set(_instants(trigger, period.spec, after=period.after, until=ahead))
        else:
            due |= instants
            possible |= {row.scheduled_at for row in rows if _was_undone(row, until)}
    told = Counter(instant for row in rows for instant in _told_by(trigger, row, history))
    for instant in sorted(due | told.keys()):
        if instant in due and told[instant] == 0:
            history.violation(f"G1: trigger {trigger.id} has no run for {instant}")
        elif told[instant] > 1:
            history.violation(f"G2: trigger {trigger.id} has {told[instant]} runs for {instant}")
        elif instant not in due and instant not in possible:
            history.violation(f"G2: trigger {trigger.id} had no reason to fire at {instant}")


def _told_by(trigger: _Trigger, row: Any, history: History) -> Iterable[int]:
    """The instants that a row of the ledger accounts for."""
    if row.state != "skipped":
        return [row.scheduled_at]
    summary = json.loads(row.message)
    spec = _spec_at(trigger, summary["from"])
    instants = list(_instants(trigger, spec, after=summary["from"] - 1, until=summary["to"]))
    if len(instants) != summary["missed"] or row.scheduled_at != summary["to"]:
        history.violation(f"G9: run {row.id} tells of {summary}; missed were {instants}")
    return instants


def _check_policy(trigger: _Trigger, row: Any, rows: list[Any], history: History) -> None:
    late_ms = row.created_at - row.scheduled_at
    if row.origin == "schedule":
        if late_ms > THRESHOLD_MS:
            history.violation(f"G9: run {row.id} was planned {late_ms} ms late and is no misfire")
        return
    if late_ms <= THRESHOLD_MS:
        history.violation(f"G9: run {row.id} is a misfire, planned only {late_ms} ms late")
    policy = _spec_at(trigger, row.scheduled_at)["misfire"]
    is_summary = row.state == "skipped"
    if policy == "skip" and not is_summary:
        history.violation(f"G9: run {row.id} makes up for a fire that was to be skipped")
    if policy == "fire_all" and is_summary:
        history.violation(f"G9: run {row.id} skips fires that were all to be made up for")
    if policy == "fire_once":
        together = [
            other
            for other in rows
            if other.origin == "misfire"
            and other.state != "skipped"
            and other.created_at == row.created_at
        ]
        if len(together) != 1 or row.scheduled_at > together[0].scheduled_at:
            history.violation(f"G9: run {row.id}: not one run for the latest missed fire")


def _spec_at(trigger: _Trigger, instant: int) -> dict[str, Any]:
    for period in trigger.periods:
        if instant > period.after and (period.until is None or instant <= period.until):
            return period.spec
    return trigger.periods[-1].spec


def _instants(trigger: _Trigger, spec: dict[str, Any], *, after: int, until: int) -> Iterable[int]:
    """The schedule's instants in (after, until]."""
    if spec["kind"] == "once":
        return [spec["at"]] if after < spec["at"] <= until else []
    if spec["kind"] == "cron":
        anchor, every = 0, MINUTE_MS
    else:
        anchor = trigger.created_at if spec["anchor_at"] is None else spec["anchor_at"]
        every = spec["every_ms"]
    first = max(anchor, anchor + ((after - anchor) // every + 1) * every)
    return range(first, until + 1, every)
