"""The past by what held then: settings, nodes, runs and what people changed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.served import Served, served
from tests.admin.kit.services import ADMIN, RUN_COLUMNS, actor_with, run_row
from tickwheel_admin.domain.as_of.runs import StandingThen
from tickwheel_admin.domain.errors import InvalidInput, NotFound
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.as_of.service import PastPicture
from tickwheel_admin.services.as_of.why import MinuteOfJob
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.executors.node_targets import set_cordon
from tickwheel_admin.store.executors.nodes import Arrival, admit_nodes, say_goodbye

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
FIELDS: dict[str, Any] = {"name": "bills", "handler": "h", "blocking": "serial"}
HOURLY = {"kind": "cron", "expression": "0 * * * *", "timezone": "UTC"}


@dataclass
class Past:
    """A job that fires at each full hour, and a clock that stands at one."""

    admin: Served
    executor_id: int
    job_id: int
    trigger_id: int

    @property
    def now(self) -> int:
        return self.admin.clock.now

    async def picture(self, at: int, **wanted: Any) -> PastPicture:
        return await self.admin.services.time_machine.picture(ADMIN, at=at, **wanted)

    async def why(self, at: int) -> MinuteOfJob:
        return await self.admin.services.why_then.why(ADMIN, self.job_id, at=at)

    async def reasons(self, at: int) -> list[str]:
        """Codes of why the only trigger brought no run in a minute."""
        [trigger] = (await self.why(at)).triggers
        return [each.code for each in trigger.minute.reasons]

    async def run(self, number: int, **changed: Any) -> None:
        whole = {"executor_id": self.executor_id, "job_id": self.job_id, "claim_token": "t"}
        row = dict.fromkeys(RUN_COLUMNS) | run_row(number, whole | changed)
        await self.admin.services.store.run(insert_rows, tables.run, [row], columns=RUN_COLUMNS)

    async def node(self, node_id: int, *, slots: int = 1, handlers: str = "h") -> None:
        arrival = Arrival(
            executor_id=self.executor_id, node_key=f"{node_id}", name=f"host-{node_id}", sdk="t",
            slots=slots, handlers=[handlers], unstoppable=[], labels={}, weight=1, address="",
        )  # fmt: skip
        await self.admin.services.store.run(
            admit_nodes, [arrival], new_ids=[node_id], session_ids=[node_id], admin_id=1
        )

    def pass_time(self, minutes: float) -> int:
        """Let time go by; returns an instant at which nothing happens."""
        self.admin.clock.advance(60 * minutes)
        at = self.now
        self.admin.clock.advance(1)
        return at


@pytest.fixture
async def past(tmp_path: Path) -> AsyncIterator[Past]:
    async with served(tmp_path) as admin:
        executor = await admin.services.executors.create(ADMIN, name="billing", description="")
        job_id = await admin.services.jobs.create(
            ADMIN, executor.id, FIELDS | {"triggers": [HOURLY]}
        )
        rows = await admin.services.store.read(
            lambda conn: list(conn.execute(sa.select(tables.trigger.c.id)))
        )
        yield Past(admin, executor.id, job_id, rows[0].id)


async def test_runs_stand_as_they_stood(past: Past) -> None:
    at = past.pass_time(600)
    due: dict[str, Any] = {
        "scheduled_at": at - 9_000,
        "due_at": at - 9_000,
        "created_at": at - 9_500,
    }
    of_try = due | {"dispatched_at": at - 8_000, "started_at": at - 7_000}
    await past.run(1, state="succeeded", node_id=5, ended_at=at + 5_000, **of_try)
    await past.run(2, state="succeeded", node_id=5, ended_at=at + 9_000, dispatched_at=at + 6_000,
                   started_at=at + 6_001, **due)  # fmt: skip
    await past.run(3, state="failed", node_id=5, ended_at=at - 1_000, message="no", **of_try)
    await past.run(4, state="succeeded", node_id=5, ended_at=at + 70_000, dispatched_at=at + 60_000,
                   created_at=at - 100, scheduled_at=at + 60_000, due_at=at + 60_000)  # fmt: skip
    await past.run(5, state="running", job_id=past.job_id + 1, node_id=5, **of_try)
    # Its second try began later; the first one was live.
    await past.run(6, state="succeeded", job_id=past.job_id + 2, attempt=2, node_id=7,
                   dispatched_at=at + 1_000, ended_at=at + 2_000, **due)  # fmt: skip
    first = {
        "run_id": 6, "attempt": 1, "state": "failed", "node_id": 5, "dispatched_at": at - 500,
        "started_at": None, "ended_at": at + 10, "log_lines": 0,
    }  # fmt: skip
    await past.admin.services.store.run(
        lambda conn: conn.execute(sa.insert(tables.run_attempt).values(first)) and None
    )
    past.pass_time(30)
    found = await past.picture(at)
    stood = {each.then.run.id: (each.then.standing.value, each.then.node_id) for each in found.runs}
    assert stood == {
        1: ("running", 5), 2: ("parked", None), 4: ("planned", None), 5: ("running", 5),
        6: ("dispatched", 5),
    }  # fmt: skip
    assert found.counts[StandingThen.RUNNING] == 2
    [failure] = found.failures
    assert (failure.run.id, failure.message, failure.job_name) == (3, "no", "bills")
    assert (found.failure_count, found.is_cut, found.failures_are_cut) == (1, False, False)
    of_job = await past.picture(at, job_id=past.job_id)
    assert [each.then.run.id for each in of_job.runs] == [1, 2, 4]
    later = await past.picture(at + 20_000)
    assert sorted(each.then.run.id for each in later.runs) == [4, 5]


async def test_nodes_and_their_load(past: Past) -> None:
    services = past.admin.services
    await past.node(5, slots=3)
    at = past.pass_time(1)
    await past.run(1, state="succeeded", node_id=5, scheduled_at=at - 9, due_at=at - 9,
                   created_at=at - 9, dispatched_at=at - 8, ended_at=at + 9)  # fmt: skip
    past.pass_time(1)
    await services.store.run(set_cordon, 5, cordoned=True, drain=False)
    cordoned_at = past.pass_time(1)
    await services.store.run(say_goodbye, node_id=5)
    gone_at = past.pass_time(1)
    found = await past.picture(at)
    [node] = found.nodes
    assert (node.period.name, node.period.slots, node.in_use) == ("host-5", 3, 1)
    assert (node.period.takes_runs, found.slots, found.in_use) == (True, 3, 1)
    [node] = (await past.picture(cordoned_at)).nodes
    assert (node.period.takes_runs, node.in_use) == (False, 0)
    gone = await past.picture(gone_at)
    assert (gone.nodes, gone.node_count) == ([], 0)
    events = [each.node.event.value for each in gone.changes if each.node is not None]
    assert events == ["gone", "changed", "came"]


async def test_what_people_changed_is_told_as_far_as_the_reader_may_know(past: Past) -> None:
    services = past.admin.services
    past.pass_time(90)
    await services.jobs.pause(ADMIN, past.job_id)
    paused_at = past.pass_time(1)
    await services.jobs.resume(ADMIN, past.job_id)
    await services.system.pause_all(ADMIN)
    other = await services.executors.create(ADMIN, name="other", description="")
    end = past.pass_time(1)
    found = await past.picture(paused_at, job_id=past.job_id)
    [change] = [each.item for each in found.changes if each.item is not None]
    assert (change.action, change.user_name) == ("job.paused", "ada")
    [trigger] = found.triggers
    assert (trigger.period.is_idle, trigger.next_fire_at) == (True, None)
    assert found.revision is not None
    assert found.revision.number == 1

    viewer = actor_with(Role.VIEWER, past.executor_id)
    machine = services.time_machine
    seen = await machine.picture(viewer, at=end)
    told = [each.item for each in seen.changes if each.item is not None]
    assert [each.action for each in told] == ["system.paused", "job.resumed", "job.paused"]
    assert {(each.user_name, each.address) for each in told} == {("", "")}
    assert [each.executor_name for each in seen.pauses] == [None]
    whole = [each.item.action for each in (await past.picture(end)).changes if each.item]
    assert "executor.created" in whole
    stranger = actor_with(Role.VIEWER, other.id)
    with pytest.raises(NotFound):
        await machine.picture(stranger, at=end, job_id=past.job_id)
    nothing = await machine.picture(viewer, at=end, executor_id=other.id)
    assert [each.item.action for each in nothing.changes if each.item] == ["system.paused"]


async def test_only_the_last_week_is_told(past: Past) -> None:
    with pytest.raises(InvalidInput) as refused:
        await past.picture(past.now + 1)
    assert refused.value.problems[0].field == "at"
    with pytest.raises(InvalidInput):
        await past.why(past.now - 7 * 24 * HOUR_MS - 1)
    assert (await past.picture(past.now - 7 * 24 * HOUR_MS)).counts == {}


async def test_triggers_answer_by_what_held(past: Past) -> None:
    services, store = past.admin.services, past.admin.services.store
    at = past.now - past.now % HOUR_MS + 2 * HOUR_MS
    past.admin.clock.now = at - 30 * MINUTE_MS
    await services.jobs.pause(ADMIN, past.job_id)
    past.admin.clock.now = at + 30 * MINUTE_MS
    await services.jobs.resume(ADMIN, past.job_id)
    past.pass_time(1)
    assert await past.reasons(at) == ["job_paused"]
    assert (await past.why(at)).triggers[0].without_run == (at,)
    assert await past.reasons(at + MINUTE_MS) == ["not_then"]
    [trigger] = (await past.why(at + MINUTE_MS)).triggers
    assert trigger.minute.next_at == at + HOUR_MS

    past.admin.clock.now = at + 50 * MINUTE_MS
    await services.executors.pause(ADMIN, past.executor_id)
    past.admin.clock.now = at + 70 * MINUTE_MS
    await services.executors.resume(ADMIN, past.executor_id)
    past.pass_time(1)
    assert await past.reasons(at + HOUR_MS) == ["executor_paused"]

    # Nothing kept this one back, and it has a run.
    past.admin.clock.now = at + 2 * HOUR_MS + 5 * MINUTE_MS
    found = await past.why(at + 2 * HOUR_MS)
    [trigger] = found.triggers
    assert trigger.why_without is not None
    assert (trigger.why_without.code, trigger.minute.reasons) == ("no_run", ())
    due = {"scheduled_at": at + 2 * HOUR_MS, "due_at": at + 2 * HOUR_MS, "created_at": at}
    due |= {"started_at": at + 2 * HOUR_MS + 1, "ended_at": at + 2 * HOUR_MS + 9}
    await past.run(901, state="succeeded", trigger_id=past.trigger_id, **due)
    found = await past.why(at + 2 * HOUR_MS)
    assert [each.why_without for each in found.triggers] == [None]
    assert (901, None) in [(each.run.id, each.then) for each in found.runs]

    # The schedule is another one now; then, it was that one.
    detail = await services.jobs.get(ADMIN, past.job_id)
    fields = FIELDS | {"triggers": [HOURLY | {"expression": "30 * * * *"}]}
    await services.jobs.update(ADMIN, past.job_id, fields, revision=detail.item.job.revision)
    assert [e.minute.fires for e in (await past.why(at + 2 * HOUR_MS)).triggers] == [
        (at + 2 * HOUR_MS,)
    ]
    past.admin.clock.now = at + 3 * HOUR_MS + 5 * MINUTE_MS
    assert await past.reasons(at + 3 * HOUR_MS) == ["not_then"]
    await store.run(lambda conn: conn.execute(sa.delete(tables.run)) and None)


async def test_a_calendar_answers_by_what_it_said(past: Past) -> None:
    services = past.admin.services

    await services.calendars.create(ADMIN, {"name": "closed", "weekdays": ["fri"]})
    detail = await services.jobs.get(ADMIN, past.job_id)
    fields = FIELDS | {"triggers": [HOURLY | {"calendar": "closed"}]}
    await services.jobs.update(ADMIN, past.job_id, fields, revision=detail.item.job.revision)
    at = past.now - past.now % HOUR_MS + HOUR_MS
    past.admin.clock.now = at + 5 * MINUTE_MS
    assert await past.reasons(at) == ["calendar"]


async def test_why_a_run_waited(past: Past) -> None:
    services = past.admin.services
    at = past.now - past.now % HOUR_MS + HOUR_MS
    due = {
        "scheduled_at": at,
        "due_at": at,
        "created_at": at - 2_000,
        "trigger_id": past.trigger_id,
    }
    end = at + 20 * MINUTE_MS
    waited = {"state": "succeeded", "node_id": 5, "dispatched_at": end, "ended_at": end + 1}
    await past.run(1, **waited, **due)

    async def code_at(minutes: int) -> str:
        found = await past.why(at + minutes * MINUTE_MS)
        [run] = [each for each in found.runs if each.run.id == 1]
        assert run.waited_for is not None
        return run.waited_for.reason.code

    past.admin.clock.now = at + 2 * MINUTE_MS - 5_000
    await past.node(4, handlers="other")
    past.admin.clock.now = at + 4 * MINUTE_MS - 5_000
    await past.node(5)
    past.admin.clock.now = at + 6 * MINUTE_MS - 5_000
    await services.store.run(set_cordon, 5, cordoned=True, drain=False)
    past.admin.clock.now = at + 8 * MINUTE_MS - 5_000
    await services.store.run(set_cordon, 5, cordoned=False, drain=False)
    began = {"scheduled_at": at + 9 * MINUTE_MS, "due_at": at, "created_at": at + 9 * MINUTE_MS}
    busy = {"state": "succeeded", "node_id": 5, "dispatched_at": at + 9 * MINUTE_MS}
    await past.run(2, job_id=99, ended_at=at + 11 * MINUTE_MS, **busy, **began)
    await past.run(3, ended_at=at + 15 * MINUTE_MS, **busy | {"dispatched_at": at + 12 * MINUTE_MS},
                   **began)  # fmt: skip
    past.admin.clock.now = at + HOUR_MS
    spans = [
        {"run_id": 1, "length": 1, "from_at": at - 2_000, "ended_at": end + 1,
         "executor_id": past.executor_id, "job_id": past.job_id},
        {"run_id": 3, "length": 1, "from_at": at + 9 * MINUTE_MS, "ended_at": at + 15 * MINUTE_MS,
         "executor_id": past.executor_id, "job_id": past.job_id},
    ]  # fmt: skip
    await services.store.run(insert_rows, tables.run_span, spans, columns=[*spans[0]])
    codes = [await code_at(minutes) for minutes in (0, 2, 4, 6, 8, 10, 12)]
    assert codes == [
        "no_live_node", "no_handler", "starting", "cordoned", "starting", "no_free_slot", "blocked",
    ]  # fmt: skip
    assert (await past.why(at + 21 * MINUTE_MS)).runs == []
