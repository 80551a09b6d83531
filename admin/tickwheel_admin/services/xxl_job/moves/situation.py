"""How jobs stand on both sides before they move, and what is to be done with each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.xxl_job.take_over import (
    Decision,
    NextAction,
    TheirState,
    WhyNot,
    to_give_back,
    to_take_over,
)
from tickwheel_admin.services.xxl_job.moves.edits import GONE, MoveRefusal, OurJob, read_our_jobs
from tickwheel_admin.store.calendars.calendars import read_calendars
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.xxl_job.moves import StoredMove, read_moves

_TEXTS = {
    WhyNot.RUNS_HERE_TOO: "It was resumed here while XXL-JOB runs it as well: pause it here first.",
    WhyNot.RUNS_THERE_AGAIN: "It was taken over, and somebody started it in XXL-JOB again, so that"
    " both fire it: stop it there, or pause it here.",
    WhyNot.CHANGED_THERE: "Somebody stopped it in XXL-JOB while it was being moved, so that nobody"
    " fires it: resume it here, or start it there.",
    WhyNot.GONE_THERE: "XXL-JOB has no such job any more.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Moving:
    """A job to move."""

    their_id: int
    job_id: int  # here
    name: str


@dataclass(slots=True, kw_only=True)
class Moved:
    """What became of jobs, by XXL-JOB's id."""

    # From when on the new side fires it; None: given back stopped, as it was paused here.
    moved: dict[int, int | None] = field(default_factory=dict)
    unchanged: dict[int, WhyNot] = field(default_factory=dict)
    refused: dict[int, MoveRefusal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """How jobs stand on both sides, by XXL-JOB's id."""

    asked: Collection[int]
    states: Mapping[int, TheirState]  # of those that XXL-JOB has
    moves: Mapping[int, StoredMove]  # of those that have a record
    ours: Mapping[int, OurJob]  # of those that are not deleted here
    calendars: Mapping[str, Calendar]
    their_now: int
    clocks_differ_ms: int  # at least so much
    now: int

    def decide(
        self, moved: Moved, decide: Callable[[StoredMove | None, TheirState, OurJob], Decision]
    ) -> dict[int, Decision]:
        """The next step of jobs for which there is one; the others are told in `moved`."""
        decisions: dict[int, Decision] = {}
        for each in self.asked:
            if each not in self.states:
                moved.refused[each] = _refusal(WhyNot.GONE_THERE)
            elif each not in self.ours:
                moved.refused[each] = GONE
            else:
                decision = decide(self.moves.get(each), self.states[each], self.ours[each])
                if decision.step is NextAction.NOTHING and decision.why is not None:
                    moved.unchanged[each] = decision.why
                elif decision.step is NextAction.REFUSE and decision.why is not None:
                    moved.refused[each] = _refusal(decision.why)
                else:
                    decisions[each] = decision
        return decisions


def read_situation(
    conn: sa.Connection,
    source: str,
    job_ids: Mapping[int, int],
    states: Mapping[int, TheirState],
    *,
    their_now: int,
    before: int,
) -> Situation:
    """Read in one transaction; `their_now` was read after `before` and before this."""
    now = now_ms(conn)
    jobs = read_our_jobs(conn, job_ids.values())
    ours = {each: jobs[job_id] for each, job_id in job_ids.items() if job_id in jobs}
    named = (s.trigger.spec.calendar for each in ours.values() for s in each.triggers)
    return Situation(
        asked=list(job_ids),
        states=states,
        moves=read_moves(conn, source, job_ids),
        ours=ours,
        calendars=read_calendars(conn, {name for name in named if name is not None}),
        their_now=their_now,
        clocks_differ_ms=max(before - their_now, their_now - now, 0),
        now=now,
    )


def decide_take_over(move: StoredMove | None, theirs: TheirState, ours: OurJob) -> Decision:
    return to_take_over(None if move is None else move.record, theirs, active_here=ours.is_active)


def decide_give_back(move: StoredMove | None, theirs: TheirState, ours: OurJob) -> Decision:
    return to_give_back(None if move is None else move.record, theirs)


def _refusal(why: WhyNot) -> MoveRefusal:
    return MoveRefusal(code=why.value, text=_TEXTS[why])
