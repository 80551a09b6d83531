"""A failed run is held against the last good one of its job."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.domain.errors import Conflict, NotFound
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.failures.detective import RunComparison
from tickwheel_admin.services.failures.failures import FailureGroups
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.failures import good_runs
from tickwheel_admin.store.runs.logs import append_log_chunks
from tickwheel_shared.protocol import Level, LogChunk, WireLine

pytestmark = pytest.mark.every_database
MINUTE = 60_000


class Case:
    """Runs of one job."""

    def __init__(self, world: World, executor_id: int) -> None:
        self.world = world
        self.executor_id = executor_id
        self.failures = FailureGroups(world.database, Ids(world.database), world.events)
        self.job_id = 0

    def run(self, minutes_ago: int, *, state: str = "failed", **changes: Any) -> int:
        at = self.world.now - minutes_ago * MINUTE
        values: dict[str, Any] = {
            "executor_id": self.executor_id,
            "job_id": self.job_id,
            "state": state,
            "scheduled_at": at,
            "dispatched_at": at + 10,
            "started_at": at + 30,
            "ended_at": at + 130,
            "attempt": 1,
        }
        return self.world.run(**values | changes)

    def log(self, run_id: int, *texts: str, per_chunk: int = 1) -> None:
        lines = [WireLine(at=1, level=Level.INFO, text=text) for text in texts]
        chunks = [
            LogChunk(
                run=run_id,
                attempt=1,
                token="t",
                first_seq=first + 1,
                lines=lines[first : first + per_chunk],
            )
            for first in range(0, len(lines), per_chunk)
        ]
        self.world.database.run_sync(append_log_chunks, chunks)

    async def why(self, run_id: int, actor: Any = ADMIN) -> RunComparison:
        return await self.failures.why(actor, run_id)


@pytest.fixture
async def case(world: World) -> Case:
    case = Case(world, await world.executor())
    world.node(case.executor_id)
    case.job_id = await world.jobs.create(ADMIN, case.executor_id, JOB)
    return case


async def test_what_differs_is_told(case: Case) -> None:
    world = case.world
    old = world.node(case.executor_id, name="old", sdk="python/1", labels='{"zone": "a"}')
    new = world.node(case.executor_id, name="new", sdk="python/2", labels='{"zone": "b"}')
    edited = JOB | {"timeout_seconds": 7}
    await world.jobs.update(ADMIN, case.job_id, edited, revision=1)
    good = case.run(3, state="succeeded", node_id=old, parameters='{"a": 1, "b": [1], "c": "x"}')
    failed = case.run(
        1,
        node_id=new,
        job_revision=2,
        parameters='{"a": 1, "b": [2], "d": null}',
        ended_at=world.now,
    )
    case.log(good, "begin 17382", "asks the gateway", "done")
    case.log(failed, "begin 99999", "asks \x1b[31mthe\x1b[0m gateway", "refused")
    found = await case.why(failed)
    assert found.good is not None
    assert found.good.run.id == good
    assert [(each.name, each.good, each.failed) for each in found.parameters] == [
        ("b", "[1]", "[2]"),
        ("c", "x", None),
        ("d", None, "null"),
    ]
    assert found.node is not None
    assert (found.node.good, found.node.failed) == ("old", "new")
    assert found.sdk is not None
    assert (found.sdk.good, found.sdk.failed) == ("python/1", "python/2")
    assert [(each.name, each.good, each.failed) for each in found.labels] == [("zone", "a", "b")]
    assert "timeout_seconds" in found.fields
    waiting, sending, running = found.phases
    assert (waiting.good_ms, sending.good_ms, running.good_ms) == (10, 20, 100)
    assert (running.failed_ms or 0) > 50_000
    assert found.line is not None
    assert (found.line.number, found.line.good, found.line.failed) == (3, "done", "refused")


async def test_what_is_the_same_is_not_told(case: Case) -> None:
    good = case.run(3, state="succeeded")
    failed = case.run(1)
    case.log(good, "one", "two")
    case.log(failed, "one", "two")
    found = await case.why(failed)
    assert found.good is not None
    assert not found.parameters
    assert not found.labels
    assert not found.fields
    assert (found.node, found.sdk, found.line) == (None, None, None)


async def test_colours_are_no_difference(case: Case) -> None:
    good = case.run(9, state="succeeded")
    failed = case.run(8)
    case.log(good, "one", "\x1b[32mtwo\x1b[0m")
    case.log(failed, "one", "two", "\x1b[1;31mthree\x1b[0m")
    line = (await case.why(failed)).line
    assert line is not None
    assert (line.number, line.good, line.failed) == (3, None, "three")


async def test_earlier_attempts_are_no_waiting(case: Case) -> None:
    case.run(9, state="succeeded")
    due_at = case.world.now - 2 * MINUTE  # of the second attempt; the first took minutes
    times = {"dispatched_at": due_at + 40, "started_at": due_at + 50, "ended_at": due_at + 60}
    failed = case.run(8, attempt=2, due_at=due_at, **times)
    assert (await case.why(failed)).phases[0].failed_ms == 40


async def test_which_run_is_the_last_good_one(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case.run(9, state="succeeded")
    newest = case.run(8, state="succeeded")
    case.run(7, state="succeeded", origin="try")
    case.run(6, state="succeeded", shard_index=3)
    case.run(5)
    failed = case.run(4)
    case.run(1, state="succeeded")  # later
    found = await case.why(failed)
    assert found.good is not None
    assert found.good.run.id == newest
    monkeypatch.setattr(good_runs, "LOOKED_AT", 3)
    assert (await case.why(failed)).good is None


async def test_logs_are_read_as_far_as_they_are_alike(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(good_runs, "CHUNKS_AT_ONCE", 2)
    monkeypatch.setattr(good_runs, "MAX_LINES", 25)
    good = case.run(3, state="succeeded")
    failed = case.run(1)
    same = [f"line {chr(97 + n % 26)}" for n in range(23)]
    case.log(good, *same, "good", per_chunk=3)
    case.log(failed, *same, per_chunk=4)
    found = await case.why(failed)
    assert found.line is not None
    assert (found.line.number, found.line.good, found.line.failed) == (24, "good", None)
    monkeypatch.setattr(good_runs, "MAX_LINES", 20)
    assert (await case.why(failed)).line is None


async def test_who_may_not_see_the_run_learns_nothing(case: Case) -> None:
    failed = case.run(1)
    with pytest.raises(NotFound):
        await case.why(failed, actor_with(Role.VIEWER, case.executor_id + 1))
    with pytest.raises(Conflict, match="has not failed"):
        await case.why(case.run(1, state="succeeded"))


async def test_few_queries_are_asked(case: Case) -> None:
    """However many runs and lines there are."""
    for minutes in range(2, 300):
        case.run(minutes)
    good = case.run(400, state="succeeded")
    failed = case.run(1)
    for run_id in (good, failed):
        case.log(run_id, *(f"line {n % 10}" for n in range(1_500)), per_chunk=500)
    seen: list[str] = []
    engine = case.world.database.engine
    sa.event.listen(engine, "before_cursor_execute", lambda _c, _u, text, *_: seen.append(text))
    found = await case.why(failed)
    assert found.good is not None
    assert found.line is None
    reads = [each for each in seen if each.lstrip().upper().startswith(("SELECT", "WITH"))]
    assert len(reads) <= 16
    assert sum(tables.run_log.name in each for each in reads) <= 4
