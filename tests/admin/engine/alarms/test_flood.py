"""Ten thousand runs fail within a minute: few messages, nothing left out, little work."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from typing import Any

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.admin.kit.alarms import Alarms
from tests.admin.kit.clock import Clock
from tests.admin.kit.rows import now
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.message import MAX_ENTRIES
from tickwheel_admin.domain.alarms.rule import RuleLimits
from tickwheel_admin.domain.input.job import config_to_json
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.planning.fires import new_run
from tickwheel_admin.domain.runs import moves
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import Origin, Run, RunState
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs.follow_ups import move_with_follow_ups
from tickwheel_admin.store.runs.inserts import insert_fires
from tickwheel_shared.protocol import Outcome

pytestmark = pytest.mark.turned_clock

RUNS, JOBS, EXECUTORS = 10_000, 9_000, 10  # one of the jobs fails a thousand times
BATCH = 500  # runs of one transaction
LETTERS = str.maketrans("0123456789", "abcdefghij")
CONFIG = JobConfig(name="job", handler="hello")


def add_jobs(conn: sa.Connection, jobs: int) -> None:
    """Jobs 1 to so many, spread over the executors."""
    at = {"created_at": 1, "deleted_at": 0}
    executors = [
        {"id": n, "name": f"executor-{n}", "description": "", "token_hash": f"hash-{n}"} | at
        for n in range(1, EXECUTORS + 1)
    ]
    insert_rows(conn, tables.executor, executors, columns=list(executors[0]))
    rows: list[dict[str, Any]] = [
        {
            "id": n, "executor_id": executor_of(n), "name": f"job-{n}", "handler": "hello",
            "owner": "", "tags": "", "revision": 1, "paused": False, "route_cursor": 0,
            "updated_at": 1, "usual_ms": 1_000, "failure_rate": 0,
        } | at
        for n in range(1, jobs + 1)
    ]  # fmt: skip
    insert_rows(conn, tables.job, rows, columns=list(rows[0]))
    config = {"revision": 1, "config": config_to_json(CONFIG), "created_at": 1, "created_by": "me"}
    configs = [{"job_id": n} | config for n in range(1, jobs + 1)]
    insert_rows(conn, tables.job_revision, configs, columns=list(configs[0]))


def executor_of(job_id: int) -> int:
    return 1 + job_id % EXECUTORS


def add_running(conn: sa.Connection, runs: int, jobs: int, *, first: int, now: int) -> list[Run]:
    """Runs that are under way since a second."""
    began = now - 1_000
    made = [
        new_run(
            CONFIG,
            id=first + n,
            executor_id=executor_of(1 + n % jobs),
            job_id=1 + n % jobs,
            revision=1,
            origin=Origin.SCHEDULE,
            scheduled_at=began,
            now=began,
        )
        for n in range(runs)
    ]
    insert_fires(conn, made)
    live = {"state": RunState.RUNNING.value, "tries": 1, "attempt": 1, "started_at": began}
    conn.execute(sa.update(tables.run).where(tables.run.c.id >= first).values(live))
    return [
        replace(each, state=RunState.RUNNING, tries=1, attempt=1, started_at=began) for each in made
    ]


def end(
    conn: sa.Connection, runs: list[Run], outcome: Outcome, *, configs: JobConfigs, now: int
) -> None:
    """As a recorder ends them."""
    ended = [
        moves.ended(
            run,
            outcome,
            RetryPolicy(),
            duration_ms=1_000,
            result=None,
            # In letters: long numbers do not tell failures apart. Each job fails in its own
            # way, or all jobs of an executor would be one alarm.
            message=f"ValueError: no {str(run.job_id).translate(LETTERS)}",
            log_lines=0,
            now=now,
        )
        for run in runs
    ]
    move_with_follow_ups(conn, ended, configs=configs, now=now)


async def a_minute_later(database: Database, clock: Clock) -> None:
    """Servers have clocks of their own, so there everything else goes a minute back."""
    if database.engine.dialect.name == "sqlite":
        clock.advance(60)
        return

    def back(conn: sa.Connection) -> None:
        for column in (tables.notification.c.due_at, tables.alarm_channel.c.paced_to):
            moved = sa.update(column.table).values({column.name: column - 60_000})
            conn.execute(moved)

    await database.run(back)


def statements_of(database: Database) -> list[str]:
    """Grows with each statement from now on."""
    seen: list[str] = []

    def note(_c: Any, _u: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    sa.event.listen(database.engine, "before_cursor_execute", note)
    return seen


@pytest.mark.every_database(nightly=True)
async def test_ten_thousand_failures_of_a_minute(database: Database, clock: Clock) -> None:
    alarms = Alarms(database)
    mail = await alarms.channel(per_minute=20)
    await alarms.rule(AlarmKind.FAILED, mail)
    await alarms.evaluate()
    await database.run(add_jobs, JOBS)
    configs = JobConfigs()
    clock.now = await now(database)
    runs = await database.run(add_running, RUNS, JOBS, first=1, now=clock.now)
    # One of the jobs has all that are beyond the number of jobs.
    for start in range(0, RUNS, BATCH):
        await database.run(
            end, runs[start : start + BATCH], Outcome.FAILED, configs=configs, now=clock.now
        )
        clock.advance(1)
    tracemalloc.start()  # of one pass: the others hold no more
    await alarms.evaluator.run_once()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * 1024 * 1024
    passes = 1
    statements = statements_of(database)
    while await alarms.evaluator.run_once():
        passes += 1
    await alarms.deliver()
    for _ in range(3):
        await a_minute_later(database, clock)
        await alarms.evaluate()
        await alarms.deliver()
    assert passes <= RUNS / 1_000
    assert len(statements) < RUNS / 10

    taken = alarms.provider.taken
    assert len(taken) <= 2 * EXECUTORS
    assert len({each.id for each in taken}) == len(taken)
    assert max(len(each.entries) for each in taken) <= MAX_ENTRIES
    assert sum(each.covered for each in taken) == JOBS

    def read(conn: sa.Connection) -> tuple[int, Counter[int], set[int]]:
        count = conn.execute(sa.select(sa.func.sum(tables.alarm.c["count"]))).scalar_one()
        items = tables.notification_item
        listed = Counter(conn.execute(sa.select(items.c.alarm_id)).scalars())
        kept = set(conn.execute(sa.select(tables.alarm.c.id)).scalars())
        return int(count), listed, kept

    count, listed, kept = await database.read(read)
    assert count == RUNS
    assert listed.keys() == kept
    assert set(listed.values()) == {1}


@pytest.mark.parametrize(
    ("outcome", "limits", "statements"),
    [
        (Outcome.SUCCEEDED, None, 0),
        (Outcome.FAILED, None, 1),
        (Outcome.SUCCEEDED, RuleLimits(seconds=9), 0),
        (Outcome.SUCCEEDED, RuleLimits(factor=3), 0),
        (Outcome.FAILED, RuleLimits(factor=0.5), 1),
    ],
)
async def test_what_alarms_cost_those_who_record_runs(
    database: Database, clock: Clock, outcome: Outcome, limits: RuleLimits | None, statements: int
) -> None:
    """More statements for each batch of 500, whatever the number of runs and rules."""
    configs = JobConfigs()
    await database.run(add_jobs, 100)
    seen = statements_of(database)

    async def record(first: int, outcome: Outcome) -> tuple[int, int]:
        """(all statements, those that are for alarms)."""
        runs = await database.run(add_running, 1_000, 100, first=first, now=clock.now)
        seen.clear()
        for start in range(0, 1_000, BATCH):
            some = runs[start : start + BATCH]
            await database.run(end, some, outcome, configs=configs, now=clock.now)
        return len(seen), sum("alarm" in each or "usual_ms" in each for each in seen)

    await record(1, outcome)
    plain = await record(2_001, outcome)
    if limits is not None:
        alarms = Alarms(database, watch=configs.watch)
        for number in range(20):
            await alarms.rule(AlarmKind.SLOW, limits=limits, name=f"slow {number}")
        await alarms.evaluate()
        await record(4_001, outcome)  # what is usual of jobs is read once
        assert configs.watch.has_rules
    assert await record(6_001, outcome) == (plain[0], 2 * statements)
