"""What holds for every expression in every zone, and for every text that is none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import pairwise
from random import Random

import pytest

from tests.admin.domain.schedule.cron_by_definition import random_expression
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.schedule.cron import MACROS, Cron, CronExpression, parse_cron
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.cron.search import LocalSearch
from tickwheel_admin.domain.schedule.zones import Zone, zone_of

_ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo",
    "America/Sao_Paulo", "Asia/Shanghai", "Pacific/Apia", "Africa/Casablanca", "Antarctica/Troll",
    "Asia/Kathmandu", "America/St_Johns",
)  # fmt: skip
_LAST_MS = 7_258_204_800_000  # 2200-01-02
# Months are looked at one by one and segments of a zone too: a bound that does not grow.
_MOST_MONTHS = 3_000
_MOST_SEGMENTS = 700


def _random_cron(random: Random) -> Cron | None:
    expression = random_expression(random, dialect := random.choice(tuple(Dialect)))
    try:
        return Cron(
            parse_cron(expression, dialect),
            zone_of(random.choice(_ZONES)),
            gap=random.choice(tuple(Gap)),
            overlap=random.choice(tuple(Overlap)),
        )
    except ScheduleError:
        return None


def test_forward_and_back_are_the_same_instants() -> None:
    random = Random("both ways")
    for _ in range(600):
        cron = _random_cron(random)
        if cron is None:
            continue
        start = random.randrange(0, 4_000_000_000_000)
        chain = [start]
        while len(chain) < 6 and (found := cron.next_after(chain[-1])) is not None:
            assert found > chain[-1]
            assert found % 1000 == 0
            chain.append(found)
        fires = chain[1:]
        for before, at in pairwise(fires):
            assert cron.last_before(at) == before
            assert cron.last_before(at + 1) == at
            assert cron.next_after(at - 1) == at
        if fires:
            # Nothing lies between the start and the first fire, seen from either side.
            back = cron.last_before(fires[0])
            assert back is None or back <= start
            again = None if back is None else cron.next_after(back)
            assert back is None or again == fires[0] or (again or 0) <= start


def test_a_fresh_search_answers_as_one_that_remembers() -> None:
    random = Random("memory")
    for _ in range(150):
        cron = _random_cron(random)
        if cron is None:
            continue
        other = Cron(cron.expression, cron.zone)
        cron = Cron(cron.expression, cron.zone)
        for _ in range(4):
            instant = random.randrange(-(10**12), 8 * 10**12)
            fresh = Cron(cron.expression, cron.zone)
            assert cron.next_after(instant) == fresh.next_after(instant)
            assert other.last_before(instant) == fresh.last_before(instant)


def test_threads_may_share_a_schedule() -> None:
    cron = Cron(parse_cron("0 30 1 L * ?", Dialect.QUARTZ), zone_of("Europe/Berlin"))
    random = Random("threads")
    instants = [random.randrange(0, 4 * 10**12) for _ in range(2_000)]
    expected = [cron.next_after(instant) for instant in instants]
    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(lambda: [cron.next_after(at) for at in instants]) for _ in range(4)]
    assert all(answer.result() == expected for answer in answers)


def test_the_first_and_the_last_instants() -> None:
    every_second = Cron(parse_cron("* * * * * ?", Dialect.QUARTZ), zone_of("UTC"))
    assert every_second.next_after(-1) == 0
    assert every_second.next_after(-(10**15)) == 0
    assert every_second.last_before(0) is None
    assert every_second.last_before(1) == 0
    assert every_second.last_before(10**15) == 7_258_118_399_000
    assert every_second.next_after(7_258_118_399_000) is None
    assert every_second.next_after(10**15) is None
    assert every_second.next_after(1_999) == 2_000
    assert every_second.next_after(2_000) == 3_000
    assert every_second.last_before(2_001) == 2_000
    assert every_second.last_before(2_000) == 1_000
    apia = Cron(parse_cron("59 59 23 31 12 ? 2199", Dialect.QUARTZ), zone_of("Pacific/Apia"))
    assert apia.next_after(0) == 7_258_118_399_000 - 13 * 3_600_000
    assert apia.last_before(_LAST_MS) == apia.next_after(0)


class _Calendar:
    """Days that a random number decides about."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def days(self, year: int, month: int) -> int:
        return Random(f"{self._seed} {year} {month}").getrandbits(31) << 1

    def allows(self, _wall: int) -> bool:
        return True  # of the seconds of a day that `days` leaves

    def next_allowed(self, wall: int) -> int | None:
        raise AssertionError(wall)

    last_allowed = next_allowed


def test_days_of_a_calendar_are_taken_away_and_no_others() -> None:
    random = Random("calendar")
    for seed in range(60):
        text = random_expression(random, Dialect.SPRING).split()[3:]
        try:
            expression = parse_cron(" ".join(["0 30 9", *text]), Dialect.SPRING)
        except ScheduleError:
            continue
        calendar = _Calendar(seed)
        plain = Cron(expression, zone_of("UTC"))
        thinned = Cron(expression, zone_of("UTC"), calendar=calendar)
        at = random.randrange(0, 3 * 10**12)
        expected: list[int] = []
        found: int | None = at
        for _ in range(60):
            if found is None or (found := plain.next_after(found)) is None:
                break
            if _allows(calendar, found):
                expected.append(found)
        for want in expected:
            found = thinned.next_after(at)
            assert found == want
            assert (thinned.last_before(want) or 0) <= at
            at = want


def _allows(calendar: _Calendar, instant: int) -> bool:
    day = datetime.fromtimestamp(instant / 1000, UTC)
    return bool(calendar.days(day.year, day.month) >> day.day & 1)


def test_a_calendar_without_days_leaves_nothing() -> None:
    class Nothing(_Calendar):
        def days(self, _year: int, _month: int) -> int:
            return 0

    cron = Cron(
        parse_cron("* * * * *", Dialect.UNIX), zone_of("Europe/Berlin"), calendar=Nothing(0)
    )
    assert cron.next_after(0) is None
    assert cron.last_before(10**13) is None


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often a month and a segment were looked at."""
    counts = {"months": 0, "segments": 0}
    enter, segment = LocalSearch._enter, Zone.segment

    def counted_enter(self: LocalSearch, number: int) -> tuple[int, int, int]:
        counts["months"] += 1
        return enter(self, number)

    def counted_segment(self: Zone, number: int) -> object:
        counts["segments"] += 1
        return segment(self, number)

    monkeypatch.setattr(LocalSearch, "_enter", counted_enter)
    monkeypatch.setattr(Zone, "segment", counted_segment)
    return counts


def _mutated(random: Random, text: str) -> str:
    alphabet = "0123456789*,-/?LW#@ \tSUNMOFRIsatJ٣ſ\x00%()\u3000"
    letters = list(text)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(letters) + 1)
        match random.randrange(4):
            case 0:
                letters.insert(at, random.choice(alphabet))
            case 1 if letters:
                del letters[min(at, len(letters) - 1)]
            case 2:
                letters[at:at] = letters[random.randrange(len(letters) + 1) :][:5]
            case _ if letters:
                letters[min(at, len(letters) - 1)] = random.choice(alphabet)
            case _:
                pass
    return "".join(letters)


def _texts(random: Random) -> list[str]:
    valid = [random_expression(random, dialect) for dialect in Dialect for _ in range(40)]
    valid += [*MACROS, "0 0 0 29 2 ? 2199", "0 0 0 ? 2 SUN#5 1972-2199/4"]
    mutated = [_mutated(random, random.choice(valid)) for _ in range(2_500)]
    noise = [random.randbytes(random.randint(0, 60)).decode("latin-1") for _ in range(700)]
    wild = ["".join(chr(random.randrange(1, 0xD000)) for _ in range(20)) for _ in range(100)]
    long = ["1," * 249 + "1 * * * *", "9" * 490 + " * * * *", "*/" * 250, "@" * 500, "1-" * 240]
    return valid + mutated + noise + wild + long


def test_only_schedule_errors_and_bounded_steps_whatever_the_text(steps: dict[str, int]) -> None:
    random = Random("fuzz")
    accepted = 0
    for text in _texts(random):
        for dialect in Dialect:
            try:
                expression = parse_cron(text, dialect)
            except ScheduleError as refused:
                _check_refusal(refused, text)
                continue
            accepted += 1
            _check_bounded(expression, random, steps)
    assert accepted > 300


def _check_refusal(refused: ScheduleError, text: str) -> None:
    assert refused.template % refused.params if refused.params else refused.template
    position = refused.params.get("position")
    assert position is None or 1 <= position <= len(text)


def _check_bounded(expression: CronExpression, random: Random, steps: dict[str, int]) -> None:
    try:
        cron = Cron(expression, zone_of(random.choice(_ZONES)), gap=Gap.SKIP)
    except ScheduleError:
        return
    for instant in (0, random.randrange(0, _LAST_MS)):
        for look in (cron.next_after, cron.last_before):
            steps.update(months=0, segments=0)
            look(instant)
            assert steps["months"] <= _MOST_MONTHS
            assert steps["segments"] <= _MOST_SEGMENTS


def test_the_text_of_a_normal_form_means_the_same() -> None:
    random = Random("normal")
    for _ in range(300):
        dialect = random.choice(tuple(Dialect))
        try:
            parsed = parse_cron(random_expression(random, dialect), dialect)
        except ScheduleError:
            continue
        assert parse_cron(parsed.text, dialect) == parsed
