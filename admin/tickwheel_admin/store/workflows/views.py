"""Steps and items as pages show them: with what is known of their runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.tables import job, run, run_attempt, workflow_item

MESSAGE_CHARS = 300  # of a run's message, beside its step

_RUNS = sa.select(
    run.c.id,
    run.c.state,
    run.c.started_at,
    run.c.ended_at,
    run.c.reason,
    run.c.attempt,
    sa.func.substr(run.c.message, 1, MESSAGE_CHARS).label("message"),
).where(among(run.c.id, "ids"))
_TRIES = (
    sa.select(
        run_attempt.c.run_id,
        run_attempt.c.attempt,
        run_attempt.c.state,
        run_attempt.c.started_at,
        run_attempt.c.ended_at,
    )
    .where(among(run_attempt.c.run_id, "ids"))
    .order_by(run_attempt.c.run_id, run_attempt.c.attempt)
)
_PLACES = sa.select(job.c.id, job.c.executor_id).where(among(job.c.id, "ids"))


class StepRun(NamedTuple):
    """What a picture of a workflow tells of the run of a step."""

    id: int
    state: RunState
    started_at: int | None
    ended_at: int | None
    reason: str | None
    attempt: int
    message: str | None = None  # how it begins


class StepTry(NamedTuple):
    """An attempt of a step's run that another one followed."""

    attempt: int
    state: RunState
    started_at: int | None
    ended_at: int | None


class ItemView(NamedTuple):
    """An item that has a run."""

    item_index: int  # in its list, from 0
    run_id: int | None  # None: it is on an executor that the reader may not see
    executor_id: int
    state: RunState
    started_at: int | None
    ended_at: int | None
    message: str | None


def runs_of_steps(conn: sa.Connection, run_ids: Sequence[int]) -> dict[int, StepRun]:
    """Those of the runs that are there, by id."""
    if not run_ids:
        return {}
    rows = conn.execute(_RUNS, {"ids": sorted(run_ids)})
    return {
        row.id: StepRun(
            row.id,
            RunState(row.state),
            row.started_at,
            row.ended_at,
            row.reason,
            row.attempt,
            row.message,
        )
        for row in rows
    }


def places_of_jobs(conn: sa.Connection, job_ids: Iterable[int]) -> dict[int, int]:
    """The executors of these jobs, also of deleted ones."""
    ids = sorted(set(job_ids))
    rows = conn.execute(_PLACES, {"ids": ids}) if ids else ()
    return {row.id: row.executor_id for row in rows}


def tries_of_runs(conn: sa.Connection, run_ids: Sequence[int]) -> dict[int, tuple[StepTry, ...]]:
    """The attempts of these runs that others followed, by run, oldest first."""
    if not run_ids:
        return {}
    found: defaultdict[int, list[StepTry]] = defaultdict(list)
    for row in conn.execute(_TRIES, {"ids": sorted(run_ids)}):
        found[row.run_id].append(
            StepTry(row.attempt, RunState(row.state), row.started_at, row.ended_at)
        )
    return {run_id: tuple(tries) for run_id, tries in found.items()}


def first_items(
    conn: sa.Connection, workflow_run_id: int, step_indexes: Sequence[int]
) -> dict[int, int | None]:
    """When the first item of each of these steps began, by step; None: it has not yet."""
    if not step_indexes:
        return {}
    item = workflow_item.c
    rows = conn.execute(
        sa.select(item.step_index, run.c.started_at)
        .join(run, run.c.id == item.run_id)
        .where(
            item.workflow_run_id == workflow_run_id,
            item.step_index.in_(step_indexes),
            item.item_index == 0,
        )
    )
    return {row.step_index: row.started_at for row in rows}


def page_items(
    conn: sa.Connection,
    workflow_run_id: int,
    step_index: int,
    *,
    after: int,
    state: RunState | None,
    limit: int,
) -> list[ItemView]:
    """Items behind one of them, in their order; with a state, all items behind it are read."""
    item = workflow_item.c
    wanted = (
        sa.select(
            item.item_index,
            item.run_id,
            run.c.executor_id,
            run.c.state,
            run.c.started_at,
            run.c.ended_at,
            run.c.message,
        )
        .join(run, run.c.id == item.run_id)
        .where(
            item.workflow_run_id == workflow_run_id,
            item.step_index == step_index,
            item.item_index > after,
        )
        .order_by(item.item_index)
        .limit(limit)
    )
    if state is not None:
        wanted = wanted.where(run.c.state == state.value)
    return [
        ItemView(
            row.item_index,
            row.run_id,
            row.executor_id,
            RunState(row.state),
            row.started_at,
            row.ended_at,
            row.message,
        )
        for row in conn.execute(wanted)
    ]
