"""What the columns of the log mean: why a run was started, and when."""

from __future__ import annotations

import pytest

from tests.admin.domain.xxl_job.audit.kit import make_job, utc
from tests.support.xxl_job.installation import TRIGGER_TYPES, trigger_message
from tickwheel_admin.domain.schedule.zones import zone_of
from tickwheel_admin.domain.xxl_job.audit.instants import CronInstants
from tickwheel_admin.domain.xxl_job.audit.origin import RowOrigin, origin_of
from tickwheel_admin.domain.xxl_job.audit.stored_clock import StoredClock
from tickwheel_admin.domain.xxl_job.audit.zone_guess import (
    DEFAULT_ZONE,
    choose_cron_zone,
    choose_stored_zone,
)
from tickwheel_admin.domain.xxl_job.records import XxlJob


@pytest.mark.parametrize("language", [0, 1, 2])
@pytest.mark.parametrize("kind", TRIGGER_TYPES)
def test_what_started_a_run_is_read_in_every_language(kind: str, language: int) -> None:
    expected = RowOrigin.SCHEDULE if kind == "cron" else RowOrigin(kind)
    message = trigger_message(kind, language=language)
    assert origin_of(message) is expected
    assert origin_of(message.split("<br>")[0]) is expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "null<br><br><span>>>>失败重试触发<<<</span>",
        "任务触发类型",
        "Trigger Type: something",
        "Trigger Type：",
        "cron",
        "Trigger Type：Other<br>Cron trigger",
    ],
)
def test_other_texts_tell_nothing(text: str) -> None:
    assert origin_of(text) is RowOrigin.UNKNOWN


def local(text: str) -> int:
    """Local seconds of a wall time."""
    return utc(text)


def test_stored_times_are_of_a_zone() -> None:
    clock = StoredClock(zone_of("Asia/Shanghai"))
    assert clock.instant(local("2026-01-05 10:00:00")) == utc("2026-01-05 02:00:00")
    assert clock.instant(local("2026-01-05 10:00:01")) == utc("2026-01-05 02:00:01")
    # China had summer time once.
    assert clock.instant(local("1990-07-01 10:00:00")) == utc("1990-07-01 01:00:00")


def test_a_repeated_hour_is_told_by_the_order_of_rows() -> None:
    clock = StoredClock(zone_of("Europe/Berlin"))
    first = utc("2026-10-24 23:00:00")
    walls = [zone_of("Europe/Berlin").to_local(first + 600 * number)[0] for number in range(24)]
    assert [clock.instant(wall) for wall in walls] == [first + 600 * n for n in range(24)]


def test_a_time_that_the_clocks_skip_is_the_end_of_the_gap() -> None:
    clock = StoredClock(zone_of("Europe/Berlin"))
    assert clock.instant(local("2026-03-29 02:30:00")) == utc("2026-03-29 01:00:00")
    assert clock.first(local("2026-03-29 02:30:00")) == utc("2026-03-29 01:00:00")
    assert clock.first(local("2026-10-25 02:30:00")) == utc("2026-10-25 00:30:00")


def test_days_around_changes_agree_with_the_zone() -> None:
    zone = zone_of("America/New_York")
    clock = StoredClock(zone)
    for at in range(utc("2026-10-29 00:00:00"), utc("2026-11-05 00:00:00"), 1_800):
        assert clock.instant(zone.to_local(at)[0]) == at


# Zones that fit.


def jobs_in(zone: str, *crons: str) -> list[XxlJob]:
    now = utc("2026-01-05 10:11:12")
    found = []
    for number, cron in enumerate(crons):
        following = CronInstants(cron, zone_of(zone)).next_after(now)
        assert following is not None
        found.append(make_job(id=number, schedule_conf=cron, next_trigger_ms=following * 1_000))
    return found


FIXED = ("0 0 2 * * ?", "0 30 4 ? * 2", "0 15 9-17 * * ?")


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "UTC", "Europe/Berlin", "America/New_York"])
def test_the_zone_of_cron_is_found_by_the_next_triggers(zone: str) -> None:
    choice = choose_cron_zone(jobs_in(zone, *FIXED, "0 * * * * ?"), given=None)
    assert choice.zone.name == zone
    assert (choice.fits, choice.votes) == (3, 3)
    assert choice.is_confirmed
    assert not choice.is_given


def test_a_zone_that_is_given_stays_and_a_better_one_is_told() -> None:
    choice = choose_cron_zone(jobs_in("UTC", *FIXED), given=zone_of("Asia/Shanghai"))
    assert choice.zone.name == "Asia/Shanghai"
    assert choice.better == "UTC"
    right = choose_cron_zone(jobs_in("Europe/Paris", *FIXED), given=zone_of("Europe/Paris"))
    assert right.better is None
    assert right.is_confirmed


def test_without_a_vote_the_default_counts() -> None:
    stopped = make_job(schedule_conf=FIXED[0], is_running=False, next_trigger_ms=1)
    hourless = make_job(schedule_conf="0 * * * * ?", next_trigger_ms=60_000)
    for jobs in ([], [stopped, hourless]):
        choice = choose_cron_zone(jobs, given=None)
        assert choice.zone.name == DEFAULT_ZONE
        assert choice.votes == 0
        assert not choice.is_confirmed


def test_the_zone_of_datetimes_is_found_by_the_last_triggers() -> None:
    at = utc("2026-01-05 10:00:00")
    shanghai, berlin, utc_zone = map(zone_of, ("Asia/Shanghai", "Europe/Berlin", "UTC"))

    def samples(offset_hours: float, astray: int = 0) -> list[tuple[int, int]]:
        offset = round(offset_hours * 3_600)
        return [(at + 60 * n + offset + astray, at + 60 * n) for n in range(5)]

    def found(those: list[tuple[int, int]]) -> str:
        return choose_stored_zone(those, given=None, cron_zone=berlin).zone.name

    assert found(samples(8, 3)) == "Asia/Shanghai"
    assert found(samples(1)) == "Europe/Berlin"
    assert found(samples(5.5)) == "Asia/Kolkata"
    assert found([*samples(0), (at + 12_345, at)]) == "UTC"
    assert found([]) == DEFAULT_ZONE
    odd = choose_stored_zone([(at + 400, at)], given=None, cron_zone=berlin)
    assert odd.votes == 0
    wrong = choose_stored_zone(samples(8), given=utc_zone, cron_zone=berlin)
    assert wrong.better == shanghai.name
