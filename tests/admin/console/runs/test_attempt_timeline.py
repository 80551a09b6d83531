"""The timeline of a run that was tried again: a row for each try, waiting apart from work."""

from __future__ import annotations

from typing import Any

from tickwheel_admin.console.runs.attempt_timeline import AttemptRow, attempt_timeline
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.domain.runs.run import PARKED_AT, Attempt, Origin, Run, RunState
from tickwheel_admin.services.runs.service import AttemptView, RunDetail, RunItem

NOW = 100_000
FIRST = {"due_at": 0, "dispatched_at": 2_000, "started_at": 2_500, "ended_at": 10_000}
SERIAL = BlockingPolicy(strategy=Blocking.SERIAL)


def rows(
    *attempts: dict[str, Any], blocking: BlockingPolicy | None = None, **run: Any
) -> list[AttemptRow]:
    values: dict[str, Any] = {
        "id": 7, "executor_id": 1, "job_id": 1, "job_revision": 1, "trigger_id": 1,
        "origin": Origin.SCHEDULE, "scheduled_at": 0, "created_at": 0, "state": RunState.FAILED,
        "due_at": 40_000, "attempt": len(attempts) + 1, "dispatched_at": 45_000,
        "started_at": 45_000, "ended_at": 50_000,
    }  # fmt: skip
    item = RunItem(
        run=Run(**(values | run)),
        job_name="job",
        executor_name="executor",
        node_name="node-2",
        progress=None,
        progress_text="",
    )
    fields = dict.fromkeys(Attempt.__struct_fields__) | {"run_id": 7, "log_lines": 0, "node_id": 1}
    views = [
        AttemptView(
            attempt=Attempt(**(fields | {"attempt": n, "state": RunState.FAILED} | each)),
            node_name="node-1",
        )
        for n, each in enumerate(attempts, start=1)
    ]
    detail = RunDetail(
        item=item,
        config=JobConfig(name="job", handler="h", blocking=blocking or BlockingPolicy()),
        parameters="{}",
        attempts=views,
        waiting=None,
        checkpoint=None,
        job_deleted=False,
        shards=[],
        usual_ms=None,
        children=[],
    )
    return attempt_timeline(detail, now=NOW)


def told(row: AttemptRow) -> list[tuple[str, int]]:
    return [(span.kind, span.ms) for span in row.spans]


def test_each_try_tells_its_pause_its_wait_and_its_work() -> None:
    first, second = rows(FIRST)
    assert told(first) == [("queued", 2_000), ("sent", 500), ("failed", 7_500)]
    assert told(second) == [("pause", 30_000), ("queued", 5_000), ("failed", 5_000)]
    assert (first.node_name, second.node_name) == ("node-1", "node-2")
    assert [(span.x, span.width) for span in second.spans] == [(20, 60), (80, 10), (90, 10)]
    assert rows() == []  # tried once: its phases tell it all


def test_the_next_try_is_a_row_that_waits() -> None:
    waits: dict[str, Any] = {"state": RunState.QUEUED, "attempt": 1, "ended_at": 10_000}
    for due_at, told_as in ((NOW + 5_000, "pause"), (PARKED_AT, "turn")):
        _, following = rows(FIRST, **waits, due_at=due_at)
        assert told(following) == [(told_as, 90_000)]
        assert (following.number, following.spans[0].since) == (2, 10_000)
    _, following = rows(FIRST, **waits, due_at=40_000)
    assert told(following) == [("pause", 30_000), ("queued", 60_000)]
    ended = {"state": RunState.CANCELLED, "attempt": 1, "ended_at": 20_000}
    _, following = rows(FIRST, **ended)
    assert told(following) == [("pause", 10_000)]


def test_a_first_try_waits_for_its_turn_where_runs_stand_in_line() -> None:
    first, _ = rows(FIRST | {"due_at": 1_500}, blocking=SERIAL)
    assert told(first)[:2] == [("turn", 1_500), ("queued", 500)]


def test_what_goes_on_has_no_end_yet() -> None:
    live = {"state": RunState.RUNNING, "ended_at": None}
    *_, last = rows(FIRST, **live)
    assert last.spans[-1].kind == "running"
    assert (last.spans[-1].since, last.spans[-1].ms) == (45_000, 55_000)
