"""Cron: microseconds to read an expression and to find its next fire, beside croniter and cronsim.

Every figure is the least of many repeats: what the code costs when nothing else wants the core.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim

from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.cron import Cron, parse_cron
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.cron.parser import parse_field
from tickwheel_admin.domain.schedule.zones import Zone, zone_of

MIXED = (
    ("*/5 * * * *", Dialect.UNIX),
    ("0 9 * * 1-5", Dialect.UNIX),
    ("30 2 * * *", Dialect.UNIX),
    ("0 0 1,15 * MON", Dialect.UNIX),
    ("@hourly", Dialect.UNIX),
    ("0 0/15 8-18 ? * MON-FRI", Dialect.QUARTZ),
    ("0 15 10 L * ?", Dialect.QUARTZ),
    ("0 0 9 15W * ?", Dialect.QUARTZ),
    ("0 0 12 ? * 6L", Dialect.QUARTZ),
    ("0/15 * * * * ?", Dialect.QUARTZ),
    ("0 0 12 ? * 2#1 2020-2060", Dialect.QUARTZ),
    ("*/10 * * * * *", Dialect.SPRING),
    ("0 0 8-10 * * *", Dialect.SPRING),
    ("0 0 0 25 DEC ?", Dialect.SPRING),
    ("0 */7 */3 * * *", Dialect.SPRING),
    ("0 0 0 29 2 *", Dialect.SPRING),
)
ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "Asia/Shanghai", "Australia/Lord_Howe",
    "Africa/Casablanca",
)  # fmt: skip
SHARED = (  # what all three libraries read, and read alike
    "*/5 * * * *",
    "0 9 * * 1-5",
    "30 2 * * *",
    "0 0 1 * *",
    "0 0 1,15 * 1",
    "15 10 * 6-8 *",
    "0 0 * * 1#2",
)
START = 1_774_000_000_000  # 2026-03-20, so that many fires cross a change of the clocks
REPEATS = 30
FIRES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedules:
    """Microseconds; ratios say how many times as long the other library takes."""

    first_us: float  # an expression not seen before: parsed, and its first next fire
    first_new_fields_us: float  # the same when none of its fields was seen before either
    next_us: float  # from fire to fire, mixed expressions in mixed zones
    last_us: float  # the same backwards
    slowest_next_us: float  # of the slowest expression among them
    nexts_per_second: int
    first_ratio: dict[str, float]
    next_ratio: dict[str, float]
    worst_text_ms: float  # the slowest of thousands of broken texts: parsed, next and last fire
    worst_text: str


def schedules() -> Schedules:
    """Measure; takes some ten seconds."""
    crons = [
        Cron(parse_cron(text, dialect), zone_of(zone)) for text, dialect in MIXED for zone in ZONES
    ]
    each = [_least(lambda cron=cron: _forward(cron)) / FIRES for cron in crons]
    next_us = sum(each) / len(each)
    worst, text = _worst_text()
    firsts, nexts = _compare()
    return Schedules(
        first_us=round(_least(_firsts) / len(MIXED), 1),
        first_new_fields_us=round(_least(_firsts_of_new_fields) / len(MIXED), 1),
        next_us=round(next_us, 2),
        last_us=round(
            sum(_least(lambda cron=cron: _backward(cron)) for cron in crons) / len(crons) / FIRES, 2
        ),
        slowest_next_us=round(max(each), 2),
        nexts_per_second=_nexts_per_second(crons),
        first_ratio=firsts,
        next_ratio=nexts,
        worst_text_ms=round(worst / 1000, 2),
        worst_text=text,
    )


def _least(measured: Callable[[], object], *, repeats: int = REPEATS) -> float:
    """Microseconds of the fastest repeat."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        measured()
        best = min(best, time.perf_counter() - begin)
    return best * 1e6


def _firsts() -> None:
    zone = zone_of("Europe/Berlin")
    for text, dialect in MIXED:
        Cron(parse_cron.__wrapped__(text, dialect), zone).next_after(START)


def _firsts_of_new_fields() -> None:
    parse_field.cache_clear()
    _firsts()


def _forward(cron: Cron) -> None:
    at: int | None = START
    for _ in range(FIRES):
        at = cron.next_after(START if at is None else at)


def _backward(cron: Cron) -> None:
    at: int | None = START
    for _ in range(FIRES):
        at = cron.last_before(START if at is None else at)


def _nexts_per_second(crons: Sequence[Cron]) -> int:
    """In turns, so that no expression stays in the processor's caches."""
    fires = [START] * len(crons)

    def turns() -> None:
        for number, cron in enumerate(crons):
            fires[number] = cron.next_after(fires[number]) or START

    return round(len(crons) / _least(turns) * 1e6)


def _compare() -> tuple[dict[str, float], dict[str, float]]:
    """How many times as long croniter and cronsim take for the same expressions in Berlin."""
    zone, ours = ZoneInfo("Europe/Berlin"), zone_of("Europe/Berlin")
    start = datetime.fromtimestamp(START / 1000, UTC).astimezone(zone)
    first = {
        "ours": lambda text: Cron(parse_cron.__wrapped__(text, Dialect.UNIX), ours).next_after(
            START
        ),
        "croniter": lambda text: croniter(text, start).get_next(datetime),
        "cronsim": lambda text: next(CronSim(text, start)),
    }
    following = {
        "ours": _following_ours(ours),
        "croniter": _following_croniter(start),
        "cronsim": _following_cronsim(start),
    }
    first_us = {name: _sum(read, SHARED) for name, read in first.items()}
    next_us = {name: _sum(walk, SHARED) for name, walk in following.items()}
    others = ("croniter", "cronsim")
    return (
        {name: round(first_us[name] / first_us["ours"], 1) for name in others},
        {name: round(next_us[name] / next_us["ours"], 1) for name in others},
    )


def _sum(measured: Callable[[str], object], texts: Sequence[str]) -> float:
    return sum(_least(lambda text=text: measured(text), repeats=10) for text in texts)


def _following_ours(zone: Zone) -> Callable[[str], None]:
    crons = {text: Cron(parse_cron(text, Dialect.UNIX), zone) for text in SHARED}
    return lambda text: _forward(crons[text])


def _following_croniter(start: datetime) -> Callable[[str], None]:
    iterators = {text: croniter(text, start) for text in SHARED}

    def walk(text: str) -> None:
        iterator = iterators[text]
        iterator.set_current(start, force=True)
        for _ in range(FIRES):
            iterator.get_next(datetime)

    return walk


def _following_cronsim(start: datetime) -> Callable[[str], None]:
    """It reads the expression again for each walk: that is a fiftieth of the work."""

    def walk(text: str) -> None:
        iterator = CronSim(text, start)
        for _ in range(FIRES):
            next(iterator)

    return walk


def _worst_text() -> tuple[float, str]:
    """The slowest broken or strange text, and the microseconds that it takes."""
    random = Random("bench")
    worst, slowest = 0.0, ""
    for text in _broken_texts(random):
        spent = _least(lambda text=text: _look_at(text), repeats=3)
        if spent > worst:  # perhaps only because the core was needed elsewhere: look again
            spent = _least(lambda text=text: _look_at(text), repeats=30)
        if spent > worst:
            worst, slowest = spent, text
    return worst, slowest


def _broken_texts(random: Random) -> list[str]:
    alphabet = "0123456789*,-/?LW#@ SUNMOFRIJA"
    texts = ["1," * 249 + "1 * * * *", "9" * 490 + " * * * *", "0 0 0 29 2 ? 2196", "@" * 500]
    for _ in range(3_000):
        letters = list(random.choice(MIXED)[0])
        for _ in range(random.randint(1, 4)):
            letters[random.randrange(len(letters))] = random.choice(alphabet)
        texts.append("".join(letters))
    texts += [random.randbytes(random.randint(1, 500)).decode("latin-1") for _ in range(1_000)]
    return texts


def _look_at(text: str) -> None:
    parse_field.cache_clear()
    for dialect in Dialect:
        try:
            cron = Cron(parse_cron.__wrapped__(text, dialect), zone_of("Europe/Berlin"))
        except ScheduleError:
            continue
        cron.next_after(START)
        cron.last_before(START)
