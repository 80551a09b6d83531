"""A month of declared jobs in virtual time: fires, overlaps, retries, states, calendars, clocks."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any

import pytest

from tickwheel_executor import Executor, Retry, Run
from tickwheel_executor.errors import HandlerError
from tickwheel_executor.testing import SimulatedSchedule, simulated_schedule

BERLIN = "Europe/Berlin"
TOKEN = "t" * 32
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
DAY = {"start": "2026-03-02", "until": "2026-03-03"}


@pytest.fixture
def executor() -> Executor:
    return Executor("shop", admins=["http://admin.invalid"], token=TOKEN)


def of_minutes(found: SimulatedSchedule, job: str) -> list[tuple[int, str, str | None]]:
    """Minute of each run's instant, its outcome and its reason."""
    return [(run.scheduled_at.minute, run.outcome, run.reason) for run in found.of(job)]


def test_invoices_go_out_once_each_workday_also_when_clocks_change(executor: Executor) -> None:
    sent: list[datetime] = []

    @executor.handler("send-invoices", cron="30 2 * * MON-FRI", timezone=BERLIN)
    async def send_invoices(run: Run) -> dict[str, int]:
        sent.append(run.scheduled_at)
        return {"sent": 100}

    @executor.handler("nightly", cron="30 2 * * *", timezone=BERLIN)
    def nightly() -> None:
        return None

    with simulated_schedule(
        executor, start="2026-03-01", until="2026-04-01", timezone=BERLIN
    ) as schedule:
        days = [run.scheduled_at.date() for run in schedule.of("send-invoices")]
        assert all(day.isoweekday() <= 5 for day in days)
        assert len(set(days)) == len(days) == len(sent) == 22
        assert schedule.of("send-invoices")[0].result == {"sent": 100}
        # At 2:30 on 29 March there is no 2:30: the fire comes when the clocks have moved on.
        assert len(schedule.fires("nightly")) == 31
        (sunday,) = [at for at in schedule.fires("nightly") if at.date() == date(2026, 3, 29)]
        assert (sunday.hour, sunday.utcoffset()) == (3, 2 * HOUR)
        assert schedule.failed == []


@pytest.mark.parametrize(
    ("blocking", "expected"),
    [
        ({}, [(0, "succeeded", None), (10, "succeeded", None), (20, "succeeded", None)]),
        (
            {"blocking": "discard_later"},
            [(0, "succeeded", None), (10, "skipped", "discarded"), (20, "succeeded", None)],
        ),
        (
            {"blocking": "cover_early"},
            [(0, "cancelled", "covered"), (10, "cancelled", "covered"), (20, "succeeded", None)],
        ),
        (
            {"blocking": "serial", "start_within_seconds": 900},
            [(0, "succeeded", None), (10, "succeeded", None), (20, "skipped", "expired")],
        ),
    ],
)
def test_runs_that_overlap_follow_the_rules_of_their_job(
    executor: Executor, blocking: dict[str, Any], expected: list[Any]
) -> None:
    executor.handler("work")(lambda: None)
    executor.job(
        "work", handler="work", cron="*/10 0 * * *", end_at="2026-03-02T00:20Z", **blocking
    )
    lasts = {"work": 20 * MINUTE if blocking.get("blocking") == "serial" else 15 * MINUTE}

    with simulated_schedule(executor, **DAY, durations=lasts) as schedule:
        assert of_minutes(schedule, "work") == expected


async def test_serial_runs_wait_and_hand_their_state_on(executor: Executor) -> None:
    @executor.handler("count", cron="*/10 0 * * *", blocking="serial")
    async def count(run: Run) -> int:
        run.state["n"] = run.state.get("n", 0) + 1
        return int(run.state["n"])

    lasts = {"count": lambda at: 25 * MINUTE if at.minute == 0 else MINUTE}
    async with simulated_schedule(executor, **DAY, durations=lasts) as schedule:
        runs = schedule.of("count")
    assert [run.result for run in runs] == [1, 2, 3, 4, 5, 6]
    started = [run.started_at.minute for run in runs if run.started_at is not None]
    assert started == [0, 25, 26, 30, 40, 50]
    assert runs[1].interval_start == runs[0].scheduled_at


def test_failures_are_tried_again_after_their_delays(executor: Executor) -> None:
    tries: list[int] = []

    @executor.handler("charge", at="2026-03-02T06:00Z", retries=3, retry_delay_seconds=60)
    def charge(run: Run) -> str:
        tries.append(run.try_number)
        if run.try_number == 1:
            raise ValueError("refused")
        if run.try_number == 2:
            raise Retry("later", after=600)
        return "done"

    with simulated_schedule(executor, **DAY) as schedule:
        (run,) = schedule.runs
    assert (run.outcome, run.tries, tries) == ("succeeded", 3, [1, 2, 3])
    assert run.ended_at - run.scheduled_at == 11 * MINUTE
    assert "refused" in run.ends[0].message


def test_a_run_that_takes_longer_than_its_timeout_is_timed_out(executor: Executor) -> None:
    executor.handler("slow", at="2026-03-02T06:00Z", timeout_seconds=60)(lambda: None)
    with simulated_schedule(executor, **DAY, durations={"slow": HOUR}) as schedule:
        (run,) = schedule.failed
    assert (run.outcome, run.ended_at - run.scheduled_at) == ("timed_out", MINUTE)


def test_a_fixed_delay_counts_from_the_end_of_its_run(executor: Executor) -> None:
    trigger = {"kind": "fixed_delay", "every_seconds": 3_600}
    executor.handler("poll", triggers=[trigger])(lambda: None)
    with simulated_schedule(executor, **DAY, durations={"poll": HOUR}) as schedule:
        fires = schedule.fires("poll")
    assert {after - before for before, after in itertools.pairwise(fires)} == {2 * HOUR}
    assert len(fires) in (11, 12)


def test_calendars_take_fires_away_and_have_to_be_given(executor: Executor) -> None:
    executor.handler("report", cron="0 8 * * *", calendar="holidays")(lambda: None)
    march = {"start": "2026-03-01", "until": "2026-03-05"}
    with pytest.raises(HandlerError, match="There is no calendar named “holidays”"):
        simulated_schedule(executor, **march)
    calendars = {"holidays": {"dates": ["2026-03-03"], "base": "sundays"}}
    with pytest.raises(ValueError, match="its base 'sundays' is not there"):
        simulated_schedule(executor, **march, calendars=calendars)
    calendars["sundays"] = {"weekdays": ["sun"]}
    with simulated_schedule(executor, **march, calendars=calendars) as schedule:
        assert [at.day for at in schedule.fires("report")] == [2, 4]


def test_a_job_on_every_node_fails_by_one_of_them(executor: Executor) -> None:
    @executor.handler("clean", at="2026-03-02T06:00Z", routing="broadcast")
    def clean(run: Run) -> int:
        if run.shard_index == 2:
            raise ValueError(f"{run.shard_index} of {run.shard_total}")
        return run.shard_index

    with simulated_schedule(executor, **DAY, nodes=3) as schedule:
        (run,) = schedule.failed
    assert run.message.endswith("2 of 3")


def test_workflows_are_played_with_their_waits(executor: Executor) -> None:
    flow = executor.workflow("close-of-day", cron="0 18 * * *")

    @executor.handler("sum")
    def total() -> int:
        return 7

    revenue = flow.step("revenue", total)
    flow.wait("settle", seconds=600, needs=[revenue])
    with simulated_schedule(executor, **DAY) as schedule:
        (run,) = schedule.of("close-of-day")
    assert run.succeeded
    assert run.ended_at - run.scheduled_at == 10 * MINUTE


def test_the_handler_sees_virtual_time_where_a_test_sets_it(executor: Executor) -> None:
    seen: list[datetime] = []

    @contextlib.contextmanager
    def travel(at: datetime) -> Iterator[None]:
        seen.append(at)
        yield

    executor.handler("tick", cron="0 */6 * * *")(lambda: None)
    with simulated_schedule(executor, **DAY, around=travel) as schedule:
        assert seen == schedule.fires("tick")
    assert len(seen) == 4


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"start": "spring"}, "start: 'spring' is no date: write it like 2026-03-01"),
        ({"until": "2026-03-02"}, "until: 2026-03-02 is not after start: 2026-03-02"),
        ({"timezone": "Mars/Olympus"}, "timezone: there is no time zone 'Mars/Olympus'"),
        ({"jobs": ["tock"]}, "the executor declares no job 'tock'; it declares tick"),
        ({"durations": {"tock": HOUR}}, "the executor declares no job 'tock'"),
        ({"calendars": {"a": {"dates": ["x"]}}}, "calendar 'a': dates"),
    ],
)
def test_what_is_wrong_is_said_at_once(
    executor: Executor, wrong: dict[str, Any], told: str
) -> None:
    executor.handler("tick", cron="* * * * *")(lambda: None)
    with pytest.raises(ValueError, match=told.replace(".", r"\.")):
        simulated_schedule(executor, **(DAY | wrong))


def test_what_an_admin_would_refuse_is_refused(executor: Executor) -> None:
    executor.handler("tick", cron="61 * * * *", retries=1_000)(lambda: None)
    with pytest.raises(HandlerError) as refused:
        simulated_schedule(executor, **DAY)
    assert "job 'tick': triggers[0]" in str(refused.value)
    assert "retries" in str(refused.value)


def test_too_many_runs_are_named(executor: Executor) -> None:
    executor.handler("tick", cron="* * * * *")(lambda: None)
    schedule = simulated_schedule(executor, **DAY, max_runs=100)
    with pytest.raises(ValueError, match=r"more than 100 runs \(tick: 101\)"), schedule:
        pass


def test_only_some_jobs_and_other_names_are_told_apart(executor: Executor) -> None:
    executor.handler("tick", cron="0 * * * *")(lambda: None)
    executor.handler("tock", cron="0 * * * *")(lambda: None)
    with simulated_schedule(executor, **DAY, jobs=["tock"]) as schedule:
        assert {run.job for run in schedule.runs} == {"tock"}
        with pytest.raises(ValueError, match="there is no job 'tick'; there are tock"):
            schedule.of("tick")


def test_the_rules_of_the_admin_are_imported_only_for_a_schedule() -> None:
    code = (
        "import sys, tickwheel_executor.testing as t; sys.modules['tickwheel_admin'] = None\n"
        "from tickwheel_executor import Executor\n"
        "e = Executor('shop', admins=['http://a'], token='0123456789abcdef0123456789abcdef')\n"
        "try: t.simulated_schedule(e, start='2026-03-01', until='2026-03-02')\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "install the extra `schedule` of tickwheel-executor" in done.stdout
