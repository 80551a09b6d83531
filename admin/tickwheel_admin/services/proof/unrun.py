"""The instants of a proof that should have been and brought no work, one by one, with the cause.

Two kinds of them: those without a run, which the self-audit has told apart, and runs that were
skipped. In this order, hour by hour, so that a page reads ranges of two indexes and no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.proof.fires import ProvenFire
from tickwheel_admin.domain.proof.sums import HOUR_MS
from tickwheel_admin.domain.runs.run import FINAL, RunState
from tickwheel_admin.domain.self_audit.absences import Absence, unpacked
from tickwheel_admin.services.lists.paging import Number
from tickwheel_admin.store.executors.executors import executor_names
from tickwheel_admin.store.proof.filled import filled_instants
from tickwheel_admin.store.proof.ledger import FirePosition, Scope, page_skipped
from tickwheel_admin.store.proof.names import jobs_with_owners
from tickwheel_admin.store.runs.retries import RetryLink, retries_of
from tickwheel_admin.store.self_audit.absences import (
    AbsencePosition,
    SeenDifference,
    page_absences,
    seen_missing,
)

ROWS_AT_ONCE = 50  # each of a trigger and a reason, with at least one instant


class UnrunKey(NamedTuple):
    """A place in the list: behind this instant."""

    hour_at: Number
    is_run: bool
    first: Number  # the trigger, or the instant of a run
    reason: str
    second: Number  # the instant, or the id of a run


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrunInstant:
    """An instant that should have been, and brought no work."""

    at: int
    cause: str  # a reason of skipped runs or of the self-audit; "missing": nobody knows
    run_id: int | None  # that was skipped; None: there is no run
    executor_id: int
    executor_name: str | None
    job_id: int
    job_name: str | None
    is_of_job: bool  # the job is there
    trigger_id: int
    owner: str | None  # of its job
    done_by: Sequence[int]  # retries by hand and runs of backfills that did its work, or tried
    done_state: RunState | None  # of the one that succeeded, else that goes on, else the newest
    seen: SeenDifference | None  # of a missing one, who has looked at it


class _Found(NamedTuple):
    key: UnrunKey
    at: int
    cause: str
    run_id: int | None
    executor_id: int
    job_id: int
    trigger_id: int


def read_unrun(
    conn: sa.Connection,
    hour_at: int,
    *,
    executors: Scope,
    after: UnrunKey | None,
    limit: int,
    with_absences: bool = True,
    with_runs: bool = True,
) -> list[tuple[UnrunKey, UnrunInstant]]:
    """Instants of an hour behind a place, with the place of each; so many statements at most as
    `limit` needs.

    Args:
        after: in this hour; None: from its beginning.
        with_absences: instants without a run.
        with_runs: runs that were skipped.
    """
    found: list[_Found] = []
    if with_absences and (after is None or not after.is_run):
        found = _absent(conn, hour_at, executors, after, limit)
    if with_runs and len(found) < limit:
        place = None
        if after is not None and after.is_run:
            place = FirePosition(scheduled_at=after.first, run_id=after.second)
        fires = page_skipped(
            conn,
            from_at=hour_at,
            to_at=hour_at + HOUR_MS,
            executors=executors,
            after=place,
            limit=limit - len(found),
        )
        found += [_skipped(hour_at, each) for each in fires]
    return _told(conn, hour_at, found)


def _absent(
    conn: sa.Connection, hour_at: int, executors: Scope, after: UnrunKey | None, limit: int
) -> list[_Found]:
    found: list[_Found] = []
    since = None
    passed = -1
    if after is not None:
        since = AbsencePosition(trigger_id=after.first, reason=after.reason)
        passed = after.second
    while True:
        rows = page_absences(
            conn, hour_at=hour_at, executors=executors, since=since, limit=ROWS_AT_ONCE
        )
        for row in rows:
            is_begun = since == AbsencePosition(trigger_id=row.trigger_id, reason=row.reason)
            for each in _instants(hour_at, row):
                if is_begun and each.at <= passed:
                    continue
                found.append(each)
                if len(found) == limit:
                    return found
        if len(rows) < ROWS_AT_ONCE:
            return found
        since = AbsencePosition(trigger_id=rows[-1].trigger_id, reason=rows[-1].reason)
        passed = hour_at + HOUR_MS


def _instants(hour_at: int, row: Absence) -> Iterator[_Found]:
    for at in unpacked(row.spans):
        yield _Found(
            key=UnrunKey(hour_at, False, row.trigger_id, row.reason, at),
            at=at,
            cause=row.reason,
            run_id=None,
            executor_id=row.executor_id,
            job_id=row.job_id,
            trigger_id=row.trigger_id,
        )


def _skipped(hour_at: int, fire: ProvenFire) -> _Found:
    return _Found(
        key=UnrunKey(hour_at, True, fire.scheduled_at, "", fire.id),
        at=fire.scheduled_at,
        cause=fire.reason or fire.state.value,
        run_id=fire.id,
        executor_id=fire.executor_id,
        job_id=fire.job_id,
        trigger_id=fire.trigger_id,
    )


def _told(
    conn: sa.Connection, hour_at: int, found: Sequence[_Found]
) -> list[tuple[UnrunKey, UnrunInstant]]:
    """With names, and what was done about them."""
    if not found:
        return []
    jobs = jobs_with_owners(conn, {each.job_id for each in found})
    executors = executor_names(conn, {each.executor_id for each in found})
    retries = retries_of(conn, [each.run_id for each in found if each.run_id is not None])
    filled = filled_instants(conn, {(each.job_id, each.at) for each in found})
    missing = {each.trigger_id for each in found if each.cause == "missing"}
    seen = seen_missing(conn, hour_at, missing)
    told = []
    for each in found:
        retry = retries.get(each.run_id or 0)
        links = [*filled.get((each.job_id, each.at), ()), *([retry.last] if retry else ())]
        ids = {link.id for link in links} | set(retry.ids if retry else ())
        job = jobs.get(each.job_id)
        told.append(
            (
                each.key,
                UnrunInstant(
                    at=each.at,
                    cause=each.cause,
                    run_id=each.run_id,
                    executor_id=each.executor_id,
                    executor_name=executors.get(each.executor_id),
                    job_id=each.job_id,
                    job_name=None if job is None else job.name,
                    is_of_job=job is not None and not job.is_deleted,
                    trigger_id=each.trigger_id,
                    owner=(None if job is None else job.owner) or None,
                    done_by=sorted(ids),
                    done_state=_state_of(links),
                    seen=seen.get((each.trigger_id, each.at)) if each.run_id is None else None,
                ),
            )
        )
    return told


def _state_of(links: Sequence[RetryLink]) -> RunState | None:
    if not links:
        return None
    ranked = [(e.state is RunState.SUCCEEDED, e.state not in FINAL, e.id, e.state) for e in links]
    return max(ranked)[-1]
