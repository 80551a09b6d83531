"""Who fires a job of XXL-JOB while it moves, for every state in which a command can have died."""

from __future__ import annotations

import pytest

from tickwheel_admin.domain.xxl_job.take_over import (
    Decision,
    MoveRecord,
    MoveState,
    NextAction,
    TheirState,
    WhyNot,
    to_give_back,
    to_take_over,
)

RUNNING = TheirState(running=True, next_at=700)
STOPPED = TheirState(running=False, next_at=500)  # as we stopped it
STOPPED_BY_HAND = TheirState(running=False, next_at=0)


def record(state: MoveState) -> MoveRecord:
    return MoveRecord(state=state, next_at=600, their_next_at=500, token=1)


def nothing(why: WhyNot) -> Decision:
    return Decision(step=NextAction.NOTHING, why=why)


def refused(why: WhyNot) -> Decision:
    return Decision(step=NextAction.REFUSE, why=why)


STOP = Decision(step=NextAction.STOP_THEIRS, at=700)  # at their instant, whatever was kept before
ARM = Decision(step=NextAction.ARM, at=600)
RETURN = Decision(step=NextAction.RETURN)
RESUME = Decision(step=NextAction.RESUME_RETURN, at=600)
SETTLE = Decision(step=NextAction.SETTLE)


@pytest.mark.parametrize(
    ("state", "theirs", "take", "give"),
    [
        (None, RUNNING, STOP, nothing(WhyNot.NOT_TAKEN_OVER)),
        (None, STOPPED, nothing(WhyNot.STOPPED_THERE), nothing(WhyNot.NOT_TAKEN_OVER)),
        (MoveState.GIVEN_BACK, RUNNING, STOP, nothing(WhyNot.NOT_TAKEN_OVER)),
        (
            MoveState.GIVEN_BACK,
            STOPPED,
            nothing(WhyNot.STOPPED_THERE),
            nothing(WhyNot.NOT_TAKEN_OVER),
        ),
        # Died before XXL-JOB's commit, or after it.
        (MoveState.PREPARED, RUNNING, STOP, SETTLE),
        (MoveState.PREPARED, STOPPED, ARM, RESUME),
        (MoveState.RETURNING, RUNNING, STOP, SETTLE),
        (MoveState.RETURNING, STOPPED, ARM, RESUME),
        # A person stopped it there meanwhile.
        (
            MoveState.PREPARED,
            STOPPED_BY_HAND,
            refused(WhyNot.CHANGED_THERE),
            refused(WhyNot.CHANGED_THERE),
        ),
        (
            MoveState.RETURNING,
            STOPPED_BY_HAND,
            refused(WhyNot.CHANGED_THERE),
            refused(WhyNot.CHANGED_THERE),
        ),
        (MoveState.DONE, STOPPED, nothing(WhyNot.TAKEN_OVER), RETURN),
        (MoveState.DONE, STOPPED_BY_HAND, nothing(WhyNot.TAKEN_OVER), RETURN),
        (
            MoveState.DONE,
            RUNNING,
            refused(WhyNot.RUNS_THERE_AGAIN),
            refused(WhyNot.RUNS_THERE_AGAIN),
        ),
    ],
)
def test_their_row_and_what_was_kept_say_what_is_next(
    state: MoveState | None, theirs: TheirState, take: Decision, give: Decision
) -> None:
    kept = None if state is None else record(state)
    assert to_take_over(kept, theirs, active_here=state is MoveState.DONE) == take
    assert to_give_back(kept, theirs) == give


@pytest.mark.parametrize("state", [None, *(s for s in MoveState if s is not MoveState.DONE)])
@pytest.mark.parametrize("theirs", [RUNNING, STOPPED])
def test_a_job_that_was_resumed_here_by_hand_is_left_to_people(
    state: MoveState | None, theirs: TheirState
) -> None:
    kept = None if state is None else record(state)
    assert to_take_over(kept, theirs, active_here=True) == refused(WhyNot.RUNS_HERE_TOO)
