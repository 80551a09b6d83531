"""The shape of delays in answers."""

from __future__ import annotations

from typing import Annotated, TypedDict

from tickwheel_admin.api.answers import Instant, doc
from tickwheel_admin.domain.delays.history import DelayKind


class DelayCauseJson(TypedDict):
    """A run that another waited for."""

    run_id: Annotated[int | None, doc("Null: of a job that the caller may not see.")]
    job_id: int | None
    job_name: str | None
    ms: int


class DelayPartJson(TypedDict):
    """A part of the start delay of a run."""

    kind: DelayKind
    ms: int
    causes: Annotated[list[DelayCauseJson], doc("Runs that it is charged to, most first.")]
    more_causes: Annotated[int, doc("Runs that are not among them.")]
    more_ms: Annotated[int, doc("What those are charged.")]


class RunDelayJson(TypedDict):
    """What a run waited for before it started."""

    run_id: int
    due_at: Annotated[Instant | None, doc("When it was due first.")]
    started_at: Annotated[Instant | None, doc("Of its first try. Null: it has not started.")]
    measured: Annotated[
        bool, doc("Backfills, tries of scripts, whole fires and what never started are not.")
    ]
    delay_ms: Annotated[int, doc("Up to now, if it still waits.")]
    parts: Annotated[
        list[DelayPartJson], doc("In the order in which runs go through them; their sum is it.")
    ]
    unknown_before: Annotated[
        Instant | None,
        doc("Too many runs: those due earlier were not looked at, but for live ones."),
    ]


class DelayedJobJson(TypedDict):
    """The delay of the runs of a job."""

    job_id: Annotated[int | None, doc("Null: all jobs without a row, or one that is gone.")]
    job_name: str | None
    jobs: Annotated[int, doc("How many it stands for.")]
    runs: Annotated[int, doc("That waited.")]
    delay_ms: int
    kinds: Annotated[dict[DelayKind, int], doc("Its parts, ms.")]
    caused_by_ms: Annotated[list[int], doc("By each of `causes`, in their order.")]
    by_others_ms: Annotated[int, doc("By jobs that are not among them.")]
    uncharged_ms: Annotated[int, doc("What no run is charged.")]


class CausingJobJson(TypedDict):
    """What the runs of a job caused."""

    job_id: Annotated[int | None, doc("Null: the caller may not see it, or it is gone.")]
    job_name: str | None
    caused_ms: int
    to_itself_ms: Annotated[int, doc("Of it, what its own runs waited; 0 without a row.")]


DelayMatrixJson = TypedDict(
    "DelayMatrixJson",
    {
        "executor_id": int,
        "executor_name": str,
        "from": Instant | None,
        "until": Instant | None,
        "cut_at": Annotated[
            Instant | None, doc("Too many runs: what was waited before is not told. Null: all is.")
        ],
        "runs": Annotated[int, doc("That waited.")],
        "delay_ms": int,
        "kinds": Annotated[dict[DelayKind, int], doc("Its parts, ms.")],
        "causes": Annotated[list[CausingJobJson], doc("Most first.")],
        "other_causes": Annotated[int, doc("Jobs that are not among them.")],
        "by_others_ms": Annotated[int, doc("What those caused.")],
        "rows": Annotated[list[DelayedJobJson], doc("Most delayed first; then the rest.")],
    },
)

DelayMatrixJson.__doc__ = "Who was delayed at an executor, and who caused it."
