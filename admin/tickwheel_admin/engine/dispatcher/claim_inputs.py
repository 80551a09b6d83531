"""What a claim reads and locks before it decides.

Locks in the order job, run, pool, node, state, each by ascending id; rows of jobs, runs
and pools that others hold are left to them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import sqlalchemy as sa

from tickwheel_admin.domain.claims.order import LOOK_PAST
from tickwheel_admin.domain.claims.router import Router
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.jobs.secret_references import secrets_of_run
from tickwheel_admin.domain.routing.strategy import RandomSource, Split
from tickwheel_admin.domain.runs.blocking import Blocking
from tickwheel_admin.domain.runs.run import Run
from tickwheel_admin.engine.dispatcher.concurrency import ConcurrencyControl, limits_concurrency
from tickwheel_admin.engine.dispatcher.pool_lines import PoolLines, no_lines
from tickwheel_admin.engine.dispatcher.route_memory import RouteMemory
from tickwheel_admin.engine.ports import RunTracer
from tickwheel_admin.services.secrets.values import SecretReader, SecretValues
from tickwheel_admin.store.executors.executors import allows_scripts
from tickwheel_admin.store.executors.nodes import ended_nodes, live_nodes
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.jobs.scripts import ScriptSources
from tickwheel_admin.store.runs.due import DueRun, claimable_runs, claimable_workflows
from tickwheel_admin.store.runs.inserts import unused_run_ids
from tickwheel_admin.store.runs.lanes import lock_parked_runs
from tickwheel_admin.store.runs.runs import lock_queued_runs
from tickwheel_admin.store.triggers.pauses import now_and_pause

# How long a run is put off that waits for its own node, when such runs fill the whole batch.
NO_SLOT_DELAY_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimContext:
    """What a claim needs besides the database."""

    connected: Collection[int]  # nodes with a socket to this admin
    avoided: Collection[tuple[int, str]]  # (node, handler) that refused a moment ago
    limit: int  # runs at once
    most: int  # the same, where the executor has many slots
    looks: int  # how many batches are searched for runs that no other admin is claiming
    oldest_first: bool  # instead of by priority, so that none starves
    random: RandomSource
    new_token: Callable[[], str]
    configs: JobConfigs
    sources: ScriptSources
    secrets: SecretReader
    run_ids: Sequence[int] = ()  # for shards
    rooms: Mapping[int, int] = field(default_factory=dict)  # as `NodeLinks.rooms`
    no_slot_delay_ms: int = NO_SLOT_DELAY_MS
    tracer: RunTracer | None = None
    only_workflows: bool = False  # no node of the executor is connected here


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimInputs:
    """One batch of due runs of one executor, and everything that decides what becomes of them."""

    now: int
    paused_at: int | None
    router: Router
    pools: PoolLines
    memory: RouteMemory
    concurrency: ConcurrencyControl
    due: Sequence[Run]  # locked
    configs: Mapping[tuple[int, int], JobConfig]  # of the due runs, by job and revision
    secrets: SecretValues  # that the due runs need
    ended_nodes: Collection[int]  # to which due runs are pinned
    run_ids: Sequence[int]  # for shards, not used yet
    used_ids: int  # of those that the context has
    has_free_slots: bool
    scripts_allowed: bool
    window_is_full: bool  # there may be more due runs than were read
    looks: int  # batches to search next time

    @classmethod
    def read(cls, conn: sa.Connection, executor_id: int, context: ClaimContext) -> Self:
        """Read and lock; each statement depends on those before it."""
        # Read here: a pause that began or ended since the dispatcher looked counts as it is now.
        basis = now_and_pause(conn, executor_id)
        now = basis.now
        router = Router(
            live_nodes(conn, executor_id, now=now),
            avoided=context.avoided,
            rooms=context.rooms,
            connected=context.connected,
            random=context.random,
        )
        limit = min(_batch_size(context, router.slots), router.free_slots + LOOK_PAST)
        window = limit * context.looks
        found: list[DueRun] = []
        if not context.only_workflows:
            found = claimable_runs(
                conn,
                executor_id=executor_id,
                now=now,
                limit=window,
                oldest_first=context.oldest_first,
            )
        window_is_full = len(found) == window
        workflows: list[DueRun] = []
        if basis.workflows:  # they need no slot, so that their number is not that of free ones
            workflows = claimable_workflows(
                conn, executor_id=executor_id, now=now, limit=context.limit
            )
        pools = no_lines(conn)
        if basis.pools and not context.only_workflows:
            pools = PoolLines(conn, executor_id, now=now, limit=limit, look_past=LOOK_PAST)
        configs = context.configs.get_many(
            conn, {(r.job_id, r.job_revision) for r in (*found, *workflows, *pools.runs)}
        )
        has_free_slots = router.free_slots > 0
        startable = {run.id for run in pools.startable()} if has_free_slots else set()
        # Where nothing can start, what may be skipped, parked or cut into shards is still decided.
        apart = workflows + [
            run
            for run in pools.runs
            if run.id in startable or _needs_no_slot(_config(configs, run))
        ]
        if not has_free_slots:
            found = [run for run in found if _needs_no_slot(_config(configs, run))]
        found = apart + found
        limited = {r.job_id for r in found if limits_concurrency(_config(configs, r).blocking)}
        memory = RouteMemory(
            conn, router, found, configs=configs, limited=limited, executor_id=executor_id
        )
        locked = _lock(
            conn,
            [run.id for run in found if run.job_id not in memory.left],
            limit=limit + len(apart),
            looks=context.looks,
            now=now,
        )
        pools.lock(locked.runs)
        due = pools.in_order(locked.runs, oldest_first=context.oldest_first)
        concurrency = ConcurrencyControl(
            conn,
            {r.job_id: _config(configs, r).blocking for r in due if r.job_id in limited},
            due,
            broadcasts={
                r.job_id for r in due if _config(configs, r).routing.record.split is Split.PER_NODE
            },
            now=now,
        )
        # A newer run of a `cover_early` job covers those that are parked, so they are read too.
        covering = {
            r.job_id for r in due if _config(configs, r).blocking.strategy is Blocking.COVER_EARLY
        }
        parked = lock_parked_runs(conn, concurrency.parked(covering))
        if parked:
            revisions = {(run.job_id, run.job_revision) for run in parked}
            configs = {**configs, **context.configs.get_many(conn, revisions)}
            due = [*sorted(parked, key=lambda run: run.scheduled_at), *due]
        ended = _ended_nodes(conn, due, router)
        secrets = context.secrets.read(conn, executor_id, _secrets_of(due, configs), now=now)
        run_ids = unused_run_ids(conn, context.run_ids)
        return cls(
            now=now,
            paused_at=basis.paused_at,
            router=router,
            pools=pools,
            memory=memory,
            concurrency=concurrency,
            due=due,
            configs=configs,
            secrets=secrets,
            ended_nodes=ended,
            run_ids=run_ids,
            used_ids=len(context.run_ids) - len(run_ids),
            has_free_slots=has_free_slots,
            scripts_allowed=_scripts_allowed(conn, executor_id, configs),
            window_is_full=window_is_full or pools.is_full or memory.is_full or locked.more,
            looks=locked.looks,
        )

    def config(self, run: Run) -> JobConfig:
        """The configuration of the run's revision."""
        return self.configs[run.job_id, run.job_revision]


class _LockedRuns(NamedTuple):
    runs: list[Run]  # in the order of their ids as given
    looks: int  # batches to search next time
    more: bool  # not all ids were looked at


def _batch_size(context: ClaimContext, slots: int) -> int:
    """How many runs are claimed at once: a third of the slots, but from `limit` to `most`.

    Larger batches cost less for each run. With fewer than three of them on their way, nodes would
    wait while one is claimed and another one is recorded.
    """
    return max(context.limit, min(slots // 3, context.most))


def _lock(
    conn: sa.Connection, ids: Sequence[int], *, limit: int, looks: int, now: int
) -> _LockedRuns:
    """Lock the first of these runs that no other admin holds."""
    free: list[Run] = []
    held = looked_at = 0
    for _ in range(looks):
        wanted = ids[looked_at : looked_at + limit - len(free)]
        if not wanted:
            break
        looked_at += len(wanted)
        locked = {run.id: run for run in lock_queued_runs(conn, wanted, now=now)}
        free += (locked[run_id] for run_id in wanted if run_id in locked)
        held += len(wanted) - len(locked)
    next_looks = looks + (held > len(free)) if held else 1
    return _LockedRuns(free, next_looks, looked_at < len(ids))


def _ended_nodes(conn: sa.Connection, due: Iterable[Run], router: Router) -> set[int]:
    pinned = {
        run.pinned_node_id
        for run in due
        if run.pinned_node_id is not None and not router.knows(run.pinned_node_id)
    }
    return ended_nodes(conn, pinned) if pinned else set()


def _scripts_allowed(
    conn: sa.Connection, executor_id: int, configs: Mapping[tuple[int, int], JobConfig]
) -> bool:
    """What the executor allows; not asked for runs that have no script."""
    return all(each.script is None for each in configs.values()) or allows_scripts(
        conn, executor_id
    )


def _secrets_of(due: Iterable[Run], configs: Mapping[tuple[int, int], JobConfig]) -> set[str]:
    return {name for run in due for name in secrets_of_run(_config(configs, run), run.parameters)}


def _needs_no_slot(config: JobConfig) -> bool:
    return config.is_sharded or limits_concurrency(config.blocking)


def _config(configs: Mapping[tuple[int, int], JobConfig], run: Run | DueRun) -> JobConfig:
    return configs[run.job_id, run.job_revision]
