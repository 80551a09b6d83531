"""Instants of a job against its rows: each fault is found, and nothing else."""

from __future__ import annotations

import random

import pytest

from tests.admin.domain.xxl_job.audit.kit import (
    START,
    audited,
    findings,
    in_order,
    instants,
    make_job,
    row,
    utc,
)
from tickwheel_admin.domain.xxl_job.audit.figures import FireFigures, Lateness
from tickwheel_admin.domain.xxl_job.audit.matching import MAX_OPEN
from tickwheel_admin.domain.xxl_job.audit.origin import RowOrigin
from tickwheel_admin.domain.xxl_job.records import LogRow, XxlJob

Rows = list[tuple[LogRow, int]]
HOUR = 3_600
MINUTELY = "0 * * * * ?"
END = START + 6 * HOUR


def of_minutes(*left_out: int) -> list[int]:
    """Instants of the first six hours, without some minutes."""
    every = instants(MINUTELY, START, END)
    return [at for number, at in enumerate(every) if number not in left_out]


def test_a_job_that_ran_as_it_should() -> None:
    audit = audited(make_job(), [row(at) for at in of_minutes()], end=END)

    assert findings(audit) == {}
    assert audit.part.total.expected == audit.part.total.found == 360
    assert audit.part.hours == {}
    assert audit.lateness.maximum == 0


def test_what_has_no_row_is_lost() -> None:
    by_hour: dict[int, FireFigures] = {}
    audit = audited(
        make_job(), [row(at) for at in of_minutes(5, 100, 101)], end=END, by_hour=by_hour
    )

    assert findings(audit) == {"lost": 3}
    assert audit.part.total.expected == 360
    assert {hour: each.lost for hour, each in audit.part.hours.items()} == {
        utc("2026-01-05 00:00"): 1,
        utc("2026-01-05 01:00"): 2,
    }
    assert by_hour[utc("2026-01-05 01:00")].expected == 60
    assert len(by_hour) == 7


def test_two_rows_for_an_instant_are_a_double() -> None:
    every = of_minutes()
    rows = [row(at) for at in every] + [row(every[7]), row(every[50] + 1), row(every[90] + 45)]
    audit = audited(make_job(), in_order(rows), end=END)

    assert findings(audit) == {"doubled": 3}


def test_a_double_does_not_hide_a_loss() -> None:
    rows = [row(at) for at in of_minutes(100)]
    audit = audited(make_job(), in_order([*rows, row(of_minutes()[103])]), end=END)

    assert findings(audit) == {"doubled": 1, "lost": 1}


def test_late_is_more_than_the_threshold() -> None:
    every = of_minutes()
    rows = [row(at + (number == 9) * 5 + (number == 20) * 30) for number, at in enumerate(every)]
    audit = audited(make_job(), rows, end=END)

    assert findings(audit) == {"late": 1}
    assert audit.lateness.maximum == 30
    assert audit.lateness.percentile(50) == 0


def test_runs_that_waited_come_late_in_a_bunch() -> None:
    """Threads were busy for minutes: the runs are late, and none is lost or doubled."""
    every = of_minutes()
    rows = [row(at) for at in every[:60]]
    stuck = every[64]
    rows += [row(stuck + 20 + number // 2) for number in range(5)]  # 60 to 64
    rows += [row(at) for at in every[65:]]
    audit = audited(make_job(), rows, end=END)

    assert findings(audit) == {"late": 5}
    assert audit.lateness.maximum == 262


def test_manual_child_api_and_retry_rows_are_no_doubles() -> None:
    every = of_minutes()
    rows = [row(at) for at in every]
    rows += [row(every[3], kind) for kind in ("manual", "parent", "api", "retry", "retry")]
    audit = audited(make_job(), in_order(rows), end=END)

    assert findings(audit) == {}
    assert audit.origins[RowOrigin.RETRY] == 2
    assert audit.origins[RowOrigin.SCHEDULE] == 360


def test_a_manual_row_does_not_stand_for_an_instant() -> None:
    every = of_minutes()
    rows = [row(at) for at in of_minutes(3)] + [row(every[3], "manual")]
    assert findings(audited(make_job(), in_order(rows), end=END)) == {"lost": 1}


def test_rows_of_unknown_origin() -> None:
    every = of_minutes()
    alone = [row(at) for at in of_minutes(3)] + [row(every[3] + 1, "unknown")]
    assert findings(audited(make_job(), in_order(alone), end=END)) == {}

    for more in (every[3], every[3] + 1, every[3] - 1):
        beside = [row(at) for at in every] + [row(more, "unknown")]
        assert findings(audited(make_job(), in_order(beside), end=END)) == {"unknown": 1}

    # It came first, and was taken for the instant's.
    before = [row(every[0], "unknown"), *[row(at + 1) for at in every]]
    assert findings(audited(make_job(), in_order(before), end=END)) == {"unknown": 1}

    daily = make_job(schedule_conf="0 0 2 * * ?")
    far = [row(utc("2026-01-05 05:00:00"), "unknown")]
    assert findings(audited(daily, far, end=END)) == {"unknown": 1, "lost": 1}


def test_fewer_retries_left_than_the_job_has_mean_a_retry() -> None:
    every = of_minutes()
    job = make_job(retries=2)
    rows = [row(at, retries_left=2) for at in every]
    rows.append(row(every[4], "unknown", retries_left=1))
    audit = audited(job, in_order(rows), end=END)
    assert findings(audit) == {}
    assert audit.origins[RowOrigin.RETRY] == 1


def test_a_misfire_stands_for_the_newest_of_its_instants() -> None:
    every = of_minutes()
    rows = [row(at) for at in every[:30]]
    rows.append(row(every[39] + 20, "misfire"))  # 30 to 38 are gone
    rows += [row(at) for at in every[40:]]
    audit = audited(make_job(misfire_strategy="FIRE_ONCE_NOW"), rows, end=END)

    assert findings(audit) == {"lost": 9, "late": 1}


def test_an_edit_begins_a_new_count() -> None:
    edited_at = START + 2 * HOUR + 17
    job = make_job(schedule_conf="0 */5 * * * ?")  # it was every minute before
    rows = [row(at) for at in instants(MINUTELY, START, edited_at)]
    rows += [row(at) for at in instants(job.schedule_conf, edited_at + 6, END)]
    audit = audited(job, rows, end=END, changed_at=edited_at)

    assert findings(audit) == {}
    assert audit.start == edited_at + 6
    assert audit.part.total.expected == 48


def test_what_is_due_within_five_seconds_of_a_start_is_not_expected() -> None:
    started_at = utc("2026-01-05 01:59:57")
    rows = [row(at) for at in instants(MINUTELY, started_at + 5, END)]
    assert findings(audited(make_job(), rows, end=END, changed_at=started_at)) == {}


def test_a_stopped_job_is_not_judged() -> None:
    job = make_job(is_running=False)
    audit = audited(job, [row(at) for at in of_minutes()[:60]], end=END, changed_at=END - HOUR)

    assert audit.refusal == "is stopped"
    assert findings(audit) == {}
    assert audit.part.total.expected == 0
    assert not audit.has_stopped_by_itself


def test_a_job_that_stopped_by_itself_is_told() -> None:
    """It ran by schedule after the last thing that a person did with it."""
    rows = [row(at) for at in of_minutes(7)[:60]]
    audit = audited(make_job(is_running=False), rows, end=END, changed_at=START - HOUR)

    assert audit.refusal is None
    assert audit.has_stopped_by_itself
    assert audit.instants_since_stop == 299
    assert findings(audit) == {"lost": 1}


def test_an_expression_that_has_come_to_its_end_has_not_stopped_by_itself() -> None:
    job = make_job(is_running=False, schedule_conf="0 0 3 5 1 ? 2026")
    audit = audited(job, [row(utc("2026-01-05 03:00:00"))], end=END, changed_at=START - HOUR)
    assert audit.refusal is None
    assert not audit.has_stopped_by_itself
    assert findings(audit) == {}


def test_before_the_first_row_it_may_be_lost_or_deleted() -> None:
    rows = [row(at) for at in of_minutes()[100:]]
    audit = audited(make_job(), rows, end=END)
    assert findings(audit) == {"lost": 100}

    deleted = audited(make_job(), [], end=END)
    assert findings(deleted) == {"lost": 360}

    again = audited(make_job(), rows, end=END, unseen_is_lost=False)
    assert findings(again) == {}
    assert again.unseen.total.lost == 100


def test_glue_and_other_jobs_are_judged_alike() -> None:
    job = make_job(glue_type="GLUE_SHELL")
    assert findings(audited(job, [row(at) for at in of_minutes(4)], end=END)) == {"lost": 1}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"schedule_type": "NONE"}, "no schedule"),
        ({"schedule_type": "FIX_DELAY"}, "FIX_DELAY"),
        ({"schedule_conf": "0 0 25 * * ?"}, "not understood"),
        ({"schedule_type": "FIX_RATE", "schedule_conf": "often"}, "number of seconds"),
        ({"schedule_type": "FIX_RATE", "schedule_conf": "0"}, "number of seconds"),
    ],
)
def test_what_cannot_be_computed_is_not_judged(fields: dict[str, str], words: str) -> None:
    audit = audited(make_job(**fields), [row(START + 60), row(START + 60)], end=END)
    assert audit.refusal is not None
    assert words in audit.refusal
    assert findings(audit) == {}


def test_results() -> None:
    every = of_minutes()
    special = {
        1: {"trigger_code": 500, "handle_code": 0},
        2: {"handle_code": 500},
        3: {"handle_code": 502},
        4: {"handle_code": 0},
        5: {"trigger_code": 0, "handle_code": 0},
        6: {"trigger_code": 500, "handle_code": 0, "is_discarded": True},
        7: {"handle_code": 500, "is_given_up": True},
    }
    rows = [row(at, **special.get(number, {})) for number, at in enumerate(every)]
    late = audited(make_job(), rows, end=END, now=END + 30 * HOUR)
    assert findings(late) == {
        "not_sent": 1,
        "no_result": 3,
        "discarded": 1,
        "failed": 1,
        "timed_out": 1,
    }
    soon = audited(make_job(), rows, end=END)
    assert findings(soon)["no_result"] == 1
    with_timeout = audited(make_job(timeout_seconds=60), rows, end=END)
    assert findings(with_timeout)["no_result"] == 3


# Broadcasts: a row for each node.


def broadcast(at: int, shards: int = 3, *, without: tuple[int, ...] = ()) -> Rows:
    return [
        row(at + (index == 2), shard=f"{index}/{shards}")
        for index in range(shards)
        if index not in without
    ]


def test_broadcasts_have_a_row_for_each_node() -> None:
    rows = [each for at in of_minutes() for each in broadcast(at)]
    audit = audited(make_job(), rows, end=END)
    assert findings(audit) == {}
    assert audit.part.total.found == 360


def test_faults_of_broadcasts() -> None:
    every = of_minutes()
    rows = []
    for number, at in enumerate(every):
        match number:
            case 10:
                continue
            case 20:
                rows += broadcast(at) + broadcast(at)
            case 30:
                rows += broadcast(at, without=(1,))
            case 40:
                rows += [*broadcast(at), row(at + 2, shard="2/3")]
            case 50 | 51:  # a node came
                rows += broadcast(at, 4)
            case _:
                rows += broadcast(at)
    audit = audited(make_job(), in_order(rows), end=END)
    assert findings(audit) == {"lost": 1, "doubled": 2, "missing_shards": 1}


# Fixed rates: from the last trigger.


def rate(seconds: int) -> XxlJob:
    return make_job(schedule_type="FIX_RATE", schedule_conf=str(seconds))


def every_seconds(step: int, first: int = START + 11, end: int = END) -> list[int]:
    return list(range(first, end + 1, step))


@pytest.mark.parametrize("step", [1, 2, 3, 10, 30, 600])
def test_a_rate_that_was_kept(step: int) -> None:
    rows = [row(at) for at in every_seconds(step, first=START + min(step, 11))]
    audit = audited(rate(step), rows, end=END)
    assert findings(audit) == {}
    assert audit.part.total.found == len(rows)


def test_a_rate_has_milliseconds_and_times_are_rounded() -> None:
    """Its runs start up to a second before their instant, and are stored half a second off."""
    chance = random.Random(7)
    for step in (3, 10, 30):
        rows = [row(round(at + chance.uniform(-0.4, 0.9))) for at in every_seconds(step, START + 3)]
        job = rate(step)
        assert findings(audited(job, rows, end=END - step)) == {}


def test_faults_of_a_rate() -> None:
    job = rate(30)
    every = every_seconds(30)
    lost = [row(at) for number, at in enumerate(every) if number not in (50, 51)]
    assert findings(audited(job, lost, end=END)) == {"lost": 2}
    doubled = [row(at) for at in every] + [row(every[60]), row(every[80] + 12)]
    assert findings(audited(job, in_order(doubled), end=END)) == {"doubled": 2}


def test_a_late_scan_moves_a_rate_and_a_late_start_does_not() -> None:
    job = rate(30)
    every = every_seconds(30)
    moved = [row(at + (15 if number >= 50 else 0)) for number, at in enumerate(every)]
    assert findings(audited(job, moved, end=END - 30)) == {"late": 1}
    kept = [row(at + (15 if number == 50 else 0)) for number, at in enumerate(every)]
    assert findings(audited(job, kept, end=END)) == {"late": 1}


def test_a_rate_without_any_row() -> None:
    job = rate(600)
    assert findings(audited(job, [], end=END)) == {"lost": 36}


# When the clocks change. In 2026 they do on 29 March and 25 October in Berlin.


def berlin(cron: str, day: str, rows: list[int]) -> dict[str, int]:
    start, end = utc(f"{day}T00:00:00+00:00") - 12 * HOUR, utc(f"{day}T00:00:00+00:00") + 12 * HOUR
    audit = audited(
        make_job(schedule_conf=cron),
        [row(at) for at in rows],
        start=start,
        end=end,
        zone="Europe/Berlin",
    )
    return findings(audit)


def test_the_hour_that_does_not_exist() -> None:
    """XXL-JOB leaves a job out whose time the clocks skip; hourly jobs are none the worse."""
    assert berlin("0 30 2 * * ?", "2026-03-29", []) == {"lost": 1, "lost_at_clock_change": 1}
    at_gap_end = utc("2026-03-29T03:00:00+02:00")
    assert berlin("0 30 2 * * ?", "2026-03-29", [at_gap_end]) == {}
    hourly = [utc("2026-03-28T12:00:00+00:00") + HOUR * number for number in range(1, 25)]
    assert berlin("0 0 * * * ?", "2026-03-29", hourly) == {}


def test_the_hour_that_comes_twice() -> None:
    """Java takes the second pass for a fixed time, and lets intervals rest for an hour."""
    assert berlin("0 30 2 * * ?", "2026-10-25", [utc("2026-10-25T02:30:00+01:00")]) == {}
    noon = utc("2026-10-24T12:00:00+00:00")
    hourly = [noon + HOUR * number for number in range(1, 25)]
    assert berlin("0 0 * * * ?", "2026-10-25", hourly) == {}
    silent = [at for at in hourly if at != utc("2026-10-25T02:00:00+02:00")]
    assert berlin("0 0 * * * ?", "2026-10-25", silent) == {"lost": 1, "lost_at_clock_change": 1}


# Anything else.


def test_rows_of_several_admins_are_a_little_out_of_order() -> None:
    chance = random.Random(3)
    job = make_job(schedule_conf="0/10 * * * * ?")
    rows = [
        row(at + chance.choice((0, 0, 0, 1, 2))) for at in instants(job.schedule_conf, START, END)
    ]
    for number in range(0, len(rows) - 1, 2):
        if chance.random() < 0.3:
            rows[number], rows[number + 1] = rows[number + 1], rows[number]
    assert findings(audited(job, rows, end=END - 60)) == {}


def test_a_long_silence_costs_no_memory() -> None:
    job = make_job(schedule_conf="* * * * * ?")
    end = START + 50_000
    audit = audited(job, [row(START + 1), row(end - 1), row(end)], end=end)
    assert findings(audit)["lost"] == 50_000 - 3
    assert MAX_OPEN < 50_000


def test_random_faults_are_found_exactly() -> None:
    chance = random.Random(19)
    for _ in range(60):
        step = chance.choice((1, 5, 15, 60))
        cron = f"0 0/{step} * * * ?" if step < 60 else "0 0 * * * ?"
        every = instants(cron, START, END)
        faults = chance.sample(every[2:-2:3], min(6, len(every[2:-2:3])))  # never neighbours
        lost, doubled, late = set(faults[0::3]), set(faults[1::3]), set(faults[2::3])
        rows = []
        for at in every:
            if at in lost:
                continue
            rows.append(row(at + (40 if at in late else chance.choice((0, 0, 1)))))
            if at in doubled:
                rows.append(row(at + chance.choice((0, 1))))
            if chance.random() < 0.1:
                rows.append(row(at + chance.randrange(50), chance.choice(("manual", "retry"))))
        found = findings(audited(make_job(schedule_conf=cron), in_order(rows), end=END))
        assert found == {
            name: len(each)
            for name, each in {"lost": lost, "doubled": doubled, "late": late}.items()
            if each
        }


def test_percentiles() -> None:
    lateness = Lateness()
    assert lateness.percentile(50) is None
    for seconds in range(1, 101):
        lateness.add(seconds)
    assert (lateness.percentile(50), lateness.percentile(99), lateness.maximum) == (50, 99, 100)
    lateness.add(12_345)
    assert lateness.percentile(100) == 12_345
    other = Lateness()
    for _ in range(1_000):
        other.add(1_234)
    lateness.add_all(other)
    assert lateness.percentile(50) == 1_300  # two digits, upwards
