"""The next fires of a trigger as lines for people, with what clocks and calendars do to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from babel.dates import format_date, format_datetime

from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.i18n import ngettext
from tickwheel_admin.console.frame.locale import REQUEST_LOCALE, time_zones
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.triggers.schedule import by_plain_clocks, parse
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.services.triggers.service import PreviewFire, RemovedDay

_MOMENT = {"en": "EEE, MMM d, y, HH:mm:ss", "zh": "y年M月d日 EEE HH:mm:ss"}
_DAY = {"en": "EEE, MMM d, y", "zh": "y年M月d日 EEE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FireLine:
    """A fire, or days on which there would be fires without a calendar."""

    at: int | None  # None: removed days
    text: str  # local time of the trigger's zone, or what was removed
    utc: str = ""
    mark: str | None = None  # what the clocks do at it


def fire_lines(
    spec: TriggerSpec, fires: Sequence[PreviewFire], removed: Sequence[RemovedDay]
) -> list[FireLine]:
    """Fires and removed days in the order of time."""
    lines: list[FireLine] = []
    left = list(removed)
    for fire in fires:
        local = _local(fire)
        before = [day for day in left if day.date <= local.date().isoformat()]
        left = left[len(before) :]
        lines += _removed_lines(before)
        lines.append(
            FireLine(
                at=fire.at,
                text=str(format_datetime(local, _pattern(_MOMENT), locale=_language())),
                utc=f"{datetime.fromtimestamp(fire.at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC",
                mark=_mark(spec, fire),
            )
        )
    return lines + list(_removed_lines(left))


def times_of_day(spec: TriggerSpec, fires: Sequence[int]) -> tuple[str, ...]:
    """Fires of one day by the clocks of the trigger's zone; seconds only where there are any."""
    zone = _zone_of(spec)
    pattern = "%H:%M:%S" if any(at % 60_000 for at in fires) else "%H:%M"
    return tuple(datetime.fromtimestamp(at // 1000, zone).strftime(pattern) for at in fires)


def _zone_of(spec: TriggerSpec) -> tzinfo:
    return ZoneInfo(spec.timezone) if spec.timezone in time_zones() else UTC


def _removed_lines(days: Sequence[RemovedDay]) -> Iterator[FireLine]:
    """One line for the days between two fires, calendar by calendar."""
    for calendar in dict.fromkeys(day.calendar for day in days):
        dates = [date.fromisoformat(day.date) for day in days if day.calendar == calendar]
        shown = [str(format_date(d, _pattern(_DAY), locale=_language())) for d in dates]
        if len(dates) <= 2:
            for text in shown:
                yield FireLine(at=None, text=_removed(text, calendar))
            continue
        text = ngettext(
            "%(first)s to %(last)s, %(num)s day", "%(first)s to %(last)s, %(num)s days", len(dates)
        )
        span = text % {"first": shown[0], "last": shown[-1], "num": len(dates)}
        yield FireLine(at=None, text=_removed(span, calendar))


def _removed(days: str, calendar: str) -> str:
    return _("%(days)s: removed by %(calendar)s") % {"days": days, "calendar": calendar}


def _mark(spec: TriggerSpec, fire: PreviewFire) -> str | None:
    local = _local(fire)
    match fire.mark:
        case "gap":
            times = {"from": _missing_time(spec, fire), "to": f"{local:%H:%M}"}
            return _("clocks go forward: %(from)s becomes %(to)s") % times
        case "overlap_first":
            return _("clocks go back: the first %(time)s") % {"time": f"{local:%H:%M}"}
        case "overlap_second":
            return _("clocks go back: the second %(time)s") % {"time": f"{local:%H:%M}"}
        case "dst_night":
            return _("the clocks change on this day")
    return None


def _missing_time(spec: TriggerSpec, fire: PreviewFire) -> str:
    """The wall time that the clocks leave out, for which there is this fire right after the gap."""
    just_before = datetime.fromtimestamp(fire.at / 1000 - 1, _zone_of(spec))
    gap_from = just_before.replace(tzinfo=UTC) + timedelta(seconds=1)  # in wall time
    gap_to = _local(fire).replace(tzinfo=UTC)
    # Without the zone's clock, the same rules fire at the time that is left out.
    try:
        wall = parse(by_plain_clocks(spec), saved_at=0).next_after(
            round(gap_from.timestamp() * 1000) - 1
        )
    except ScheduleError:
        wall = None
    if wall is not None and wall < gap_to.timestamp() * 1000:
        return f"{datetime.fromtimestamp(wall / 1000, UTC):%H:%M}"
    return f"{gap_from:%H:%M}"


def _local(fire: PreviewFire) -> datetime:
    return datetime.fromtimestamp(fire.at / 1000, timezone(timedelta(minutes=fire.offset_minutes)))


def _pattern(patterns: Mapping[str, str]) -> str:
    return patterns[REQUEST_LOCALE.get().pattern_language]


def _language() -> str:
    return REQUEST_LOCALE.get().language
