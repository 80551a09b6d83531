"""Who fires a job of XXL-JOB while it moves: decided by their row and by what was kept here.

Two databases cannot commit at once, so each move keeps its instant here first, then changes their
row, then goes on here. Each of these steps can be the last one of a command that dies:

    take over   kept here: `prepared`, from N on  →  theirs stopped  →  armed here at N: `done`
    give back   paused here: `returning`, from N on  →  theirs starts at N  →  `given_back`

Between the first and the last step, their row decides: while it runs, XXL-JOB fires; once it is
stopped as we stopped it, the fires from N on are ours. So whoever looks under XXL-JOB's lock knows
where the move stands, and any command, also one for the opposite direction, can finish it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto


class MoveState(StrEnum):
    """What was kept of a job's move."""

    PREPARED = "prepared"  # XXL-JOB is about to be stopped: from `next_at` on it fires here
    DONE = "done"  # it fires here
    RETURNING = "returning"  # paused here: XXL-JOB is about to be started at `next_at`
    GIVEN_BACK = "given_back"  # XXL-JOB fires it, or nobody does


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRecord:
    """What is kept here of the latest move of a job."""

    state: MoveState
    next_at: int  # whoever has the job next fires it from this instant on
    their_next_at: int  # what their row says while it stands stopped as we stopped it
    token: int  # of the step that wrote this; a later step names the one that it follows


@dataclass(frozen=True, slots=True, kw_only=True)
class TheirState:
    """What XXL-JOB's row of a job says, read under its lock."""

    running: bool
    next_at: int  # its `trigger_next_time`, UTC epoch ms; 0: none


class NextAction(Enum):
    """What to do with a job next."""

    NOTHING = auto()  # it is where it should be
    STOP_THEIRS = auto()  # keep their next instant, stop them, then arm ours there
    ARM = auto()  # they are stopped already: arm ours at the kept instant
    RETURN = auto()  # pause ours, then start them at our next instant
    RESUME_RETURN = auto()  # the same, but ours stands paused at the kept instant already
    SETTLE = auto()  # they run already: only note that they have it
    REFUSE = auto()  # a person has to decide


class WhyNot(StrEnum):
    """WhyNot nothing is done, or why it is refused."""

    STOPPED_THERE = "stopped_there"  # it was not running in XXL-JOB
    TAKEN_OVER = "taken_over"  # it was taken over before
    NOT_TAKEN_OVER = "not_taken_over"  # nothing to give back
    GONE_THERE = "gone_there"  # XXL-JOB has no such job any more
    RUNS_HERE_TOO = "runs_here_too"  # it was resumed here while XXL-JOB runs it
    RUNS_THERE_AGAIN = "runs_there_again"  # somebody started it there after it was taken over
    CHANGED_THERE = "changed_there"  # somebody stopped it there while it was being moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The next step of one job."""

    step: NextAction
    at: int | None = None  # STOP_THEIRS, ARM, RESUME_RETURN: the instant from which it goes on
    why: WhyNot | None = None  # NOTHING and REFUSE


def to_take_over(record: MoveRecord | None, theirs: TheirState, *, active_here: bool) -> Decision:
    """What brings a job here.

    Args:
        active_here: its job and trigger here are not paused.
    """
    state = None if record is None else record.state
    if state is MoveState.DONE:
        if theirs.running:
            return Decision(step=NextAction.REFUSE, why=WhyNot.RUNS_THERE_AGAIN)
        return Decision(step=NextAction.NOTHING, why=WhyNot.TAKEN_OVER)
    if active_here:
        return Decision(step=NextAction.REFUSE, why=WhyNot.RUNS_HERE_TOO)
    if theirs.running:
        return Decision(step=NextAction.STOP_THEIRS, at=theirs.next_at)
    if record is None or state is MoveState.GIVEN_BACK:
        return Decision(step=NextAction.NOTHING, why=WhyNot.STOPPED_THERE)
    if theirs.next_at != record.their_next_at:
        return Decision(step=NextAction.REFUSE, why=WhyNot.CHANGED_THERE)
    return Decision(step=NextAction.ARM, at=record.next_at)


def to_give_back(record: MoveRecord | None, theirs: TheirState) -> Decision:
    """What brings a job back to XXL-JOB."""
    if record is None or record.state is MoveState.GIVEN_BACK:
        return Decision(step=NextAction.NOTHING, why=WhyNot.NOT_TAKEN_OVER)
    if theirs.running:
        if record.state is MoveState.DONE:
            return Decision(step=NextAction.REFUSE, why=WhyNot.RUNS_THERE_AGAIN)
        return Decision(step=NextAction.SETTLE)
    if record.state is MoveState.DONE:
        return Decision(step=NextAction.RETURN)
    if theirs.next_at != record.their_next_at:
        return Decision(step=NextAction.REFUSE, why=WhyNot.CHANGED_THERE)
    return Decision(step=NextAction.RESUME_RETURN, at=record.next_at)
