"""Days and times of random expressions of every form, against their definition and croniter."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from random import Random

import pytest
from croniter import croniter

from tests.admin.domain.schedule.cron_by_definition import ByDefinition, random_expression
from tests.support.nightly import often
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.cron import Cron, parse_cron
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.zones import zone_of

_EPOCH = date(1970, 1, 1)
_DAY_MS = 86_400_000
_DIALECTS = tuple(Dialect)


def _cron(text: str, dialect: Dialect) -> Cron | None:
    try:
        return Cron(parse_cron(text, dialect), zone_of("UTC"))
    except ScheduleError as refused:
        if "never fires" not in str(refused):
            raise
        return None


@pytest.mark.parametrize("dialect", _DIALECTS)
def test_random_days_are_those_of_the_definition(dialect: Dialect) -> None:
    random = Random(f"days {dialect}")
    for _ in range(often(50, by_night=200)):
        written = random_expression(random, dialect).split()
        at = 2 if dialect is Dialect.UNIX else 3
        text = " ".join(["0"] * at + written[at:])
        slow, cron = ByDefinition(text, dialect), _cron(text, dialect)
        for _ in range(100):
            day = date(1970, 1, 1) + timedelta(days=random.randrange(84_000))
            instant = (day - _EPOCH).days * _DAY_MS
            fires = cron is not None and cron.next_after(instant - 1) == instant
            assert fires == slow.is_date(day), (text, day)
            if cron is not None:
                assert fires == (cron.last_before(instant + 1) == instant), (text, day)


@pytest.mark.parametrize("dialect", _DIALECTS)
def test_random_nexts_are_those_of_the_definition(dialect: Dialect) -> None:
    random = Random(f"nexts {dialect}")
    checked = 0
    while checked < often(15, by_night=40):
        text = random_expression(random, dialect)
        slow, cron = ByDefinition(text, dialect), _cron(text, dialect)
        if cron is None or len(slow.times) > 2_000:
            continue
        checked += 1
        for _ in range(3):
            at = random.randrange(1_000_000_000, 2_000_000_000)
            wall = datetime.fromtimestamp(at, UTC).replace(tzinfo=None)
            expected = slow.next_wall(wall)
            found = cron.next_after(at * 1000)
            if expected is None:
                assert found is None or found > (at + 3 * 365 * 86_400) * 1000, (text, wall)
            else:
                assert found == int(expected.replace(tzinfo=UTC).timestamp()) * 1000, (text, wall)
                assert (cron.last_before(found) or 0) <= at * 1000, (text, wall)


@pytest.mark.parametrize("dialect", _DIALECTS)
def test_expressions_are_refused_as_never_firing_exactly_when_they_never_fire(
    dialect: Dialect,
) -> None:
    random = Random(f"never {dialect}")
    refused = 0
    for _ in range(60):
        days = random.choice(("30", "31", "29", "29W", "L-29", "1-7", "30,31", "L-30W", "8-14"))
        months = random.choice(("2", "2,4", "4,6,9,11", "FEB"))
        weekday = random.choice(("?", "?", "MON#5", "2#1", "3#3", "SUNL"))
        if dialect is Dialect.QUARTZ:
            years = random.choice(("", " 2001-2003", " 2019,2021", " 2100", " 1970-2199"))
            days, weekday = random.choice(((days, "?"), ("?", weekday if weekday != "?" else "1")))
            text = f"0 0 0 {days} {months} {weekday}{years}"
        else:
            text = f"0 0 {days} {months} {weekday}"
            text = text if dialect is Dialect.UNIX else f"0 {text}"
        slow = ByDefinition(text, dialect)
        month_numbers = {"2": (2,), "FEB": (2,), "2,4": (2, 4)}.get(months, (4, 6, 9, 11))
        fires = any(
            slow.is_date(date(year, month, day))
            # 28 years hold every kind of year but 2100, which is no leap year.
            for year in (*range(1996, 2024), 2100)
            for month in month_numbers
            for day in range(1, monthrange(year, month)[1] + 1)
        )
        refused += not fires
        assert (_cron(text, dialect) is not None) == fires, text
    assert refused > 8


def _croniter_item(random: Random, low: int, high: int) -> str:
    """What croniter reads as the dialects do; no step over the whole, no range of one value."""
    first, second = sorted(random.sample(range(low, high + 1), 2))
    match random.randrange(5):
        case 0 | 1:
            return str(first)
        case 2:
            return f"{first}-{second}"
        case 3:
            return f"{first}-{second}/{random.randint(1, 5)}"
        case _:
            return f"*/{random.randint(2, high // 2)}"


def _croniter_field(random: Random, low: int, high: int, plain: float) -> str:
    if random.random() < plain:
        return "*"
    return ",".join(_croniter_item(random, low, high) for _ in range(random.choice((1, 1, 2))))


def _unix(random: Random) -> str:
    day = _croniter_field(random, 1, 31, 0.4)
    weekday = _croniter_field(random, 0, 6, 0.4)
    special = random.random()
    if special < 0.1:
        day, weekday = "L", "*"
    elif special < 0.2:
        day, weekday = "*", f"{random.randint(0, 6)}#{random.randint(1, 5)}"
    elif special < 0.3:
        day, weekday = f"{random.randint(1, 28)}W", "*"
    return " ".join(
        (
            _croniter_field(random, 0, 59, 0.3),
            _croniter_field(random, 0, 23, 0.3),
            day,
            _croniter_field(random, 1, 12, 0.6),
            weekday,
        )
    )


def _six_fields(random: Random) -> str:
    return f"{_croniter_field(random, 0, 59, 0.2)} {_unix(random)}"


@pytest.mark.parametrize(
    ("dialect", "make", "options"),
    [
        (Dialect.UNIX, _unix, {"implement_cron_bug": True}),
        (Dialect.SPRING, _six_fields, {"day_or": False, "second_at_beginning": True}),
    ],
)
def test_random_expressions_fire_when_croniter_says(
    dialect: Dialect, make: Callable[[Random], str], options: dict[str, bool]
) -> None:
    random = Random(f"croniter {dialect}")
    compared = 0
    while compared < 200:
        text = make(random)
        if dialect is Dialect.SPRING and "/" in text.split()[5]:
            continue  # a week of Spring's begins on Monday
        cron = _cron(text, dialect)
        if cron is None:
            continue
        start = datetime.fromtimestamp(random.randrange(10**9, 3 * 10**9), UTC)
        forward, back = croniter(text, start, **options), croniter(text, start, **options)
        try:
            theirs = [forward.get_next(float) for _ in range(3)]
            theirs_back = [back.get_prev(float) for _ in range(2)]
        except ValueError:
            continue  # it looks 50 years ahead at most
        compared += 1
        at: int | None = int(start.timestamp()) * 1000
        for expected in theirs:
            assert at is not None
            at = cron.next_after(at)
            assert at == int(expected) * 1000, (text, start)
        at = int(start.timestamp()) * 1000
        for expected in theirs_back:
            assert at is not None
            at = cron.last_before(at)
            assert at == int(expected) * 1000, (text, start)
