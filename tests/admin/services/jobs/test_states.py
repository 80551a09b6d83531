"""States of jobs, for people: read, set and cleared by service and API, and noted in the audit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.engine.recorder.test_handoff import given, raw
from tests.admin.kit.engine import Admin
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.served import served
from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tests.support.lost_answers import LosingAnswers
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed, NotFound
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.jobs.kept_state import JobState, JobStates
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids

SERIAL: dict[str, Any] = JOB | {"blocking": "serial"}


@pytest.fixture
def states(world: World) -> JobStates:
    return JobStates(world.database, Ids(world.database), world.events)


async def serial_job(world: World) -> int:
    executor_id = await world.executor()
    return await world.jobs.create(ADMIN, executor_id, SERIAL)


async def test_a_state_is_set_read_and_cleared(world: World, states: JobStates) -> None:
    job_id = await serial_job(world)
    empty = JobState(kept=True, state="{}", run_id=None, updated_at=None)
    assert await states.get(ADMIN, job_id) == empty
    await states.set(ADMIN, job_id, '{ "n": 10000000000000000000001, "text": "\\u0000 发票" }')
    found = await states.get(ADMIN, job_id)
    assert found.state == '{"n":10000000000000000000001,"text":"\\u0000 发票"}'
    assert found.run_id is None
    assert found.updated_at is not None
    assert abs(found.updated_at - world.now) < 60_000
    await states.clear(ADMIN, job_id)
    await states.clear(ADMIN, job_id)
    assert await states.get(ADMIN, job_id) == empty
    details = [
        json.loads(row.detail)
        for row in world.rows(sa.select(tables.audit).order_by(tables.audit.c.id))
        if row.action == "job.state_set"
    ]
    assert details == [{"name": "invoices", "cleared": cleared} for cleared in (False, True, True)]


async def test_what_a_person_wrote_is_not_written_over_by_a_run_that_began_before(
    world: World, states: JobStates
) -> None:
    job_id = await serial_job(world)
    admin = Admin(world.database)
    executor_id = (await world.jobs.get(ADMIN, job_id)).item.job.executor_id
    node = await admin.add_node(executor_id, handlers="send-invoices")
    for change, then in ((states.clear, {}), (lambda *who: states.set(*who, '{"n": 7}'), {"n": 7})):
        await world.jobs.run_now(ADMIN, job_id)
        [request] = await admin.dispatch_all(node)
        await admin.say(node, accepted(request))
        await change(ADMIN, job_id)
        await admin.say(node, result(request, state=raw({"n": 1})))
        assert json.loads((await states.get(ADMIN, job_id)).state) == then
    await world.jobs.run_now(ADMIN, job_id)
    [request] = await admin.dispatch_all(node)
    assert given(request) == ({"n": 7}, None)
    await admin.say(node, result(request, state=raw({"n": 8})))
    found = await states.get(ADMIN, job_id)
    assert (found.state, found.run_id) == ('{"n":8}', request.run)


async def test_a_state_that_was_written_meanwhile_is_not_replaced_unseen(
    world: World, states: JobStates
) -> None:
    job_id = await serial_job(world)
    await states.set(ADMIN, job_id, '{"n": 1}')
    seen_at = (await states.get(ADMIN, job_id)).updated_at
    await states.set(ADMIN, job_id, '{"n": 2}', seen_at=seen_at)
    with pytest.raises(Conflict, match="written anew") as caught:
        await states.set(ADMIN, job_id, '{"n": 3}', seen_at=seen_at)
    assert caught.value.code == "job.state_changed"
    assert (await states.get(ADMIN, job_id)).state == '{"n":2}'


@pytest.mark.parametrize("state", ["[]", "", "{", '{"a": NaN}', '{"a": "' + "x" * 65_536 + '"}'])
async def test_only_objects_of_bounded_size_are_kept(
    world: World, states: JobStates, state: str
) -> None:
    job_id = await serial_job(world)
    with pytest.raises(InvalidInput) as caught:
        await states.set(ADMIN, job_id, state)
    assert [problem.field for problem in caught.value.problems] == ["state"]


async def test_a_job_whose_runs_go_side_by_side_keeps_none(world: World, states: JobStates) -> None:
    executor_id = await world.executor()
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    assert not (await states.get(ADMIN, job_id)).kept
    with pytest.raises(Conflict, match="one after another") as caught:
        await states.set(ADMIN, job_id, "{}")
    assert caught.value.code == "job.keeps_no_state"


async def test_who_may(world: World, states: JobStates) -> None:
    job_id = await serial_job(world)
    executor_id = (await world.jobs.get(ADMIN, job_id)).item.job.executor_id
    operator = actor_with(Role.OPERATOR, executor_id)
    assert (await states.get(actor_with(Role.VIEWER, executor_id), job_id)).kept
    with pytest.raises(NotAllowed):
        await states.set(operator, job_id, "{}")
    with pytest.raises(NotAllowed):
        await states.clear(operator, job_id)
    stranger = actor_with(Role.ADMIN, executor_id + 1)
    for nobody, unknown in ((stranger, job_id), (ADMIN, job_id + 1)):
        with pytest.raises(NotFound):
            await states.get(nobody, unknown)
        with pytest.raises(NotFound):
            await states.clear(nobody, unknown)


async def test_a_deleted_job_leaves_no_state(world: World, states: JobStates) -> None:
    job_id = await serial_job(world)
    await states.set(ADMIN, job_id, '{"n": 1}')
    await world.jobs.delete(ADMIN, job_id)
    assert world.rows(sa.select(tables.job_state)) == []
    with pytest.raises(NotFound):
        await states.get(ADMIN, job_id)


async def test_jobs_that_go_with_their_executor_leave_no_state(
    world: World, states: JobStates
) -> None:
    job_id = await serial_job(world)
    await states.set(ADMIN, job_id, '{"n": 1}')
    executor_id = (await world.jobs.get(ADMIN, job_id)).item.job.executor_id
    await world.executors.delete(ADMIN, executor_id, with_jobs=True)
    assert world.rows(sa.select(tables.job_state)) == []


async def test_lost_answers_do_no_harm(world: World) -> None:
    losing = LosingAnswers(world.database)
    states = JobStates(losing, Ids(world.database), world.events)
    job_id = await serial_job(world)
    await states.set(ADMIN, job_id, '{"n": 1}')
    seen_at = (await states.get(ADMIN, job_id)).updated_at
    await states.set(ADMIN, job_id, '{"n": 2}', seen_at=seen_at)  # and not "written meanwhile"
    assert losing.lost == 2
    assert (await states.get(ADMIN, job_id)).state == '{"n":2}'


async def test_the_api(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        headers = await web.token_for("dev", Role.DEVELOPER)
        created = await web.services.executors.create(ADMIN, name="billing", description="")
        job_id = await web.services.jobs.create(ADMIN, created.id, SERIAL)
        url = f"/api/v1/jobs/{job_id}/state"

        async def call(method: str, **body: Any) -> tuple[int, Any]:
            json_body = {"json": body} if body else {}
            async with web.client.request(method, url, headers=headers, **json_body) as answer:
                return answer.status, None if answer.status == 204 else await answer.json()

        nothing = {"kept": True, "state": {}, "run_id": None, "updated_at": None}
        assert await call("GET") == (200, nothing)
        assert await call("PUT", state={"n": 1}) == (204, None)
        status, found = await call("GET")
        assert (status, found["state"], found["run_id"]) == (200, {"n": 1}, None)
        seen_at = found["updated_at"]
        assert await call("PUT", state={"n": 2}, updated_at=seen_at) == (204, None)
        status, refused = await call("PUT", state={"n": 3}, updated_at=seen_at)
        assert (status, refused["error"]["code"]) == (409, "job.state_changed")
        for body in (
            {"state": [1]},
            {"sate": {}},
            {"state": None},
            {"state": {}, "updated_at": "x"},
        ):
            status, refused = await call("PUT", **body)
            assert (status, refused["error"]["code"]) == (422, "invalid_input")
        assert (await call("DELETE"))[0] == 204
        assert await call("GET") == (200, nothing)
