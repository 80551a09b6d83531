"""What a workflow in the middle does when a job or an executor is deleted or paused under it."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin, FakeSession, admin_with_node, new_executor_id
from tests.admin.kit.rows import add_job, ask, get_run
from tests.admin.kit.services import ADMIN
from tests.admin.kit.workflows import HIDDEN, Player, add_workflow, step, told
from tickwheel_admin.domain.runs.run import Run, RunState
from tickwheel_admin.domain.workflows.graph import HandlerStep, JobStep
from tickwheel_admin.services.executors.service import Executors
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.services.system.service import System
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_shared.protocol import Cancel

pytestmark = pytest.mark.every_database


async def settle(admin: Admin) -> None:
    """All that sweeps do, be it that one has just been."""
    admin.engine.sweeper._repaired_at = 0.0
    while await admin.engine.sweeper.run_once():
        pass


async def ended(admin: Admin, run_id: int) -> Run:
    run = await get_run(admin.database, run_id)
    assert run.ended_at is not None
    open_steps = sa.select(tables.run.c.id).where(
        tables.run.c.parent_run_id == run_id, tables.run.c.ended_at.is_(None)
    )
    assert await admin.database.read(lambda conn: conn.execute(open_steps).all()) == []
    return run


async def hidden_on(database: Database, executor_id: int) -> list[int]:
    job = tables.job.c
    left = sa.select(job.id).where(job.executor_id == executor_id, job.deleted_at == HIDDEN)
    return list(await database.read(lambda conn: conn.execute(left).scalars().all()))


@pytest.mark.parametrize("is_queued", [False, True])
async def test_the_step_of_a_deleted_job_fails(database: Database, is_queued: bool) -> None:
    """Whether its run waits for a node, or is to begin later."""
    admin, node = await admin_with_node(database)
    handler = "nobody offers it" if is_queued else "hello"
    used = await add_job(database, executor_id=node.executor_id, handler=handler)
    needs = () if is_queued else ("first",)
    job_id = await add_workflow(
        database,
        step("first"),
        step("used", *needs, body=JobStep(job_id=used)),
        step("last", "used"),
        executor_id=node.executor_id,
    )
    run_id = await ask(database, job_id)
    player = Player(admin, node)
    assert await player.claim() == ["first"]

    await Jobs(database, Ids(database), admin.events).delete(ADMIN, used)
    await player.end("first")
    await settle(admin)
    assert (await ended(admin, run_id)).state is RunState.FAILED
    reason = "cancelled" if is_queued else "job_deleted"
    assert await told(database, run_id) == (
        f"first succeeded, used failed {reason}, last skipped needs"
    )


async def test_a_deleted_workflow_ends_what_it_has_begun(database: Database) -> None:
    """As live runs of any job go on; its hidden jobs are gone for edits."""
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(database, step("a"), step("b", "a"), executor_id=node.executor_id)
    run_id = await ask(database, job_id)
    player = Player(admin, node)
    assert await player.claim() == ["a"]

    await Jobs(database, Ids(database), admin.events).delete(ADMIN, job_id)
    assert await hidden_on(database, node.executor_id) == []
    await player.end("a")
    assert await player.play() == [["b"]]
    assert (await ended(admin, run_id)).state is RunState.SUCCEEDED


class Two:
    """A workflow with steps on its own executor and on another one, in the middle of its run."""

    def __init__(self, admin: Admin, own: FakeSession, other: FakeSession) -> None:
        self.admin = admin
        self.own, self.other = Player(admin, own), Player(admin, other)
        self.executors = Executors(admin.database, Ids(admin.database), admin.events)
        self.run_id = 0

    async def begin(self) -> None:
        database, there = self.admin.database, self.other.session.executor_id
        used = await add_job(database, executor_id=there)
        body = HandlerStep(handler="hello", executor_id=there)
        job_id = await add_workflow(
            database,
            step("own"),
            step("there", body=body),
            step("waits", body=HandlerStep(handler="nobody offers it", executor_id=there)),
            step("job", "own", body=JobStep(job_id=used)),
            step("again", "own", body=body),
            step("last", "job:ended", "again:ended"),
            executor_id=self.own.session.executor_id,
        )
        self.run_id = await ask(database, job_id)
        assert await self.own.claim() == ["own"]
        assert await self.other.claim() == ["there"]

    async def delete(self, player: Player) -> None:
        await self.executors.delete(ADMIN, player.session.executor_id, with_jobs=True)
        await settle(self.admin)


@pytest.fixture
async def two(database: Database) -> Two:
    admin, own = await admin_with_node(database)
    two = Two(admin, own, await admin.add_node(new_executor_id()))
    await two.begin()
    return two


async def test_steps_on_a_deleted_executor_fail(two: Two) -> None:
    await two.delete(two.other)
    assert await hidden_on(two.admin.database, two.other.session.executor_id) == []
    await two.own.end("own")
    await settle(two.admin)
    assert await two.own.play() == [["last"]], "it is there in any case"
    # What ran there was asked to stop, and its node says how it ended.
    assert [cancel.run for cancel in two.other.session.take(Cancel)]
    await two.other.end("there:cancelled")
    run = await ended(two.admin, two.run_id)
    assert run.state is RunState.FAILED
    assert await told(two.admin.database, two.run_id) == (
        "own succeeded, there failed cancelled, waits failed cancelled, job failed job_deleted,"
        " again failed cancelled, last succeeded"
    )


async def test_the_workflows_of_a_deleted_executor_end_with_their_steps_elsewhere(
    two: Two,
) -> None:
    await two.delete(two.own)
    assert await hidden_on(two.admin.database, two.other.session.executor_id) == []
    for player, name in ((two.own, "own"), (two.other, "there")):
        assert [cancel.run for cancel in player.session.take(Cancel)]
        await player.end(f"{name}:cancelled")
    await settle(two.admin)
    run = await ended(two.admin, two.run_id)
    assert (run.state, run.cancelled_by) == (RunState.CANCELLED, "ada")


@pytest.mark.parametrize("paused", ["everything", "executors", "jobs"])
async def test_a_pause_holds_back_no_step_of_a_workflow_that_runs(two: Two, paused: str) -> None:
    """Pauses hold triggers; a workflow that has begun goes on, as all that is due."""
    database = two.admin.database
    system = System(database, Ids(database), two.admin.events)
    if paused == "everything":
        await system.pause_all(ADMIN)
    elif paused == "executors":
        for player in (two.own, two.other):
            await two.executors.pause(ADMIN, player.session.executor_id)
    else:
        jobs = Jobs(database, Ids(database), two.admin.events)
        alive = sa.select(tables.job.c.id).where(
            tables.job.c.executor_id.in_(
                [two.own.session.executor_id, two.other.session.executor_id]
            ),
            tables.job.c.deleted_at == 0,
        )
        for job_id in await database.read(lambda conn: conn.execute(alive).scalars().all()):
            await jobs.pause(ADMIN, job_id)
    try:
        await two.own.end("own")
        await two.other.end("there")
        await settle(two.admin)
        assert await two.other.claim() == ["again", "job"]
        await two.other.end("again", "job")
        assert await two.own.play() == [["last"]]
        steps = sa.select(tables.run.c.request_key, tables.run.c.state).where(
            tables.run.c.parent_run_id == two.run_id
        )
        rows = await database.read(lambda conn: conn.execute(steps).all())
        told_of = sorted((row.request_key.split(":")[2], row.state) for row in rows)
        assert told_of == [
            *((key, "succeeded") for key in ("again", "job", "last", "own", "there")),
            ("waits", "queued"),
        ]
    finally:
        await system.resume_all(ADMIN)  # others share the database
