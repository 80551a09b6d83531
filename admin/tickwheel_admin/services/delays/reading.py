"""Reads what the charging of delays looks at, page by page, newest runs first."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from msgspec.structs import replace

from tickwheel_admin.domain.delays.history import DelayHistory, HistoryRun
from tickwheel_admin.domain.delays.needs import RunNeeds, past_nodes
from tickwheel_admin.domain.executors.node import Node
from tickwheel_admin.services.lists.heavy_reads import Breath
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.delays.nodes import nodes_between
from tickwheel_admin.store.delays.runs import (
    RunEntry,
    WaitedRun,
    jobs_of_pools_elsewhere,
    live_runs_of,
    page_run_entries,
    pool_slots,
    pooled_runs_of_jobs,
    runs_overlapping,
)
from tickwheel_admin.store.jobs.configs import JobConfigs

LOOK_BACK_MS = 86_400_000  # runs that were due so much earlier may still have held slots
ENTRIES_PER_PAGE = 2_000  # of the index
CONFIGS_PER_READ = 200
RUNS_PER_BREATH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """How much one request reads."""

    runs: int  # of the executor
    entries: int  # of the index of all runs


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHistory:
    """What was read."""

    history: DelayHistory
    # Runs that were due earlier were not read, but for those that are live. It is later than asked
    # for when there were too many.
    read_from: int


class _Found:
    """Runs, with what else must be read of them: noted page by page, for they may be many."""

    def __init__(self) -> None:
        self.runs: list[WaitedRun] = []
        self.revisions: set[tuple[int, int]] = set()  # of jobs
        self.pools: set[int] = set()
        self._ids: set[int] = set()

    def add(self, runs: Iterable[WaitedRun]) -> None:
        """Those that are not among them."""
        for run in runs:
            if run.id in self._ids:
                continue
            self._ids.add(run.id)
            self.runs.append(run)
            self.revisions.add((run.job_id, run.job_revision))
            if run.pool_id is not None:
                self.pools.add(run.pool_id)


class HistoryReader:
    """Reads histories. Each page is a read of its own: nobody is held up for long."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._configs = JobConfigs(keep=2_000)

    async def read(
        self,
        executor_id: int,
        *,
        from_at: int,
        until_at: int,
        limits: ReadLimits,
        narrow: bool,
        always: WaitedRun | None = None,
    ) -> ReadHistory:
        """Everything of an executor that concerns waits within some time.

        Args:
            narrow: when there are too many runs, only the end of the time is told of, instead of
                all of it with less knowledge.
            always: this run is among them, whatever else is.
        """
        found, read_from = await self._runs(executor_id, from_at, until_at, limits)
        found.add(await self._store.read(live_runs_of, executor_id))
        if always is not None:
            found.add([always])
        pools = await self._store.read(pool_slots, found.pools)
        shared = {pool_id for pool_id, (_, of) in pools.items() if of != executor_id}
        jobs_elsewhere = await self._store.read(
            jobs_of_pools_elsewhere, shared, executor_id=executor_id
        )
        elsewhere = await self._store.read(
            pooled_runs_of_jobs,
            jobs_elsewhere,
            scheduled_from=from_at - LOOK_BACK_MS,
            from_at=from_at,
            to_at=until_at,
        )
        nodes = await self._store.read(nodes_between, executor_id, from_at=from_at, to_at=until_at)
        needs = RunNeeds(nodes)
        revisions = found.revisions | {(run.job_id, run.job_revision) for run in elsewhere}
        numbers = await self._needs_of(revisions, needs)
        history = await asyncio.to_thread(
            _assembled,
            found.runs,
            elsewhere,
            DelayHistory(
                from_at=max(from_at, min(read_from, until_at)) if narrow else from_at,
                until_at=until_at,
                runs=(),
                needs=needs.needs,
                nodes=(),
                pools={pool_id: slots for pool_id, (slots, _) in pools.items()},
            ),
            nodes,
            numbers,
        )
        return ReadHistory(history=history, read_from=read_from)

    async def _runs(
        self, executor_id: int, from_at: int, until_at: int, limits: ReadLimits
    ) -> tuple[_Found, int]:
        """The runs, and from when on they are all there."""
        floor = max(0, from_at - LOOK_BACK_MS)
        found = _Found()
        before: RunEntry | None = None
        looked_at = 0
        while True:
            entries = await self._store.read(
                page_run_entries,
                from_at=floor,
                to_at=until_at,
                before=before,
                limit=ENTRIES_PER_PAGE,
            )
            ids = [each.id for each in entries if each.executor_id == executor_id]
            found.add(await self._store.read(runs_overlapping, ids, from_at=from_at))
            looked_at += len(entries)
            if len(entries) < ENTRIES_PER_PAGE:
                return found, floor
            before = entries[-1]
            if len(found.runs) >= limits.runs or looked_at >= limits.entries:
                # Others of the same instant may not be among them.
                return found, before.scheduled_at + 1

    async def _needs_of(
        self, revisions: Collection[tuple[int, int]], needs: RunNeeds
    ) -> dict[tuple[int, int], int]:
        wanted = sorted(revisions)
        numbers: dict[tuple[int, int], int] = {}
        for start in range(0, len(wanted), CONFIGS_PER_READ):
            chunk = wanted[start : start + CONFIGS_PER_READ]
            numbers |= await self._store.read(self._numbers, chunk, needs)
        return numbers

    def _numbers(
        self, conn: sa.Connection, keys: Collection[tuple[int, int]], needs: RunNeeds
    ) -> dict[tuple[int, int], int]:
        configs = self._configs.get_many(conn, keys)
        return {key: needs.number_of(configs.get(key)) for key in keys}


def _assembled(
    ours: Sequence[WaitedRun],
    elsewhere: Sequence[WaitedRun],
    history: DelayHistory,
    nodes: Sequence[Node],
    numbers: dict[tuple[int, int], int],
) -> DelayHistory:
    """The history with its runs and nodes. For a thread: of many runs it takes a while."""
    breath = Breath()
    runs: list[HistoryRun] = []
    last_given: dict[int, int] = {}
    for is_ours, waited in ((True, ours), (False, elsewhere)):
        for start in range(0, len(waited), RUNS_PER_BREATH):
            for each in waited[start : start + RUNS_PER_BREATH]:
                runs.append(_past_run(each, numbers, is_ours=is_ours))
                for hold in each.holds:
                    last_given[hold.node_id] = max(last_given.get(hold.node_id, 0), hold.from_at)
            breath.take()
    return replace(history, runs=tuple(runs), nodes=past_nodes(nodes, last_given))


def _past_run(run: WaitedRun, numbers: dict[tuple[int, int], int], *, is_ours: bool) -> HistoryRun:
    return HistoryRun(
        id=run.id,
        job_id=run.job_id,
        need=numbers[run.job_id, run.job_revision],
        scheduled_at=run.scheduled_at,
        due_at=run.due_at,
        created_at=run.created_at,
        dispatched_at=run.dispatched_at,
        started_at=run.started_at,
        is_measured=run.is_measured and is_ours,
        fire_id=run.fire_id,
        shard_index=run.shard_index,
        pinned_node_id=run.pinned_node_id,
        pool_id=run.pool_id,
        has_no_node=run.shard_index < 0 and is_ours,
        holds=run.holds,
    )
