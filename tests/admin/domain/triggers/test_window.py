"""Once in a window: by definition around transitions, what is refused and stored, its words."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from tests.admin.domain.schedule.clocks import (
    TRANSITIONS,
    around,
    by_definition,
    iso,
    lasts,
    ms,
    nexts,
)
from tests.support.nightly import often
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input.trigger import parse_trigger, trigger_to_raw
from tickwheel_admin.domain.planning.windows import may_move
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.triggers.explain import explain
from tickwheel_admin.domain.triggers.kinds.window import WindowSpec
from tickwheel_admin.domain.triggers.placement import PlacedBy, WindowPlacement
from tickwheel_admin.domain.triggers.schedule import parse
from tickwheel_admin.domain.triggers.trigger_json import all_fields, spec_from_json, spec_to_json

BERLIN = "Europe/Berlin"
HOUR_MS = 3_600_000
NIGHTLY = WindowSpec(from_time="01:00:00", to_time="05:00:00", done_by="06:00:00", timezone=BERLIN)


def placed(offset: int, **changes: Any) -> WindowPlacement:
    values: dict[str, Any] = {
        "by": PlacedBy.LOAD, "chosen_at": 0, "latest": 215, "length_ms": 80 * 60_000, "runs": 50,
        "in_use": 3.0, "in_use_at_latest": 9.2, "slots": 16,
    }  # fmt: skip
    return WindowPlacement(offset=offset, **(values | changes))


def fires(spec: WindowSpec, after: str, n: int) -> list[str | None]:
    schedule, found, at = parse(spec, saved_at=0), [], ms(after)
    for _ in range(n):
        at = schedule.next_after(at) or 0
        found.append(iso(at, spec.timezone or "UTC"))
    return found


# --- when it fires -------------------------------------------------------------------------------


def test_it_fires_at_the_end_of_its_window_until_it_is_placed() -> None:
    assert fires(NIGHTLY, "2026-01-10T00:00:00Z", 2) == [
        "2026-01-10T05:00:00+01:00",
        "2026-01-11T05:00:00+01:00",
    ]
    assert fires(replace(NIGHTLY, placement=placed(100)), "2026-01-10T00:00:00Z", 2) == [
        "2026-01-10T02:40:00+01:00",
        "2026-01-11T02:40:00+01:00",
    ]


def test_a_window_over_midnight_counts_for_the_day_on_which_it_begins() -> None:
    fridays = WindowSpec(from_time="22:30:00", to_time="03:00:00", weekdays=(5,), timezone=BERLIN)
    assert fires(fridays, "2026-01-05T00:00:00Z", 2) == [
        "2026-01-10T03:00:00+01:00",  # a Saturday
        "2026-01-17T03:00:00+01:00",
    ]
    early = replace(fridays, placement=placed(30))
    assert fires(early, "2026-01-05T00:00:00Z", 1) == ["2026-01-09T23:00:00+01:00"]
    reasons = explain(fridays, date="2026-01-09", saved_at=0).reasons
    assert [(each.code, each.params["weekday"]) for each in reasons] == [("weekday", "Thursday")]


def _is_start(spec: WindowSpec) -> Callable[[datetime], bool]:
    """By the window's begin on each day, so that no arithmetic of ours is repeated."""
    begin = datetime.strptime(spec.from_time or "", "%H:%M:%S")  # noqa: DTZ007 - a wall time
    end = datetime.strptime(spec.to_time or "", "%H:%M:%S")  # noqa: DTZ007
    if spec.placement is not None:
        later = timedelta(minutes=spec.placement.offset)
    else:
        later = end - begin if end > begin else end - begin + timedelta(days=1)

    def is_start(wall: datetime) -> bool:
        began = wall - later
        weekdays = spec.weekdays or range(1, 8)
        return began.time() == begin.time() and began.isoweekday() in weekdays

    return is_start


@pytest.mark.parametrize("where", TRANSITIONS)
def test_windows_around_transitions_are_as_defined(where: str) -> None:
    zone, day = TRANSITIONS[where]
    draw = random.Random(where)
    start, end = around(day, days=2)
    for _ in range(often(12, by_night=60)):
        length = draw.choice((30, 90, 240, 1_000))
        first = draw.choice((0, 30, 60, 120, 135, 1_350, 1_410))
        last = (first + length) % 1_440
        spec = WindowSpec(
            from_time=f"{first // 60:02}:{first % 60:02}:00",
            to_time=f"{last // 60:02}:{last % 60:02}:00",
            weekdays=draw.choice(((), (), (7,), (6, 7), (5, 6))),
            gap=draw.choice(tuple(Gap)),
            overlap=draw.choice(tuple(Overlap)),
            timezone=zone,
            placement=draw.choice((None, placed(draw.randrange(0, length + 1, 5)))),
        )
        schedule = parse(spec, saved_at=0)
        overlap = Overlap.FIRST if spec.overlap is Overlap.AUTO else spec.overlap
        expected = by_definition(
            _is_start(spec), ZoneInfo(zone), start, end, gap=spec.gap, overlap=overlap
        )
        assert nexts(schedule, start, end) == expected, spec
        assert lasts(schedule, start, end) == expected, spec


@pytest.mark.parametrize(
    ("zone", "day", "offset", "at"),
    [
        (BERLIN, "2026-03-29", 90, "2026-03-29T03:00:00+02:00"),  # 02:30 is skipped
        (BERLIN, "2026-10-25", 90, "2026-10-25T02:30:00+02:00"),  # 02:30 comes twice: the first
        ("America/New_York", "2026-03-08", 75, "2026-03-08T03:00:00-04:00"),
        ("America/New_York", "2026-11-01", 20, "2026-11-01T01:20:00-04:00"),
        ("Australia/Lord_Howe", "2026-10-04", 75, "2026-10-04T02:30:00+11:00"),
        ("Australia/Lord_Howe", "2026-04-05", 45, "2026-04-05T01:45:00+11:00"),
    ],
)
def test_a_start_that_the_clocks_skip_or_show_twice(
    zone: str, day: str, offset: int, at: str
) -> None:
    spec = replace(NIGHTLY, timezone=zone, placement=placed(offset))
    told = explain(spec, date=day, saved_at=0)
    assert [iso(fire, zone) for fire in told.fires] == [at]


def test_it_ends_with_the_year_2199_and_begins_with_1970() -> None:
    schedule = parse(replace(NIGHTLY, timezone="UTC"), saved_at=0)
    last = ms("2199-12-31T05:00:00Z")
    assert (schedule.last_before(ms("2300-01-01T00:00:00Z")), schedule.next_after(last)) == (
        last, None,
    )  # fmt: skip
    assert schedule.next_after(-1) == 5 * HOUR_MS
    assert schedule.last_before(5 * HOUR_MS) is None


# --- after a move --------------------------------------------------------------------------------


def test_the_fire_after_a_move_follows_on_the_last_one_before_it() -> None:
    """Data intervals meet: each ends where the next one begins."""
    moved_at = ms("2026-01-10T12:00:00Z")
    former = ms("2026-01-10T05:00:00+01:00")
    spec = replace(
        NIGHTLY,
        placement=placed(100, chosen_at=moved_at, former_at=former, former_offset=240),
    )
    start, end = ms("2026-01-08T00:00:00Z") // 1000, ms("2026-01-13T00:00:00Z") // 1000
    schedule = parse(spec, saved_at=0)
    expected = [
        ms("2026-01-08T02:40:00+01:00"), ms("2026-01-09T02:40:00+01:00"), former,
        ms("2026-01-11T02:40:00+01:00"), ms("2026-01-12T02:40:00+01:00"),
    ]  # fmt: skip
    assert nexts(schedule, start, end) == expected
    assert lasts(schedule, start, end) == expected
    for at in range(start * 1000, end * 1000, HOUR_MS // 3):
        following = schedule.next_after(at)
        assert following == next((fire for fire in expected if fire > at), following)
        before = schedule.last_before(at)
        assert before == next((fire for fire in reversed(expected) if fire < at), before)


@pytest.mark.parametrize(
    ("now", "old", "new", "may"),
    [
        ("12:00", 240, 100, True),  # no window is open
        ("01:30", 240, 210, True),  # it is, and neither start has come
        ("02:00", 240, 30, False),  # the new start has passed: this night would have no fire
        ("02:00", 30, 240, False),  # the old one has: this night would have two
        ("04:30", 30, 90, True),  # both have
        ("00:30", 10, 240, False),  # it comes within the hour
        ("00:30", 240, 10, False),
    ],
)
def test_no_night_has_two_fires_or_none(now: str, old: int, new: int, may: bool) -> None:
    at = ms(f"2026-01-10T{now}:00+01:00")
    before, after = (replace(NIGHTLY, placement=placed(offset)) for offset in (old, new))
    assert may_move(before, after, now=at) is may


# --- what people write ---------------------------------------------------------------------------

WRITTEN = {"kind": "window", "from_time": "01:00", "to_time": "05:00", "done_by": "06:00"}


def test_it_is_read_and_written_back() -> None:
    spec = parse_trigger(WRITTEN | {"timezone": BERLIN, "weekdays": ["mon", "fri"]})
    assert spec == replace(NIGHTLY, weekdays=(1, 5))
    raw = trigger_to_raw(replace(spec, placement=placed(100)))
    assert (raw["from_time"], raw["to_time"], raw["done_by"]) == (
        "01:00:00",
        "05:00:00",
        "06:00:00",
    )
    assert parse_trigger(raw) == spec
    assert "placement" not in raw


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"to_time": "01:00"}, "to_time"),
        ({"to_time": None}, "to_time"),
        ({"from_time": None}, "from_time"),
        ({"from_time": "25:00"}, "from_time"),
        ({"done_by": "04:59"}, "done_by"),
        ({"done_by": "01:00"}, "done_by"),
        ({"weekdays": []}, "weekdays"),
        ({"every_seconds": 60}, "every_seconds"),
        ({"placement": {"offset": 5}}, "placement"),
    ],
)
def test_what_makes_no_window_is_refused_by_its_field(changes: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_trigger(WRITTEN | changes)
    assert field in {each.field for each in refused.value.problems}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (replace(NIGHTLY, to_time="01:00:00"), "to_time"),
        (replace(NIGHTLY, from_time=None), "from_time"),
        (replace(NIGHTLY, done_by="04:00:00"), "done_by"),
        (replace(NIGHTLY, done_by="x"), "done_by"),
        (replace(NIGHTLY, weekdays=(8,)), "weekdays"),
    ],
)
def test_what_cannot_be_computed_is_refused(spec: WindowSpec, field: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        parse(spec, saved_at=0)
    assert refused.value.field == field


def test_the_placement_is_stored_with_the_trigger_and_not_with_the_revision() -> None:
    spec = replace(NIGHTLY, placement=placed(100, former_at=5, former_offset=7))
    assert spec_from_json(spec_to_json(spec)) == spec
    assert spec.as_written() == NIGHTLY
    assert "placement" not in all_fields(spec)
    assert "placement" not in spec_to_json(NIGHTLY)


def test_a_placement_holds_for_an_edited_trigger_with_the_same_window() -> None:
    old = replace(NIGHTLY, placement=placed(100))
    assert replace(NIGHTLY, priority=2).placed_as([old]).placement == old.placement
    assert replace(NIGHTLY, to_time="05:30:00").placed_as([old]).placement is None
    assert replace(NIGHTLY, timezone="UTC").placed_as([old]).placement is None


# --- in words ------------------------------------------------------------------------------------


def test_it_says_its_window_and_why_it_starts_when_it_does() -> None:
    assert NIGHTLY.describe(str) == "once between 01:00 and 05:00, done by 06:00"
    sundays = replace(NIGHTLY, done_by=None, weekdays=(7,))
    assert sundays.describe(str) == "once between 01:00 and 05:00, every Sunday"
    assert NIGHTLY.describe_own(str) == [
        "05:00: the end of its window, until enough runs are measured to place it"
    ]
    at = ms("2026-01-10T12:00:30Z")
    assert replace(NIGHTLY, placement=placed(100, chosen_at=at)).describe_own(str) == [
        (
            "02:40: of the starts from 01:00 to 04:35 the one beside which others use the fewest "
            "slots: 3.0 of 16, and 9.2 at 04:35. 19 of 20 runs take 80 minutes at most"
        ),
        "Placed on 2026-01-10 12:00:00 UTC",
    ]
    latest, long = placed(215, by=PlacedBy.LATEST), placed(0, by=PlacedBy.TOO_LONG)
    assert (
        replace(NIGHTLY, placement=latest)
        .placement_in_words(str)
        .startswith("04:35: the latest start by which it is done by 06:00")
    )
    assert (
        replace(NIGHTLY, placement=long)
        .placement_in_words(str)
        .startswith("01:00: the first start, because no start is early enough to be done by 06:00")
    )
    assert (
        replace(sundays, placement=latest)
        .placement_in_words(str)
        .startswith("04:35: the end of its window")
    )
