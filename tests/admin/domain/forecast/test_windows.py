"""Where windows are placed: in time, beside the least load, and not elsewhere each night."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import msgspec
import pytest

from tests.admin.domain.forecast.situations import DAY_MS, HOUR_MS, NOW, cron, job, node, situation
from tickwheel_admin.domain.calendars.calendar import (
    Calendar,
    CalendarSense,
    CalendarSpec,
    TimeWindow,
)
from tickwheel_admin.domain.forecast.simulation import Simulation
from tickwheel_admin.domain.forecast.situation import (
    ForecastJob,
    ForecastSituation,
    ForecastTrigger,
    MeasuredRun,
)
from tickwheel_admin.domain.forecast.spread import proposals
from tickwheel_admin.domain.forecast.windows import (
    MIN_RUNS,
    STAYS_MS,
    PlacementRequest,
    answer_placements,
    placements,
)
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.triggers.kinds.window import WindowSpec
from tickwheel_admin.domain.triggers.placement import PlacedBy, WindowPlacement
from tickwheel_admin.domain.triggers.schedule import parse

MINUTE_MS = 60_000
NIGHT = WindowSpec(from_time="01:00:00", to_time="05:00:00", done_by="06:00:00")


def measured(*minutes: float) -> tuple[MeasuredRun, ...]:
    return tuple(MeasuredRun(RunState.SUCCEEDED, round(n * MINUTE_MS), 1) for n in minutes)


def nightly(
    number: int = 1, *, spec: WindowSpec = NIGHT, minutes: tuple[float, ...] = (30,) * 20
) -> ForecastJob:
    return job(number, spec, measured=measured(*minutes))


def busy(number: int, hours: str, *, minutes: float = 60) -> ForecastJob:
    """Takes a slot in these hours of each day."""
    return job(number, cron(f"0 {hours} * * *"), measured=measured(minutes))


def place(
    found: ForecastSituation, *triggers: int, max_runs: int = 150_000
) -> dict[int, WindowPlacement]:
    asked = PlacementRequest(situation=found, triggers=list(triggers or (100,)), max_runs=max_runs)
    return placements(asked)


def start(found: dict[int, WindowPlacement], trigger: int = 100) -> int:
    """In minutes after one o'clock."""
    return found[trigger].offset


def with_placement(each: ForecastJob, placement: WindowPlacement | None, now: int) -> ForecastJob:
    """The job as it is stored once its trigger is placed."""
    trigger = each.triggers[0]
    assert isinstance(trigger.spec, WindowSpec)
    spec = msgspec.structs.replace(trigger.spec, placement=placement)
    at = parse(spec, saved_at=0).next_after(now)
    return replace(each, triggers=(replace(trigger, spec=spec, next_fire_at=at),))


# --- where ---------------------------------------------------------------------------------------


def test_it_goes_where_others_use_the_fewest_slots() -> None:
    full = situation(nightly(), busy(2, "1,2"), busy(3, "1,4,5"), nodes=(node(slots=8),))
    found = place(full)
    assert start(found) == 120  # three o'clock
    assert found[100] == WindowPlacement(
        offset=120,
        by=PlacedBy.LOAD,
        chosen_at=NOW,
        latest=240,
        length_ms=30 * MINUTE_MS,
        runs=20,
        in_use=0.0,
        in_use_at_latest=1.0,
        slots=8,
    )


def test_of_equal_starts_it_is_the_earliest() -> None:
    assert start(place(situation(nightly(), busy(2, "1")))) == 60
    assert start(place(situation(nightly()))) == 0


def test_it_is_done_in_time_in_nineteen_of_twenty_runs() -> None:
    slow = (*(30,) * 18, 150, 400)
    full = situation(nightly(minutes=slow), busy(2, "1,2,3"), nodes=(node(slots=9),))
    found = place(full)[100]
    assert (found.latest, found.length_ms) == (150, 150 * MINUTE_MS)  # 03:30 and 2.5 hours
    assert found.offset <= 150


def test_a_run_that_is_too_long_begins_as_soon_as_it_may() -> None:
    found = place(situation(nightly(minutes=(400,) * 20), busy(2, "1")))[100]
    assert (found.offset, found.by) == (0, PlacedBy.TOO_LONG)


def test_without_enough_measurements_it_stays_at_the_end_of_its_window() -> None:
    assert place(situation(nightly(minutes=(30,) * (MIN_RUNS - 1)))) == {}
    assert place(situation(nightly(minutes=()))) == {}


@pytest.mark.parametrize(
    ("nodes", "max_runs"), [((), 150_000), ((node(),), 1)], ids=["no nodes", "too many runs"]
)
def test_without_a_forecast_it_is_the_latest_start_that_is_in_time(
    nodes: Any, max_runs: int
) -> None:
    slow = nightly(minutes=(90,) * 20)
    found = place(situation(slow, busy(2, "*"), nodes=nodes), max_runs=max_runs)[100]
    assert (found.offset, found.by) == (210, PlacedBy.LATEST)  # 04:30
    # One that is in time at the window's end stays there.
    assert place(situation(nightly(), busy(2, "*"), nodes=nodes), max_runs=max_runs) == {}


def test_those_that_do_not_fire_stay() -> None:
    paused = replace(nightly(), paused=True)
    assert place(situation(paused)) == {}
    held = nightly()
    held = replace(held, triggers=(replace(held.triggers[0], paused=True),))
    assert place(situation(held)) == {}
    assert place(situation(nightly(), paused={1: NOW})) == {}


def test_each_reckons_with_those_before_it() -> None:
    found = place(situation(nightly(1), nightly(2), nightly(3)), 100, 200, 300)
    assert sorted(each.offset for each in found.values()) == [0, 30, 60]


def test_its_own_load_does_not_drive_it_away() -> None:
    with_it = with_placement(nightly(), place(situation(nightly()))[100], NOW)
    assert place(situation(with_it)) == {}


def test_a_start_that_a_calendar_takes_away_is_not_chosen() -> None:
    hours = CalendarSpec(
        sense=CalendarSense.INCLUDE,
        windows=(TimeWindow(from_time="02:00:00", to_time="02:30:00"),),
    )
    calendar = Calendar(name="open", version=1, spec=hours)
    spec = msgspec.structs.replace(NIGHT, calendar="open")
    each = job(1, spec, measured=measured(*(5,) * 20))
    found = place(situation(each, busy(2, "2", minutes=20), calendars=(calendar,)))
    assert start(found) == 80  # 02:20: behind the other, and within the half hour


def test_the_zone_of_the_trigger_counts() -> None:
    shanghai = msgspec.structs.replace(NIGHT, timezone="Asia/Shanghai")  # 17:00 to 21:00 UTC
    full = situation(nightly(spec=shanghai), busy(2, "17,18,20"), nodes=(node(slots=1),))
    assert start(place(full)) == 120


def test_what_a_process_is_asked_is_json() -> None:
    full = situation(nightly(), busy(2, "1,2"), nodes=(node(slots=9),))
    asked = PlacementRequest(situation=full, triggers=[100])
    told = answer_placements(msgspec.json.encode(asked))
    assert msgspec.json.decode(told, type=dict[int, WindowPlacement]) == place(full)


def test_better_minutes_leave_windows_alone() -> None:
    full = situation(nightly(), nightly(2), busy(3, "5"))
    forecast = Simulation(full, end=NOW + DAY_MS).run()
    assert proposals(full, forecast, {1, 2}) == ()


# --- it stays ------------------------------------------------------------------------------------


def on(now: int, *jobs: ForecastJob) -> ForecastSituation:
    """The situation of another day."""

    def armed(trigger: ForecastTrigger) -> ForecastTrigger:
        at = parse(trigger.spec, saved_at=0).next_after(now)
        return replace(trigger, next_fire_at=at)

    moved = tuple(replace(each, triggers=tuple(map(armed, each.triggers))) for each in jobs)
    return replace(situation(*moved, nodes=(node(slots=16),)), now=now)


def test_it_does_not_dance() -> None:
    """Thirty nights in which the load and its own duration are a little different each time."""
    random, each, starts = Random(1), nightly(), []
    for night in range(30):
        now = NOW + night * DAY_MS + 12 * HOUR_MS
        others = [
            job(
                number,
                cron(f"{random.randrange(60)} {1 + number % 4} * * *"),
                measured=measured(*(random.uniform(5, 50) for _ in range(10))),
            )
            for number in range(2, 14)
        ]
        own = measured(*(random.uniform(25, 45) for _ in range(30)))
        each = replace(each, measured=own)
        chosen = place(on(now, each, *others)).get(100)
        if chosen is not None:
            each = with_placement(each, chosen, now)
        spec = each.triggers[0].spec
        assert isinstance(spec, WindowSpec)
        assert spec.placement is not None
        starts.append(spec.placement.offset)
    moves = sum(one != two for one, two in pairwise(starts))
    assert moves <= 30 // 7, starts


def test_it_moves_for_much_less_load_and_not_within_a_week() -> None:
    quiet = place(on(NOW, nightly(), busy(2, "1")))[100]
    assert quiet.offset == 60
    each = with_placement(nightly(), quiet, NOW)
    crowd = [busy(number, "1,2,3") for number in range(2, 8)]
    soon, later = NOW + STAYS_MS - DAY_MS, NOW + STAYS_MS
    assert place(on(soon, each, *crowd)) == {}
    moved = place(on(later, each, *crowd))[100]
    assert (moved.offset, moved.chosen_at) == (180, later)


def test_it_stays_for_a_little_less_load() -> None:
    quiet = place(on(NOW, nightly()))[100]
    each = with_placement(nightly(), quiet, NOW)
    assert quiet.offset == 0
    # Eight slots at one o'clock, seven later: an eighth less.
    crowd = [busy(number, "1-5") for number in range(2, 9)]
    assert place(on(NOW + 2 * STAYS_MS, each, *crowd, busy(9, "1"))) == {}
    # A third of a slot less is all of it, and not worth a move either.
    assert place(on(NOW + 2 * STAYS_MS, each, busy(2, "1", minutes=10))) == {}


def test_it_moves_at_once_when_it_is_no_longer_in_time() -> None:
    crowd = [busy(number, "1,2,3") for number in range(2, 8)]
    late = place(on(NOW, nightly(), *crowd))[100]
    assert late.offset >= 180
    slower = with_placement(nightly(minutes=(170,) * 20), late, NOW)
    moved = place(on(NOW + DAY_MS, slower, *crowd))[100]
    assert moved.offset <= moved.latest == 130
    # Once measurements are gone it stays where it is.
    forgotten = with_placement(nightly(minutes=()), late, NOW)
    assert place(on(NOW + 2 * STAYS_MS, forgotten, *crowd)) == {}
