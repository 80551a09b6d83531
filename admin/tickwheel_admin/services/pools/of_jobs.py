"""The pools that jobs and steps of workflows name, found when they are saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import sqlalchemy as sa
from msgspec import structs

from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.pools.pool import PoolShare, SlotPool
from tickwheel_admin.domain.workflows.graph import HandlerStep, ScriptStep, Step
from tickwheel_admin.store.pools.pools import get_pool, lock_pool, pools_for


def held_pools(conn: sa.Connection, executor_id: int, config: JobConfig) -> JobConfig:
    """The configuration with the ids of its pools, which are not deleted before the commit.

    Raises:
        InvalidInput: pool.unknown; pool.too_small when a run would take more than there is.
    """
    return _resolved(conn, executor_id, config, lock_pool)


def look_at_pools(conn: sa.Connection, executor_id: int, config: JobConfig) -> JobConfig:
    """The same for a look only, for they may be deleted at once; raises likewise."""
    return _resolved(conn, executor_id, config, get_pool)


def _resolved(
    conn: sa.Connection,
    executor_id: int,
    config: JobConfig,
    hold: Callable[[sa.Connection, int], SlotPool | None],
) -> JobConfig:
    problems: list[Problem] = []
    shares = list(_shares(executor_id, config))
    known = {
        place: {each.name: each for each in pools_for(conn, place)}
        for place in {place for place, _ in shares}
    }
    named = {known[place][name].id for place, name in shares if name in known[place]}
    # Each once, and by id: whoever saves two jobs at once must not wait for each other.
    held = {pool_id: hold(conn, pool_id) for pool_id in sorted(named)}

    def found(share: PoolShare, place: int, path: str) -> PoolShare:
        here = known[place].get(share.name)
        pool = None if here is None else held[here.id]
        if pool is None:
            problems.append(_unknown(share, path, sorted(known[place])))
            return share
        if pool.slots and share.slots > pool.slots:
            problems.append(_too_small(share, path, pool))
        return replace(share, pool_id=pool.id)

    if config.pool is not None:
        config = replace(config, pool=found(config.pool, executor_id, ""))
    workflow = config.workflow
    if workflow is not None:
        steps = []
        for index, step in enumerate(workflow.steps):
            path = f"workflow.steps[{index}]."
            steps.append(_of_step(step, executor_id, path, found))
        config = replace(config, workflow=replace(workflow, steps=tuple(steps)))
    if problems:
        raise InvalidInput(problems)
    return config


def _shares(executor_id: int, config: JobConfig) -> Iterator[tuple[int, str]]:
    """Executor and name of each pool that is named."""
    if config.pool is not None:
        yield executor_id, config.pool.name
    for step in () if config.workflow is None else config.workflow.steps:
        body = step.body
        if isinstance(body, HandlerStep | ScriptStep) and body.rules.pool is not None:
            place = executor_id if body.executor_id is None else body.executor_id
            yield place, body.rules.pool.name


def _of_step(
    step: Step, executor_id: int, path: str, found: Callable[[PoolShare, int, str], PoolShare]
) -> Step:
    body = step.body
    if not isinstance(body, HandlerStep | ScriptStep) or body.rules.pool is None:
        return step
    place = executor_id if body.executor_id is None else body.executor_id
    rules = replace(body.rules, pool=found(body.rules.pool, place, path))
    return replace(step, body=structs.replace(body, rules=rules))


def _unknown(share: PoolShare, path: str, names: list[str]) -> Problem:
    if not names:
        return Problem(
            field=f"{path}pool",
            code="pool.unknown",
            template="There is no pool named “%(name)s” that this executor may use; add it first.",
            params={"name": share.name},
        )
    return Problem(
        field=f"{path}pool",
        code="pool.unknown",
        template="There is no pool named “%(name)s” that this executor may use; there are:"
        " %(names)s.",
        params={"name": share.name, "names": ", ".join(names[:10])},
    )


def _too_small(share: PoolShare, path: str, pool: SlotPool) -> Problem:
    return Problem(
        field=f"{path}pool_slots",
        code="pool.too_small",
        template="The pool “%(name)s” has %(slots)d slots; a run cannot take more.",
        params={"name": share.name, "slots": pool.slots},
    )
