"""What hundreds of runs cost the database, counted and not timed: statements, rows sent one by one,
commits, frames. Whatever asks something for every single run shows here, on any machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tests.admin.engine_kit import Admin, FakeSession, add_job, create_schema, now
from tickwheel_admin.domain.trigger import TriggerKind, TriggerSpec
from tickwheel_admin.store import tables
from tickwheel_admin.store.database import Database
from tickwheel_shared.protocol import Accepted, Message, Outcome, Result, RunRequest

RUNS = 500
JOBS = 20

# For RUNS runs from their triggers to their stored results; about a third above what it takes.
MOST_STATEMENTS = {"plan": 260, "claim": 40, "record": 13}
MOST_COMMITS = {"plan": 26, "claim": 4, "record": 4}
MOST_FRAMES = 4
# Each further run adds no statement of its own: only what each batch of hundreds takes.
MOST_STATEMENTS_PER_FURTHER_RUN = 0.3


@dataclass
class Work:
    """What was asked of the database."""

    statements: int = 0
    sets: int = 0  # of parameters; a driver may send each as a statement
    commits: int = 0


@contextmanager
def counted() -> Iterator[Work]:
    """Count what any database engine of this process is asked meanwhile."""
    work = Work()

    def on_statement(
        _conn: Any, _cursor: Any, _statement: str, parameters: Any, _context: Any, many: bool
    ) -> None:
        work.statements += 1
        work.sets += len(parameters) if many else 1

    def on_commit(_conn: Any) -> None:
        work.commits += 1

    sa.event.listen(sa.Engine, "before_cursor_execute", on_statement)
    sa.event.listen(sa.Engine, "commit", on_commit)
    try:
        yield work
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", on_statement)
        sa.event.remove(sa.Engine, "commit", on_commit)


class CountingSession(FakeSession):
    """Also counts the frames in which a node is sent its runs."""

    frames = 0

    def send(self, messages: Sequence[Message]) -> None:
        self.frames += any(isinstance(message, RunRequest) for message in messages)
        super().send(messages)


@dataclass
class Costs:
    """Of one batch of runs."""

    plan: Work
    claim: Work
    record: Work
    frames: int

    @property
    def statements(self) -> int:
        return self.plan.statements + self.claim.statements + self.record.statements


async def costs_of(database: Database, admin: Admin, runs: int) -> Costs:
    """Plan, claim and record so many runs, all due at once."""
    session = await admin.add_node(1, slots=runs)
    counting = CountingSession(session.node_id, session.executor_id)
    admin.links.sessions = {session.node_id: counting}
    at = await now(database) - 10
    spec = TriggerSpec(kind=TriggerKind.ONCE, at=at)
    for _ in range(JOBS):
        await add_job(database, triggers=[(spec, at)] * (runs // JOBS))

    with counted() as plan:
        while await admin.engine.planner.run_once():
            pass
    with counted() as claim:
        requests = await admin.dispatch_all(counting)
    assert len(requests) == runs
    with counted() as record:
        await admin.say(
            counting, *(Accepted(run=r.run, attempt=r.attempt, token=r.token) for r in requests)
        )
        await admin.say(counting, *(result_of(r) for r in requests))
    assert await database.read(succeeded) >= runs
    return Costs(plan=plan, claim=claim, record=record, frames=counting.frames)


def result_of(request: RunRequest) -> Result:
    return Result(
        run=request.run,
        attempt=request.attempt,
        token=request.token,
        outcome=Outcome.SUCCEEDED,
        duration_ms=1,
    )


def succeeded(conn: sa.Connection) -> int:
    ended = sa.select(sa.func.count()).select_from(tables.run).filter_by(state="succeeded")
    return int(conn.execute(ended).scalar_one())


async def test_hundreds_of_runs_take_few_statements_commits_and_frames(
    database_url: str,
) -> None:
    database = Database(database_url)
    try:
        await create_schema(database)
        admin = Admin(database)
        await admin.engine.membership.enter()
        await costs_of(database, admin, JOBS)  # what is read once and kept
        costs = await costs_of(database, admin, RUNS)
        more = await costs_of(database, admin, 2 * RUNS)
    finally:
        await database.close()

    for name in ("plan", "claim", "record"):
        work: Work = getattr(costs, name)
        print(f"{name}: {work}")
        assert work.statements <= MOST_STATEMENTS[name], name
        assert work.sets <= work.statements, f"{name}: rows are sent one by one"
        assert work.commits <= MOST_COMMITS[name], name
    print(f"frames: {costs.frames}, {more.statements - costs.statements} statements more for twice")
    assert costs.frames <= MOST_FRAMES
    further = (more.statements - costs.statements) / RUNS
    assert further <= MOST_STATEMENTS_PER_FURTHER_RUN
