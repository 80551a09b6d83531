"""The runs that a plan, a request or a whole fire is written as."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec
from msgspec import structs

from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.planning.missed_fires import MISFIRE, message_of
from tickwheel_admin.domain.planning.plan import Plan
from tickwheel_admin.domain.runs.blocking import Blocking
from tickwheel_admin.domain.runs.moves import skipped
from tickwheel_admin.domain.runs.run import Origin, Run, RunState
from tickwheel_admin.domain.schedule.jitter import due_of
from tickwheel_admin.domain.triggers.trigger import Trigger

LAST_PRIORITY = 9


def new_run(
    config: JobConfig,
    *,
    id: int,  # noqa: A002 - the column's name
    executor_id: int,
    job_id: int,
    revision: int,
    origin: Origin,
    scheduled_at: int,
    now: int,
    due_at: int | None = None,
    trigger_id: int | None = None,
    follows_at: int | None = None,
    jitter_ms: int | None = None,
    priority: int | None = None,
    parameters: str | None = None,
    interval_start: int | None = None,
) -> Run:
    """A queued run of a job with this configuration.

    Args:
        scheduled_at: the nominal instant; for requests, when they shall run.
        due_at: not claimed before this; None: `scheduled_at`.
        follows_at: of a fixed delay, the instant of the fire before.
        jitter_ms: how much of the time between the two is jitter.
        priority: None: the job's.
        parameters: None: the job's.
        interval_start: the instant before the one that it works for, by its schedule.
    """
    due_at = scheduled_at if due_at is None else due_at
    return Run(
        id=id,
        executor_id=executor_id,
        job_id=job_id,
        job_revision=revision,
        trigger_id=trigger_id,
        origin=origin,
        scheduled_at=scheduled_at,
        interval_start=interval_start,
        follows_at=follows_at,
        shard_index=config.shard_index,
        blocking_key=_blocking_key(config, job_id, is_shard=False),
        parameters=parameters,
        priority=config.priority if priority is None else priority,
        pool_id=config.pool_id,
        created_at=now,
        state=RunState.QUEUED,
        due_at=due_at,
        jitter_ms=jitter_ms,
        deadline_at=start_by(due_at, config),
    )


def start_by(instant: int, config: JobConfig) -> int | None:
    """When a run that was due at `instant` is too late to start; None: never."""
    return None if config.start_within_ms is None else instant + config.start_within_ms


def start_by_again(run: Run, config: JobConfig) -> int | None:
    """The same for a run that a node handed back: what it was claimed with is no longer there."""
    if run.tries > 0 or run.origin is Origin.BACKFILL:
        return None
    return start_by(run.first_due_at, config)


def shards_of(
    fire: Run,
    config: JobConfig,
    *,
    pinned_to: Sequence[int | None],
    now: int,
    ids: Iterator[int],
    indices: Sequence[int] | None = None,
) -> list[Run]:
    """The shards of a whole fire, one for each place in `pinned_to` (a node id, or None: any).

    Args:
        indices: which shards to make; None: all of them.
    """
    wanted = range(len(pinned_to)) if indices is None else indices
    return [
        structs.replace(
            fire,
            id=next(ids),
            shard_index=index,
            shard_total=len(pinned_to),
            fire_id=fire.id,
            pinned_node_id=pinned_to[index],
            pool_id=None if config.pool is None else config.pool.pool_id,
            request_key=None,
            blocking_key=_blocking_key(config, fire.job_id, is_shard=True),
            created_at=now,
            state=RunState.QUEUED,
            due_at=now,
            deadline_at=fire.deadline_at,
            reason=None,
        )
        for index in wanted
    ]


def _blocking_key(config: JobConfig, job_id: int, *, is_shard: bool) -> int | None:
    """What makes a run stand in line (store.tables.run).

    Of a job that is cut into shards, each shard stands in line when the job is serial, and the
    whole fire when a newer one would be skipped or cover it.
    """
    strategy = config.blocking.strategy
    if strategy is Blocking.PARALLEL:
        return None
    if config.is_sharded and is_shard != (strategy is Blocking.SERIAL):
        return None
    return job_id * 2


def runs_of_plan(
    plan: Plan,
    trigger: Trigger,
    config: JobConfig,
    *,
    revision: int,
    now: int,
    ids: Iterator[int],
) -> list[Run]:
    """The runs of a trigger's plan, oldest first; takes `runs_needed(plan)` ids.

    Missed fires that are made up for are due now, one priority behind: what is on time goes first.
    """
    spec = trigger.spec
    priority = config.priority if spec.priority is None else spec.priority
    if plan.caught_up:  # those on time too, so that the runs of one trigger keep their order
        priority = min(priority + 1, LAST_PRIORITY)
    parameters = None
    if spec.parameters is not None:
        parameters = _merged_of_trigger(config.parameters, spec.parameters)

    # The instants of a plan are without gaps: each one's predecessor is the one before it.
    written = (*plan.caught_up, *plan.fires)
    previous = dict(zip(written, (plan.previous_at, *written), strict=False))

    def run(at: int, origin: Origin, *, due_at: int | None = None, jitter: int = 0) -> Run:
        return new_run(
            config,
            id=next(ids),
            executor_id=trigger.executor_id,
            job_id=trigger.job_id,
            revision=revision,
            origin=origin,
            scheduled_at=at,
            due_at=at + jitter if due_at is None else due_at,
            jitter_ms=jitter or None,
            trigger_id=trigger.id,
            follows_at=trigger.last_fire_at if spec.follows_runs else None,
            priority=priority,
            parameters=parameters,
            interval_start=previous.get(at),
            now=now,
        )

    runs = []
    if plan.missed is not None:
        told = message_of(plan.missed, policy=spec.misfire, made_up=len(plan.caught_up))
        runs.append(_summary(run(plan.missed.last_at, Origin.MISFIRE), told, now=now))
    runs += (run(at, Origin.MISFIRE, due_at=now) for at in plan.caught_up)
    for at, following in zip(plan.fires, (*plan.fires[1:], plan.next_fire_at), strict=False):
        jitter = 0
        if spec.jitter_ms:
            due_at = due_of(trigger.id, at, jitter_ms=spec.jitter_ms, next_nominal=following)
            jitter = due_at - at
        runs.append(run(at, Origin.SCHEDULE, jitter=jitter))
    return runs


def runs_needed(plan: Plan) -> int:
    """How many ids `runs_of_plan` takes."""
    return (plan.missed is not None) + len(plan.caught_up) + len(plan.fires)


_objects = msgspec.json.Decoder(dict[str, msgspec.Raw])


def merged_parameters(of_job: str, given: str) -> str:
    """A job's parameters with others over them, key by key of the objects' top.

    Values are passed on as they were written: a number may be larger than any we can hold.
    """
    return msgspec.json.encode(_objects.decode(of_job) | _objects.decode(given)).decode()


_merged_of_trigger = lru_cache(maxsize=4_096)(merged_parameters)  # the same for each fire


def _summary(run: Run, message: str, *, now: int) -> Run:
    done = skipped(run, reason=MISFIRE, now=now, message=message).after
    return structs.replace(done, blocking_key=None)
