"""XXL-JOB's own job API: what its requests do here."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.kit.services import ADMIN, World
from tickwheel_admin.domain.errors import NotFound
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.domain.xxl_job.bridge import XxlExecutor
from tickwheel_admin.services.jobs.lists import JobDetail
from tickwheel_admin.services.system.settings import Settings
from tickwheel_admin.services.xxl_job.job_requests import XxlJobRequests, actor_of
from tickwheel_admin.store.database.ids import Ids

# As a client of 3.5 sends it.
ADDED = {
    "jobGroup": 10, "name": "by api", "author": "a", "scheduleType": "CRON",
    "scheduleConf": "0 0 0 * * ?", "misfireStrategy": "DO_NOTHING",
    "executorRouteStrategy": "FIRST", "executorHandler": "demoJobHandler", "executorParam": "",
    "executorBlockStrategy": "SERIAL_EXECUTION", "executorTimeout": 0,
    "executorFailRetryCount": 0, "glueType": "BEAN", "glueRemark": "remark",
}  # fmt: skip


class Script:
    """A program with the access token of one executor."""

    def __init__(self, world: World, executor_id: int) -> None:
        self.world = world
        self.executor_id = executor_id
        self._requests = XxlJobRequests(world.jobs, Settings(world.database, Ids(world.database)))
        executor = XxlExecutor(
            id=executor_id, name="orders", app_name="orders", token="t", token_hash="h",
            addresses=None,
        )  # fmt: skip
        self.actor: Actor = actor_of([executor], address="10.0.0.9")

    async def ask(self, name: str, /, **body: Any) -> str:
        return await self._requests.by_name[name](self.actor, [self.executor_id], body)

    async def job(self, job_id: str) -> JobDetail:
        return await self.world.jobs.get(ADMIN, int(job_id))


async def script(world: World, name: str = "orders") -> Script:
    executor_id = await world.xxl_executors.create(
        ADMIN, name=name, app_name=f"{name}-app", token="an access token".replace(" ", "-")
    )
    return Script(world, executor_id)


async def test_a_job_is_added_stopped_started_and_run(world: World) -> None:
    orders = await script(world)
    job_id = await orders.ask("addJob", **ADDED)
    made = await orders.job(job_id)
    assert made.item.job.paused
    assert made.item.job.config.handler == "demoJobHandler"
    assert [each.spec.timezone for each in made.item.triggers] == ["UTC"]
    assert made.item.next_fire_at is None

    await orders.ask("startJob", id=int(job_id))
    assert (await orders.job(job_id)).item.next_fire_at is not None
    await orders.ask("triggerJob", id=job_id, executorParam="now")  # numbers may come as texts
    (run,) = (await orders.job(job_id)).item.recent
    assert (await world.runs.get(ADMIN, run.id)).item.run.origin == "api"
    await orders.ask("stopJob", id=int(job_id))
    assert (await orders.job(job_id)).item.job.paused
    await orders.ask("removeJob", id=int(job_id))
    with pytest.raises(NotFound):
        await orders.job(job_id)


async def test_an_update_keeps_the_zone_that_a_person_chose(world: World) -> None:
    orders = await script(world)
    job_id = await orders.ask("addJob", **ADDED)
    made = (await orders.job(job_id)).item.job
    raw = {
        "name": "by api", "handler": "demoJobHandler",
        "triggers": [{"kind": "cron", "dialect": "quartz", "expression": "0 0 0 * * ?",
                      "timezone": "Asia/Shanghai"}],
    }  # fmt: skip
    await world.jobs.update(ADMIN, made.id, raw, revision=made.revision)
    await orders.ask("updateJob", **{**ADDED, "id": made.id, "scheduleConf": "0 30 9 * * ?"})
    (trigger,) = (await orders.job(job_id)).item.triggers
    assert trigger.spec.timezone == "Asia/Shanghai"


async def test_jobs_of_other_executors_are_not_there(world: World) -> None:
    orders, other = await script(world), await script(world, "other")
    job_id = await other.ask("addJob", **ADDED)
    for name in ("updateJob", "removeJob", "startJob", "stopJob", "triggerJob"):
        with pytest.raises(NotFound):
            await orders.ask(name, **{**ADDED, "id": int(job_id)})


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("addJob", {**ADDED, "glueType": "GLUE_SHELL"}, "scripts are not added this way"),
        ("addJob", {**ADDED, "scheduleConf": "every day"}, "cron"),
        ("triggerJob", {"id": "x"}, "id must be"),
        ("triggerJob", {}, "id must be"),
        ("stopJob", {"id": True}, "id must be"),
    ],
)
async def test_what_cannot_be_is_refused_in_words(
    world: World, name: str, body: dict[str, Any], said: str
) -> None:
    orders = await script(world)
    with pytest.raises(ValueError, match="(?i)" + said):
        await orders.ask(name, **body)


async def test_one_token_of_several_executors_needs_the_group(world: World) -> None:
    orders, other = await script(world), await script(world, "other")
    requests = XxlJobRequests(world.jobs, Settings(world.database, Ids(world.database)))
    both = [orders.executor_id, other.executor_id]
    with pytest.raises(ValueError, match="jobGroup"):
        await requests.add(ADMIN, both, ADDED)
    job_id = await requests.add(ADMIN, both, {**ADDED, "jobGroup": other.executor_id})
    assert (await orders.job(job_id)).item.job.executor_id == other.executor_id
