"""Buckets of trends: weeks from Monday and days of a zone, whole and without a gap."""

from __future__ import annotations

import datetime as dt

import pytest

from tickwheel_admin.domain.runs.time_histogram import TimeHistogram
from tickwheel_admin.domain.runs.trend import TrendBucket, TrendStep, added, bounds_of
from tickwheel_admin.domain.schedule.zones import zone_of

HOUR, DAY = 3_600_000, 86_400_000


def at(text: str) -> int:
    return round(dt.datetime.fromisoformat(text).timestamp() * 1000)


def texts(instants: list[int]) -> list[str]:
    return [dt.datetime.fromtimestamp(i / 1000, dt.UTC).isoformat()[:16] for i in instants]


def test_weeks_begin_on_monday_of_the_zone_also_when_clocks_change() -> None:
    found = bounds_of(
        TrendStep.WEEK, at("2026-03-25T12:00Z"), at("2026-04-01T12:00Z"), zone_of("Europe/Berlin")
    )
    assert texts(found) == ["2026-03-22T23:00", "2026-03-29T22:00", "2026-04-05T22:00"]


@pytest.mark.parametrize(
    ("zone", "starts"),
    [
        ("UTC", ["2026-06-01T00:00", "2026-06-02T00:00", "2026-06-03T00:00"]),
        # Of half hours the hour that holds midnight is the first.
        ("Asia/Kolkata", ["2026-06-01T18:00", "2026-06-02T18:00"]),
        ("America/New_York", ["2026-06-01T04:00", "2026-06-02T04:00"]),
    ],
)
def test_days_are_those_of_the_zone(zone: str, starts: list[str]) -> None:
    begin, end = at("2026-06-01T20:00Z"), at("2026-06-02T20:00Z")
    found = texts(bounds_of(TrendStep.DAY, begin, end, zone_of(zone)))
    assert found[: len(starts)] == starts
    assert found[-1] >= "2026-06-02T20:00"
    assert found[0] <= "2026-06-01T20:00"


def test_a_date_that_a_zone_skipped_has_no_bucket() -> None:
    found = bounds_of(
        TrendStep.DAY,
        at("2011-12-29T12:00-10:00"),
        at("2012-01-01T12:00+14:00"),
        zone_of("Pacific/Apia"),
    )
    assert len(found) == len(set(found))
    assert found == sorted(found)


def test_hours_are_whole() -> None:
    found = bounds_of(TrendStep.HOUR, HOUR + 5, 3 * HOUR + 1, zone_of("UTC"))
    assert found == [HOUR, 2 * HOUR, 3 * HOUR, 4 * HOUR]
    assert bounds_of(TrendStep.HOUR, HOUR, 3 * HOUR, zone_of("UTC")) == [HOUR, 2 * HOUR, 3 * HOUR]


def test_the_whole_is_the_sum_of_its_parts() -> None:
    parts = [
        TrendBucket(start_at=0, end_at=1, succeeded=3, failed=1, delays=TimeHistogram.of([5] * 4)),
        TrendBucket(start_at=1, end_at=2, timed_out=1, cancelled=2, is_estimated=True),
    ]
    whole = added(0, 2, parts)
    assert (whole.total, whole.failures, whole.failure_rate) == (7, 2, 0.4)
    assert whole.delays.quantile(0.5) == 5
    assert whole.is_estimated
    assert TrendBucket(start_at=0, end_at=1, cancelled=3).failure_rate is None
