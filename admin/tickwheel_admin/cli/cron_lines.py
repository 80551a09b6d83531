"""What `tickwheel cron` prints about fires."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

from msgspec import structs

from tickwheel_admin.domain.schedule.clock_changes import Gap
from tickwheel_admin.domain.schedule.local_days import local_day
from tickwheel_admin.domain.schedule.wall_clock import date_of_day
from tickwheel_admin.domain.schedule.zones import Transition, Zone, zone_of
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.preview import MAX_PREVIEW, Mark, PreviewFire, preview
from tickwheel_admin.domain.triggers.spec import TriggerSpec

MARKS = {
    Mark.GAP: "moved: the clocks skip its time",
    Mark.OVERLAP_FIRST: "first pass: the clocks show this time twice",
    Mark.OVERLAP_SECOND: "second pass: the clocks show this time twice",
    Mark.DST_NIGHT: "the clocks change on this date",
}
_YEAR_MS = 366 * 86_400_000
_MOST_SHOWN = 5  # fires that a change of the clocks touches


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


def report(spec: CronSpec, *, now: int) -> Iterator[str]:
    """What `cron check` says of a valid expression, line by line."""
    zone = zone_of(spec.timezone)
    expression = spec.read_expression()
    yield f"valid      {expression.text}  ({expression.dialect.value})"
    yield f"meaning    {spec.describe(str)} ({zone.name})"
    fires = preview(spec, after=now, n=5, saved_at=0).fires
    for index, fire in enumerate(fires):
        yield f"{'next' if index == 0 else '':10} {_marked(fire, zone)}"
    if not fires:
        yield "next       none: its last fire is over"
    yield from _clock_changes(spec, zone, now=now)
    yield f"croniter   {_opinion(spec, now=now)}"


def _clock_changes(spec: CronSpec, zone: Zone, *, now: int) -> Iterator[str]:
    """What happens on the dates of the coming year on which clocks change."""
    changes = zone.transitions_between(now // 1000, (now + _YEAR_MS) // 1000)
    if not changes:
        yield f"clocks     they do not change in {zone.name} within a year"
    for change in changes:
        by = change.after - change.before
        day = date_of_day(local_day(change.at * 1000, zone))
        yield f"clocks     {day}: {'forward' if by > 0 else 'back'} by {abs(by) // 60} minutes"
        touched = _touched(spec, change)
        for fire in touched[:_MOST_SHOWN]:
            yield f"{'':10} {_marked(fire, zone)}"
        if len(touched) > _MOST_SHOWN:
            yield f"{'':10} and more"
        if not touched:
            skips = spec.gap is Gap.SKIP and _touched(structs.replace(spec, gap=Gap.FIRE), change)
            yield f"{'':10} {'the skipped times do not fire' if skips else 'no fire is touched'}"


def _touched(spec: CronSpec, change: Transition) -> list[PreviewFire]:
    """The first fires that are moved by a change of the clocks, or happen at a doubled time."""
    length = abs(change.after - change.before)
    start, end = (change.at - length) * 1000, (change.at + length) * 1000
    fires = preview(spec, after=start - 1, n=MAX_PREVIEW, saved_at=0).fires
    return [fire for fire in fires if fire.at < end and fire.mark not in (None, Mark.DST_NIGHT)][
        : _MOST_SHOWN + 1
    ]


def _opinion(spec: TriggerSpec, *, now: int) -> str:
    from tickwheel_admin.domain.triggers.second_opinion import COMPARED, compared

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
