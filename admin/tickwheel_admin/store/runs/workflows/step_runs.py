"""The runs of a workflow's steps and items, found by its side tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.runs.moves import SPAWNED
from tickwheel_admin.domain.runs.run import FINAL, WORKFLOW, Run, RunState
from tickwheel_admin.domain.workflows.book import WorkflowBook
from tickwheel_admin.domain.workflows.states import RUN_GONE, StepState
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.index_hints import unindexed
from tickwheel_admin.store.database.tables import run, workflow_item, workflow_step
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs.rows import SELECTED_RUN, read_runs
from tickwheel_admin.store.workflows.steps import spawned_counts

_OPEN_VALUES = sorted(state.value for state in frozenset(RunState) - FINAL)
_RUNS = sa.select(*SELECTED_RUN).where(among(run.c.id, "ids"))


def workflows_among(conn: sa.Connection, run_ids: Collection[int]) -> set[int]:
    """Those of these runs that are of workflows."""
    wanted = sa.select(run.c.id).where(
        run.c.id.in_(run_ids), unindexed(run.c.shard_index) == WORKFLOW
    )
    return set(conn.execute(wanted).scalars())


def stopping_workflows(
    conn: sa.Connection, run_ids: Collection[int], configs: JobConfigs, *, now: int
) -> set[int]:
    """Those of these workflow runs that are to end, or are past their timeout; read unlocked."""
    found = read_runs(conn, _RUNS, {"ids": sorted(run_ids)})
    known = configs.get_many(conn, {(each.job_id, each.job_revision) for each in found})
    late: set[int] = set()
    for each in found:
        timeout_ms = known[each.job_id, each.job_revision].timeout_ms
        is_late = (
            timeout_ms is not None
            and each.started_at is not None
            and each.started_at + timeout_ms <= now
        )
        if each.state is RunState.RUNNING and (is_late or each.cancel_requested_at is not None):
            late.add(each.id)
    return late


def open_step_runs(conn: sa.Connection, run_ids: Iterable[int], *, limit: int) -> list[int]:
    """Runs of steps that have not ended, of these workflow runs; those not asked to end first."""
    ids = sorted(run_ids)
    found: list[int] = []
    for opened in _opened(ids):
        rows = conn.execute(
            opened.where(
                sa.or_(run.c.cancel_requested_at.is_(None), run.c.cancel_reason == "timeout")
            ).limit(limit - len(found))
        )
        found += rows.scalars()
        if len(found) >= limit:
            break
    return found


def steps_go_on(conn: sa.Connection, run_id: int) -> bool:
    """Whether a run of a step of this workflow run has not ended."""
    return any(conn.execute(opened.limit(1)).first() for opened in _opened([run_id]))


def _opened(workflow_run_ids: Sequence[int]) -> Iterator[sa.Select[Any]]:
    for table in (workflow_step, workflow_item):
        yield (
            sa.select(run.c.id)
            .join_from(table, run, run.c.id == table.c.run_id)
            .where(
                table.c.workflow_run_id.in_(workflow_run_ids),
                unindexed(run.c.state).in_(_OPEN_VALUES),
            )
        )


def mend(conn: sa.Connection, book: WorkflowBook) -> None:
    """Note the ends that no transaction has passed on: of runs that were deleted, or changed by
    SQL from outside (G3). The workflow is locked.
    """
    running = [n for n, s in enumerate(book.steps) if s.state is StepState.RUNNING]
    single = {book.steps[n].run_id or 0: n for n in running if book.steps[n].items is None}
    found = {each.id: each for each in read_runs(conn, _RUNS, {"ids": sorted(single)})}
    for run_id, index in single.items():
        _mend_step(conn, book, index, found.get(run_id))
    for index in running:
        if book.steps[index].items is not None:
            _mend_items(conn, book, index)


def _mend_step(conn: sa.Connection, book: WorkflowBook, index: int, run_of_it: Run | None) -> None:
    if run_of_it is None:
        told = "Its run was deleted before its end was seen."
        book.set(index, StepState.FAILED, RUN_GONE, message=told)
    elif run_of_it.state in FINAL:
        spawned = None
        if run_of_it.reason == SPAWNED:
            spawned = spawned_counts(conn, {run_of_it.id: book.run.id}).get(run_of_it.id, 0)
        book.own_run_ended(index, run_of_it, spawned)


def _mend_items(conn: sa.Connection, book: WorkflowBook, index: int) -> None:
    of_step = sa.and_(
        workflow_item.c.workflow_run_id == book.run.id, workflow_item.c.step_index == index
    )
    rows = conn.execute(
        sa.select(run.c.state, run.c.reason, sa.func.count())
        .join_from(workflow_item, run, run.c.id == workflow_item.c.run_id)
        .where(of_step)
        .group_by(run.c.state, run.c.reason)
    )
    counts: Counter[str] = Counter()
    for state, reason, count in rows:
        if RunState(state) not in FINAL:
            counts["live"] += count
        elif state == RunState.SUCCEEDED.value:
            counts["succeeded"] += count
        elif state == RunState.SKIPPED.value and reason == "by_handler":
            counts["skipped"] += count
    status = book.steps[index]
    # What was seen once counts, though its run may have been deleted since.
    succeeded = max(counts["succeeded"], status.items_succeeded)
    skipped = max(counts["skipped"], status.items_skipped)
    failed = status.items_started - counts["live"] - succeeded - skipped
    seen = (status.items_succeeded, status.items_failed, status.items_skipped)
    if seen != (succeeded, failed, skipped):
        book.note(index, items_succeeded=succeeded, items_failed=failed, items_skipped=skipped)
