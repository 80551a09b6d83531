"""The shape of proofs in answers."""

from __future__ import annotations

from typing import Annotated, TypedDict

from tickwheel_admin.api.answers import Instant, doc
from tickwheel_admin.domain.proof.fires import FireOutcome
from tickwheel_admin.domain.proof.sums import HourStatus
from tickwheel_admin.domain.runs.run import RunState


class ProofSumsJson(TypedDict):
    """What some hours come to.

    expected + surplus = audited_runs + without_run + missing; audited_runs + new = runs + gone;
    runs = the sum of outcomes.
    """

    hours: int
    expected: Annotated[int, doc("Instants that should have been, by the self-audit.")]
    surplus: Annotated[int, doc("Runs for instants that were not expected, or have one already.")]
    audited_runs: Annotated[int, doc("Runs that the self-audit saw.")]
    without_run: Annotated[dict[str, int], doc("Instants that were to bring no run, by reason.")]
    missing: Annotated[int, doc("Instants without a run and without a reason.")]
    gone: Annotated[
        dict[str, int],
        doc("Runs deleted since the audit: by retention, purged, or unknown."),
    ]
    new: Annotated[int, doc("Runs that came after the audit.")]
    runs: Annotated[int, doc("Runs of fires in the ledger now.")]
    outcomes: Annotated[dict[FireOutcome, int], doc("What became of them.")]
    skipped: Annotated[dict[str, int], doc("Of these, those that were skipped, by reason.")]
    late: Annotated[int, doc("Of the runs, those whose only try started late.")]


class ProofHourJson(TypedDict):
    """One hour."""

    at: Instant | None
    status: Annotated[HourStatus, doc("Whether what should have been is known.")]
    audited_at: Instant | None
    sums: ProofSumsJson


ProofJson = TypedDict(
    "ProofJson",
    {
        "from": Instant | None,
        "until": Instant | None,
        "made_at": Instant | None,
        "late_after_seconds": float,
        "agrees": Annotated[
            bool, doc("All hours are proven, nothing is missing, surplus, new or gone.")
        ],
        "proven": ProofSumsJson,
        "not_proven": Annotated[ProofSumsJson, doc("Hours of which it is not known.")],
        "hours": list[ProofHourJson],
    },
)

ProofJson.__doc__ = "What should have run in a period, and what became of it."


class ProofExceptionJson(TypedDict):
    """A run that did not succeed at the first try, or started late."""

    run_id: int
    outcome: FireOutcome
    state: RunState
    reason: Annotated[str | None, doc("A code, of runs that were skipped, wait or were ended.")]
    late: bool
    start_delay_ms: Annotated[int | None, doc("Null: it did not start, or was tried again.")]
    tries: int
    scheduled_at: Instant | None
    started_at: Annotated[Instant | None, doc("Of the last try.")]
    ended_at: Instant | None
    executor_id: int
    executor_name: str | None
    job_id: int
    job_name: str | None
    trigger_id: int
    node_id: int | None
    owner: Annotated[str | None, doc("Of its failure group, else of its job.")]
    failure_id: int | None
    failure_text: str | None
    acknowledged_at: Instant | None
    acknowledged_by: str | None
    resolved_at: Annotated[Instant | None, doc("When its failure group was.")]
    cancelled_by: str | None
    retried_by: Annotated[list[int], doc("Runs that do it again.")]
    retry_state: Annotated[RunState | None, doc("How the last of them stands.")]


class ProofUnrunJson(TypedDict):
    """An instant that should have been, and brought no work."""

    at: Instant | None
    cause: Annotated[
        str,
        doc("A reason of `without_run` or of `skipped` of the sums; `missing`: nobody knows."),
    ]
    run_id: Annotated[int | None, doc("The run that was skipped. Null: there is none.")]
    executor_id: int
    executor_name: str | None
    job_id: int
    job_name: str | None
    trigger_id: int
    owner: Annotated[str | None, doc("Of its job.")]
    done_by: Annotated[list[int], doc("Retries and runs of backfills for this instant.")]
    done_state: Annotated[RunState | None, doc("How the best of them stands.")]
    seen_at: Instant | None
    seen_by: Annotated[str | None, doc("Who looked at a missing one, and closed its alarm.")]


class ProofKeyJson(TypedDict):
    """What verifies the proofs of this installation."""

    key_id: str
    algorithm: Annotated[str, doc("ed25519")]
    public_key: Annotated[str, doc("32 bytes in base64.")]
    created_at: Instant | None
