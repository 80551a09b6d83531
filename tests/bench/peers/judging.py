"""What the lines of a peer's output say: how many ran, how late, and which ones not or twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tests.bench.peers.contract import CANNOT, READY, UNKNOWN, Order
from tests.bench.testbed.measure import percentile


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A program's output so far."""

    ready: str | None  # what it says of itself
    cannot: str | None
    executions: list[tuple[int, int | None, int]]  # schedule, nominal instant, start


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The executions of one window; instants and lateness in milliseconds."""

    expected: int
    missed: int  # instants of schedules for which nothing ran
    duplicates: int  # executions beyond the first for the same instant
    last_started_at: int | None
    late_p50: int | None
    late_p99: int | None
    late_max: int | None


def read_output(text: str) -> Told:
    """Understand an output; its last line counts once it is whole."""
    ready = cannot = None
    executions = []
    for line in text.splitlines(keepends=True):
        first, _, rest = line.rstrip("\n").partition(" ")
        if not line.endswith("\n"):
            continue
        if first == READY:
            ready = rest
        elif first == CANNOT:
            cannot = rest
        else:
            nominal, started = rest.split()
            known = None if nominal == UNKNOWN else int(nominal)
            executions.append((int(first), known, int(started)))
    return Told(ready=ready, cannot=cannot, executions=executions)


def judge(
    order: Order, executions: Iterable[tuple[int, int | None, int]], *, from_at: int, to_at: int
) -> Verdict:
    """Count what ran for the instants from `from_at` up to, not including, `to_at`.

    An execution for an instant that nobody asked for, as of a schedule that drifts, is none.
    An execution that is not told its instant counts for the next one that its schedule has had no
    execution for: the first for the first, and so on.
    """
    met: Counter[tuple[int, int]] = Counter()
    untold: Counter[int] = Counter()
    late: list[int] = []
    last_started_at = None
    for schedule, nominal_at, started_at in executions:
        at = nominal_at
        if at is None:
            at = order.due_at + untold[schedule] * (order.period_ms or 0)
            untold[schedule] += 1
        if not from_at <= at < to_at or (at - order.due_at) % (order.period_ms or 1):
            continue
        met[schedule, at] += 1
        if met[schedule, at] == 1:
            late.append(started_at - at)
            last_started_at = max(started_at, last_started_at or 0)
    instants = 1 if order.period_ms is None else (to_at - from_at) // order.period_ms
    expected = order.schedules * instants
    return Verdict(
        expected=expected,
        missed=expected - len(met),
        duplicates=met.total() - len(met),
        last_started_at=last_started_at,
        late_p50=percentile(late, 0.5) if late else None,
        late_p99=percentile(late, 0.99) if late else None,
        late_max=max(late, default=None),
    )
