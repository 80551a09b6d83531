"""Taking jobs over from a real XXL-JOB database, and giving them back; crashes are drilled in
tests/simulation/xxl_job."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, World
from tests.support.databases import fresh_database
from tests.support.servers import DatabaseServer
from tests.support.xxl_job.installation import Installation, installation
from tickwheel_admin.domain.xxl_job.take_over import WhyNot
from tickwheel_admin.services.xxl_job.moves import take_over as module
from tickwheel_admin.services.xxl_job.moves.edits import ToArm, arm_jobs
from tickwheel_admin.services.xxl_job.moves.schedule import HeldSchedule
from tickwheel_admin.services.xxl_job.moves.situation import Moved, Moving
from tickwheel_admin.services.xxl_job.moves.take_over import ClocksDiffer, TakeOver
from tickwheel_admin.services.xxl_job.moves.their_schedule import TheirDatabase, open_their_database
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.imports.source import SourceError
from tickwheel_admin.store.xxl_job.moves import read_moves
from tickwheel_admin.store.xxl_job.their_schedule import ScheduleLockMissing

HOURLY = "0 0 * * * ?"
HOUR_MS = 3_600_000


class Move:
    """XXL-JOB's database beside ours, with one job or more in both."""

    def __init__(self, world: World, url: str, executor_id: int, version: str) -> None:
        self.world = world
        self.url = url
        self.executor_id = executor_id
        self.engine = sa.create_engine(url, poolclass=sa.NullPool)
        self.version = version
        self.jobs: list[Moving] = []

    async def job(self, *, cron: str = HOURLY, every_seconds: int = 0, **theirs: Any) -> Moving:
        """A job that runs there and is paused here."""
        if every_seconds:
            theirs |= {"every_seconds": every_seconds}
            trigger: dict[str, Any] = {"kind": "fixed_rate", "every_seconds": every_seconds}
        else:
            theirs |= {"cron": cron}
            trigger = {
                "kind": "cron",
                "expression": cron,
                "dialect": "quartz",
                "timezone": "UTC",
                "misfire": "skip",
            }
        theirs = {"trigger_next_time": self.next_hour()} | theirs
        with self.engine.begin() as connection:
            their_id = Installation(connection, self.version).add_job(**theirs)
        raw = {"name": f"job-{their_id}", "handler": "h", "triggers": [trigger]}
        job_id = await self.world.jobs.create(ADMIN, self.executor_id, raw)
        await self.world.jobs.pause(ADMIN, job_id)
        self.jobs.append(Moving(their_id=their_id, job_id=job_id, name=raw["name"]))
        return self.jobs[-1]

    def next_hour(self) -> int:
        """The next instant of HOURLY that is in no ring."""
        soon = self.world.now + 20_000
        return soon - soon % HOUR_MS + HOUR_MS

    def theirs(self, job: Moving) -> tuple[int, int]:
        """(status, next time) of XXL-JOB's row."""
        with self.engine.connect() as connection:
            row = connection.exec_driver_sql(
                "SELECT trigger_status, trigger_next_time FROM xxl_job_info WHERE id = %s",
                (job.their_id,),
            ).one()
        return row[0], row[1]

    def change_theirs(self, statement: str) -> None:
        with self.engine.begin() as connection:
            connection.exec_driver_sql(statement)

    def ours(self, job: Moving) -> tuple[bool, int | None]:
        """(paused, next fire) here."""
        (row,) = self.world.rows(sa.select(tables.job).where(tables.job.c.id == job.job_id))
        (trigger,) = self.world.triggers_of_job(job.job_id)
        return bool(row.paused), trigger.next_fire_at

    def kept(self, job: Moving) -> Any:
        table = tables.xxl_take_over
        (row,) = self.world.rows(sa.select(table).where(table.c.their_job_id == job.their_id))
        return row

    def mover(self, theirs: Any, **more: Any) -> TakeOver:
        return TakeOver(
            self.world.database,
            Ids(self.world.database),
            self.world.events,
            theirs,
            source="here",
            actor=ADMIN,
            **more,
        )

    async def take(self, **more: Any) -> Moved:
        with open_their_database(self.url) as theirs:
            return await self.mover(theirs, **more).take_over(self.jobs)

    async def give(self, **more: Any) -> Moved:
        with open_their_database(self.url) as theirs:
            return await self.mover(theirs, **more).give_back(self.jobs)


@pytest.fixture(params=["3.1"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def their_url(mariadb_server: DatabaseServer, version: str) -> Iterator[str]:
    with fresh_database(mariadb_server) as url:
        with installation(url, version):
            pass
        yield url


@pytest.fixture
async def move(world: World, their_url: str, version: str) -> Move:
    return Move(world, their_url, await world.executor(), version)


@pytest.mark.every_database
@pytest.mark.parametrize("version", ["2.4", "3.1", "3.5"], indirect=True)
async def test_a_job_goes_on_here_at_their_next_instant_and_back_at_ours(move: Move) -> None:
    job = await move.job()
    at = move.next_hour()

    assert await move.take() == Moved(moved={job.their_id: at})
    assert move.theirs(job) == (0, at)
    assert move.ours(job) == (False, at)
    assert (await move.take()).unchanged == {job.their_id: WhyNot.TAKEN_OVER}

    assert await move.give() == Moved(moved={job.their_id: at})
    assert move.theirs(job) == (1, at)
    assert move.ours(job) == (True, None)
    assert (await move.give()).unchanged == {job.their_id: WhyNot.NOT_TAKEN_OVER}

    actions = [row.action for row in move.world.rows(sa.select(tables.audit))]
    assert actions.count("job.taken_over") == actions.count("job.given_back") == 1


async def test_a_fixed_rate_keeps_its_beat(move: Move) -> None:
    at = move.world.now + 20_123
    job = await move.job(every_seconds=60, trigger_next_time=at)

    assert (await move.take()).moved == {job.their_id: at}
    assert move.ours(job) == (False, at)
    # An edit computes from the present on, and must find the same beat.
    await move.world.jobs.pause(ADMIN, job.job_id)
    await move.world.jobs.resume(ADMIN, job.job_id)
    assert move.ours(job) == (False, at)


async def test_an_instant_that_has_passed_is_not_lost(move: Move) -> None:
    job = await move.job()
    at = move.next_hour() - 2 * HOUR_MS
    move.change_theirs(f"UPDATE xxl_job_info SET trigger_next_time = {at}")

    assert (await move.take(patience_ms=0)).moved == {job.their_id: at}
    assert move.ours(job) == (False, at)  # the planner deals with it as the trigger's misfire says


async def test_what_was_due_while_a_give_back_stood_half_done_is_planned_here(move: Move) -> None:
    job = await move.job()
    await move.take()
    at = move.next_hour() - 2 * HOUR_MS
    returning = {"state": "returning", "next_at": at}
    move.world.change(
        sa.update(tables.xxl_take_over).values(returning),
        sa.update(tables.job).values(paused=True),
        sa.update(tables.trigger).values(next_fire_at=None),
    )

    moved = await move.give()
    assert moved.moved == {job.their_id: move.theirs(job)[1]}
    assert move.theirs(job)[1] > move.world.now
    (run,) = move.world.runs_of_job(job.job_id)
    assert (run.state, run.scheduled_at) == ("skipped", move.theirs(job)[1] - HOUR_MS)


async def test_a_job_without_a_next_time_begins_with_the_next_instant(move: Move) -> None:
    job = await move.job(trigger_next_time=0)

    moved = await move.take()
    now = move.world.now
    assert moved.moved[job.their_id] == now - now % HOUR_MS + HOUR_MS
    assert move.theirs(job) == (0, 0)


async def test_what_does_not_run_there_stays_paused_here(move: Move) -> None:
    job = await move.job(trigger_status=0, trigger_next_time=0)

    assert (await move.take()).unchanged == {job.their_id: WhyNot.STOPPED_THERE}
    assert move.ours(job) == (True, None)


async def test_what_was_paused_here_goes_back_stopped(move: Move) -> None:
    job = await move.job()
    await move.take()
    await move.world.jobs.pause(ADMIN, job.job_id)

    assert (await move.give()).moved == {job.their_id: None}
    assert move.theirs(job)[0] == 0


async def test_what_may_be_in_a_ring_that_was_not_written_back_is_waited_for(move: Move) -> None:
    soon = move.world.now + 3_000
    job = await move.job(every_seconds=20, trigger_next_time=soon)

    async def advance() -> None:
        """As the next pass of XXL-JOB does."""
        await asyncio.sleep(0.3)
        move.change_theirs("UPDATE xxl_job_info SET trigger_next_time = trigger_next_time + 20000")

    moved, _ = await asyncio.gather(move.take(), advance())
    assert moved.moved == {job.their_id: soon + 20_000}


@pytest.mark.parametrize(
    ("code", "change"),
    [
        (
            "other_instants",
            "UPDATE xxl_job_info SET trigger_next_time = trigger_next_time + 1800000",
        ),
        ("gone_there", "DELETE FROM xxl_job_info"),
    ],
)
async def test_their_side_can_be_a_reason_to_refuse(move: Move, code: str, change: str) -> None:
    job = await move.job()
    move.change_theirs(change)

    assert (await move.take()).refused[job.their_id].code == code
    assert move.ours(job) == (True, None)


async def _pause_executor(move: Move, job: Moving) -> None:
    await move.world.executors.pause(ADMIN, move.executor_id)


async def _resume_job(move: Move, job: Moving) -> None:
    await move.world.jobs.resume(ADMIN, job.job_id)


async def _delete_job(move: Move, job: Moving) -> None:
    await move.world.jobs.delete(ADMIN, job.job_id)


async def _remove_trigger(move: Move, job: Moving) -> None:
    raw = {"name": job.name, "handler": "h", "triggers": []}
    await move.world.jobs.update(ADMIN, job.job_id, raw, revision=1)


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("paused_here", _pause_executor),
        ("runs_here_too", _resume_job),
        ("gone_here", _delete_job),
        ("not_one_trigger", _remove_trigger),
    ],
)
async def test_our_side_can_be_a_reason_to_refuse(
    move: Move, code: str, change: Callable[..., Any]
) -> None:
    job = await move.job()
    at = move.theirs(job)
    await change(move, job)

    assert (await move.take()).refused[job.their_id].code == code
    assert move.theirs(job) == at, "XXL-JOB goes on"


async def test_what_was_started_there_again_is_told(move: Move) -> None:
    job = await move.job()
    await move.take()
    move.change_theirs("UPDATE xxl_job_info SET trigger_status = 1")

    for moved in (await move.take(), await move.give()):
        assert moved.refused[job.their_id].code == "runs_there_again"


async def test_without_the_lock_row_nothing_is_taken(move: Move) -> None:
    job = await move.job()
    move.change_theirs("DELETE FROM xxl_job_lock")

    with pytest.raises(ScheduleLockMissing, match="INSERT INTO xxl_job_lock"):
        await move.take()
    assert move.theirs(job)[0] == 1


async def test_tables_without_row_locks_are_refused(move: Move) -> None:
    with open_their_database(move.url) as theirs:
        await theirs.check()
        move.change_theirs("ALTER TABLE xxl_job_lock ENGINE=MyISAM")
        with pytest.raises(ScheduleLockMissing, match="ENGINE=InnoDB"):
            await theirs.check()


async def test_clocks_that_differ_keep_jobs_here(
    move: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await move.job()
    await move.take()
    monkeypatch.setattr(module, "MAX_CLOCK_DIFFERENCE_MS", -1)

    with pytest.raises(ClocksDiffer, match="clocks of the two databases"):
        await move.give()
    assert move.ours(job)[0] is False


class _Interrupted:
    """XXL-JOB's database; something happens before a commit or instead of it."""

    def __init__(self, inner: TheirDatabase, before: Callable[[], Any]) -> None:
        self._inner = inner
        self._before = before

    @asynccontextmanager
    async def held(self) -> AsyncIterator[HeldSchedule]:
        async with self._inner.held() as held:
            commit = held.commit

            async def interrupted() -> None:
                await self._before()
                await commit()

            held.commit = interrupted  # type: ignore[method-assign]
            yield held


async def test_an_older_step_does_not_count(move: Move) -> None:
    """Its command hung; others gave the job back and took it again meanwhile."""
    job = await move.job()

    async def gives_up() -> None:
        raise ConnectionError

    with open_their_database(move.url) as theirs, pytest.raises(ConnectionError):
        await move.mover(_Interrupted(theirs, gives_up)).take_over(move.jobs)
    kept = move.kept(job)
    assert (kept.state, move.theirs(job)[0]) == ("prepared", 1)

    moves = await move.world.database.read(read_moves, "here", [job.their_id])
    stale = moves[job.their_id]
    await move.take()
    await move.give()
    wanted = {job.their_id: ToArm(move=stale, token=10**6, audit_id=10**6)}
    outcome = await move.world.database.run(arm_jobs, "here", wanted, actor=ADMIN)
    assert outcome[job.their_id] is not None
    assert move.ours(job) == (True, None)


async def test_their_lock_is_given_back_when_our_database_is_slow(
    move: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await move.job()
    monkeypatch.setattr(module, "HOLD_SECONDS", 0.05)
    database = move.world.database
    run = database.run

    async def slow(work: Any, *args: Any, **rest: Any) -> Any:
        if getattr(work, "__name__", "") == "prepare":
            await asyncio.sleep(0.5)
        return await run(work, *args, **rest)

    monkeypatch.setattr(database, "run", slow)
    with pytest.raises(TimeoutError):
        await move.take()
    assert move.theirs(job)[0] == 1
    monkeypatch.undo()
    assert (await move.take()).moved


async def test_who_may_not_write_there_is_told_what_is_missing(
    move: Move, mariadb_server: Any
) -> None:
    await move.job()
    database = sa.make_url(move.url).database
    mariadb_server.execute("CREATE USER IF NOT EXISTS reader@'127.0.0.1' IDENTIFIED BY 'pw'")
    mariadb_server.execute(f"GRANT SELECT ON `{database}`.* TO reader@'127.0.0.1'")
    url = sa.make_url(move.url).set(username="reader", password="pw")
    move.url = url.render_as_string(hide_password=False)

    with pytest.raises(SourceError, match="UPDATE on xxl_job_info") as told:
        await move.take()
    assert "pw" not in str(told.value).replace("xxl_job", "")


async def test_jobs_move_in_batches(move: Move, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TAKEN_AT_ONCE", "RETURNED_AT_ONCE", "ARMED_AT_ONCE"):
        monkeypatch.setattr(module, name, 4)
    for _ in range(9):
        await move.job()

    assert len((await move.take()).moved) == 9
    assert {move.ours(job)[0] for job in move.jobs} == {False}
    assert len((await move.give()).moved) == 9
    assert {move.theirs(job)[0] for job in move.jobs} == {1}
