"""Fires around every kind of transition, against clocks that are walked minute by minute."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from importlib.resources import files
from io import BytesIO
from random import Random
from zoneinfo import ZoneInfo

import pytest

from tests.admin.domain.schedule.clocks import (
    TRANSITIONS,
    around,
    by_definition,
    lasts,
    nexts,
    shown,
)
from tests.admin.domain.schedule.cron_by_definition import ByDefinition, random_expression
from tests.support.nightly import IS_NIGHT, often
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.schedule.cron import Cron, parse_cron
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.zones import zone_of

# Minutes since the hour field decides about gaps and the text about overlaps.
_EXPRESSIONS = (
    "* * * * *",
    "*/7 * * * *",
    "30 * * * *",
    "0,30 0-23 * * *",
    "30 2 * * *",
    "0 0 * * *",
    "15 0,1,2,3 * * *",
    "45 1 * * *",
    "0,10,20 0 * * SUN",
    "*/20 1-2 * * *",
    "0 */2 * * *",
    "5/25 23,0,1 * * *",
    "0 9 * * *",
    "30 1 L * *",
    "59 23 * * *",
)

TIMES = ("*/20 0-3,23", "30 1", "0,45 1", "30 2", "*/30 2")


def packaged(name: str) -> ZoneInfo:
    """A zone with the same data that the admins have, read by the standard library."""
    data = files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    return ZoneInfo.from_file(BytesIO(data), key=name)


@pytest.mark.parametrize("case", TRANSITIONS)
def test_fires_around_a_transition_are_those_of_the_definition(case: str) -> None:
    name, day = TRANSITIONS[case]
    random = Random(case)
    texts = [*_EXPRESSIONS]
    while len(texts) < often(14, by_night=22):
        # Days are not what this is about; they have a test of their own.
        texts.append(" ".join(random_expression(random, Dialect.UNIX).split()[:2]) + " * * *")
    clocks = packaged(name)
    window = around(_day_of_change(clocks, day), days=1)
    for text in texts:
        slow = ByDefinition(text, Dialect.UNIX)
        for gap, overlap, expected in _settings(slow, clocks, window):
            cron = Cron(parse_cron(text, Dialect.UNIX), zone_of(name), gap=gap, overlap=overlap)
            assert nexts(cron, *window) == expected, (text, gap, overlap)
            assert lasts(cron, *window) == expected, (text, gap, overlap)
            _check_between(cron, expected, window, random)


@pytest.mark.parametrize("case", TRANSITIONS)
@pytest.mark.parametrize("times", TIMES if IS_NIGHT else TIMES[::4])
def test_an_expression_for_the_day_of_a_transition_only(case: str, times: str) -> None:
    """There is nothing else to be found, however far away the search begins."""
    name, day = TRANSITIONS[case]
    clocks, zone, random = packaged(name), zone_of(name), Random(case)
    window = around(_day_of_change(clocks, day), days=2)
    changes = zone.transitions_between(*window)
    for date_ in {_date(at + offset) for at, *offsets in changes for offset in offsets}:
        text = f"0 {times} {date_.day} {date_.month} ? {date_.year}"
        slow, expression = ByDefinition(text, Dialect.QUARTZ), parse_cron(text, Dialect.QUARTZ)
        for gap, overlap, expected in _settings(slow, clocks, window):
            if not expected:
                with pytest.raises(ScheduleError, match="never fires in"):
                    Cron(expression, zone, gap=gap, overlap=overlap)
                continue
            cron = Cron(expression, zone, gap=gap, overlap=overlap)
            assert nexts(cron, 0, 7_200_000_000) == expected, (text, gap, overlap)
            assert lasts(cron, 0, 7_200_000_000) == expected, (text, gap, overlap)
            for year in (1, 200):
                assert cron.next_after((window[0] - year * 86_400) * 1000) == expected[0]
                assert cron.last_before((window[1] + year * 86_400) * 1000) == expected[-1]
            _check_between(cron, expected, window, random)
            assert cron.next_after(expected[-1]) is None
            assert cron.last_before(expected[0]) is None


def _date(local_seconds: int) -> date:
    return date(1970, 1, 1) + timedelta(days=local_seconds // 86_400)


def _settings(
    slow: ByDefinition, clocks: ZoneInfo, window: tuple[int, int]
) -> Iterator[tuple[Gap, Overlap, list[int]]]:
    """The fires in a window by definition, for every gap and overlap."""
    minutes = shown(clocks, *window)
    walls = {minute.wall for minute in minutes}
    walls.update(skipped for minute in minutes for skipped in minute.skipped)
    matching = {wall for wall in walls if slow.is_wall(wall)}
    for gap in Gap:
        for overlap in Overlap:
            yield (
                gap,
                overlap,
                by_definition(
                    matching.__contains__,
                    clocks,
                    *window,
                    gap=Gap.SKIP if slow.covers_all_hours else gap,
                    overlap=_decided(overlap, slow),
                ),
            )


def _decided(overlap: Overlap, slow: ByDefinition) -> Overlap:
    if overlap is not Overlap.AUTO:
        return overlap
    return Overlap.BOTH if slow.is_interval else Overlap.FIRST


def _check_between(cron: Cron, fires: list[int], window: tuple[int, int], random: Random) -> None:
    """From any instant, not only from fire to fire."""
    start, end = (edge * 1000 for edge in window)
    instants = [random.randrange(start, end) for _ in range(5)]
    for change in cron.zone.transitions_between(*window):
        instants += [change.at * 1000 + moved for moved in (-1001, -1000, -1, 0, 1)]
    for instant in instants:
        coming, gone = bisect_right(fires, instant), bisect_left(fires, instant)
        # Beyond the window there may be further fires, or none.
        if coming < len(fires):
            assert cron.next_after(instant) == fires[coming]
        if gone > 0:
            assert cron.last_before(instant) == fires[gone - 1]


def _day_of_change(clocks: ZoneInfo, near: date) -> date:
    """The day of the first change within a fortnight; the day itself where there is none."""
    for n in range(15):
        day = near + timedelta(days=n - 7)
        noon = datetime(day.year, day.month, day.day, 12, tzinfo=clocks)
        if noon.utcoffset() != (noon - timedelta(days=1)).utcoffset():
            return day
    return near


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        # The clocks of Monrovia went forward by 44 minutes and 30 seconds.
        ("Africa/Monrovia", 63_590_000, 63_596_000),
        ("Europe/Berlin", 1_774_743_000, 1_774_748_000),
        ("Europe/Berlin", 1_792_885_000, 1_792_895_000),
        ("Australia/Lord_Howe", 1_775_312_000, 1_775_317_000),
    ],
)
@pytest.mark.parametrize("text", ["*/20 * * * * *", "10,50 */3 * * * *", "7-9 59,0,29 0-2 * * *"])
def test_seconds_around_a_transition_are_those_of_the_definition(
    name: str, first: int, last: int, text: str
) -> None:
    """With overlap both and no gap, every second counts for itself."""
    clocks, slow = packaged(name), ByDefinition(text, Dialect.SPRING)
    walls = {
        at: datetime.fromtimestamp(at, clocks).replace(tzinfo=None) for at in range(first, last)
    }
    expected = [at * 1000 for at, wall in walls.items() if slow.is_wall(wall)]
    cron = Cron(parse_cron(text, Dialect.SPRING), zone_of(name), gap=Gap.SKIP, overlap=Overlap.BOTH)
    assert nexts(cron, first, last) == expected
    assert lasts(cron, first, last) == expected


def _iso(cron: Cron, start: str, count: int) -> list[str]:
    at: int | None = int(datetime.fromisoformat(start).timestamp() * 1000)
    zone = packaged(cron.zone.name)
    found = []
    for _ in range(count):
        assert at is not None
        at = cron.next_after(at)
        assert at is not None
        found.append(datetime.fromtimestamp(at // 1000, zone).isoformat())
    return found


def test_the_times_of_a_day_that_does_not_exist_are_one_fire_after_it() -> None:
    cron = Cron(parse_cron("0 9,17 * * *", Dialect.UNIX), zone_of("Pacific/Apia"))
    assert _iso(cron, "2011-12-29T12:00:00-10:00", 4) == [
        "2011-12-29T17:00:00-10:00",
        "2011-12-31T00:00:00+14:00",
        "2011-12-31T09:00:00+14:00",
        "2011-12-31T17:00:00+14:00",
    ]


def test_a_pass_that_is_chosen_fires_once_an_hour_later() -> None:
    spec = parse_cron("30 2 * * *", Dialect.UNIX)
    berlin = zone_of("Europe/Berlin")
    second = Cron(spec, berlin, overlap=Overlap.SECOND)
    assert _iso(second, "2026-10-25T00:00:00+02:00", 2) == [
        "2026-10-25T02:30:00+01:00",
        "2026-10-26T02:30:00+01:00",
    ]
    both = Cron(spec, berlin, overlap=Overlap.BOTH)
    assert _iso(both, "2026-10-25T00:00:00+02:00", 2) == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:30:00+01:00",
    ]


def test_an_expression_whose_only_time_the_clocks_skip_is_refused_in_that_zone() -> None:
    spec = parse_cron("0 30 2 29 3 ? 2026", Dialect.QUARTZ)
    assert Cron(spec, zone_of("Asia/Shanghai"), gap=Gap.SKIP).next_after(0) is not None
    assert Cron(spec, zone_of("Europe/Berlin"), gap=Gap.FIRE).next_after(0) == 1_774_746_000_000
    with pytest.raises(ScheduleError, match="never fires in Europe/Berlin"):
        Cron(spec, zone_of("Europe/Berlin"), gap=Gap.SKIP)
