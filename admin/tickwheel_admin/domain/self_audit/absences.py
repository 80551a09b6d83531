"""Instants that brought no run, packed: those of a schedule mostly are equally far apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import NamedTuple

MOST_LISTED = 5_000  # absences of an hour, each of a trigger and a reason
# What people or schedules want: of an installation with many paused triggers, these are the most.
_INTENDED = frozenset(("paused", "calendar", "ended"))


class InstantSpan(NamedTuple):
    """Instants that are equally far apart."""

    first_at: int
    step_ms: int  # 0: there is only one
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """Instants of one trigger that brought no run for one reason."""

    trigger_id: int
    job_id: int
    executor_id: int
    reason: str  # an AuditReason, or "missing": nobody knows
    spans: Sequence[InstantSpan]

    @property
    def number(self) -> int:
        """How many instants they are."""
        return sum(each.number for each in self.spans)


def listed(absences: Iterable[Absence], most: int = MOST_LISTED) -> list[Absence]:
    """Those of an hour that are kept one by one, at most so many: what nobody intended comes
    first."""
    return nsmallest(
        most, absences, key=lambda each: (each.reason in _INTENDED, each.trigger_id, each.reason)
    )


def packed(instants: Iterable[int]) -> list[InstantSpan]:
    """Ascending, each of them once."""
    spans: list[InstantSpan] = []
    for at in sorted(set(instants)):
        if spans:
            first_at, step_ms, number = spans[-1]
            if number == 1 or at == first_at + number * step_ms:
                spans[-1] = InstantSpan(
                    first_at, step_ms if number > 1 else at - first_at, number + 1
                )
                continue
        spans.append(InstantSpan(at, 0, 1))
    return spans


def unpacked(spans: Iterable[InstantSpan]) -> Iterator[int]:
    """What was packed, ascending."""
    for first_at, step_ms, number in spans:
        for place in range(number):
            yield first_at + place * step_ms
