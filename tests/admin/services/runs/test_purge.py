"""Purging: exactly the ended runs that a rule names go, in steps, and nothing fires again."""

from __future__ import annotations

import base64
import random
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.clock import Clock
from tests.admin.kit.engine import Admin
from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.domain.errors import InvalidInput, NotAllowed, NotFound
from tickwheel_admin.domain.runs.run import FINAL
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.runs import purge
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.runs import purge as purging
from tickwheel_admin.store.runs.retention import (
    LONGEST_REST_SECONDS,
    QUIET_REST_FACTOR,
    REST_FACTOR,
    rest_after,
)

SECOND = 1_000
HOUR = 3_600_000
DAY = 86_400_000
RUN = tables.run
ENDED = sorted(state.value for state in FINAL)
NOT_ENDED = ["queued", "dispatched", "running"]


async def purge_all(world: World, **rule: Any) -> int:
    """All steps of a purge; returns how many runs they deleted."""
    deleted, cursor = 0, None
    for _ in range(1_000):
        step = await world.purge.step(ADMIN, cursor=cursor, **rule)
        deleted, cursor = deleted + step.deleted, step.next
        if cursor is None:
            return deleted
    raise AssertionError("the purge does not come to its end")


class Ledger:
    """Runs of several jobs, and what each belongs to."""

    def __init__(self, world: World, jobs: dict[int, int], now: int) -> None:
        self.world = world
        self.now = now
        self.runs: dict[int, dict[str, Any]] = {}
        dice = random.Random(5)
        whole: list[dict[str, Any]] = []
        for job_id, executor_id in jobs.items():
            for n in range(24):
                # Two at each instant. The first two are too new, however long all of this takes.
                at = now + HOUR - n // 2 * DAY
                own = {"job_id": job_id, "executor_id": executor_id, "scheduled_at": at}
                kind = dice.choice(["plain", "plain", "plain", "fire", "live fire"])
                if kind == "plain":
                    state = dice.choice(ENDED * 2 + NOT_ENDED)
                    whole.append(own | {"state": state, "log_lines": dice.choice([0, 900])})
                else:
                    state = "running" if kind == "live fire" else dice.choice(ENDED)
                    cut = {"shard_index": -1, "shard_total": dice.randint(1, 4)}
                    whole.append(own | cut | {"state": state})
        self._add(whole)
        shards = []
        for fire_id, fire in self.runs.items():
            for index in range(fire.get("shard_total", 0)):
                live = fire["state"] == "running" and index == 0
                state = "running" if live else dice.choice(ENDED)
                place = {"shard_index": index, "fire_id": fire_id, "state": state}
                shards.append(fire | place)
        self._add(shards)
        world.change(
            sa.insert(tables.run_attempt).values(
                [{"run_id": r, "attempt": 1, "state": "failed", "log_lines": 0} for r in self.runs]
            ),
            sa.insert(tables.run_log).values(
                [
                    {"run_id": r, "attempt": 1, "first_seq": 1, "line_count": 1, "lines": "[]"}
                    for r in self.runs
                ]
            ),
            sa.insert(tables.run_checkpoint).values(
                [
                    {"run_id": r, "attempt": 1, "seq": 1, "data": "1", "saved_at": 1}
                    for r in self.runs
                ]
            ),
        )

    def _add(self, rows: list[dict[str, Any]]) -> None:
        for run_id, row in zip(self.world.add_runs(rows), rows, strict=True):
            self.runs[run_id] = {"fire_id": None} | row

    def purged(self, *, of: dict[str, int], older: int | None, keep: int | None) -> set[int]:
        """The whole runs that a rule names, as a person would pick them."""
        mine = [
            (row["scheduled_at"], run_id)
            for run_id, row in self.runs.items()
            if row["fire_id"] is None
            and row["state"] in ENDED
            and all(row[name] == value for name, value in of.items())
        ]
        kept = set()
        for job_id in {row["job_id"] for row in self.runs.values()} if keep else ():
            of_job = sorted(each for each in mine if self.runs[each[1]]["job_id"] == job_id)
            kept |= set(of_job[-(keep or 0) :])
        until = self.now - max(older or 0, purging.KEPT_MS)
        return {run_id for at, run_id in mine if at < until and (at, run_id) not in kept}

    def forget(self, gone: set[int]) -> None:
        self.runs = {
            run_id: row
            for run_id, row in self.runs.items()
            if run_id not in gone and row["fire_id"] not in gone
        }


@pytest.mark.every_database
async def test_exactly_what_a_rule_names_goes_with_all_that_belongs_to_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"SCANNED": 25, "COUNTED": 7, "JOBS": 2}.items():
        monkeypatch.setattr(purging, f"{name}_PER_STEP", value)
    for name in ("RUNS_PER_BATCH", "ROWS_PER_PREVIEW_STEP"):
        monkeypatch.setattr(purge, name, 9)
    monkeypatch.setattr(purge, "PREVIEW_STEPS", 1_000)
    billing, other = await world.executor(), await world.executor("other")
    jobs = {
        await world.jobs.create(ADMIN, executor_id, JOB | {"name": name}): executor_id
        for executor_id, name in ((billing, "a"), (billing, "b"), (billing, "c"), (other, "d"))
    }
    first, _, third, _ = jobs
    await world.jobs.delete(ADMIN, third)  # its runs can go all the same
    ledger = Ledger(world, jobs, world.now)
    rules: list[tuple[dict[str, int], int | None, int | None]] = [
        ({"job_id": first}, 9 * DAY, None),
        ({"job_id": first}, None, 6),
        ({"executor_id": billing}, 10 * DAY, None),
        ({"executor_id": billing}, None, 5),
        ({}, 8 * DAY, None),
        ({}, None, 3),
        ({"job_id": first}, None, 0),
        ({}, 0, None),
    ]
    for of, older, keep in rules:
        rule = of | (
            {"keep_newest": keep or 0} if older is None else {"older_than_seconds": older // SECOND}
        )
        gone = ledger.purged(of=of, older=older, keep=keep)
        assert gone, rule
        assert await world.purge.preview(ADMIN, **rule) == (len(gone), False), rule
        assert await purge_all(world, **rule) == len(gone), rule
        ledger.forget(gone)
        for table in (tables.run_attempt, tables.run_log, tables.run_checkpoint):
            left = {row.run_id for row in world.rows(sa.select(table.c.run_id))}
            assert left == set(ledger.runs), (rule, table.name)
        assert {row.id for row in world.rows(sa.select(RUN.c.id))} == set(ledger.runs), rule
    assert {row["state"] for row in ledger.runs.values()} >= set(NOT_ENDED)


async def test_each_step_but_the_last_rests_so_that_others_get_their_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, rests = 100.0, []

    def time() -> float:
        nonlocal now
        now += 0.5
        return now

    async def sleep(seconds: float) -> None:
        rests.append(seconds)

    loop = SimpleNamespace(time=time)
    stand_in = SimpleNamespace(get_running_loop=lambda: loop, sleep=sleep)
    monkeypatch.setattr(purge, "asyncio", stand_in)
    monkeypatch.setattr(purge, "RUNS_PER_BATCH", 10)
    world.add_runs({"scheduled_at": world.now - DAY + n, "state": "failed"} for n in range(25))
    assert await purge_all(world, older_than_seconds=0) == 25
    assert rests == [QUIET_REST_FACTOR * 0.5] * 2
    rests.clear()
    world.add_runs({"scheduled_at": world.now - DAY + n, "state": "failed"} for n in range(25))
    world.run(executor_id=await world.executor(), due_at=world.now, state="queued")
    assert await purge_all(world, older_than_seconds=0) == 25
    assert rests == [REST_FACTOR * 0.5] * 2


def test_a_rest_ends_before_whoever_waits_for_the_step_gives_up() -> None:
    assert rest_after(0.01, is_quiet=False) == REST_FACTOR * 0.01
    assert rest_after(30, is_quiet=False) == LONGEST_REST_SECONDS


async def test_a_fire_with_a_live_shard_stays_even_when_it_looks_ended(world: World) -> None:
    mine = {"scheduled_at": world.now - DAY}
    fire = world.run(**mine, state="failed", shard_index=-1, shard_total=2)
    shard = world.run(**mine, state="running", shard_index=0, fire_id=fire)
    world.run(**mine, state="failed", shard_index=1, fire_id=fire)
    assert (await world.purge.step(ADMIN, older_than_seconds=0)).deleted == 0
    world.change(sa.update(RUN).where(RUN.c.id == shard).values(state="succeeded"))
    assert (await world.purge.step(ADMIN, older_than_seconds=0)).deleted == 1
    assert world.rows(sa.select(RUN.c.id)) == []


async def test_a_run_keeps_its_relatives_numbers_when_they_are_gone(world: World) -> None:
    executor_id = await world.executor()
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    mine = {"executor_id": executor_id, "job_id": job_id}
    parent = world.run(**mine, scheduled_at=world.now - 9 * DAY, ended_at=world.now - 9 * DAY)
    child = world.run(**mine, scheduled_at=world.now - DAY, parent_run_id=parent, retry_of=parent)
    assert await purge_all(world, job_id=job_id, keep_newest=1) == 1
    with pytest.raises(NotFound):
        await world.runs.get(ADMIN, parent)
    detail = await world.runs.get(ADMIN, child)
    assert (detail.item.run.parent_run_id, detail.item.run.retry_of) == (parent, parent)
    again = await world.runs.retry(ADMIN, child)
    assert (await world.runs.get(ADMIN, child)).retried_by == [again]
    assert (await world.runs.get(ADMIN, again)).item.run.retry_of == child


async def test_what_is_gone_does_not_fire_again(sqlite_url: str) -> None:
    clock = Clock()
    world = World(sqlite_url, clock=clock)
    try:
        executor_id = await world.executor()
        calendar = {"name": "days", "dates": ["2020-01-01"]}
        calendar_id = await world.calendars.create(ADMIN, calendar)
        rate = {"kind": "fixed_rate", "every_seconds": 1, "misfire": "fire_all"}
        config = JOB | {
            "triggers": [rate | {"catch_up_limit": 100}, rate | {"calendar": "days"}],
        }
        job_id = await world.jobs.create(ADMIN, executor_id, config)
        planner = Admin(world.database)
        fired: list[tuple[int, int]] = []

        async def plan() -> None:
            while await planner.engine.planner.run_once():
                pass

        async def end_and_purge() -> None:
            """End what is due, and purge all of it that may go."""
            world.change(
                sa.update(RUN)
                .where(RUN.c.state == "queued", RUN.c.scheduled_at <= clock.now)
                .values(state="succeeded", ended_at=clock.now, attempt=1)
            )
            before = {row.id: row for row in world.runs_of_job(job_id)}
            await purge_all(world, keep_newest=0)
            left = {row.id for row in world.runs_of_job(job_id)}
            fired.extend(
                (row.trigger_id, row.scheduled_at) for row in before.values() if row.id not in left
            )

        async def pass_time(seconds: float) -> None:
            clock.advance(seconds)
            await plan()
            await end_and_purge()

        for _ in range(3):
            await pass_time(40)
        await world.jobs.pause(ADMIN, job_id)
        await pass_time(70)
        await world.jobs.resume(ADMIN, job_id)
        await pass_time(5)
        detail = await world.jobs.get(ADMIN, job_id)
        await world.jobs.update(
            ADMIN, job_id, config | {"priority": 2}, revision=detail.item.job.revision
        )
        await pass_time(5)
        await world.calendars.update(
            ADMIN, calendar_id, calendar | {"dates": ["2021-01-01"]}, version=1
        )
        clock.advance(1.5)
        await end_and_purge()  # what was planned ahead before the change
        await planner.engine.refresher.run_once()
        await pass_time(10)
        for _ in range(3):
            await pass_time(50)

        assert len(fired) > 400
        assert len(set(fired)) == len(fired)
        assert not set(fired) & {(r.trigger_id, r.scheduled_at) for r in world.runs_of_job(job_id)}
    finally:
        world.close()


async def test_who_purges_is_asked_and_noted_once(world: World) -> None:
    billing, other = await world.executor(), await world.executor("other")
    job_id = await world.jobs.create(ADMIN, billing, JOB)
    mine = {"executor_id": billing, "job_id": job_id}
    old = world.now - DAY
    world.add_runs([mine | {"scheduled_at": old - n} for n in range(2_500)])
    owner, operator = actor_with(Role.ADMIN, billing), actor_with(Role.OPERATOR, billing)
    rule = {"older_than_seconds": 60}
    for actor, of, refusal in (
        (operator, {"job_id": job_id}, NotAllowed),
        (operator, {"executor_id": billing}, NotAllowed),
        (owner, {"executor_id": other}, NotFound),
        (owner, {}, NotFound),
        (owner, {"job_id": 999}, NotFound),
    ):
        for call in (world.purge.step, world.purge.preview):
            with pytest.raises(refusal):
                await call(actor, **of, **rule)
    noted = len(world.audit())

    step = await world.purge.step(owner, executor_id=billing, **rule)
    while step.next is not None:
        assert step.deleted <= 1_000
        step = await world.purge.step(owner, executor_id=billing, cursor=step.next, **rule)

    assert world.runs_of_job(job_id) == []
    assert world.audit()[noted:] == [("runs.purged", billing)]


async def test_a_rule_that_is_none_deletes_nothing(world: World) -> None:
    world.run(scheduled_at=1)
    deep = base64.urlsafe_b64encode(b'{"x":' + b"[" * 1_400).decode()
    rules: list[tuple[dict[str, Any], tuple[str, str]]] = [
        ({}, ("older_than_seconds", "required")),
        ({"older_than_seconds": 1, "keep_newest": 1}, ("older_than_seconds", "required")),
        ({"older_than_seconds": -1}, ("older_than_seconds", "out_of_range")),
        ({"keep_newest": 10_001}, ("keep_newest", "out_of_range")),
        ({"keep_newest": 1, "executor_id": 1, "job_id": 1}, ("executor_id", "does_not_apply")),
        ({"keep_newest": 1, "cursor": "x"}, ("cursor", "cursor.invalid")),
        ({"keep_newest": 1, "cursor": deep}, ("cursor", "cursor.invalid")),
    ]
    for rule, problem in rules:
        with pytest.raises(InvalidInput) as caught:
            await world.purge.step(ADMIN, **rule)
        assert [(each.field, each.code) for each in caught.value.problems] == [problem]
    assert len(world.rows(sa.select(RUN.c.id))) == 1
