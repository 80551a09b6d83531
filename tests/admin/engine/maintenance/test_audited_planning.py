"""The planner and the audit agree about a night with everything in it, and people see the reasons.

Whatever of the planner, of edits or of deletions is switched off (tests/simulation/mutations.py)
makes a difference here.
"""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from tests.admin.kit.engine import Admin
from tests.admin.kit.messages import result
from tests.admin.kit.rows import change
from tests.admin.kit.served import Served
from tests.admin.kit.services import ADMIN
from tickwheel_admin.console.frame.formatting import iso
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.engine.maintenance.self_audit import DAY_MS, SelfAudit
from tickwheel_admin.store.database.tables import node, run
from tickwheel_admin.store.runs.retention import remove_old_runs
from tickwheel_admin.store.triggers.planning import ensure_buckets

MINUTE = 60_000
# Berlin's clocks skip the hour from two to three at 01:00 UTC.
NIGHT = int(datetime(2027, 3, 28, tzinfo=UTC).timestamp() * 1000)


class Night:
    """Two hours of planning, minute by minute."""

    def __init__(self, site: Served) -> None:
        self.site = site
        self.services = site.services
        self.admin = Admin(site.services.store)
        self.executor_id = 0
        self.jobs: dict[str, int] = {}

    async def begin(self) -> None:
        self.site.clock.now = NIGHT - 10 * MINUTE
        await self.services.store.run(ensure_buckets)
        self.executor_id = (
            await self.services.executors.create(ADMIN, name="billing", description="")
        ).id
        self.node = await self.admin.add_node(self.executor_id, slots=1_000)
        alive = {"lease_expires_at": NIGHT + DAY_MS}
        await change(self.services.store, node, self.node.node_id, **alive)
        window = {"from_time": "00:20", "to_time": "00:40"}
        await self.services.calendars.create(ADMIN, {"name": "closed", "windows": [window]})

    async def job(self, name: str, **trigger: Any) -> None:
        raw = {"name": name, "handler": "hello", "triggers": [trigger]}
        self.jobs[name] = await self.services.jobs.create(ADMIN, self.executor_id, raw)

    async def until(self, minute: int, *, plan: bool = True) -> None:
        """Let time go by, up to so many minutes after midnight; runs succeed at once."""
        while self.site.clock.now < NIGHT + minute * MINUTE:
            self.site.clock.advance(59.0)  # a second ahead of the minute, as in life
            if plan:
                await self.admin.engine.planner.run_once()
            self.site.clock.advance(1.0)
            if plan:
                await self.admin.engine.planner.run_once()
                while requests := await self.admin.dispatch_all(self.node):
                    await self.admin.say(self.node, *(result(each) for each in requests))

    async def audit(self) -> None:
        audit = SelfAudit(self.services.store, admin_id=1, retention_days=30)
        while await audit.run_once():
            pass


async def test_a_night_with_everything_in_it_leaves_nothing_unexplained(site: Served) -> None:
    night = Night(site)
    await night.begin()
    every_ten = {"kind": "cron", "expression": "*/10 * * * *"}
    await night.job("plain", **every_ten, misfire="fire_all")
    await night.job("skips", **every_ten, misfire="skip")
    await night.job("rate", kind="fixed_rate", every_seconds=420, misfire="fire_once")
    await night.job("paused", **every_ten)
    await night.job("closed", **every_ten, calendar="closed")
    await night.job("thrice", **every_ten, repeat_count=3)
    await night.job("edited", **every_ten)
    await night.job("purged", **every_ten)
    await night.job("delay", kind="fixed_delay", every_seconds=300)
    await night.job("gap", kind="cron", expression="30 2 * * *", timezone="Europe/Berlin")
    jobs = night.services.jobs

    await night.until(15)
    await jobs.pause(ADMIN, night.jobs["paused"])
    await night.until(35)
    await jobs.resume(ADMIN, night.jobs["paused"])
    # Just before a fire that is planned already: it is taken back, and planned anew.
    await night.until(39)
    site.clock.advance(59.0)
    await night.admin.engine.planner.run_once()
    edited = {"name": "edited", "handler": "hello", "triggers": [every_ten], "priority": 3}
    await jobs.update(ADMIN, night.jobs["edited"], edited, revision=1)
    site.clock.advance(1.0)
    await night.until(75)
    await night.audit()
    await night.until(105, plan=False)  # all admins are down
    await night.until(125)
    await night.services.purge.step(ADMIN, job_id=night.jobs["purged"], older_than_seconds=0)
    await night.services.store.run(remove_old_runs, older_than_ms=30 * DAY_MS, limit=1_000)
    await night.audit()

    await site.log_in("ada", Role.ADMIN)
    told = json.loads(await (await site.client.get("/self-audit.json")).text())
    assert told["differences"] == []
    hours = {each["hour_at"]: each for each in told["hours"]}
    first, second = (hours[f"2027-03-28T0{hour}:00:00.000Z"] for hour in (0, 1))
    for hour in hours.values():
        explained = sum(hour["explained"].values())
        assert hour["expected"] == hour["happened"] + explained + hour["missing"]
    assert first["explained"] == {"calendar": 2, "ended": 3, "paused": 2, "purged": 6}
    assert second["explained"] == {"misfire": 12, "purged": 6}
    page = await (await site.client.get("/self-audit")).text()
    for words in ("12 purged", "removed by a calendar", "ended", "missed, and told of", "paused"):
        assert words in page
    rows = csv.DictReader((await (await site.client.get("/self-audit.csv")).text()).splitlines())
    assert [json.loads(row["explained"]) for row in rows if row["hour_at"] in hours] == [
        each["explained"] for each in hours.values()
    ]


async def test_a_fixed_delay_misses_the_run_that_was_deleted(site: Served) -> None:
    night = Night(site)
    await night.begin()
    await night.job("delay", kind="fixed_delay", every_seconds=300)
    await night.until(70)
    newest = sa.select(sa.func.max(run.c.scheduled_at)).where(
        run.c.scheduled_at < NIGHT + 40 * MINUTE
    )
    at = await night.services.store.read(lambda conn: conn.execute(newest).scalar_one())
    gone = sa.delete(run).where(run.c.scheduled_at == at)
    await night.services.store.run(lambda conn: conn.execute(gone))
    await night.audit()
    await site.log_in("ada", Role.ADMIN)
    told = json.loads(await (await site.client.get("/self-audit.json")).text())
    assert [(each["what"], each["at"]) for each in told["differences"]] == [("missing", iso(at))]


async def test_what_retention_deletes_is_explained_or_was_audited_before(site: Served) -> None:
    night = Night(site)
    await night.begin()
    await night.job("plain", kind="cron", expression="*/10 * * * *")
    await night.until(70)

    async def delete_before(minute: int) -> None:
        age = site.clock.now - NIGHT - minute * MINUTE
        removed = await night.services.store.run(remove_old_runs, older_than_ms=age, limit=1_000)
        assert removed > 0

    await delete_before(35)
    await night.audit()
    await site.log_in("ada", Role.ADMIN)
    told = json.loads(await (await site.client.get("/self-audit.json")).text())
    [hour] = [each for each in told["hours"] if each["hour_at"] == "2027-03-28T00:00:00.000Z"]
    assert (hour["expected"], hour["happened"], hour["missing"]) == (6, 2, 0)
    assert hour["explained"] == {"retention": 4}
    assert "4 older than the retention" in await (await site.client.get("/self-audit")).text()

    # The retention was short for a while: what was audited before stays as it was found.
    await delete_before(61)
    site.clock.advance(86_400)
    await night.admin.engine.planner.run_once()
    await night.audit()
    await site.log_in("bob", Role.ADMIN)
    again = json.loads(await (await site.client.get("/self-audit.json")).text())
    assert hour in again["hours"]
    assert again["differences"] == []
