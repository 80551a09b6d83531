"""The shape of what the API tells of the steps of a workflow's run."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from tickwheel_admin.api.answers import Instant, doc
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_shared.workflows.parts import StepState


class StepItemsJson(TypedDict):
    """How far the items of a step with `for_each` are."""

    all: int
    started: int
    succeeded: int
    failed: int
    skipped: int


class StepJson(TypedDict):
    """A step of a run."""

    key: str
    step: Annotated[dict[str, Any], doc("As its workflow says, without what says nothing.")]
    state: StepState
    reason: str | None
    message: str | None
    since: Instant | None
    started_at: Instant | None
    due_at: Annotated[Instant | None, doc("When a wait or the time for an answer ends.")]
    decided_by: Annotated[str | None, doc("Who answered or skipped it.")]
    taken_from: Annotated[int | None, doc("The run whose result was taken over.")]
    waits_for: Annotated[list[str], doc("Keys of steps.")]
    critical: Annotated[bool, doc("The run takes as long as it does because of this step.")]
    run_id: int | None
    run_state: RunState | None
    items: StepItemsJson | None


class StepsJson(TypedDict):
    """The steps of a workflow's run."""

    run_id: int
    state: RunState
    output: Annotated[str | None, doc("Key of the step whose result is the run's.")]
    steps: list[StepJson]


class StepItemJson(TypedDict):
    """An item of a step with `for_each` that has a run."""

    item: Annotated[int, doc("Its place in the list, from 0.")]
    run_id: int | None
    state: RunState
    started_at: Instant | None
    ended_at: Instant | None
    message: str | None
