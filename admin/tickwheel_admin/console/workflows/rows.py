"""The steps of a workflow's run as rows of a table, with the time of each: waiting and working."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tickwheel_admin.console.workflows import labels
from tickwheel_admin.console.workflows.graph import href_of, look_of
from tickwheel_admin.domain.workflows.graph import Approval, Wait
from tickwheel_admin.domain.workflows.states import StepState
from tickwheel_admin.services.workflows.steps import StepView, WorkflowView

LEAST_WIDTH = 0.6  # per cent: what took no time is still seen
WAITS = "queued"  # the look of time that a step waits


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBar:
    """A part of a step's time, in per cent of the time of the whole.

    A live page moves the bars by itself: it knows `first` and `last`.
    """

    kind: str  # queued: it waited; else how it ended or stands
    x: float
    width: float
    first: int  # ms after the whole began
    last: int | None  # likewise; None: it goes on


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """A step in the table."""

    index: int
    view: StepView
    look: str
    href: str | None
    bars: tuple[TimeBar, ...]
    length_ms: int | None
    note: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The table of a run's steps."""

    rows: tuple[StepRow, ...]
    ended: int
    length_ms: int  # of the whole, until now


def rows_of(view: WorkflowView, *, now: int) -> Rows:
    """A row for each step.

    Args:
        now: until when what goes on is drawn.
    """
    begun = view.run.started_at or view.run.scheduled_at
    end = view.run.ended_at or max(now, begun)
    length = max(end - begun, 1)
    return Rows(
        rows=tuple(
            _row(index, step, begun=begun, end=end, length=length)
            for index, step in enumerate(view.steps)
        ),
        ended=view.ended,
        length_ms=length,
    )


def _row(index: int, view: StepView, *, begun: int, end: int, length: int) -> StepRow:
    status = view.status
    bars: tuple[TimeBar, ...] = ()
    ms = None
    if status.started_at is not None and status.state is not StepState.SKIPPED:
        bars = tuple(
            _bar(kind, first - begun, None if last is None else last - begun, length)
            for kind, first, last in _spans(view, status.started_at)
        )
        ms = max((status.since if status.has_ended else end) - status.started_at, 0)
    return StepRow(
        index=index,
        view=view,
        look=look_of(view),
        href=href_of(view),
        bars=bars,
        length_ms=ms,
        note=labels.note(view),
    )


def _spans(view: StepView, started_at: int) -> Iterator[tuple[str, int, int | None]]:
    """(kind, first, last) of what it waited for and of its work, in their order; None: goes on."""
    status, look = view.status, look_of(view)
    end = status.since if status.has_ended else None
    if isinstance(view.step.body, Approval | Wait) or status.state is StepState.READY:
        # Nothing of it works. How it ended is still seen, at its end.
        yield WAITS, started_at, end
        if end is not None:
            yield look, end, end
        return
    at = started_at
    for each in view.tries:
        if each.started_at is not None and each.ended_at is not None:
            if each.started_at > at:
                yield WAITS, at, each.started_at
            yield each.state.value, max(each.started_at, at), each.ended_at
            at = each.ended_at
    work = view.work_began_at
    if work is None:  # it has not begun, or ended before that
        if end is None or end > at:
            yield WAITS, at, end
        if end is not None:
            yield look, end, end
        return
    if work > at:
        yield WAITS, at, work
    yield look, max(work, at), end


def _bar(kind: str, first: int, last: int | None, length: int) -> TimeBar:
    until = length if last is None else last
    x = min(max(first / length * 100, 0), 100 - LEAST_WIDTH)
    width = min(max((until - first) / length * 100, LEAST_WIDTH), 100 - x)
    return TimeBar(kind=kind, x=round(x, 2), width=round(width, 2), first=first, last=last)
