"""A rule that keeps a trigger from firing on a date."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tickwheel_admin.domain.schedule.base import Schedule
from tickwheel_admin.domain.schedule.local_days import day_limits, local_day
from tickwheel_admin.domain.schedule.wall_clock import date_of_day
from tickwheel_admin.domain.schedule.zones import Zone


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One rule that keeps a trigger from firing on a date."""

    code: str  # stable, for programs
    template: str  # English message id
    params: dict[str, Any] = field(default_factory=dict)


def fires_around(day: int, everything: Schedule, zone: Zone) -> tuple[int | None, int | None]:
    """The instants beside a date without any."""
    start, _ = day_limits(day, zone)
    return everything.last_before(start), everything.next_after(start - 1)


def between_fires(day: int, everything: Schedule, zone: Zone) -> Reason:
    """Of kinds that count: the dates beside this one on which they fire."""
    dates = [
        None if at is None else str(date_of_day(local_day(at, zone)))
        for at in fires_around(day, everything, zone)
    ]
    match dates:
        case [None, later]:
            return Reason(
                code="before_first",
                template="It fires for the first time on %(date)s.",
                params={"date": later},
            )
        case [earlier, None]:
            return Reason(
                code="after_last",
                template="It fires for the last time on %(date)s.",
                params={"date": earlier},
            )
    return Reason(
        code="between_fires",
        template="By its interval it fires on %(earlier)s and then on %(later)s.",
        params={"earlier": dates[0], "later": dates[1]},
    )
