"""Edits whose commit succeeded although its answer never came answer truthfully when repeated."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.admin.kit.served import GOOD_PASSWORD, services_over
from tests.admin.kit.services import ADMIN, JOB, World
from tests.support.lost_answers import LosingAnswers
from tickwheel_admin.domain.users.preferences import Preferences
from tickwheel_admin.domain.users.user import Role, everywhere
from tickwheel_admin.services.executors.nodes import Nodes
from tickwheel_admin.services.executors.service import Executors
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.services.runs.service import Runs
from tickwheel_admin.services.system.service import System
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.services.xxl_job.service import XxlExecutors
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids

YEARLY = {"kind": "cron", "expression": "0 0 1 1 *"}


@pytest.fixture
def losing(world: World) -> LosingAnswers:
    return LosingAnswers(world.database)


@pytest.fixture
def jobs(world: World, losing: LosingAnswers) -> Jobs:
    return Jobs(losing, Ids(world.database), world.events)


async def test_jobs(world: World, losing: LosingAnswers, jobs: Jobs) -> None:
    executor_id = await world.executor()
    job_id = await jobs.create(ADMIN, executor_id, JOB | {"triggers": [YEARLY]})
    assert [row.id for row in world.rows(sa.select(tables.job.c.id))] == [job_id]
    assert len(world.triggers_of_job(job_id)) == 1
    assert await jobs.update(ADMIN, job_id, JOB | {"owner": "x"}, revision=1) == 2
    assert [row.revision for row in world.rows(sa.select(tables.job.c.revision))] == [2]
    run_id = await jobs.run_now(ADMIN, job_id)
    assert [row.id for row in world.runs_of_job(job_id)] == [run_id]
    await jobs.delete(ADMIN, job_id)
    assert losing.lost == 4
    assert [action for action, _ in world.audit()] == [
        "executor.created",
        "job.created",
        "job.updated",
        "run.requested",
        "job.deleted",
    ]


async def test_a_pause_that_somebody_ended_meanwhile_is_not_done_again(
    world: World, losing: LosingAnswers, jobs: Jobs
) -> None:
    job_id = await jobs.create(ADMIN, await world.executor(), JOB)
    losing.between = lambda: world.change(sa.update(tables.job).values(paused=False))
    await jobs.pause(ADMIN, job_id)
    assert not (await jobs.get(ADMIN, job_id)).item.job.paused
    assert [action for action, _ in world.audit()].count("job.paused") == 1


async def test_a_run_asked_for_just_before_its_job_was_deleted(
    world: World, losing: LosingAnswers, jobs: Jobs
) -> None:
    job_id = await jobs.create(ADMIN, await world.executor(), JOB)
    losing.between = lambda: world.change(sa.update(tables.job).values(deleted_at=1))
    run_id = await jobs.run_now(ADMIN, job_id)
    assert [row.id for row in world.runs_of_job(job_id)] == [run_id]


async def test_executors(world: World, losing: LosingAnswers) -> None:
    executors = Executors(losing, Ids(world.database), world.events)
    new = await executors.create(ADMIN, name="billing")
    assert (await executors.rotate_token(ADMIN, new.id)).name == "billing"
    losing.between = lambda: world.change(sa.update(tables.executor).values(paused_at=None))
    await executors.pause(ADMIN, new.id)
    assert (await executors.get(ADMIN, new.id)).item.paused_at is None
    await executors.delete(ADMIN, new.id)
    assert losing.lost == 4


async def test_nodes_and_everything(world: World, losing: LosingAnswers) -> None:
    ids = Ids(world.database)
    node_id = world.node(await world.executor())
    losing.between = lambda: world.change(sa.update(tables.node).values(cordoned=False))
    await Nodes(losing, ids, world.events).cordon(ADMIN, node_id)
    assert [bool(row.cordoned) for row in world.rows(sa.select(tables.node.c.cordoned))] == [False]
    losing.between = lambda: world.change(sa.delete(tables.setting))
    system = System(losing, ids, world.events)
    await system.pause_all(ADMIN)
    assert await system.paused_at() is None
    assert losing.lost == 2


async def test_people(world: World, losing: LosingAnswers) -> None:
    services = services_over(losing)
    try:
        first = await services.users.ensure_first_admin()
        assert first is not None
        one_time = (
            await services.users.create(COMMAND_LINE, "bob", grants=everywhere(Role.VIEWER))
        ).password
        token = await services.api_tokens.create_for(COMMAND_LINE, "bob", name="ci")
        assert await services.api_tokens.actor_of(token, address="") is not None
        session = await services.logins.login("bob", one_time, address="192.0.2.1", user_agent="")
        assert session.must_change_password
        view = await services.logins.session(session.cookie)
        assert view is not None
        changed = await services.logins.change_password(
            view.actor, session.cookie, old=one_time, new=GOOD_PASSWORD
        )
        assert await services.logins.session(changed.cookie) is not None
        await services.users.reset_password(COMMAND_LINE, "bob")
        losing.between = lambda: world.change(sa.update(tables.user).values(disabled=False))
        await services.users.set_disabled(COMMAND_LINE, "bob", disabled=True)
        assert not any(each.disabled for each in await services.users.list(COMMAND_LINE))
    finally:
        services.close()
    assert losing.lost == 7


async def test_what_people_may_do_and_what_acts_for_them(
    world: World, losing: LosingAnswers
) -> None:
    services = services_over(losing)
    try:
        bob = await services.users.create(COMMAND_LINE, "bob", grants=everywhere(Role.DEVELOPER))
        first = await services.logins.login("bob", bob.password, address="", user_agent="")
        second = await services.logins.login("bob", bob.password, address="", user_agent="")
        view = await services.logins.session(first.cookie)
        assert view is not None
        assert await services.own_account.end_other_sessions(view.actor, first.cookie) == 1
        assert await services.logins.session(second.cookie) is None
        await services.own_account.set_preferences(view.actor, Preferences(theme="dark"))
        token = await services.api_tokens.create(view.actor, name="ci")
        assert await services.api_tokens.actor_of(token.secret, address="") is not None
        await services.api_tokens.revoke(COMMAND_LINE, token.id)
        losing.between = lambda: world.change(sa.update(tables.grant).values(role="admin"))
        await services.users.set_grants(COMMAND_LINE, bob.id, everywhere(Role.VIEWER))
        [item] = await services.users.list(COMMAND_LINE)
        assert item.grants == everywhere(Role.ADMIN)  # the later edit of somebody else stays
        await services.users.create(COMMAND_LINE, "root", grants=everywhere(Role.ADMIN))
        assert await services.users.end_sessions(COMMAND_LINE, bob.id) == 0
        await services.users.delete(COMMAND_LINE, bob.id)
        assert [each.name for each in await services.users.list(COMMAND_LINE)] == ["root"]
    finally:
        services.close()
    assert [action for action, _ in world.audit()] == [
        "user.created",
        "user.logged_in",
        "user.logged_in",
        "user.sessions_ended",
        "user.preferences_changed",
        "token.created",
        "token.revoked",
        "user.grants_changed",
        "user.created",
        "user.deleted",
    ]


async def test_runs(world: World, losing: LosingAnswers, jobs: Jobs) -> None:
    runs = Runs(losing, Ids(world.database), world.events)
    executor_id = await world.executor()
    job_id = await jobs.create(ADMIN, executor_id, JOB | {"routing": "shards", "shards": 2})
    losing.lost = 0
    waiting = world.run(executor_id=executor_id, job_id=job_id, state="queued", attempt=0)
    await runs.cancel(ADMIN, waiting)  # and not: it has ended already
    live = world.run(executor_id=executor_id, job_id=job_id, state="running")
    await runs.cancel(ADMIN, live)
    await runs.release(ADMIN, live)
    losing.between = lambda: world.change(sa.update(tables.job).values(deleted_at=1))
    again = await runs.retry(ADMIN, waiting)  # and not: its job has been deleted
    assert losing.lost == 4
    assert [row.id for row in world.runs_of_job(job_id) if row.retry_of == waiting] == [again]
    assert [action for action, _ in world.audit()][2:] == [
        "run.cancelled",
        "run.cancelled",
        "run.released",
        "run.retried",
    ]


async def test_many_runs_at_once(world: World, losing: LosingAnswers, jobs: Jobs) -> None:
    runs = Runs(losing, Ids(world.database), world.events)
    executor_id = await world.executor()
    job_id = await jobs.create(ADMIN, executor_id, JOB)
    mine = {"executor_id": executor_id, "job_id": job_id}
    waiting = world.add_runs([mine | {"state": "queued", "attempt": 0}] * 3)
    ended = world.run(**mine)
    bulk = await runs.cancel_many(ADMIN, [*waiting, ended])
    assert (bulk.runs, bulk.skipped) == (waiting, {"run.ended": 1})

    def delete_job() -> None:
        if any(row.origin == "retry" for row in world.runs_of_job(job_id)):
            world.change(sa.update(tables.job).values(deleted_at=1))

    losing.between = delete_job  # once the retries are written; before them the audit is opened
    bulk = await runs.retry_many(ADMIN, waiting, request_key="k")  # and not: its job is deleted
    new = [row.id for row in world.runs_of_job(job_id) if row.origin == "retry"]
    assert (bulk.runs, bulk.skipped) == (new, {})
    actions = [action for action, _ in world.audit()]
    assert (actions.count("run.cancelled"), actions.count("run.retried")) == (3, 3)


async def test_an_executor_with_its_jobs(world: World, losing: LosingAnswers) -> None:
    ids = Ids(world.database)
    executor_id, node_id = await world.executor(), world.node(1)
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    executors = Executors(losing, ids, world.events)
    token = await executors.rotate_token(ADMIN, executor_id, overlap_seconds=60)
    assert token.name == "billing"
    await executors.revoke_old_token(ADMIN, executor_id)
    losing.between = lambda: world.change(sa.update(tables.node).values(weight_wanted=3))
    await Nodes(losing, ids, world.events).set_weight(ADMIN, node_id, 9)
    assert [row.weight_wanted for row in world.rows(sa.select(tables.node))] == [3]
    await executors.delete(ADMIN, executor_id, with_jobs=True)
    assert world.audit()[2:] == [
        ("executor.token_rotated", executor_id),
        ("executor.old_token_revoked", executor_id),
        ("node.weight_set", node_id),
        ("job.deleted", job_id),
        ("executor.deleted", executor_id),
    ]
    (detail,) = world.rows(
        sa.select(tables.audit.c.detail).where(tables.audit.c.action == "executor.deleted")
    )
    assert detail == ('{"name":"billing","jobs":1}',)


async def test_an_executor_that_is_called(world: World, losing: LosingAnswers) -> None:
    executors = XxlExecutors(losing, Ids(world.database), world.events, world.cipher)
    one = "http://10.0.0.1:9999"
    executor_id = await executors.create(
        ADMIN, name="orders", app_name="orders", token="secret", addresses=[one]
    )
    await executors.change(ADMIN, executor_id, token="another", registers=True)
    await executors.remove_address(ADMIN, executor_id, one)
    assert world.audit() == [
        ("executor.created", executor_id),
        ("executor.xxl_changed", executor_id),
        ("executor.xxl_address_removed", executor_id),
    ]


async def test_shards_that_are_retried(world: World, losing: LosingAnswers, jobs: Jobs) -> None:
    runs = Runs(losing, Ids(world.database), world.events)
    executor_id = await world.executor()
    job_id = await jobs.create(
        ADMIN,
        executor_id,
        JOB | {"routing": "shards", "shards": 2, "blocking": "discard_later"},
    )
    mine = {"executor_id": executor_id, "job_id": job_id, "shard_total": 2, "state": "failed"}
    fire = world.run(**mine, shard_index=-1, ended_at=1_000)
    world.run(**mine, fire_id=fire, ended_at=900)
    again = await runs.retry(ADMIN, fire, failed_shards_only=True)  # and not: the job is busy
    new = [row for row in world.runs_of_job(job_id) if row.origin == "retry"]
    assert sorted((row.shard_index, row.fire_id) for row in new) == [(-1, None), (0, again)]


async def test_a_trigger_pause_that_somebody_ended_meanwhile_is_not_done_again(
    world: World, losing: LosingAnswers, jobs: Jobs
) -> None:
    executor_id = await world.executor()
    job_id = await jobs.create(ADMIN, executor_id, JOB | {"triggers": [YEARLY]})
    (trigger,) = world.triggers_of_job(job_id)
    losing.between = lambda: world.change(sa.update(tables.trigger).values(paused=False))
    await jobs.pause_trigger(ADMIN, job_id, trigger.id)
    assert not world.triggers_of_job(job_id)[0].paused
