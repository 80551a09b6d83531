"""What a thousand runs cost the database, counted and not timed: statements, commits, rows, frames,
bytes of its log.

Whatever asks something for every single run, trigger, node or old run shows here, on any machine.
The budgets are about a quarter above what it takes; who makes something cheaper lowers them. Those
of PostgreSQL's log are a twentieth above, for it writes the same each time: one more index shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin, FakeSession
from tests.admin.kit.rows import add_job, create_schema, now
from tests.admin.kit.work_counter import Work, counted, know_tables
from tickwheel_admin.domain.runs.run import Origin, Run, RunState
from tickwheel_admin.domain.triggers.kinds.once import OnceSpec
from tickwheel_admin.domain.triggers.trigger_json import spec_to_json
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.event_interest import EventInterest, NobodyInterested
from tickwheel_admin.store.runs.events.feed import want_events
from tickwheel_admin.store.runs.inserts import insert_fires
from tickwheel_admin.store.triggers.planning import bucket_of
from tickwheel_shared.protocol import (
    Accepted,
    Level,
    LogChunk,
    Message,
    Outcome,
    Result,
    RunRequest,
    WireLine,
)

RUNS = 1_000
JOBS = 20
FEW_RUNS = 20  # beside which a look at each idle trigger or old run would show

# For RUNS runs from their triggers to their stored results, and for as many lines of logs.
MOST_STATEMENTS = {"plan": 155, "claim": 31, "record": 11, "logs": 5}
MOST_COMMITS = {"plan": 10, "claim": 3, "record": 3, "logs": 2}
MOST_FRAMES = 3
# In the unit of Work.touched, which is each database's own.
MOST_TOUCHED = {
    "sqlite": {"plan": 35_000, "claim": 23_000, "record": 47_000, "logs": 95},
    "mysql": {"plan": 13_000, "claim": 11_000, "record": 25_000, "logs": 75},
    "postgresql": {"plan": 8_000, "claim": 7_200, "record": 7_500, "logs": 25},
}

# KiB of the write-ahead log, for all but the logs of runs: rows, and each entry of an index that a
# move of a run changes. MariaDB also clears away old versions of rows, whenever it likes.
MOST_LOGGED = {"sqlite": 0, "mysql": 7_800, "postgresql": 4_640}

# While somebody reads events of runs: for each batch one row and its insert, and for new runs a
# look before and behind at which of them are new.
MORE_WITH_EVENTS = {"plan": 15, "claim": 3, "record": 3, "logs": 0}
MORE_TOUCHED_WITH_EVENTS = {"plan": 1_300, "claim": 20, "record": 20, "logs": 0}

IDLE_TRIGGERS = 1_000
IDLE_NODES = 200
OLD_RUNS = 2_000
# A few runs beside all of them: nothing more but a batch now and then, and the versions of rows
# that the few runs before left behind, which databases clear away when it suits them.
MORE_STATEMENTS = 6
MORE_TOUCHED = 8 * FEW_RUNS  # less than one look at each of anything above

CHUNKS = 10  # of a hundred lines
_FIRST_ID = 2**40  # of what is written here, far from the ids that engines take
_HOUR_MS = 3_600_000


class CountingSession(FakeSession):
    """Also counts the frames in which a node is sent its runs."""

    frames = 0

    def send(self, messages: Sequence[Message]) -> None:
        self.frames += any(isinstance(message, RunRequest) for message in messages)
        super().send(messages)


@dataclass(kw_only=True)
class Costs:
    """Of one batch of runs, and of as many lines in the logs of some."""

    plan: Work
    claim: Work
    record: Work
    logs: Work
    frames: int

    @property
    def all(self) -> Work:
        return self.plan + self.claim + self.record


class Bench:
    """An admin with one node that has a slot for every run."""

    def __init__(self, database: Database, admin: Admin, session: CountingSession) -> None:
        self.database = database
        self.admin = admin
        self.session = session
        self._last_id = _FIRST_ID

    @classmethod
    async def make(cls, database: Database) -> Bench:
        await create_schema(database)
        admin = Admin(database)
        await admin.engine.membership.enter()
        session = await admin.add_node(1, slots=RUNS)
        counting = CountingSession(session.node_id, session.executor_id)
        admin.links.sessions = {session.node_id: counting}
        return cls(database, admin, counting)

    async def costs_of(self, runs: int) -> Costs:
        """Plan, claim and record so many runs, all due at once."""
        await self.add_triggers(runs, due_in_ms=-10)
        self.session.frames = 0
        # On a busy machine all this takes longer than a lease, 15 s.
        await self.admin.engine.leases.run_once()
        async with counted(self.database) as plan:
            while await self.admin.engine.planner.run_once():
                pass
        async with counted(self.database) as claim:
            requests = await self.admin.dispatch_all(self.session)
        assert len(requests) == runs
        starts = [Accepted(run=r.run, attempt=r.attempt, token=r.token) for r in requests]
        async with counted(self.database) as record:
            await self.admin.say(self.session, *starts)
        async with counted(self.database) as logs:
            await self.admin.say(self.session, *map(chunk_of, requests[:CHUNKS]))
        async with counted(self.database) as results:
            await self.admin.say(self.session, *map(result_of, requests))
        assert await self.database.read(succeeded, [r.run for r in requests]) == runs
        return Costs(
            plan=plan,
            claim=claim,
            record=record + results,
            logs=logs,
            frames=self.session.frames,
        )

    async def add_triggers(self, count: int, *, due_in_ms: int) -> None:
        """Jobs with triggers that fire once."""
        at = await now(self.database) + due_in_ms
        jobs = [await add_job(self.database) for _ in range(JOBS)]
        spec = spec_to_json(OnceSpec(at=at))
        ids = range(self._last_id + 1, self._last_id + 1 + count)
        self._last_id += count
        rows = [
            {
                "id": trigger_id,
                "job_id": jobs[trigger_id % JOBS],
                "executor_id": 1,
                "bucket": bucket_of(trigger_id),
                "spec": spec,
                "paused": False,
                "state": "active",
                "next_fire_at": at,
                "version": 1,
                "created_at": at,
            }
            for trigger_id in ids
        ]
        await self.database.run(insert_rows, tables.trigger, rows, columns=tuple(rows[0]))

    async def add_idle_nodes(self, count: int) -> None:
        """Nodes of another executor, connected to this admin, for which nothing is due."""
        for number in range(count):
            await self.admin.add_node(2, name=f"idle-{number}")

    async def add_old_runs(self, count: int) -> None:
        """Runs of yesterday, of the jobs that there are."""
        ids = range(self._last_id + 1, self._last_id + 1 + count)
        self._last_id += count
        await self.database.run(_write_old_runs, ids)


def _write_old_runs(conn: sa.Connection, ids: Sequence[int]) -> None:
    at = now_ms(conn) - 24 * _HOUR_MS
    jobs = conn.execute(sa.select(tables.job.c.id).order_by(tables.job.c.id)).scalars().all()
    old = [
        Run(
            id=run_id,
            executor_id=1,
            job_id=jobs[run_id % len(jobs)],
            job_revision=1,
            trigger_id=None,
            origin=Origin.SCHEDULE,
            scheduled_at=at,
            created_at=at,
            state=RunState.SUCCEEDED,
            due_at=at,
            attempt=1,
            tries=1,
            node_id=1,
            dispatched_at=at,
            started_at=at,
            ended_at=at,
        )
        for run_id in ids
    ]
    insert_fires(conn, old)


def chunk_of(request: RunRequest) -> LogChunk:
    lines = [WireLine(at=1, level=Level.INFO, text=f"line {n}") for n in range(RUNS // CHUNKS)]
    return LogChunk(
        run=request.run, attempt=request.attempt, token=request.token, first_seq=1, lines=lines
    )


def result_of(request: RunRequest) -> Result:
    return Result(
        run=request.run,
        attempt=request.attempt,
        token=request.token,
        outcome=Outcome.SUCCEEDED,
        duration_ms=1,
    )


def succeeded(conn: sa.Connection, run_ids: Sequence[int]) -> int:
    return int(
        conn.execute(
            sa.select(sa.func.count())
            .select_from(tables.run)
            .where(tables.run.c.id.in_(run_ids), tables.run.c.state == "succeeded")
        ).scalar_one()
    )


@pytest.mark.parametrize("events", [False, True], ids=["", "events"])
async def test_a_thousand_runs_take_few_statements_commits_rows_and_frames(
    database_url: str, events: bool
) -> None:
    database = Database(database_url, interest=EventInterest() if events else NobodyInterested())
    try:
        bench = await Bench.make(database)
        if events:
            await database.run(want_events)
        await bench.add_triggers(IDLE_TRIGGERS, due_in_ms=24 * _HOUR_MS)
        await bench.add_old_runs(OLD_RUNS)
        await database.run(know_tables)
        await bench.costs_of(JOBS)  # what is read once and kept
        alone = await bench.costs_of(FEW_RUNS)
        await bench.add_triggers(IDLE_TRIGGERS, due_in_ms=24 * _HOUR_MS)
        await bench.add_idle_nodes(IDLE_NODES)
        await bench.add_old_runs(OLD_RUNS)
        await database.run(know_tables)
        crowded = await bench.costs_of(FEW_RUNS)
        costs = await bench.costs_of(RUNS)
    finally:
        await database.close()

    dialect = database.engine.dialect.name
    most_touched = MOST_TOUCHED[dialect]
    for name in MOST_STATEMENTS:
        work: Work = getattr(costs, name)
        print(f"{name}: {work}; {FEW_RUNS} alone: {getattr(alone, name)}")
        print(f"    in a crowd: {getattr(crowded, name)}")
        most = MOST_STATEMENTS[name] + (MORE_WITH_EVENTS[name] if events else 0)
        assert work.statements <= most, name
        assert work.sets <= work.statements, f"{name}: rows are sent one by one"
        assert work.commits <= MOST_COMMITS[name], name
        more = MORE_TOUCHED_WITH_EVENTS[name] if events else 0
        assert work.touched <= most_touched[name] + more, name
    assert costs.all.logged <= MOST_LOGGED[dialect] * 1_024
    assert any("run_event_batch" in text for text in costs.all.texts) == events
    # What is no workflow, no step of one, and in no pool, pays nothing for them.
    assert not [text for text in costs.all.texts if "workflow_" in text or "pool_use" in text]
    assert costs.frames <= MOST_FRAMES
    assert crowded.frames == alone.frames
    assert crowded.all.statements <= alone.all.statements + MORE_STATEMENTS
    assert crowded.all.touched <= alone.all.touched + MORE_TOUCHED
