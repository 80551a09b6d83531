"""Coverage is watched for those who have a rule: holes are told, and over when they are filled."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.alarm_stage import Stage, at
from tests.admin.kit.clock import Clock
from tests.admin.kit.rows import add_job, add_run, trigger_of
from tickwheel_admin.console.overview.attention_labels import concern_rows
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.rule import RuleLimits, RuleScope, scopes_of
from tickwheel_admin.domain.runs.run import Origin, RunState
from tickwheel_admin.domain.triggers.kinds.fixed_delay import FixedDelaySpec
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.engine.maintenance import coverage_watcher
from tickwheel_admin.engine.maintenance.coverage_watcher import CoverageWatcher
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.overview.attention.concern import Concern
from tickwheel_admin.services.overview.attention.coverage import coverage_gaps
from tickwheel_admin.store.backfills.watches import CoverageWatch, watches_between
from tickwheel_admin.store.calendars.calendars import CalendarCache
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Database

pytestmark = [pytest.mark.turned_clock(of_servers=True), pytest.mark.every_database(nightly=True)]

MINUTE, HOUR = 60, 3_600
HOUR_MS = HOUR * 1_000
GAP = AlarmKind.COVERAGE_GAP
DAWN = at("2026-06-02T05:00")
HOURS = 10  # that jobs of these tests are old


async def change(database: Database, *statements: Any) -> None:
    for each in statements:
        await database.run(lambda conn, each=each: conn.execute(each).close())


class Watch:
    """Jobs that fire hourly since ten hours, and the loop of an admin that watches them."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.database = stage.database
        self.loop = self.of_admin(1)

    def of_admin(self, admin_id: int) -> CoverageWatcher:
        return CoverageWatcher(
            self.database, Events(), calendars=CalendarCache(), admin_id=admin_id
        )

    async def add_job(self, *missing: int, executor_id: int = 1, tags: str = "") -> int:
        """It has a successful run for each of its ten hours but these."""
        began = DAWN - HOURS * HOUR_MS
        spec = FixedRateSpec(every_ms=HOUR_MS, anchor_at=began)
        job_id = await add_job(
            self.database, triggers=[(spec, DAWN + HOUR_MS)], executor_id=executor_id
        )
        job, trigger = tables.job, tables.trigger
        old = {"created_at": began}
        await change(
            self.database,
            sa.update(job).where(job.c.id == job_id).values(old | {"tags": tags}),
            sa.update(trigger).where(trigger.c.job_id == job_id).values(old),
        )
        for hour in range(1, HOURS + 1):
            if hour not in missing:
                await self.run(job_id, hour)
        return job_id

    async def run(
        self, job_id: int, hour: int, state: RunState = RunState.SUCCEEDED, **values: Any
    ) -> int:
        """A fire of an hour."""
        values.setdefault("trigger_id", (await trigger_of(self.database, job_id)).id)
        scheduled_at = DAWN + (hour - HOURS) * HOUR_MS
        return await add_run(
            self.database,
            job_id,
            scheduled_at=scheduled_at,
            interval_start=scheduled_at - HOUR_MS,
            state=state,
            origin=Origin.SCHEDULE,
            **values,
        )

    async def rule(self, **fields: Any) -> int:
        fields.setdefault("limits", RuleLimits(seconds=2 * HOUR))
        return await self.stage.alarms.rule(GAP, **fields)

    async def of_job(self, job_id: int, **fields: Any) -> int:
        return await self.rule(scope=RuleScope.JOB, job_id=job_id, **fields)

    async def look(self, after: float = 0) -> None:
        """Let everything be done that is to be done so much later."""
        self.stage.clock.advance(after)
        while await self.loop.run_once():
            pass

    async def watches(self) -> list[CoverageWatch]:
        return await self.database.read(watches_between, 0, None, limit=1_000)

    async def holes(self) -> dict[int, int]:
        """By job, of those that are watched."""
        return {each.job_id: each.holes for each in await self.watches()}

    async def concerns(self, scope: frozenset[int] | None = None) -> list[Concern]:
        return await self.database.read(lambda c: coverage_gaps(c, scope, now=now_ms(c)))


@pytest.fixture
def watch(database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Watch:
    clock.now = DAWN
    monkeypatch.setattr(coverage_watcher, "MAX_REST_SECONDS", 0.0)
    return Watch(Stage(database, clock))


async def test_a_hole_is_told_of_until_it_is_filled(watch: Watch) -> None:
    # The ninth hour is a hole as well, and not yet late.
    job_id = await watch.add_job(3, 5, 9, 10)
    whole = await watch.add_job()
    failed = await watch.run(job_id, 3, RunState.FAILED)
    for each in (job_id, whole):
        await watch.of_job(each, channels=(await watch.stage.alarms.channel(),))
    await watch.look()
    assert await watch.holes() == {job_id: 2, whole: 0}
    [concern] = await watch.concerns()
    oldest = DAWN - 7 * HOUR_MS
    assert (concern.job_id, concern.since, concern.params["holes"]) == (job_id, oldest, 2)
    assert await watch.concerns(frozenset({99})) == []
    [row] = concern_rows([concern])
    trigger_id = (await trigger_of(watch.database, job_id)).id
    assert row.href == f"/jobs/{job_id}/coverage?trigger={trigger_id}"
    assert row.text == "Intervals of data that were not processed: 2"
    assert await watch.stage.alarms.tell() == [[("opened", f"job-{job_id}")]]

    run = tables.run
    good = sa.update(run).where(run.c.id == failed).values(state="succeeded")
    await change(watch.database, good)
    await watch.look(3 * MINUTE)
    assert await watch.holes() == {job_id: 1, whole: 0}
    assert await watch.stage.after(HOUR) == []
    # The ninth hour is late by now.
    await watch.look()
    assert await watch.holes() == {job_id: 2, whole: 0}
    backfilled = {"job_id": job_id, "backfill_id": 1, "trigger_id": trigger_id}
    for hour in (5, 9):
        scheduled_at = DAWN + (hour - HOURS) * HOUR_MS
        run_id = await add_run(
            watch.database,
            job_id,
            scheduled_at=watch.stage.clock.now,
            interval_start=scheduled_at - HOUR_MS,
            nominal_at=scheduled_at,
            state=RunState.SUCCEEDED,
            origin=Origin.BACKFILL,
        )
        row_of = backfilled | {"at": scheduled_at, "run_id": run_id, "outcome": "succeeded"}
        await change(watch.database, sa.insert(tables.backfill_run).values(row_of))
    await watch.look(3 * MINUTE)
    assert await watch.holes() == {job_id: 0, whole: 0}
    assert await watch.concerns() == []
    assert await watch.stage.after(MINUTE) == [[("recovered", f"job-{job_id}")]]


async def test_each_rule_has_its_limit_and_goes_with_what_it_told(watch: Watch) -> None:
    job_id = await watch.add_job(7, 8)
    short = await watch.of_job(job_id)
    long = await watch.of_job(job_id, limits=RuleLimits(seconds=4 * HOUR))
    await watch.look()
    await watch.stage.alarms.evaluate()
    assert [each.rule_id for each in await watch.stage.alarms.open()] == [short]
    await watch.look(HOUR)
    await watch.stage.alarms.evaluate()
    assert {each.rule_id for each in await watch.stage.alarms.open()} == {short, long}
    rule = tables.alarm_rule
    await change(watch.database, sa.update(rule).where(rule.c.id == short).values(deleted_at=1))
    await watch.look(MINUTE)
    await watch.stage.alarms.evaluate()
    assert [each.rule_id for each in await watch.stage.alarms.open()] == [long]
    assert [each.limit_ms for each in await watch.watches()] == [4 * HOUR_MS]
    assert await watch.holes() == {job_id: 1}  # the other one is not that late
    await change(watch.database, sa.update(rule).values(enabled=False))
    assert await watch.concerns() == []
    await watch.look(MINUTE)
    assert await watch.watches() == []
    await watch.stage.alarms.evaluate()
    assert await watch.stage.alarms.open() == []


async def test_only_what_a_rule_is_about_is_watched(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coverage_watcher, "TRIGGERS_PER_PAGE", 2)
    jobs = [
        await watch.add_job(4, executor_id=n % 2 + 1, tags="etl" if n > 3 else "") for n in range(6)
    ]
    delay = FixedDelaySpec(every_ms=HOUR_MS)
    await add_job(watch.database, executor_id=2, triggers=[(delay, DAWN)])
    await watch.look()
    assert await watch.watches() == []
    assert not await watch.database.read(
        lambda c: c.execute(sa.select(tables.setting).filter_by(name="coverage_watch")).first()
    )
    await watch.rule(scope=RuleScope.EXECUTOR, executor_id=2)
    await watch.rule(scope=RuleScope.TAG, tag="etl", limits=RuleLimits())
    await watch.look()
    limits = {each.job_id: each.limit_ms // HOUR_MS for each in await watch.watches()}
    assert limits == {jobs[1]: 2, jobs[3]: 2, jobs[4]: 1, jobs[5]: 1}
    assert {each.job_id for each in await watch.concerns()} == limits.keys()
    assert {each.job_id for each in await watch.concerns(frozenset({1}))} == {jobs[4]}
    assert scopes_of(GAP) == (RuleScope.EXECUTOR, RuleScope.TAG, RuleScope.JOB)


async def test_what_is_settled_is_not_read_again(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await watch.add_job()
    await watch.of_job(job_id)
    await watch.look()
    [seen] = await watch.watches()
    # The ninth hour is not due yet; it is in an hour, and then it is looked at.
    assert seen.known_to == DAWN - 2 * HOUR_MS + 1
    assert seen.look_at == DAWN + HOUR_MS
    asked: list[int] = []
    covered = coverage_watcher.trigger_coverage

    def noted(conn: Any, job: Any, request: Any, calendars: Any) -> Any:
        asked.append(request.from_at)
        return covered(conn, job, request, calendars)

    monkeypatch.setattr(coverage_watcher, "trigger_coverage", noted)
    await watch.look(HOUR - 1)
    assert asked == []
    await watch.look(1)
    assert asked == [DAWN - 2 * HOUR_MS + 1]
    assert (await watch.watches())[0].known_to == DAWN - HOUR_MS + 1


async def test_a_run_that_goes_on_is_no_hole_and_neither_is_what_is_a_week_old(
    watch: Watch,
) -> None:
    job_id = await watch.add_job(2, 6)
    run_id = await watch.run(job_id, 6, RunState.RUNNING)
    await watch.of_job(job_id)
    await watch.look()
    assert await watch.holes() == {job_id: 1}
    run = tables.run
    lost = sa.update(run).where(run.c.id == run_id).values(state="lost")
    await change(watch.database, lost)
    await watch.look(3 * MINUTE)
    assert await watch.holes() == {job_id: 2}
    await change(watch.database, sa.update(tables.trigger).values(next_fire_at=DAWN + HOUR_MS))
    await watch.look(7 * 24 * HOUR - 6 * HOUR)
    assert await watch.holes() == {job_id: 1}


async def test_nothing_is_expected_before_a_job_fired_or_after_its_trigger_ended(
    watch: Watch,
) -> None:
    job, trigger = tables.job, tables.trigger
    long_ago = DAWN - 90 * 24 * HOUR_MS
    new = await watch.add_job(5)
    ended = await watch.add_job(8)
    await watch.rule(scope=RuleScope.EXECUTOR, executor_id=1)
    await change(
        watch.database,
        sa.update(job).values(created_at=long_ago),
        sa.update(trigger)
        .where(trigger.c.job_id == ended)
        .values(state="complete", next_fire_at=None, last_fire_at=DAWN - 4 * HOUR_MS),
    )
    await watch.look()
    assert await watch.holes() == {new: 1, ended: 0}


async def test_after_an_edit_of_the_schedule_a_hole_is_told_without_a_break(watch: Watch) -> None:
    job_id = await watch.add_job(5)
    await watch.of_job(job_id)
    await watch.look()
    trigger = tables.trigger
    old = await trigger_of(watch.database, job_id)
    edited = {"id": 10**9, "created_at": watch.stage.clock.now}
    await change(watch.database, sa.update(trigger).where(trigger.c.id == old.id).values(edited))
    await watch.look(5 * MINUTE)
    assert [each.params["holes"] for each in await watch.concerns()] == [1]
    for _ in range(2):  # walks
        await watch.look(11 * MINUTE)
        assert [each.job_id for each in await watch.concerns()] == [job_id]
    assert [(each.trigger_id, each.holes) for each in await watch.watches()] == [(10**9, 1)]


async def test_one_admin_watches_at_a_time(watch: Watch) -> None:
    job_id = await watch.add_job(5)
    await watch.of_job(job_id)
    assert not await watch.loop.run_once()
    first = await watch.watches()
    await watch.of_job(await watch.add_job(5))
    other = watch.of_admin(2)
    assert not await other.run_once()
    assert await watch.watches() == first
    watch.stage.clock.advance(3 * MINUTE)
    await other.run_once()
    assert len(await watch.watches()) == 2
