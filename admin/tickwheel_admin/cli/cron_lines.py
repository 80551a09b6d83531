"""What `tickwheel cron` prints about fires."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

from tickwheel_admin.domain.schedule import dialect_of
from tickwheel_admin.domain.schedule.cron import parse_cron
from tickwheel_admin.domain.schedule.local_days import day_limits, local_day
from tickwheel_admin.domain.schedule.preview import Mark, PreviewFire, preview
from tickwheel_admin.domain.schedule.zones import Zone, zone_of
from tickwheel_admin.domain.trigger import Gap, TriggerSpec
from tickwheel_admin.domain.wall_clock import date_of_day

MARKS = {
    Mark.GAP: "moved: the clocks skip its time",
    Mark.OVERLAP_FIRST: "first pass: the clocks show this time twice",
    Mark.OVERLAP_SECOND: "second pass: the clocks show this time twice",
    Mark.DST_NIGHT: "the clocks change on this date",
}
_YEAR_MS = 366 * 86_400_000
_MOST_OF_A_DAY = 5  # fires of a date on which clocks change that are shown


def iso(at: int, zone: Zone) -> str:
    """An instant as the clocks of a zone show it, with their offset."""
    offset = timedelta(seconds=zone.segment_at(at // 1000).offset)
    return datetime.fromtimestamp(at // 1000, timezone(offset)).isoformat()


def line(spec: TriggerSpec, at: int) -> str:
    """A fire with its mark."""
    (fire,) = preview(spec, after=at - 1, n=1, saved_at=0).fires
    return _marked(fire, zone_of(spec.timezone))


def _marked(fire: PreviewFire, zone: Zone) -> str:
    text = iso(fire.at, zone)
    return text if fire.mark is None else f"{text}  {MARKS[fire.mark]}"


def report(spec: TriggerSpec, *, now: int) -> Iterator[str]:
    """What `cron check` says of a valid expression, line by line."""
    from tickwheel_admin.domain.schedule.describe import describe

    zone = zone_of(spec.timezone)
    expression = parse_cron(spec.expression or "", dialect_of(spec))
    yield f"valid      {expression.text}  ({expression.dialect.value})"
    yield f"meaning    {describe(spec, str)} ({zone.name})"
    fires = preview(spec, after=now, n=5, saved_at=0).fires
    for index, fire in enumerate(fires):
        yield f"{'next' if index == 0 else '':10} {_marked(fire, zone)}"
    if not fires:
        yield "next       none: its last fire is over"
    yield from _clock_changes(spec, zone, now=now)
    yield f"croniter   {_opinion(spec, now=now)}"


def _clock_changes(spec: TriggerSpec, zone: Zone, *, now: int) -> Iterator[str]:
    """What happens on the dates of the coming year on which clocks change."""
    changes = zone.transitions_between(now // 1000, (now + _YEAR_MS) // 1000)
    if not changes:
        yield f"clocks     they do not change in {zone.name} within a year"
    for change in changes:
        day = local_day(change.at * 1000, zone)
        start, end = day_limits(day, zone)
        yield (
            f"clocks     {date_of_day(day)}: {_way(change.after - change.before)}"
            f" {abs(change.after - change.before) // 60} minutes"
        )
        shown = preview(spec, after=start - 1, n=1_000, saved_at=0).fires
        touched = [
            fire for fire in shown if fire.at < end and fire.mark not in (None, Mark.DST_NIGHT)
        ]
        for fire in touched[:_MOST_OF_A_DAY]:
            yield f"{'':10} {_marked(fire, zone)}"
        if len(touched) > _MOST_OF_A_DAY:
            yield f"{'':10} and {len(touched) - _MOST_OF_A_DAY} more"
        if not touched:
            skips = spec.gap is Gap.SKIP and change.after > change.before
            yield f"{'':10} {'times in the gap do not fire' if skips else 'no fire is touched'}"


def _way(seconds: int) -> str:
    return "forward by" if seconds > 0 else "back by"


def _opinion(spec: TriggerSpec, *, now: int) -> str:
    from tickwheel_admin.domain.schedule.second_opinion import COMPARED, compared

    found = compared(spec, after=now)
    if found is True:
        return f"computes the same next {COMPARED} fires"
    if found is False:
        return "cannot say this"
    utc = zone_of("UTC")
    ours, theirs = (
        "none" if at is None else iso(at, utc)[:19] for at in (found.ours, found.theirs)
    )
    return f"computes {theirs} where Tickwheel computes {ours}; check what the expression means"
