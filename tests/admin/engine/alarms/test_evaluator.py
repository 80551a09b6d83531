"""From what happens to who is told: on a clock that the tests turn."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.alarm_stage import BERLIN, Stage, at
from tests.admin.kit.alarms import Alarms, FakeProvider
from tests.admin.kit.clock import Clock
from tests.admin.kit.rows import add_calendar, add_job, change
from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.domain.alarms.notification import LEASE_MS
from tickwheel_admin.domain.alarms.rule import QuietHours, RuleLimits, RuleScope
from tickwheel_admin.domain.calendars.calendar import CalendarSense
from tickwheel_admin.engine.alarms.ports import Delivered, Undelivered
from tickwheel_admin.store.alarms.alarms import acknowledge_alarm, mute_alarm
from tickwheel_admin.store.alarms.rules import delete_rule
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database

pytestmark = [pytest.mark.turned_clock(of_servers=True), pytest.mark.every_database(nightly=True)]


# Clocks go forward in the first of these nights, and back in the second.
nights = pytest.mark.parametrize("night", ["2026-03-28T23:30", "2026-10-24T23:30"])
restarts = pytest.mark.parametrize(
    "stage", [False, True], indirect=True, ids=["one admin", "restarts"]
)


@pytest.fixture
def stage(request: pytest.FixtureRequest, database: Database, clock: Clock) -> Stage:
    return Stage(database, clock, restarts=getattr(request, "param", False))


# --- noise ---------------------------------------------------------------------------------------


async def test_a_streak_is_told_once_counted_and_closed_by_a_success(stage: Stage) -> None:
    job = await add_job(stage.database, name="bills")
    mail = await stage.alarms.channel()
    await stage.alarms.rule(AlarmKind.FAILED, mail)
    await stage.succeed(job)
    stage.clock.advance(1)
    first = await stage.fail(job)
    await stage.alarms.evaluate()
    await stage.alarms.deliver()
    [message] = stage.alarms.provider.taken
    [entry] = message.entries
    assert (entry.template, dict(entry.params)) == ("“%(job)s” failed.", {"job": "bills"})
    assert (entry.run_id, entry.error_line, entry.count) == (first, "ValueError: no money", 1)
    assert entry.before_template == "Its run before had succeeded."
    assert entry.links["run"] == f"https://jobs.example/runs/{first}"
    assert message.link == f"https://jobs.example/alarms/{entry.alarm_id}"
    assert dict(stage.alarms.provider.channels[0].secrets) == {"key": "s3cret"}
    stage.alarms.provider.told()
    for _ in range(5):
        stage.clock.advance(20)
        await stage.fail(job)
        assert await stage.alarms.tell() == []
    [alarm] = await stage.alarms.open()
    assert alarm.count == 6
    assert await stage.after(11) == []
    await stage.succeed(job)
    assert await stage.after(11) == [[("recovered", "bills")]]
    assert await stage.alarms.open() == []
    await stage.fail(job)
    assert await stage.after(60) == [[("opened", "bills")]]


async def test_other_executors_are_told_at_once(stage: Stage) -> None:
    here = await add_job(stage.database, name="here")
    there = await add_job(stage.database, name="there", executor_id=2)
    await stage.alarms.rule(AlarmKind.FAILED, await stage.alarms.channel())
    await stage.fail(here)
    assert await stage.alarms.tell() == [[("opened", "here")]]
    await stage.fail(there, executor_id=2)
    assert await stage.after(1) == [[("opened", "there")]]


# --- who -----------------------------------------------------------------------------------------


async def test_the_nearest_rule_tells_and_additional_ones_as_well(stage: Stage) -> None:
    job = await add_job(stage.database, name="bills")
    await change(stage.database, tables.job, job, tags="money,night")
    near, far, also = [await stage.alarms.channel() for _ in range(3)]
    await stage.alarms.rule(AlarmKind.FAILED, far)
    await stage.alarms.rule(AlarmKind.FAILED, near, scope=RuleScope.TAG, tag="money")
    await stage.alarms.rule(AlarmKind.FAILED, also, additional=True)
    await stage.alarms.rule(AlarmKind.LOST, far)
    await stage.fail(job)
    await stage.alarms.tell()
    assert {each.id for each in stage.alarms.provider.channels} == {near, also}


async def test_a_rule_without_channels_keeps_an_open_alarm_and_tells_nobody(stage: Stage) -> None:
    job = await add_job(stage.database)
    rule = await stage.alarms.rule(AlarmKind.FAILED)
    await stage.fail(job)
    assert await stage.alarms.tell() == []
    assert len(await stage.alarms.open()) == 1
    await stage.database.run(delete_rule, rule, now=stage.clock.now)
    assert await stage.after(11) == []
    assert await stage.alarms.open() == []  # with its rule


async def test_signals_that_no_rule_asks_for_are_taken_away(stage: Stage) -> None:
    await stage.fail(await add_job(stage.database))
    await stage.fail(404)  # a job that is gone
    await stage.alarms.evaluate()
    assert await stage.alarms.count(tables.alarm_signal) == 0
    assert await stage.alarms.open() == []


# --- again ---------------------------------------------------------------------------------------


@nights
@restarts
async def test_repeats_and_escalation_go_on_until_somebody_acknowledges(
    stage: Stage, night: str
) -> None:
    stage.clock.now = at(night) + 2 * 3_600_000
    job = await add_job(stage.database, name="bills")
    mail, pager = await stage.alarms.channel(), await stage.alarms.channel()
    await stage.alarms.rule(
        AlarmKind.FAILED,
        mail,
        repeat_every_s=600,
        escalate_after_s=900,
        escalate_to=(pager,),
    )
    await stage.fail(job)
    assert await stage.alarms.tell() == [[("opened", "bills")]]
    assert await stage.after(599) == []
    assert await stage.after(2) == [[("repeated", "bills")]]
    assert await stage.after(300) == [[("escalated", "bills")]]
    assert stage.alarms.provider.channels[-1].id == pager
    assert await stage.after(301) == [[("repeated", "bills")]]
    [alarm] = await stage.alarms.open()
    await stage.database.run(acknowledge_alarm, alarm.id, by="ada", now=stage.clock.now)
    assert await stage.after(3_600) == []
    await stage.succeed(job)
    assert len(await stage.after(11)) == 2  # both channels are told that it is over


@nights
@restarts
async def test_a_muted_alarm_is_told_again_afterwards(stage: Stage, night: str) -> None:
    stage.clock.now = at(night) + 2 * 3_600_000
    job = await add_job(stage.database, name="bills")
    await stage.alarms.rule(AlarmKind.FAILED, await stage.alarms.channel(), repeat_every_s=600)
    await stage.fail(job)
    await stage.alarms.tell()
    [alarm] = await stage.alarms.open()
    await stage.database.run(
        mute_alarm, alarm.id, until=stage.clock.now + 3_000_000, now=stage.clock.now
    )
    assert await stage.after(700) == []
    assert await stage.after(2_000) == []
    assert await stage.after(301) == [[("repeated", "bills")]]


@restarts
async def test_who_unmutes_an_alarm_is_told_of_it_again(stage: Stage) -> None:
    job = await add_job(stage.database, name="bills")
    mail, pager = await stage.alarms.channel(), await stage.alarms.channel()
    again = {"repeat_every_s": 600, "escalate_after_s": 900, "escalate_to": (pager,)}
    await stage.alarms.rule(AlarmKind.FAILED, mail, **again)
    await stage.fail(job)
    await stage.alarms.tell()
    [alarm] = await stage.alarms.open()

    async def mute(seconds: int | None) -> None:
        now = stage.clock.now
        until = None if seconds is None else now + seconds * 1_000
        await stage.database.run(mute_alarm, alarm.id, until=until, now=now)

    await mute(7 * 86_400)
    assert await stage.after(1_000) == []
    await mute(None)
    assert sorted(await stage.after(2)) == [[("escalated", "bills")], [("repeated", "bills")]]
    assert await stage.after(601) == [[("repeated", "bills")]]
    await mute(86_400)
    assert await stage.after(601) == []
    await mute(60)  # for a shorter time than before
    assert await stage.after(61) == [[("repeated", "bills")]]
    await stage.database.run(acknowledge_alarm, alarm.id, by="ada", now=stage.clock.now)
    await mute(60)
    await mute(None)
    assert await stage.after(3_600) == []  # somebody looks after it


# --- quiet hours ---------------------------------------------------------------------------------


@nights
@restarts
async def test_quiet_hours_hold_warnings_for_a_digest_and_let_errors_through(
    stage: Stage, night: str
) -> None:
    jobs = [await add_job(stage.database, name=f"job {n}") for n in range(3)]
    mail = await stage.alarms.channel()
    quiet = QuietHours(
        from_time="22:00:00", to_time="06:00:00", timezone=BERLIN, pierced_by_errors=True
    )
    await stage.alarms.rule(
        AlarmKind.FAILED, mail, severity=Severity.WARNING, quiet=quiet, repeat_every_s=600
    )
    await stage.alarms.rule(AlarmKind.LOST, mail, quiet=quiet)
    stage.clock.now = at(night)
    for job in jobs:
        await stage.fail(job)
        assert await stage.after(1_200) == []
    await stage.fail(jobs[0], AlarmKind.LOST)
    assert await stage.alarms.tell() == [[("opened", "job 0")]]
    morning = at(f"{night[:8]}{int(night[8:10]) + 1}T06:00")
    stage.clock.now = morning - 10_000
    assert await stage.alarms.tell() == []
    stage.clock.now = morning
    told = await stage.alarms.tell()
    assert sorted(name for entry in told for _, name in entry)[:3] == ["job 0", "job 1", "job 2"]
    assert len(told) <= 2  # what was held, and what is told again from now on


async def test_what_is_over_when_it_is_told_says_so_and_comes_last(stage: Stage) -> None:
    goes_on, is_over = [await add_job(stage.database, name=name) for name in ("bad", "good")]
    quiet = QuietHours(from_time="22:00:00", to_time="06:00:00", timezone=BERLIN)
    mail = await stage.alarms.channel()
    await stage.alarms.rule(AlarmKind.FAILED, mail, quiet=quiet, tell_recovery=False)
    stage.clock.now = at("2026-06-01T23:30")
    await stage.fail(goes_on)
    stage.clock.advance(60)
    await stage.fail(is_over)
    assert await stage.alarms.tell() == []
    stage.clock.advance(60)
    await stage.succeed(is_over)
    assert await stage.after(11) == []
    closed_at = stage.clock.now
    stage.clock.now = at("2026-06-02T06:00")
    await stage.alarms.deliver()
    [message] = stage.alarms.provider.taken
    found = [(each.job_name, each.occasion, each.closed_at) for each in message.entries]
    assert found == [("bad", "opened", None), ("good", "opened", closed_at)]


# --- deadlines -----------------------------------------------------------------------------------


async def deadline(stage: Stage, job: int, **limits: Any) -> None:
    await add_calendar(
        stage.database,
        "workdays",
        sense=CalendarSense.INCLUDE,
        weekdays=(1, 2, 3, 4, 5),
    )
    await stage.alarms.rule(
        AlarmKind.DEADLINE_MISSED,
        await stage.alarms.channel(),
        scope=RuleScope.JOB,
        job_id=job,
        limits=RuleLimits(by="07:30:00", timezone=BERLIN, calendar="workdays", **limits),
    )
    await stage.alarms.evaluate()


@restarts
@pytest.mark.parametrize("friday", ["2026-03-27", "2026-10-23"])  # before clocks change
async def test_deadlines_are_looked_at_once_a_workday_also_when_nothing_fires(
    stage: Stage, friday: str
) -> None:
    job = await add_job(stage.database, name="bills")
    stage.clock.now = at(f"{friday}T00:30")
    await deadline(stage, job)
    stage.clock.now = at(f"{friday}T02:00")
    await stage.succeed(job)
    stage.clock.now = at(f"{friday}T07:30") + 6_000
    assert await stage.alarms.tell() == []
    for days in (1, 2):
        stage.clock.now = at(f"{friday}T08:00") + days * 86_400_000
        assert await stage.alarms.tell() == []  # a weekend
    monday = at(f"{friday[:8]}{int(friday[8:]) + 3}T07:30")
    stage.clock.now = monday - 1_000
    assert await stage.alarms.tell() == []
    stage.clock.now = monday + 10_000
    assert await stage.alarms.tell() == [[("opened", "bills")]]
    [alarm] = await stage.alarms.open()
    assert (alarm.since, alarm.count) == (monday, 1)
    assert await stage.after(3_600) == []
    await stage.succeed(job)
    assert await stage.after(11) == [[("recovered", "bills")]]


@restarts
async def test_deadlines_that_passed_while_no_admin_was_up_count_each_once(stage: Stage) -> None:
    job = await add_job(stage.database, name="bills")
    stage.clock.now = at("2026-06-01T12:00")  # a Monday
    await deadline(stage, job)
    stage.clock.now = at("2026-06-04T08:00")
    stage.alarms = Alarms(stage.database)
    for _ in range(6):
        await stage.after(11)
    [alarm] = await stage.alarms.open()
    assert alarm.count == 3
    assert alarm.last_at == at("2026-06-04T07:30")


@restarts
async def test_a_success_before_the_day_counts_as_far_as_the_rule_says(stage: Stage) -> None:
    job = await add_job(stage.database, name="bills")
    stage.clock.now = at("2026-06-01T22:00")
    await deadline(stage, job, seconds=10 * 3_600)
    await stage.succeed(job)
    stage.clock.now = at("2026-06-02T07:31")
    assert await stage.alarms.tell() == []
    stage.clock.now = at("2026-06-03T07:31")
    assert await stage.alarms.tell() == [[("opened", "bills")]]


# --- streaks -------------------------------------------------------------------------------------


async def test_a_streak_as_long_as_the_rule_asks_for(stage: Stage) -> None:
    job = await add_job(stage.database, name="bills")
    await stage.alarms.rule(
        AlarmKind.FAILING_STREAK, await stage.alarms.channel(), limits=RuleLimits(count=3)
    )
    told = []
    for outcome in ("fail", "succeed", "fail", "fail", "fail", "fail"):
        stage.clock.advance(60)
        await getattr(stage, outcome)(job)
        told.append(len(await stage.alarms.tell()))
    assert told == [0, 0, 0, 0, 1, 0]


# --- delivery ------------------------------------------------------------------------------------


async def test_a_message_whose_admin_died_is_sent_again_under_the_same_id(stage: Stage) -> None:
    job = await add_job(stage.database)
    await stage.alarms.rule(AlarmKind.FAILED, await stage.alarms.channel())
    await stage.fail(job)
    await stage.alarms.evaluate()
    provider = FakeProvider()

    # It dies after the provider took it, before it is marked.
    dying = Alarms(stage.database, admin_id=2, provider=provider)
    claimed, _ = await stage.database.run(dying.delivery._claim, "gone", 10)
    await dying.delivery._send(provider, claimed[0])
    stage.clock.advance(LEASE_MS / 1000 - 1)
    assert await stage.alarms.tell() == []
    stage.clock.advance(2)
    await stage.alarms.deliver()
    [again] = stage.alarms.provider.taken
    assert [again.id] == [each.id for each in provider.taken]


async def test_refusals_are_tried_again_as_the_provider_wants(stage: Stage) -> None:
    job = await add_job(stage.database)
    await stage.alarms.rule(AlarmKind.FAILED, await stage.alarms.channel())
    await stage.fail(job)
    answers = iter(
        [Undelivered(why="busy", retry_after_seconds=30), Undelivered(why="no"), Delivered()]
    )
    stage.alarms.provider.answer = lambda _: next(answers)
    assert len(await stage.alarms.tell()) == 1
    assert await stage.after(29) == []
    assert len(await stage.after(2)) == 1
    assert len(await stage.after(3)) == 1
    assert await stage.after(3_600) == []


async def test_a_sender_that_breaks_its_promise_is_told_as_a_failure(stage: Stage) -> None:
    job = await add_job(stage.database)
    await stage.alarms.rule(AlarmKind.FAILED, await stage.alarms.channel())
    await stage.fail(job)

    def broken(_: Any) -> Any:
        raise ZeroDivisionError

    stage.alarms.provider.answer = broken
    await stage.alarms.tell()
    row = await stage.database.read(lambda c: c.execute(sa.select(tables.notification)).one())
    assert (row.state, row.error) == ("waiting", "This admin could not send it: ZeroDivisionError.")


async def test_without_rules_and_channels_a_pass_asks_one_thing(stage: Stage) -> None:
    statements: list[str] = []

    def note(_c: Any, _u: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    await stage.alarms.tell()
    sa.event.listen(stage.database.engine, "before_cursor_execute", note)
    stage.clock.advance(2)
    await stage.alarms.evaluator.run_once()
    assert len([each for each in statements if "SELECT" in each]) == 1
    await stage.alarms.delivery.run_once()
    assert len([each for each in statements if "SELECT" in each]) <= 4
