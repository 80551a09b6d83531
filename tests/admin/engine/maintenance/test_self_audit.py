"""The audit notices what is deleted from the ledger, and what is put into it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.alarms import Alarms
from tests.admin.kit.clock import Clock
from tests.admin.kit.services import ADMIN, World
from tests.admin.kit.work_counter import counted
from tests.admin.services.metrics.test_page import page_of, samples_of
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.engine.maintenance import self_audit
from tickwheel_admin.engine.maintenance.self_audit import (
    HOUR_MS,
    SelfAudit,
    audit_triggers,
    chosen,
)
from tickwheel_admin.services.alarms.alarms import Alarms as AlarmLog
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.metrics.definitions import AUDIT_DIFFERENCES
from tickwheel_admin.services.system.self_audit import SelfAuditLog
from tickwheel_admin.store.alarms.evaluation import EVALUATOR
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.self_audit.past import read_past, read_periods
from tickwheel_admin.store.self_audit.results import (
    EVERYBODY,
    AuditedHour,
    StoredDifference,
    open_differences,
    read_differences,
    read_hours,
)

MINUTE = 60_000
RUN, TRIGGER, HOUR = tables.run, tables.trigger, tables.self_audit_hour
EVERY_TEN_MINUTES = {"kind": "cron", "expression": "*/10 * * * *"}


class Ledger:
    """Some hours of one trigger that fired every ten minutes."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.hour_at = world.now // HOUR_MS * HOUR_MS - 3 * HOUR_MS
        self.trigger_id = self.job_id = self.executor_id = 0
        self.audit = SelfAudit(world.database, admin_id=1, retention_days=30)

    async def begin(self, **fields: Any) -> None:
        self.executor_id = await self.world.executor()
        job = {"name": "j", "handler": "h", "triggers": [EVERY_TEN_MINUTES | fields]}
        self.job_id = await self.world.jobs.create(ADMIN, self.executor_id, job)
        [trigger] = self.world.triggers_of_job(self.job_id)
        self.trigger_id = trigger.id
        began = self.hour_at - MINUTE
        self.world.change(sa.update(TRIGGER).values(created_at=began, since_at=began))
        self.fire(*range(self.hour_at, self.world.now, 10 * MINUTE))

    def fire(self, *instants: int, **changes: Any) -> list[int]:
        of = {
            "trigger_id": self.trigger_id,
            "job_id": self.job_id,
            "executor_id": self.executor_id,
        }
        return self.world.add_runs(
            {"scheduled_at": at, "created_at": at - 1_000} | of | changes for at in instants
        )

    async def look(self) -> None:
        """Let the loop audit all hours again, as it does from time to time."""
        self.world.change(sa.update(HOUR).values(audited_at=0))
        while await self.audit.run_once():
            pass

    def hour(self, executor_id: int = EVERYBODY) -> AuditedHour:
        [found] = self.world.database.read_sync(
            read_hours,
            from_at=self.hour_at,
            to_at=self.hour_at + HOUR_MS,
            executors=[executor_id],
        )
        return found

    def differences(self, *, all_of_them: bool = False) -> list[tuple[int, str]]:
        found: list[StoredDifference] = self.world.database.read_sync(
            read_differences,
            from_at=self.hour_at,
            to_at=self.hour_at + HOUR_MS,
            executors=None,
            limit=100,
        )
        return [(e.at, e.what) for e in found if all_of_them or e.closed_at is None]


@pytest.fixture
def ledger(world: World) -> Iterator[Ledger]:
    return Ledger(world)


async def measured(ledger: Ledger) -> dict[str, float]:
    """Differences by kind, as `/metrics` shows them."""
    samples = await samples_of(page_of(ledger.world.database))
    return {
        each.labels["kind"]: each.value for each in samples if each.name == AUDIT_DIFFERENCES.name
    }


@pytest.mark.every_database
async def test_what_sql_does_to_the_ledger_is_told_and_over_when_it_is_undone(
    ledger: Ledger,
) -> None:
    alarms = Alarms(ledger.world.database)
    await alarms.rule(AlarmKind.LEDGER_DIFFERENCE, await alarms.channel())
    await ledger.begin()
    await ledger.look()
    hour = ledger.hour(ledger.executor_id)
    assert (hour.expected, hour.happened, hour.missing, hour.explained) == (6, 6, 0, {})
    assert (hour.triggers, hour.audited) == (1, 1)
    assert ledger.differences() == []

    at = ledger.hour_at
    late = sa.update(RUN).where(RUN.c.scheduled_at == at + 20 * MINUTE)
    ledger.world.change(
        sa.delete(RUN).where(RUN.c.scheduled_at == at + 10 * MINUTE),
        late.values(created_at=at + HOUR_MS),
    )
    ledger.fire(at + 30 * MINUTE, shard_index=7)  # there is a unique key against a plain copy
    ledger.fire(at + 30 * MINUTE + 1)
    stranger = ledger.fire(at + 40 * MINUTE, trigger_id=999_999_999)
    await ledger.look()
    told = [
        (at + 10 * MINUTE, "missing"),
        (at + 20 * MINUTE, "late"),
        (at + 30 * MINUTE, "doubled"),
        (at + 30 * MINUTE + 1, "unexplained"),
        (at + 40 * MINUTE, "unexplained"),
    ]
    assert ledger.differences() == told
    hour = ledger.hour()
    assert (hour.expected, hour.happened, hour.missing) == (6, 5, 1)
    assert (hour.doubled, hour.late, hour.unexplained) == (1, 1, 2)
    opened = ledger.world.database.read_sync(open_differences, limit=10)
    assert sorted((e.at, e.job_name) for e in opened) == [(each, "j") for each, _ in told]
    assert await alarms.tell() == [[("opened", "")]]
    [alarm] = await alarms.open()
    assert "1 doubled, 1 late, 1 missing, 2 unexplained (" in str(alarm.told.params["difference"])
    page = await SelfAuditLog(ledger.world.database).report(ADMIN)
    assert (page.totals.missing, page.totals.doubled, page.totals.differences) == (1, 1, 5)
    assert len(page.differences) == 5
    assert await measured(ledger) == {"missing": 1, "doubled": 1, "late": 1, "unexplained": 2}
    seen = max(each.found_at for each in opened)
    assert not ledger.world.database.read_sync(open_differences, found_after=seen, limit=10)

    ledger.fire(at + 10 * MINUTE)
    ledger.world.change(sa.delete(RUN).where(RUN.c.id.in_(stranger)))
    await ledger.look()
    assert ledger.differences() == told[1:4]
    again = sa.update(tables.setting).where(tables.setting.c.name == EVALUATOR).values(value="0 0")
    ledger.world.change(again)
    await alarms.evaluate()
    assert len(await alarms.open()) == 1  # some of them stand

    ledger.world.change(
        late.values(created_at=at + 20 * MINUTE),
        sa.delete(RUN).where(sa.or_(RUN.c.shard_index == 7, RUN.c.scheduled_at % MINUTE == 1)),
    )
    await ledger.look()
    assert ledger.differences() == []
    ledger.world.change(again)
    await alarms.evaluate()
    assert await alarms.open() == []
    assert sum((await measured(ledger)).values()) == 0
    assert ledger.differences(all_of_them=True) == told  # that they were there stays


async def test_whoever_closes_the_alarm_has_seen_what_stands(ledger: Ledger) -> None:
    alarms = Alarms(ledger.world.database)
    for _ in range(2):
        await alarms.rule(AlarmKind.LEDGER_DIFFERENCE)
    await ledger.begin()
    gone = sa.delete(RUN).where(RUN.c.scheduled_at == ledger.hour_at)
    ledger.world.change(gone)
    await ledger.look()
    await alarms.evaluate()
    use_cases = AlarmLog(ledger.world.database, Ids(ledger.world.database), Events())
    [one, _] = await alarms.open()
    await use_cases.close(ADMIN, one.id)

    # The other rule's alarm is over, and so is the metric; the difference stands.
    ledger.world.change(
        sa.update(tables.setting).where(tables.setting.c.name == EVALUATOR).values(value="0 0")
    )
    await alarms.evaluate()
    assert await alarms.open() == []
    assert sum((await measured(ledger)).values()) == 0
    assert ledger.differences() == [(ledger.hour_at, "missing")]
    page = await SelfAuditLog(ledger.world.database).report(ADMIN)
    [seen] = page.differences
    assert (seen.seen_by, seen.closed_at) == ("ada", None)
    assert (page.totals.expected, page.totals.missing) == (page.totals.happened + 1, 1)

    # Restored, and deleted again: that is news.
    restored = ledger.fire(ledger.hour_at)
    await ledger.look()
    ledger.world.change(sa.delete(RUN).where(RUN.c.id.in_(restored)))
    await ledger.look()
    await alarms.evaluate()
    assert len(await alarms.open()) == 2
    assert sum((await measured(ledger)).values()) == 1


@pytest.mark.turned_clock
async def test_differences_outlive_the_counts_of_other_hours(ledger: Ledger, clock: Clock) -> None:
    await ledger.begin()
    ledger.world.change(sa.delete(RUN).where(RUN.c.scheduled_at == ledger.hour_at))
    await ledger.look()
    clock.advance(500 * 86_400)
    ledger.fire(ledger.world.now - 2 * HOUR_MS)
    await ledger.audit.run_once()
    hours = {each.hour_at for each in ledger.world.rows(sa.select(HOUR.c.hour_at))}
    assert min(hours) == ledger.hour_at
    assert ledger.hour_at + HOUR_MS not in hours
    assert ledger.differences() == [(ledger.hour_at, "missing")]


@pytest.mark.every_database
async def test_edits_pauses_calendars_and_purges_are_kept_as_they_were(ledger: Ledger) -> None:
    world = ledger.world
    calendar = {"name": "holidays", "dates": ["2020-01-01"]}
    calendar_id = await world.calendars.create(ADMIN, calendar)
    await ledger.begin(calendar="holidays")
    await ledger.look()
    await world.jobs.pause(ADMIN, ledger.job_id)
    await world.jobs.resume(ADMIN, ledger.job_id)
    raw = {"name": "j", "handler": "h", "triggers": [{"kind": "cron", "expression": "0 0 * * *"}]}
    await world.jobs.update(ADMIN, ledger.job_id, raw, revision=1)
    await world.jobs.delete(ADMIN, ledger.job_id)
    await world.executors.pause(ADMIN, ledger.executor_id)
    await world.executors.resume(ADMIN, ledger.executor_id)
    await world.system.pause_all(ADMIN)
    await world.system.resume_all(ADMIN)
    await world.calendars.update(ADMIN, calendar_id, calendar | {"weekdays": ["sun"]}, version=1)
    await world.purge.step(ADMIN, job_id=ledger.job_id, older_than_seconds=3_600)

    ids = {each.trigger_id for each in world.rows(sa.select(tables.trigger_period))}
    found = world.database.read_sync(read_periods, ids, begin=0)
    [(trigger_id, periods), (later_id, [last])] = sorted(found.items())
    assert (trigger_id, later_id > trigger_id) == (ledger.trigger_id, True)
    assert [each.is_idle for each in periods] == [False, True, False]
    assert [each.until_at for each in periods[:2]] == [each.since_at for each in periods[1:]]
    assert last.until_at == last.planned_to
    past = world.database.read_sync(read_past, begin=ledger.hour_at, end=ledger.hour_at + HOUR_MS)
    assert sorted(each.executor_id for each in past.pauses) == [0, ledger.executor_id]
    assert [len(each) for each in past.calendars.periods.values()] == [2]
    assert [(each.job_id, each.from_at) for each in past.purged] == [
        (ledger.job_id, ledger.hour_at)
    ]
    await ledger.look()
    hour = ledger.hour()
    assert (hour.expected, hour.explained, hour.missing) == (6, {"purged": 6}, 0)


@pytest.mark.turned_clock
async def test_an_hour_is_looked_at_again(ledger: Ledger, clock: Clock) -> None:
    await ledger.begin()

    async def found_at(at: int) -> list[tuple[int, str]]:
        clock.now = at
        while await ledger.audit.run_once():
            pass
        return ledger.differences()

    again = ledger.hour_at + HOUR_MS + 6 * HOUR_MS
    assert await found_at(clock.now) == []
    ledger.world.change(sa.delete(RUN).where(RUN.c.scheduled_at == ledger.hour_at))
    assert await found_at(again - 1) == []
    assert await found_at(again) == [(ledger.hour_at, "missing")]


async def test_a_batch_takes_so_many_statements_however_large_it_is(world: World) -> None:
    """Also with fixed delays, and where everything is missing and looked at twice."""
    executor_id = await world.executor()
    asked = []
    for number in (2, 20):
        for name in range(number):
            triggers = [{"kind": "fixed_delay", "every_seconds": 60}, EVERY_TEN_MINUTES]
            job = {"name": f"{number} {name}", "handler": "h", "triggers": triggers}
            await world.jobs.create(ADMIN, executor_id, job)
        hour_at = world.now // HOUR_MS * HOUR_MS - HOUR_MS
        began = sa.update(TRIGGER).values(since_at=hour_at - 1, last_fire_at=hour_at)
        world.change(began.values(created_at=hour_at - 1))
        ids = [each.id for each in world.rows(sa.select(TRIGGER.c.id))]
        async with counted(world.database) as work:
            found = world.database.read_sync(
                audit_triggers, ids, begin=hour_at, end=hour_at + HOUR_MS
            )
        assert found.counts[EVERYBODY].missing > number
        asked.append(work.statements)
    assert asked[0] == asked[1] <= 30


async def test_one_admin_audits_at_a_time(ledger: Ledger) -> None:
    await ledger.begin()
    other = SelfAudit(ledger.world.database, admin_id=2, retention_days=30)
    await ledger.look()
    ledger.world.change(sa.update(HOUR).values(audited_at=0))
    assert not await other.run_once()
    assert ledger.hour().audited_at == 0
    ledger.world.change(sa.update(tables.setting).values(value="1:5"))  # its claim is over
    await other.run_once()
    assert ledger.hour().audited_at > 0


async def test_of_too_many_triggers_the_same_ones_are_audited_each_time(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(self_audit, "TRIGGERS_PER_HOUR", 40)
    ids = range(1, 101)
    first = chosen(ids, ledger.hour_at)
    assert first == chosen(sorted(ids, reverse=True), ledger.hour_at)
    assert len(first) == 40
    seen = {each for hour in range(30) for each in chosen(ids, ledger.hour_at + hour * HOUR_MS)}
    assert seen == set(ids)

    monkeypatch.setattr(self_audit, "TRIGGERS_PER_HOUR", 0)
    await ledger.begin()
    await ledger.look()
    assert (ledger.hour().triggers, ledger.hour().audited) == (1, 0)


async def test_an_hour_whose_runs_retention_deletes_is_left_as_it_was(ledger: Ledger) -> None:
    await ledger.begin()
    await ledger.look()
    short = SelfAudit(ledger.world.database, admin_id=1, retention_days=0)
    ledger.world.change(sa.delete(RUN), sa.update(HOUR).values(audited_at=0))
    ledger.fire(ledger.hour_at)
    await short.run_once()
    assert ledger.hour().happened == 6
