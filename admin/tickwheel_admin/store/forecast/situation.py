"""The jobs of some executors with what was measured of them, and what is under way there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import sqlalchemy as sa

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.executors.node import Node
from tickwheel_admin.domain.forecast.situation import (
    ForecastJob,
    ForecastTrigger,
    MeasuredRun,
    OpenRun,
)
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs.run import ENDED_BY_RESULT, PARKED_AT, Origin, Run, RunState
from tickwheel_admin.domain.triggers.kinds import AnySpec
from tickwheel_admin.domain.triggers.trigger import TriggerState
from tickwheel_admin.domain.workflows.states import StepRunKind, kind_of, place_of
from tickwheel_admin.store.calendars.calendars import based_on, read_calendars
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.index_hints import reading, unindexed
from tickwheel_admin.store.database.run_conditions import IS_LIVE, queued_for
from tickwheel_admin.store.database.tables import ALIVE, OF_WORKFLOW, job, pool, run, trigger
from tickwheel_admin.store.executors.nodes import live_nodes_of
from tickwheel_admin.store.forecast.workflows import measured_graphs, with_steps
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.jobs.jobs import executors_of_jobs
from tickwheel_admin.store.runs.rows import SELECTED_RUN, run_from_selected
from tickwheel_admin.store.runs.summaries import RunSummary, recent_summaries
from tickwheel_admin.store.triggers.pauses import Pauses, read_pauses
from tickwheel_admin.store.triggers.triggers import StoredTrigger, triggers_of_jobs

MEASURED_RUNS = 50  # of each job
MAX_OPEN_RUNS = 10_000
_COUNTED = ENDED_BY_RESULT - {RunState.SKIPPED, RunState.CANCELLED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a forecast needs besides jobs."""

    now: int
    nodes: tuple[Node, ...]
    paused: Mapping[int, int]  # executor -> since when
    pools: Mapping[int, int]  # slots by id
    open_runs: tuple[OpenRun, ...]
    more_open_runs: bool


def read_surroundings(
    conn: sa.Connection, executor_ids: Collection[int], configs: JobConfigs
) -> Surroundings:
    """Nodes, pauses, pools and open runs of some executors."""
    now = now_ms(conn)
    pauses: Pauses = read_pauses(conn, executor_ids)
    paused = {each: at for each in executor_ids if (at := pauses.of(each)) is not None}
    nodes = live_nodes_of(conn, executor_ids, now=now)
    pools = conn.execute(sa.select(pool.c.id, pool.c.slots).where(pool.c.deleted_at == ALIVE))
    found = _open_runs(conn, executor_ids)
    return Surroundings(
        now=now,
        nodes=tuple(node for executor_id in sorted(nodes) for node in nodes[executor_id]),
        paused=paused,
        pools={row.id: row.slots for row in pools},
        open_runs=with_steps(
            conn, [_open_run(each, now=now) for each in found[:MAX_OPEN_RUNS]], configs
        ),
        more_open_runs=len(found) > MAX_OPEN_RUNS,
    )


def _open_runs(conn: sa.Connection, executor_ids: Collection[int]) -> list[Run]:
    """Live runs first, for they take slots; then the queued ones that are due first."""
    found: list[Run] = []
    for is_live in (True, False):
        for executor_id in sorted(executor_ids):
            live = sa.and_(run.c.executor_id == executor_id, IS_LIVE)
            statement = (
                sa.select(*SELECTED_RUN)
                .where(live if is_live else queued_for(executor_id))
                .order_by(run.c.due_at)
                .limit(MAX_OPEN_RUNS + 1 - len(found))
            )
            found += (run_from_selected(row) for row in conn.execute(statement))
    return found


def _open_run(each: Run, *, now: int) -> OpenRun:
    kind = kind_of(each.request_key)
    step = None if kind is None else place_of(each.request_key or "")[0]
    return OpenRun(
        id=each.id,
        job_id=each.job_id,
        trigger_id=each.trigger_id,
        origin=each.origin,
        scheduled_at=each.scheduled_at,
        due_at=now if each.due_at == PARKED_AT else each.due_at,
        first_due_at=each.first_due_at,
        priority=each.priority,
        tries=each.tries,
        expires_at=each.deadline_at if each.state is RunState.QUEUED else None,
        pinned_node_id=each.pinned_node_id,
        node_id=None if each.state is RunState.QUEUED else each.node_id,
        started_at=each.started_at,
        is_workflow=each.is_workflow,
        parent_run_id=None if kind is None else each.parent_run_id,
        step=step,
        is_item=kind in (StepRunKind.ITEM, StepRunKind.SPAWNED),
    )


def read_forecast_jobs(
    conn: sa.Connection,
    executor_ids: Collection[int],
    *,
    after: int,
    limit: int,
    configs: JobConfigs,
) -> list[ForecastJob]:
    """Jobs of these executors by id from behind `after`, each with its last runs.

    Also those that are hidden: handlers and scripts of workflows' steps.
    """
    rows = conn.execute(
        reading(
            sa.select(job.c.id, job.c.executor_id, job.c.revision, job.c.paused, job.c.deleted_at)
            .where(
                job.c.id > after,
                job.c.executor_id.in_(sorted(executor_ids)),
                unindexed(job.c.deleted_at).in_((ALIVE, OF_WORKFLOW)),
            )
            .order_by(job.c.id)
            .limit(limit),
            job,
            "PRIMARY",
        )
    ).all()
    if not rows:
        return []
    known = configs.get_many(conn, {(row.id, row.revision) for row in rows})
    job_ids = [row.id for row in rows]
    triggers = triggers_of_jobs(conn, job_ids)
    runs = recent_summaries(conn, job_ids, until=now_ms(conn), per_job=MEASURED_RUNS)
    graphs = measured_graphs(
        conn,
        {
            row.id: [each.id for each in runs.get(row.id, ()) if each.state in _COUNTED]
            for row in rows
            if known[row.id, row.revision].workflow is not None
        },
        configs,
    )
    return [
        _job(
            ForecastJob(
                id=row.id,
                executor_id=row.executor_id,
                revision=row.revision,
                config=deciding(known[row.id, row.revision]),
                paused=bool(row.paused),
                graphs=graphs.get(row.id, ()),
                is_hidden=row.deleted_at == OF_WORKFLOW,
            ),
            triggers.get(row.id, ()),
            runs.get(row.id, ()),
        )
        for row in rows
    ]


def deciding(config: JobConfig) -> JobConfig:
    """What of a configuration a forecast looks at: neither a script's text nor most parameters."""
    parameters = "{}" if config.routing.hash_by is None else config.parameters
    workflow = None if config.workflow is None else config.workflow.without_texts()
    return replace(config, script=None, parameters=parameters, workflow=workflow)


def _job(
    found: ForecastJob, triggers: Sequence[StoredTrigger], runs: Iterable[RunSummary]
) -> ForecastJob:
    counted = [(each, each.duration_ms) for each in runs if each.state in _COUNTED]
    measured = [(each, lasted) for each, lasted in counted if lasted is not None]
    ends = [
        each.ended_at
        for each, _ in counted
        # A backfill does the work of other days.
        if each.state is RunState.SUCCEEDED and each.ended_at and each.origin is not Origin.BACKFILL
    ]
    return replace(
        found,
        triggers=tuple(_trigger(each) for each in triggers),
        measured=tuple(MeasuredRun(e.state, lasted, max(e.tries, 1)) for e, lasted in measured),
        measured_since=min((each.scheduled_at for each, _ in measured), default=None),
        last_success_at=max(ends, default=None),
    )


def _trigger(stored: StoredTrigger) -> ForecastTrigger:
    trigger = stored.trigger
    return ForecastTrigger(
        id=trigger.id,
        spec=cast("AnySpec", trigger.spec),
        saved_at=stored.saved_at,
        next_fire_at=trigger.next_fire_at if trigger.state is TriggerState.ACTIVE else None,
        last_fire_at=trigger.last_fire_at,
        fires=trigger.fires,
        paused=trigger.paused or trigger.state is not TriggerState.ACTIVE,
    )


def read_forecast_calendars(conn: sa.Connection, names: Iterable[str]) -> tuple[Calendar, ...]:
    """The calendars of these names that are there."""
    wanted = set(names)
    found = read_calendars(conn, wanted) if wanted else {}
    return tuple(found[name] for name in sorted(found))


def executors_following(conn: sa.Connection, calendar: str) -> set[int]:
    """Executors with triggers that follow a calendar, or one that is based on it."""
    names = {calendar} | {name for _, name in based_on(conn, [calendar])}
    rows = conn.execute(
        sa.select(trigger.c.executor_id).where(trigger.c.calendar.in_(sorted(names))).distinct()
    )
    return set(rows.scalars())


def executors_beside(conn: sa.Connection, jobs: Iterable[ForecastJob]) -> set[int]:
    """Executors whose jobs are children or steps of these, or take slots of the same pools."""
    jobs = list(jobs)
    children = {link.job_id for each in jobs for link in each.config.children}
    graphs = [each.config.workflow for each in jobs if each.config.workflow is not None]
    children |= {job_id for graph in graphs for job_id in graph.job_ids}
    pools = {each.config.pool.pool_id for each in jobs if each.config.pool is not None}
    found = {executor_id for graph in graphs for executor_id in graph.executor_ids}
    if children:
        found |= set(executors_of_jobs(conn, children).values())
    if pools:
        found |= executors_of_pools(conn, pools)
    return found


def executors_of_pools(conn: sa.Connection, pool_ids: Collection[int]) -> set[int]:
    """Executors whose jobs take slots of these pools."""
    rows = conn.execute(
        sa.select(job.c.executor_id)
        .where(job.c.pool_id.in_(sorted(pool_ids)), job.c.deleted_at.in_((ALIVE, OF_WORKFLOW)))
        .distinct()
    )
    return set(rows.scalars())
