"""The attempts of a run as a timeline: what each of them waited for, and how long it worked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.runs.labels import state_name
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs.blocking import Blocking
from tickwheel_admin.domain.runs.run import FINAL, PARKED_AT, Run, RunState
from tickwheel_admin.services.runs.service import RunDetail

MOST_ROWS = 12  # the newest; the page lists the others beside
LEAST_WIDTH = 0.6  # per cent: whatever took no time is still seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A part of a try."""

    kind: str  # pause, turn, queued or sent: it waits; else how its work ended or stands
    x: float  # per cent of the width
    width: float
    ms: int
    since: int | None  # it goes on since

    @property
    def name(self) -> str:
        """What it is, for people."""
        waits = {
            "pause": _("Pause before the try"),
            "turn": _("Waiting for its turn"),
            "queued": _("Queued"),
            "sent": _("Sent to a node"),
        }
        return waits.get(self.kind) or (
            _("Running") if self.kind == RunState.RUNNING else _("Work")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One attempt, or the next one that is waited for."""

    number: int
    look: str  # the state that its badge shows
    node_name: str | None
    spans: list[Span]

    @property
    def outcome(self) -> str:
        """How it ended or stands, for people."""
        return state_name(self.look)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Try:
    """Instants of one attempt; None: it has not come so far."""

    number: int
    look: str
    node_name: str | None
    due_at: int | None  # None: nobody noted it
    dispatched_at: int | None
    started_at: int | None
    ended_at: int | None


def attempt_timeline(detail: RunDetail, *, now: int) -> list[AttemptRow]:
    """A row for each attempt, oldest first; none for a run that was tried once only."""
    run = detail.item.run
    if not detail.attempts or run.is_fire:
        return []
    tries = list(_tries(detail))
    begin = min([run.first_due_at, *(t.dispatched_at for t in tries if t.dispatched_at)])
    end = run.ended_at if run.state in FINAL and run.ended_at is not None else now
    length = max(end - begin, 1)

    def span(kind: str, start: int, until: int | None) -> Span:
        stop = max(end if until is None else until, start)
        x = min(100 * max(start - begin, 0) / length, 100 - LEAST_WIDTH)
        width = min(max(100 * (stop - start) / length, LEAST_WIDTH), 100 - x)
        return Span(
            kind=kind,
            x=round(x, 2),
            width=round(width, 2),
            ms=stop - start,
            since=start if until is None else None,
        )

    rows = []
    before = begin  # the end of the try before it
    for n, each in enumerate(tries):
        first_wait = "pause" if n else _first_wait(detail.config)
        parts = list(_parts(each, before, first_wait, now=now))
        rows.append(
            AttemptRow(
                number=each.number,
                look=each.look,
                node_name=each.node_name,
                spans=[span(*part) for part in parts],
            )
        )
        before = each.ended_at or before
    return rows[-MOST_ROWS:]


def _tries(detail: RunDetail) -> Iterator[_Try]:
    run = detail.item.run
    for view in detail.attempts:
        yield _Try(
            number=view.attempt.attempt,
            look=view.attempt.state.value,
            node_name=view.node_name,
            due_at=view.attempt.due_at,
            dispatched_at=view.attempt.dispatched_at,
            started_at=view.attempt.started_at,
            ended_at=view.attempt.ended_at,
        )
    waits = run.state is RunState.QUEUED
    yield _Try(
        number=run.attempt + 1 if waits else run.attempt,
        look=run.state.value,
        node_name=None if waits else detail.item.node_name,
        due_at=run.due_at,
        dispatched_at=None if waits or _never_sent(run, detail) else run.dispatched_at,
        started_at=None if waits or _never_sent(run, detail) else run.started_at,
        ended_at=run.ended_at if run.state in FINAL else None,
    )


def _never_sent(run: Run, detail: RunDetail) -> bool:
    """It ended in the queue: its row still has the instants of the attempt before."""
    return run.attempt == detail.attempts[-1].attempt.attempt


def _parts(
    each: _Try, before: int, first_wait: str, *, now: int
) -> Iterator[tuple[str, int, int | None]]:
    """(kind, start, end) of what it waited for and of its work; None: that goes on."""
    waited_until = each.dispatched_at if each.dispatched_at is not None else each.ended_at
    due_at = each.due_at
    if due_at == PARKED_AT:
        yield "turn", before, waited_until
        return
    if due_at is not None and due_at > before:
        held_until = due_at if waited_until is None else min(due_at, waited_until)
        if waited_until is None and due_at > now:
            yield first_wait, before, None
            return
        yield first_wait, before, held_until
        before = held_until
    if waited_until is None or waited_until > before:
        yield "queued", before, waited_until
    if each.dispatched_at is None:
        return
    if each.started_at is None or each.started_at > each.dispatched_at:
        yield "sent", each.dispatched_at, each.started_at or each.ended_at
    if each.started_at is not None:
        yield each.look, each.started_at, each.ended_at


def _first_wait(config: JobConfig) -> str:
    """What a first try waits for when it becomes due later than its instant."""
    return "queued" if config.blocking.strategy is Blocking.PARALLEL else "turn"
