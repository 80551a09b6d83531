"""The moves of a workflow's run that only it makes."""

from __future__ import annotations

from msgspec.structs import replace

from tickwheel_admin.domain.runs.run import Move, Run, RunState

STEPS = "steps"  # reason: its steps say how it ended
STUCK = "stuck"  # reason: nothing would have happened to its steps any more
DEFECT = "defect"  # reason: Tickwheel could not compute what follows
_KEYS_IN_MESSAGE = 10


def workflow_ended(
    run: Run,
    state: RunState,
    *,
    failed: list[str],
    result: str | None,
    now: int,
    problem: str | None = None,
) -> Move:
    """running → terminal, with the last of its steps.

    Args:
        failed: keys of the steps that it fails by.
        result: of the step that its graph names; JSON text.
        problem: what else is to be told.
    """
    told = [f"Failed: {', '.join(failed[:_KEYS_IN_MESSAGE])}"] if failed else []
    if len(failed) > _KEYS_IN_MESSAGE:
        told[0] += f" and {len(failed) - _KEYS_IN_MESSAGE} more"
    if problem is not None:
        told.append(problem)
    reason = None if state is RunState.SUCCEEDED else STEPS
    if state is RunState.CANCELLED:
        reason = "covered" if run.cancel_reason == "covered" else "cancelled"
    after = replace(
        run,
        state=state,
        ended_at=now,
        deadline_at=None,
        reason=reason,
        message=". ".join(told) + "." if told else None,
        result=result,
    )
    return Move(before=run, after=after)


def stuck(run: Run, *, now: int) -> Move:
    """running → failed: a step was lost, whose end would have let others begin."""
    after = replace(
        run,
        state=RunState.FAILED,
        ended_at=now,
        deadline_at=None,
        reason=STUCK,
        message="None of its steps runs or is about to, but some have not ended.",
    )
    return Move(before=run, after=after)


def given_up(run: Run, error: Exception, *, now: int) -> Move:
    """running → failed: what follows could not be computed, although it was tried twice."""
    after = replace(
        run,
        state=RunState.FAILED,
        ended_at=now,
        deadline_at=None,
        reason=DEFECT,
        message=f"What follows could not be computed ({type(error).__name__})."
        " The log of the admin says more; steps that run go on alone.",
    )
    return Move(before=run, after=after)
