"""The coverage of a job in the console: strips by day, holes with their backfill, doubles."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from tests.admin.console.backfills.test_backfills import Person
from tests.admin.kit.rows import add_run
from tests.admin.kit.served import Served
from tickwheel_admin.console.backfills.coverage import strips_of
from tickwheel_admin.domain.backfills.coverage import Interval, IntervalState
from tickwheel_admin.domain.runs.run import Origin, RunState
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database import tables

DAILY = {"kind": "cron", "expression": "0 3 * * *"}
DAY = timedelta(days=1)
MARCH = {"from": "2026-03-01T00:00", "until": "2026-03-06T00:00"}


@pytest.fixture
async def job_id(site: Served) -> int:
    executor = await site.services.executors.create(COMMAND_LINE, name="billing", description="")
    job = {"name": "report", "handler": "h", "triggers": [DAILY]}
    return await site.services.jobs.create(COMMAND_LINE, executor.id, job)


@pytest.fixture
async def trigger_id(site: Served, job_id: int) -> int:
    wanted = sa.select(tables.trigger.c.id).where(tables.trigger.c.job_id == job_id)
    return await site.services.store.read(lambda conn: int(conn.execute(wanted).scalar_one()))


@pytest.fixture
async def person(site: Served) -> Person:
    return Person(site, (await site.log_in("olga", Role.OPERATOR)).cookie)


def at(day: int) -> int:
    return int(datetime(2026, 3, day, 3, tzinfo=UTC).timestamp()) * 1_000


async def fire(site: Served, job_id: int, trigger_id: int, day: int, state: RunState) -> int:
    return await add_run(
        site.services.store,
        job_id,
        trigger_id=trigger_id,
        scheduled_at=at(day),
        interval_start=at(day - 1) if day > 1 else at(1) - 86_400_000,
        state=state,
        origin=Origin.SCHEDULE,
    )


async def test_holes_lead_to_a_backfill_of_exactly_these(
    site: Served, person: Person, job_id: int, trigger_id: int
) -> None:
    await fire(site, job_id, trigger_id, 1, RunState.SUCCEEDED)
    failed = await fire(site, job_id, trigger_id, 2, RunState.FAILED)
    done = await fire(site, job_id, trigger_id, 4, RunState.SUCCEEDED)
    page = await person.get(f"/jobs/{job_id}/coverage", **MARCH)
    assert "3 intervals were not processed." in page
    assert f'href="/runs/{failed}"' in page
    assert "Done once 1" in page
    fill = re.search(r'href="(/jobs/\d+/backfills/new\?[^"]+)"', page)
    assert fill is not None
    form = await person.get(fill[1].replace("&amp;", "&"))
    assert "1 of them is no hole and is not run." in form
    assert "Run 3 instants" in form
    sent = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))
    assert sent["only_holes"] == "yes"
    status, place = await person.post(f"/jobs/{job_id}/backfills", form, sent)
    assert status == 303
    assert "0 of 4 instants" in await person.get(place)
    again = await person.get(f"/runs/{done}/retry")
    assert "would be processed a second time" in again
    assert "a second time" not in await person.get(f"/runs/{failed}/retry")


async def test_what_is_whole_is_told_and_offers_no_backfill(
    site: Served, person: Person, job_id: int, trigger_id: int
) -> None:
    for day in range(1, 6):
        await fire(site, job_id, trigger_id, day, RunState.SUCCEEDED)
    page = await person.get(f"/jobs/{job_id}/coverage", **MARCH)
    assert "All 5 intervals were processed, each once." in page
    assert "Backfill these holes" not in page
    assert "must not be before" in await person.get(
        f"/jobs/{job_id}/coverage", **{"from": "2026-03-02T00:00", "until": "2026-03-01T00:00"}
    )


async def test_a_job_without_a_clock_has_no_intervals(site: Served, person: Person) -> None:
    executor = await site.services.executors.create(COMMAND_LINE, name="crm", description="")
    job_id = await site.services.jobs.create(
        COMMAND_LINE, executor.id, {"name": "x", "handler": "h"}
    )
    assert "No intervals" in await person.get(f"/jobs/{job_id}/coverage")


def test_strips_are_cut_at_local_midnights_also_of_a_short_day() -> None:
    zone = ZoneInfo("Europe/Berlin")
    begin = int(datetime(2026, 3, 28, 22, tzinfo=zone).timestamp()) * 1_000
    hours = [
        Interval(
            start_at=begin + n * 3_600_000,
            at=begin + (n + 1) * 3_600_000,
            state=IntervalState.NO_RUN if n == 1 else IntervalState.DONE,
        )
        for n in range(26)
    ]
    days = strips_of(hours, zone)
    assert [datetime.fromtimestamp(each.at / 1_000, zone).day for each in days] == [30, 29, 28]
    assert [sum(each.counts.values()) for each in days] == [1, 23, 2]
    assert days[1].counts == Counter({IntervalState.DONE: 23})
    assert [(each.x, each.width) for each in days[1].parts] == [(0, 100)]
    assert days[2].has_faults
    assert [each.x for each in days[2].parts] == [91.667, 95.833]


async def test_a_new_job_has_no_hole_before_it_was_made(
    site: Served, person: Person, job_id: int
) -> None:
    """A fixed rate counts from the instant at which it was saved, and fires after it."""
    rate = {"kind": "fixed_rate", "every_seconds": 3_600}
    job = {"name": "new", "handler": "h", "triggers": [rate]}
    executor_id = (await site.services.jobs.get(COMMAND_LINE, job_id)).item.job.executor_id
    made = await site.services.jobs.create(COMMAND_LINE, executor_id, job)
    half_an_hour = 1_800_000

    def made_earlier(conn: sa.Connection) -> None:
        for table, column in (
            (tables.job, tables.job.c.id),
            (tables.trigger, tables.trigger.c.job_id),
        ):
            earlier = {"created_at": table.c.created_at - half_an_hour}
            conn.execute(sa.update(table).where(column == made).values(earlier))

    await site.services.store.run(made_earlier)
    page = await person.get(f"/jobs/{made}/coverage")
    assert "not processed" not in page
    assert "The trigger has no interval in this time." in page
