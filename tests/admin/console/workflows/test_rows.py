"""The time of steps: what they waited for is apart from their work."""

from __future__ import annotations

from typing import Any

import pytest

from tickwheel_admin.console.workflows import labels
from tickwheel_admin.console.workflows.graph import look_of
from tickwheel_admin.console.workflows.rows import rows_of
from tickwheel_admin.domain.runs.run import Origin, Run, RunState
from tickwheel_admin.domain.workflows.graph import (
    Approval,
    Body,
    JobStep,
    Silence,
    Step,
    Wait,
    Workflow,
)
from tickwheel_admin.domain.workflows.states import StepState, StepStatus
from tickwheel_admin.services.workflows.steps import StepView, WorkflowView
from tickwheel_admin.store.workflows.views import StepRun, StepTry

JOB = JobStep(job_id=1)
WHOLE = Run(
    id=1, executor_id=1, job_id=1, job_revision=1, trigger_id=None, origin=Origin.MANUAL,
    scheduled_at=0, created_at=0, due_at=0, state=RunState.RUNNING, started_at=0,
)  # fmt: skip
NOW = 1_000


def try_of(number: int, state: str, started_at: int | None, ended_at: int) -> StepTry:
    return StepTry(number, RunState(state), started_at, ended_at)


def run_of(state: str, attempt: int = 1) -> StepRun:
    return StepRun(7, RunState(state), None, None, None, attempt)


@pytest.mark.parametrize(
    ("body", "status", "more", "bars"),
    [
        (JOB, {"state": "running", "started_at": 100}, {"work_began_at": 300, "run": "running"},
         ["queued 100-300", "running 300-"]),
        (JOB, {"state": "running", "started_at": 100}, {"run": "queued"}, ["queued 100-"]),
        (JOB, {"state": "failed", "started_at": 100, "since": 400}, {"run": "cancelled"},
         ["queued 100-400", "cancelled 400-400"]),
        (JOB, {"state": "failed", "started_at": 100, "since": 100}, {}, ["failed 100-100"]),
        # Tries, with a pause between them.
        (JOB, {"state": "succeeded", "started_at": 100, "since": 900},
         {"work_began_at": 700, "run": "succeeded",
          "tries": (try_of(1, "failed", 150, 300), try_of(2, "lost", 400, 500))},
         ["queued 100-150", "failed 150-300", "queued 300-400", "lost 400-500", "queued 500-700",
          "succeeded 700-900"]),
        (JOB, {"state": "running", "started_at": 100},
         {"run": "queued", "tries": (try_of(1, "failed", 150, 300),)},
         ["queued 100-150", "failed 150-300", "queued 300-"]),
        # Of a for_each: until its first item begins.
        (JOB, {"state": "running", "started_at": 100, "items": 9}, {"work_began_at": 200},
         ["queued 100-200", "running 200-"]),
        # What waits for a person or an instant never works.
        (Approval(), {"state": "ready", "started_at": 100}, {}, ["queued 100-"]),
        (Approval(), {"state": "failed", "started_at": 100, "since": 600}, {},
         ["queued 100-600", "failed 600-600"]),
        (Wait(duration_ms=500), {"state": "succeeded", "started_at": 100, "since": 600}, {},
         ["queued 100-600", "succeeded 600-600"]),
        (JOB, {"state": "ready", "started_at": 100, "reason": "breakpoint"}, {}, ["queued 100-"]),
        (JOB, {"state": "skipped", "started_at": 100, "since": 100}, {}, []),
        (JOB, {"state": "waiting"}, {}, []),
    ],
)  # fmt: skip
def test_waiting_is_apart_from_working(
    body: Body, status: dict[str, Any], more: dict[str, Any], bars: list[str]
) -> None:
    step = Step(key="load", body=body)
    values = {"since": 100} | status | {"state": StepState(status["state"])}
    seen = dict(more)
    if "run" in seen:
        seen["run"] = run_of(seen["run"], attempt=len(seen.get("tries", ())) + 1)
    view = StepView(
        step=step,
        status=StepStatus(workflow_run_id=1, step_index=0, **values),
        waits_for=(),
        is_critical=False,
        **({"run": None} | seen),
    )
    whole = WorkflowView(run=WHOLE, workflow=Workflow(steps=(step,)), steps=(view,))
    (row,) = rows_of(whole, now=NOW).rows
    told = [f"{bar.kind} {bar.first}-{'' if bar.last is None else bar.last}" for bar in row.bars]
    assert told == bars
    for bar in row.bars:
        assert 0 <= bar.x <= bar.x + bar.width <= 100


@pytest.mark.parametrize(
    ("body", "status", "run", "word", "note", "icon"),
    [
        (JOB, {"state": "running"}, run_of("queued", 0), "Queued", "Has not begun", "s-queued"),
        (JOB, {"state": "running"}, run_of("queued", 1), "Retrying", None, "s-retrying"),
        (JOB, {"state": "running"}, run_of("running"), "Running", None, "s-running"),
        (JOB, {"state": "running"}, None, "Running", None, "s-running"),  # not for the reader
        (JOB, {"state": "ready", "reason": "breakpoint"}, None, "Paused", "Waits until", "pause"),
        (Approval(), {"state": "ready", "reason": "approval"}, None,
         "Needs approval", "Waits for an approval.", "clock"),
        (Approval(), {"state": "ready", "reason": "approval", "due_at": 9, "message": "Go?"}, None,
         "Needs approval", "Go? Without an answer it is declined at", "clock"),
        (Approval(silence=Silence.APPROVE), {"state": "ready", "reason": "approval", "due_at": 9},
         None, "Needs approval", "Without an answer it is approved at", "clock"),
        (Wait(duration_ms=5), {"state": "ready", "reason": "wait", "due_at": 9}, None,
         "Waits", "Waits until", "clock"),
        (Approval(), {"state": "failed", "reason": "declined", "due_at": 9}, None,
         "Failed", "Nobody answered in time: it counts as declined.", "s-failed"),
        (Approval(), {"state": "succeeded", "reason": "approved", "decided_by": "olga",
                      "message": "Fine."}, None,
         "Succeeded", "Approved by olga. Fine.", "s-succeeded"),
        (JOB, {"state": "succeeded", "reason": "passed_by_hand", "decided_by": "olga"}, None,
         "Succeeded", "Skipped by olga: it counts as passed.", "s-succeeded"),
    ],
)  # fmt: skip
def test_a_step_that_waits_says_so(
    body: Body, status: dict[str, Any], run: StepRun | None, word: str, note: str | None, icon: str
) -> None:
    values = {"since": 1, "started_at": 1} | status | {"state": StepState(status["state"])}
    view = StepView(
        step=Step(key="load", body=body),
        status=StepStatus(workflow_run_id=1, step_index=0, **values),
        run=run,
        waits_for=(),
        is_critical=False,
    )
    assert labels.state_name(view) == word
    told = labels.note(view)
    assert told is None if note is None else (told or "").startswith(note)
    assert labels.icon_of(view, look_of(view)) == icon
