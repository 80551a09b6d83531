"""Triggers by the clock on the wall, and what any trigger may have besides: nights of changing
clocks, calendars, bounds, jitter.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

from tickwheel_admin.domain.fields import instant_to_iso

CALENDAR = "quiet-times"
_ORDINARY = 1_800_000_000  # 2027-01-15 08:00 UTC
# The clocks change 45 s later: Berlin skips an hour or repeats one, Lord Howe half an hour.
_NIGHTS = {
    "Europe/Berlin": (
        int(datetime(2027, 3, 28, 0, 59, 15, tzinfo=UTC).timestamp()),
        int(datetime(2027, 10, 31, 0, 59, 15, tzinfo=UTC).timestamp()),
    ),
    "Australia/Lord_Howe": (
        int(datetime(2027, 4, 3, 14, 59, 15, tzinfo=UTC).timestamp()),
        int(datetime(2027, 10, 2, 15, 29, 15, tzinfo=UTC).timestamp()),
    ),
}
WINDOW_SECONDS = (5, 15, 40)


def draw_epoch(random: Random) -> tuple[int, str]:
    """(when the simulation begins, UTC epoch ms, the zone whose clocks its triggers go by)."""
    zone = random.choice(tuple(_NIGHTS))
    at = random.choice((_ORDINARY, _ORDINARY, *_NIGHTS[zone]))
    return at * 1000 + random.randrange(60_000), zone


def calendar_in_use(random: Random, *, now: int, zone: str) -> dict[str, Any]:
    """A calendar as the API takes it, which cuts holes into the time of the simulation."""
    local = _local(now, zone)
    second = local.hour * 3600 + local.minute * 60 + local.second
    windows = []
    for _ in range(random.randint(1, 3)):
        begin = second + random.randrange(-10, 40)
        end = begin + random.choice(WINDOW_SECONDS)
        if 0 <= begin < end <= 86_400:
            windows.append({"from_time": _time(begin), "to_time": _time(end)})
    return {"name": CALENDAR, "sense": random.choice(("exclude", "exclude", "include")),
            "windows": windows or [{"from_time": "00:00:00", "to_time": "24:00:00"}]}  # fmt: skip


def wall_trigger(random: Random, *, rate: int, now: int, zone: str) -> dict[str, Any]:
    """A trigger by the clock on the wall that fires every `rate` seconds, or once a day soon."""
    local = _local(now, zone)
    soon = local + timedelta(seconds=random.randrange(3, 30))
    rules = {
        "timezone": zone,
        "gap": random.choice(("fire", "fire", "skip")),
        "overlap": random.choice(("auto", "auto", "first", "second", "both")),
    }
    match random.choice(("cron", "cron", "daily_window", "calendar_interval", "window")):
        case "cron":
            hours = f"{local.hour},{(local.hour + 1) % 24}"
            quartz, expression = random.choice(
                (
                    (True, f"*/{rate} * * * * ?"),
                    (True, f"*/{rate} * {hours} ? * *"),
                    (True, f"{soon.second} {soon.minute} {soon.hour} * * ?"),
                    (False, f"*/{rate} * * * * *"),
                    (False, f"0 30 {hours} * * *"),
                    (False, f"0,{10 * rate % 60} * * * * *"),
                )
            )
            dialect = "quartz" if quartz else "spring"
            return {"kind": "cron", "expression": expression, "dialect": dialect, **rules}
        case "daily_window":
            begin = min(_second(local), 86_000)  # it ends on the same day
            return {
                "kind": "daily_window",
                "every_seconds": rate,
                "from_time": _time(begin),
                "to_time": _time(min(begin + random.choice((20, 4_000)), 86_399)),
                "weekdays": random.choice((["mon", "wed", "fri"], [_weekday(local)], None)),
                **rules,
            }
        case "window":
            return {
                "kind": "window",
                "from_time": _time((_second(soon) - random.choice((60, 7_200))) % 86_400),
                "to_time": f"{soon:%H:%M:%S}",  # it fires there, for it is not measured yet
                **rules,
            }
        case _:
            return {
                "kind": "calendar_interval",
                "every": random.choice((1, 2)),
                "unit": "day",
                "start_date": (local - timedelta(days=random.choice((0, 2)))).date().isoformat(),
                "at_time": f"{soon:%H:%M:%S}",
                **rules,
            }


def extras(random: Random, *, kind: str, now: int) -> dict[str, Any]:
    """What a trigger of any kind may have besides."""
    found: dict[str, Any] = {}
    if random.random() < 0.15:
        found["start_at"] = instant_to_iso(now + random.randrange(2_000, 10_000))
    if random.random() < 0.15:
        found["end_at"] = instant_to_iso(now + random.randrange(12_000, 40_000))
    if random.random() < 0.15:
        found["repeat_count"] = random.randint(1, 6)
    if random.random() < 0.2 and kind != "fixed_delay":
        found["jitter_seconds"] = random.choice((0.5, 2, 5))
    if random.random() < 0.15:
        found["priority"] = random.choice((1, 9))
    if random.random() < 0.15:
        found["parameters"] = {"run": "trigger", "more": 1}
    if random.random() < 0.25:
        found["calendar"] = CALENDAR
    return found


def _local(now: int, zone: str) -> datetime:
    return datetime.fromtimestamp(now // 1000, UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def _second(local: datetime) -> int:
    return local.hour * 3600 + local.minute * 60 + local.second


def _time(second: int) -> str:
    return f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


def _weekday(local: datetime) -> str:
    return ("mon", "tue", "wed", "thu", "fri", "sat", "sun")[local.weekday()]
