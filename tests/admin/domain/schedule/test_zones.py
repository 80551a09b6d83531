"""Zones as segments, against the standard library on the same data."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from tests.admin.domain.schedule.test_cron_walk import packaged
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.posix_rule import PosixRule
from tickwheel_admin.domain.schedule.zones import FOREVER, TZDATA_VERSION, Transition, Zone, zone_of

_ZONES = (
    "UTC", "Europe/Berlin", "Europe/Dublin", "America/New_York", "Australia/Lord_Howe",
    "Africa/Cairo", "America/Sao_Paulo", "Asia/Shanghai", "Pacific/Apia", "Africa/Casablanca",
    "Antarctica/Troll", "Africa/Monrovia", "Asia/Gaza", "America/Nuuk", "Etc/GMT+5",
)  # fmt: skip
_LATEST = int(datetime(2200, 1, 1, tzinfo=UTC).timestamp())


def _offset(name: str, instant: int) -> int:
    offset = datetime.fromtimestamp(instant, packaged(name)).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


@pytest.mark.parametrize("name", _ZONES)
def test_offsets_are_those_of_the_standard_library(name: str) -> None:
    zone, random, clocks = zone_of(name), Random(name), packaged(name)
    instants = [random.randrange(-(10**9), _LATEST) for _ in range(300)]
    instants += [
        at + moved
        for at, _, _ in zone.transitions_between(-(10**9), 2_600_000_000)
        for moved in (-1, 0)
    ]
    for instant in instants:
        local, offset = zone.to_local(instant)
        expected = datetime.fromtimestamp(instant, clocks).utcoffset()
        assert timedelta(seconds=offset) == expected, instant
        assert local == instant + offset


@pytest.mark.parametrize("name", _ZONES)
def test_no_transition_is_missed_by_looking_once_a_day(name: str) -> None:
    start, end = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2036, 2044))
    found = zone_of(name).transitions_between(start, end)
    changes = 0
    before = _offset(name, start)
    clocks = packaged(name)
    for instant in range(start, end, 86_400):
        offset = datetime.fromtimestamp(instant, clocks).utcoffset()
        assert offset is not None
        changes += int(offset.total_seconds()) != before
        before = int(offset.total_seconds())
    assert len(found) == changes


def test_segments_follow_each_other_without_a_hole() -> None:
    for name in _ZONES:
        zone = Zone(name)
        segment = zone.segment_at(-FOREVER)
        while segment.end != FOREVER:
            following = zone.segment(segment.number + 1)
            assert following.start == segment.end
            assert (following.before, segment.after) == (segment.offset, following.offset)
            assert following.offset != segment.offset
            segment = following
        assert segment.after == segment.offset
        assert zone.segment_at(FOREVER - 1) == segment


@pytest.mark.parametrize(
    ("text", "year", "changes"),
    [
        ("CET-1CEST,M3.5.0,M10.5.0/3", 2026, (("2026-03-29T01:00", 2), ("2026-10-25T01:00", 1))),
        ("EST5EDT,M3.2.0,M11.1.0", 2026, (("2026-03-08T07:00", -4), ("2026-11-01T06:00", -5))),
        # Dublin's summer is the standard, and its winter goes back.
        ("IST-1GMT0,M10.5.0,M3.5.0/1", 2026, (("2026-03-29T01:00", 1), ("2026-10-25T01:00", 0))),
        # In the south the year begins with summer time.
        ("AEST-10AEDT,M10.1.0,M4.1.0/3", 2026,
         (("2026-04-04T16:00", 10), ("2026-10-03T16:00", 11))),
        # Hours beyond the day, before it, and days counted with and without 29 February.
        ("EET-2EEST,M3.4.4/50,M10.4.4/50", 2026,
         (("2026-03-28T00:00", 3), ("2026-10-23T23:00", 2))),
        ("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", 2026,
         (("2026-03-29T01:00", -1), ("2026-10-25T01:00", -2))),
        ("XXX0YYY,J60/0,J300/0", 2024, (("2024-03-01T00:00", 1), ("2024-10-26T23:00", 0))),
        ("XXX0YYY,59/0,299/0", 2024, (("2024-02-29T00:00", 1), ("2024-10-25T23:00", 0))),
        ("XXX0YYY,J60/0,J300/0", 2025, (("2025-03-01T00:00", 1), ("2025-10-26T23:00", 0))),
    ],
)  # fmt: skip
def test_rules_of_posix(
    text: str, year: int, changes: tuple[tuple[str, int], tuple[str, int]]
) -> None:
    rule = PosixRule.read(text)
    assert rule is not None
    assert rule.changes(year) == tuple((_utc(at), hours * 3_600) for at, hours in changes)


def test_a_text_without_a_rule_has_none_and_an_unknown_one_is_an_error() -> None:
    assert PosixRule.read("CST-8") is None
    with pytest.raises(ValueError, match="not a rule"):
        PosixRule.read("CET-1CEST,Q3.5.0,M10.5.0/3")


def test_wall_times_that_happen_once_twice_and_never() -> None:
    berlin = zone_of("Europe/Berlin")
    assert berlin.instants_of(_wall("2026-06-01T12:00")) == (_utc("2026-06-01T10:00"),)
    assert berlin.instants_of(_wall("2026-10-25T02:30")) == (
        _utc("2026-10-25T00:30"),
        _utc("2026-10-25T01:30"),
    )
    assert berlin.instants_of(_wall("2026-03-29T02:30")) == ()
    assert berlin.gap_end(_wall("2026-03-29T02:00")) == _utc("2026-03-29T01:00")
    assert berlin.gap_end(_wall("2026-03-29T02:59")) == _utc("2026-03-29T01:00")
    assert berlin.gap_end(_wall("2026-03-29T03:00")) is None
    assert berlin.gap_end(_wall("2026-03-29T01:59")) is None
    assert berlin.gap_end(_wall("2026-10-25T02:30")) is None
    apia = zone_of("Pacific/Apia")
    assert apia.instants_of(_wall("2011-12-30T12:00")) == ()
    assert apia.gap_end(_wall("2011-12-30T12:00")) == _utc("2011-12-30T10:00")
    assert berlin.transitions_between(_utc("2026-03-29T01:00"), _utc("2026-10-25T01:00")) == (
        Transition(_utc("2026-03-29T01:00"), 3_600, 7_200),
    )


def test_names_are_those_of_the_package() -> None:
    assert zone_of(None) is zone_of("UTC")
    assert zone_of("Asia/Chongqing").to_local(0)[1] == 8 * 3_600
    assert zone_of("Europe/Berlin").name == "Europe/Berlin"
    assert TZDATA_VERSION[:2] == "20"


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("new york", "America/New_York"),
        ("utc", "UTC"),
    ],
)
def test_a_name_that_is_nearly_right_is_suggested(name: str, suggestion: str) -> None:
    with pytest.raises(ScheduleError, match=f"did you mean {suggestion}") as caught:
        zone_of(name)
    assert caught.value.field == "timezone"


@pytest.mark.parametrize(
    "name", ["", "Mars/Olympus", "../zones", "Europe/../Europe/Berlin", "Europe", "\x00", "a" * 999]
)
def test_anything_else_is_no_zone(name: str) -> None:
    with pytest.raises(ScheduleError, match="is not a time zone"):
        zone_of(name)


def test_threads_may_share_a_zone_that_grows() -> None:
    zone = Zone("Europe/Berlin")
    instants = [n * 86_400 * 61 for n in range(1_300)]
    expected = [Zone("Europe/Berlin").to_local(instant) for instant in instants[:5]]
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(lambda shift: [zone.to_local(at) for at in instants[shift::4]], range(4))
        )
    for shift, answer in enumerate(answers):
        clocks = packaged("Europe/Berlin")
        for instant, (_, offset) in zip(instants[shift::4], answer, strict=True):
            assert timedelta(seconds=offset) == datetime.fromtimestamp(instant, clocks).utcoffset()
    assert [zone.to_local(instant) for instant in instants[:5]] == expected
    numbers = [each.number for each in zone._table.segments]
    assert numbers == list(range(len(numbers)))


def _utc(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def _wall(text: str) -> int:
    """A local second."""
    return _utc(text)
