"""Workflows of all shapes, drawn from a seed, and written as saving them would."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.input.job import config_to_json
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.workflows.graph import (
    HANDLER,
    Approval,
    ForEach,
    HandlerStep,
    InlineJob,
    JobStep,
    Need,
    NeedOutcome,
    Silence,
    Spawn,
    Step,
    SubWorkflow,
    Tolerance,
    Wait,
    Workflow,
)
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids

FEW_STEPS = (3, 12)
MANY_STEPS = (30, 60)  # of a few graphs: they take as long as all others of their seed
MANY = 0.06
HIDDEN = -1
NAME = "workflow-"
SPREADING = "spreading"  # a handler that spawns items
_HANDLERS = ("quick", "quick", "flaky", "failing", "moody", "slow", "poisonous", SPREADING)
_OUTCOMES = (*[NeedOutcome.SUCCEEDED] * 5, *NeedOutcome)


async def add_workflows(
    store: Store,
    ids: Ids,
    random: Random,
    executor_ids: Sequence[int],
    *,
    jobs: Sequence[int],
    now: int,
) -> None:
    """Some workflows, of handlers, of these jobs and of each other."""
    within: list[int] = []
    for number in range(random.randint(2, 4)):
        executor_id = random.choice(executor_ids)
        is_large = random.random() < MANY
        steps: list[Step] = []
        for n in range(random.randint(*(MANY_STEPS if is_large else FEW_STEPS))):
            steps.append(_step(random, f"s{n}", steps, jobs=jobs, within=within, large=is_large))
        keys = [step.key for step in steps]
        inline = []
        for step in steps:
            if isinstance(step.body, HandlerStep):
                job_id = await ids.take("job")
                inline.append(InlineJob(step=step.key, job_id=job_id, revision=1))
                hidden = JobConfig(
                    name=f"{NAME}{number}/{step.key}",
                    handler=step.body.handler,
                    retry=RetryPolicy(retries=random.choice((0, 0, 1, 2)), delay_ms=200),
                    timeout_ms=random.choice((None, None, 1_000)),
                )
                await store.run(_insert, job_id, executor_id, hidden, now=now, deleted_at=HIDDEN)
        config = JobConfig(
            name=f"{NAME}{number}",
            handler=HANDLER,
            workflow=Workflow(
                steps=tuple(steps),
                output=random.choice((None, *keys)),
                inline=tuple(inline),
            ),
            timeout_ms=random.choice((None, None, 8_000, 30_000)),
            blocking=BlockingPolicy(strategy=random.choice(_STRATEGIES)),
        )
        job_id = await ids.take("job")
        await store.run(_insert, job_id, executor_id, config, now=now)
        within.append(job_id)


_STRATEGIES = (*[Blocking.PARALLEL] * 4, Blocking.SERIAL, Blocking.COVER_EARLY)


def _step(
    random: Random,
    key: str,
    before: Sequence[Step],
    *,
    jobs: Sequence[int],
    within: Sequence[int],
    large: bool,
) -> Step:
    """A step that may need those before it; in a large graph most succeed, and so it goes on."""
    needed = random.sample(before, min(len(before), random.choice((0, 1, 1, 2, 3))))
    outcomes = _OUTCOMES if not large or random.random() < 0.2 else _OUTCOMES[:1]
    needs = tuple(Need(step=each.key, outcome=random.choice(outcomes)) for each in needed)
    succeeded = [
        step
        for step, need in zip(needed, needs, strict=True)
        if need.outcome is NeedOutcome.SUCCEEDED
    ]
    kind = random.random()
    changes: dict[str, Any] = {}
    if kind < 0.06:
        return Step(key=key, needs=needs, body=Wait(duration_ms=random.choice((1, 500, 4_000))))
    if kind < 0.12:
        return Step(key=key, needs=needs, body=_approval(random))
    if kind < 0.18 and within:
        body: Any = SubWorkflow(job_id=random.choice(within))
    elif kind < 0.29 and jobs:
        body = JobStep(job_id=random.choice(jobs))
    else:
        handlers = ("quick", "quick", "quick", SPREADING) if large else _HANDLERS
        body = HandlerStep(handler=random.choice(handlers))
        if succeeded:
            changes["parameters"] = f'{{"from":"${{steps.{succeeded[0].key}.result}}"}}'
        if random.random() < 0.2:
            changes["for_each"] = _for_each(random, succeeded, large=large)
        if body.handler == SPREADING and "for_each" not in changes and random.random() < 0.7:
            changes["spawn"] = Spawn(
                max_parallel=random.choice((None, 1, 2)), tolerance=_tolerance(random)
            )
        if random.random() < 0.05:
            changes["pause_before"] = True
    if random.random() < (0.02 if large else 0.1):
        changes["when"] = random.choice(('parameters.mode == "full"', "size(parameters) == 0"))
    return Step(key=key, needs=needs, body=body, **changes)


def _approval(random: Random) -> Approval:
    deadline_ms = random.choice((None, 1_000, 5_000, 20_000))
    silence = Silence.DECLINE if deadline_ms is None else random.choice(tuple(Silence))
    return Approval(deadline_ms=deadline_ms, silence=silence)


def _for_each(random: Random, succeeded: Sequence[Step], *, large: bool) -> ForEach:
    """Over a constant, or over what the items of another step returned."""
    items = str(list(range(random.choice((0, 1, 3) if large else (0, 1, 3, 8)))))
    lists = [step.key for step in succeeded if step.for_each is not None or _spreads(step)]
    if lists and random.random() < 0.7:
        items = f'"${{steps.{lists[0]}.result}}"'
    return ForEach(
        items=items,
        max_parallel=random.choice((None, 1, 2)),
        tolerance=_tolerance(random),
    )


def _spreads(step: Step) -> bool:
    return isinstance(step.body, HandlerStep) and step.body.handler == SPREADING


def _tolerance(random: Random) -> Tolerance:
    rules = (Tolerance(), Tolerance(count=1), Tolerance(percent=50), Tolerance(percent=100))
    return random.choice(rules)


def _insert(
    conn: sa.Connection,
    job_id: int,
    executor_id: int,
    config: JobConfig,
    *,
    now: int,
    deleted_at: int = 0,
) -> None:
    stands = sa.select(tables.job.c.id).where(tables.job.c.id == job_id)
    if conn.execute(stands).first() is not None:
        return
    conn.execute(
        sa.insert(tables.job).values(
            id=job_id,
            executor_id=executor_id,
            name=config.name,
            handler=config.handler,
            owner="",
            tags="",
            revision=1,
            paused=False,
            route_cursor=0,
            created_at=now,
            updated_at=now,
            deleted_at=deleted_at,
        )
    )
    conn.execute(
        sa.insert(tables.job_revision).values(
            job_id=job_id,
            revision=1,
            config=config_to_json(config),
            created_at=now,
            created_by="simulation",
        )
    )
