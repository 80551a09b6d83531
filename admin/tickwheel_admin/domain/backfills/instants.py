"""The instants of a backfill, in the order in which they are run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from tickwheel_admin.domain.backfills.backfill import MAX_INSTANTS, Backfill
from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.schedule.base import Schedule
from tickwheel_admin.domain.triggers.schedule import parse


def instants_between(
    schedule: Schedule,
    *,
    from_at: int,
    to_at: int,
    newest_first: bool = False,
    after: int | None = None,
) -> Iterator[int]:
    """Instants from `from_at` on and before `to_at`.

    Args:
        after: only those that come after this one in the order; None: all.
    """
    if newest_first:
        at = schedule.last_before(to_at if after is None else min(to_at, after))
        while at is not None and at >= from_at:
            yield at
            at = schedule.last_before(at)
        return
    at = schedule.next_after(from_at - 1 if after is None else max(from_at - 1, after))
    while at is not None and at < to_at:
        yield at
        at = schedule.next_after(at)


@dataclass(frozen=True, slots=True)
class DueInstant:
    """An instant that is to be run, and the one before it by its schedule."""

    at: int
    previous_at: int | None


def next_instants(backfill: Backfill, calendar: Calendar | None, *, limit: int) -> list[DueInstant]:
    """The first instants that are not written yet, at most `limit`; raises ScheduleError."""
    schedule = parse(backfill.spec, saved_at=backfill.saved_at, calendar=calendar)
    coming = instants_between(
        schedule,
        from_at=backfill.from_at,
        to_at=backfill.to_at,
        newest_first=backfill.newest_first,
        after=backfill.cursor_at,
    )
    return [DueInstant(at, schedule.last_before(at)) for at in islice(coming, limit)]


def all_instants(schedule: Schedule, *, from_at: int, to_at: int) -> Iterator[int]:
    """Oldest first; one more than a backfill may have, if there are so many."""
    return islice(instants_between(schedule, from_at=from_at, to_at=to_at), MAX_INSTANTS + 1)
