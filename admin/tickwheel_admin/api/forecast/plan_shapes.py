"""The shape of night plans."""

from __future__ import annotations

from typing import Annotated, TypedDict

from tickwheel_admin.api.answers import Instant, doc
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.services.forecast.plan import (
    DeadlineVerdict,
    RemedyKind,
    StepOrigin,
    WaitReason,
)


class PlanPastRunJson(TypedDict):
    """A run that has ended."""

    run_id: int
    job_id: int
    job_name: str | None
    state: RunState
    scheduled_at: Instant | None
    started_at: Annotated[Instant | None, doc("null: it did not start.")]
    ended_at: Instant | None
    node_id: int | None
    parent_run_id: Annotated[int | None, doc("The run whose end asked for it.")]


class PlanRunJson(TypedDict):
    """A run that runs, waits, or is predicted."""

    run_id: Annotated[int | None, doc("null: it is predicted.")]
    job_id: int
    job_name: str | None
    running: bool
    due_at: Instant | None
    start_at: Annotated[Instant | None, doc("Half of the draws start it by then.")]
    end_at: Annotated[Instant | None, doc("Half of the draws end it by then; null: later.")]
    slow_end_at: Annotated[Instant | None, doc("95 of 100 draws end it by then; null: later.")]
    node_id: Annotated[int | None, doc("Where it is, or in one of the draws would be.")]
    after_job_id: Annotated[int | None, doc("The job whose end asks for it.")]
    share: Annotated[float, doc("0 to 1: of the draws in which it starts.")]


class PlanSumJson(TypedDict):
    """Runs of a job that are too many to be told one by one."""

    job_id: int
    job_name: str | None
    runs: int
    first_at: Instant | None
    last_at: Instant | None
    busy_seconds: Annotated[float, doc("Of all of them together.")]


class SlotHolderJson(TypedDict):
    """A job that holds slots meanwhile."""

    job_id: Annotated[int | None, doc("null: you may not see it.")]
    job_name: str | None
    runs: int
    held_seconds: Annotated[float, doc("Of all slots that it holds during the wait.")]


class PathStepJson(TypedDict):
    """A run that a deadline depends on."""

    job_id: Annotated[int | None, doc("null: you may not see it.")]
    job_name: str | None
    run_id: int | None
    due_at: Instant | None
    start_at: Instant | None
    end_at: Instant | None
    origin: Annotated[StepOrigin, doc("Why it is due when it is.")]
    waits_for: Annotated[WaitReason | None, doc("null: it starts when it is due.")]
    wait_seconds: float
    holders: list[SlotHolderJson]


class RemedyJson(TypedDict):
    """Something that would help, as simulated."""

    kind: RemedyKind
    job_ids: Annotated[list[int], doc("That get priority 1, or are left out.")]
    job_names: list[str]
    other_jobs: Annotated[int, doc("As many more that you may not see.")]
    slots: Annotated[int, doc("More for each node.")]
    end_at: Annotated[Instant | None, doc("Half of the draws end by then.")]
    gain_seconds: Annotated[float | None, doc("null: without it there is no end in sight.")]
    meets_deadline: bool


class DeadlineForecastJson(TypedDict):
    """A deadline, and what will become of it."""

    rule_id: int
    job_id: int
    job_name: str | None
    deadline_at: Instant | None
    verdict: DeadlineVerdict
    end_at: Annotated[Instant | None, doc("Half of the draws have succeeded by then.")]
    slow_end_at: Annotated[Instant | None, doc("95 of 100 draws have.")]
    late_seconds: Annotated[float | None, doc("By how much `end_at` misses it; null: it does not.")]
    miss_share: Annotated[float, doc("0 to 1: of the draws that miss it.")]
    path: list[PathStepJson]
    remedies: list[RemedyJson]


class ForecastScoreJson(TypedDict):
    """How good the forecasts of this executor's deadlines were, by what stood half an hour before.

    Deadlines that were met by then do not count.
    """

    since: Instant | None
    deadlines: Annotated[int, doc("Of which it is known what became of them.")]
    missed: int
    warned: Annotated[int, doc("Of which a warning stood half an hour before.")]
    warned_and_missed: int
    end_error_seconds: Annotated[
        float | None, doc("Half of the predicted ends were off by at most so much.")
    ]


class PlanBasisJson(TypedDict):
    """What a plan rests on."""

    draws: Annotated[int, doc("How often the next hours were simulated.")]
    jobs: int
    measured_jobs: int
    measured_runs: int
    measured_since: Instant | None
    assumed_jobs: int
    assumed_seconds: float
    workflows: int
    assumed_workflows: int
    open_runs: int
    more_open_runs: bool


class NightPlanJson(TypedDict):
    """Past, running and predicted runs of an executor or a node, and its deadlines."""

    executor_id: int
    node_id: int | None
    start: Instant | None
    now: Instant | None
    end: Instant | None
    truncated: Annotated[bool, doc("It ends early: there are more runs than are simulated.")]
    slots: int
    past: list[PlanPastRunJson]
    past_sums: list[PlanSumJson]
    more_past_runs: bool
    runs: list[PlanRunJson]
    sums: list[PlanSumJson]
    deadlines: list[DeadlineForecastJson]
    more_deadlines: bool
    score: ForecastScoreJson
    basis: PlanBasisJson
