"""The history of a job: who changed what, and the way back to an earlier revision."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.served import Served, served
from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed, NotFound
from tickwheel_admin.domain.input.job import parse_job
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.jobs.history import JobHistory
from tickwheel_admin.services.jobs.yaml import from_yaml
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids

EVERY_MINUTE = {"kind": "cron", "expression": "* * * * *"}


@pytest.fixture
def history(world: World) -> JobHistory:
    return JobHistory(world.database, Ids(world.database), world.events)


async def revise(world: World, job_id: int, *changes: dict[str, Any]) -> None:
    """One revision after the other."""
    for number, change in enumerate(changes, 1):
        await world.jobs.update(ADMIN, job_id, JOB | change, revision=number)


async def test_each_revision_tells_who_changed_what(world: World, history: JobHistory) -> None:
    executor_id = await world.executor()
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    await revise(world, job_id, {"priority": 2}, {"priority": 2, "triggers": [EVERY_MINUTE]})
    viewer = actor_with(Role.VIEWER, executor_id)

    page = await history.page(viewer, job_id)

    assert [(item.revision, item.by) for item in page.items] == [(3, "ada"), (2, "ada"), (1, "ada")]
    newest, middle, first = page.items
    assert [change.field for change in newest.changes] == ["triggers"]
    assert newest.changes[0].before == []
    assert newest.changes[0].after[0]["expression"] == "* * * * *"
    assert [(c.field, c.before, c.after) for c in middle.changes] == [("priority", 5, 2)]
    assert first.changes == []
    assert page.next is None


async def test_pages_of_a_history_leave_nothing_out(world: World, history: JobHistory) -> None:
    job_id = await world.jobs.create(ADMIN, await world.executor(), JOB)
    await revise(world, job_id, *({"priority": n % 9 + 1} for n in range(5, 11)))

    seen, cursor = [], None
    while True:
        page = await history.page(ADMIN, job_id, cursor=cursor, limit=2)
        seen += page.items
        if (cursor := page.next) is None:
            break

    assert [item.revision for item in seen] == [7, 6, 5, 4, 3, 2, 1]
    assert all(len(item.changes) == 1 for item in seen[:-1])
    with pytest.raises(InvalidInput):
        await history.page(ADMIN, job_id, cursor="WyJhIl0")


async def test_any_two_revisions_can_be_compared(world: World, history: JobHistory) -> None:
    job_id = await world.jobs.create(ADMIN, await world.executor(), JOB)
    await revise(world, job_id, {"priority": 2}, {"priority": 3, "owner": "li"})

    compared = await history.compare(ADMIN, job_id, 1, 3)

    assert [(c.field, c.before, c.after) for c in compared.changes] == [
        ("owner", "", "li"),
        ("priority", 5, 3),
    ]
    assert (await history.compare(ADMIN, job_id, 2, 2)).changes == []
    with pytest.raises(NotFound) as missing:
        await history.compare(ADMIN, job_id, 1, 4)
    assert missing.value.code == "job.revision_unknown"


async def test_rolling_back_is_an_edit_of_its_own(world: World, history: JobHistory) -> None:
    job_id = await world.jobs.create(ADMIN, await world.executor(), JOB)
    await revise(world, job_id, {"triggers": [EVERY_MINUTE]}, {"owner": "li"})

    assert await history.roll_back(ADMIN, job_id, 2, expected_revision=3) == 4

    detail = await world.jobs.get(ADMIN, job_id)
    assert detail.item.job.config == parse_job(JOB | {"triggers": [EVERY_MINUTE]})
    assert [trigger.spec.expression for trigger in detail.item.triggers] == ["* * * * *"]
    noted = await world.database.read(_last_audit)
    assert noted == ("job.rolled_back", job_id, {"revision": 4, "to": 2})
    page = await history.page(ADMIN, job_id)
    assert [change.field for change in page.items[0].changes] == ["owner", "triggers"]


async def test_rolling_back_needs_the_role_and_the_current_revision(
    world: World, history: JobHistory
) -> None:
    executor_id = await world.executor()
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    await revise(world, job_id, {"owner": "li"})

    with pytest.raises(NotAllowed):
        await history.roll_back(
            actor_with(Role.OPERATOR, executor_id), job_id, 1, expected_revision=2
        )
    with pytest.raises(NotFound):
        await history.roll_back(
            actor_with(Role.ADMIN, executor_id + 1), job_id, 1, expected_revision=2
        )
    with pytest.raises(Conflict) as stale:
        await history.roll_back(ADMIN, job_id, 1, expected_revision=1)
    assert stale.value.code == "job.changed"
    with pytest.raises(Conflict) as same:
        await history.roll_back(ADMIN, job_id, 2, expected_revision=2)
    assert same.value.code == "job.already_so"
    assert (await world.jobs.get(ADMIN, job_id)).item.job.revision == 2


async def test_what_is_gone_cannot_come_back(world: World, history: JobHistory) -> None:
    executor_id = await world.executor()
    calendar = {"name": "bank", "dates": ["2026-10-01"]}
    calendar_id = await world.calendars.create(ADMIN, calendar)
    child = await world.jobs.create(ADMIN, executor_id, JOB | {"name": "child"})
    job_id = await world.jobs.create(
        ADMIN,
        executor_id,
        JOB | {"triggers": [EVERY_MINUTE | {"calendar": "bank"}], "children": [{"job": child}]},
    )
    await revise(world, job_id, {"triggers": [EVERY_MINUTE | {"calendar": "bank"}]}, {})
    await world.jobs.delete(ADMIN, child)
    await world.calendars.delete(ADMIN, calendar_id)

    with pytest.raises(InvalidInput) as gone:
        await history.roll_back(ADMIN, job_id, 1, expected_revision=3)
    assert [(p.field, p.code) for p in gone.value.problems] == [
        ("children[0].job", "child.unknown"),
        ("triggers[0].calendar", "calendar.unknown"),
    ]
    with pytest.raises(InvalidInput) as no_calendar:
        await history.roll_back(ADMIN, job_id, 2, expected_revision=3)
    assert [p.code for p in no_calendar.value.problems] == ["calendar.unknown"]

    await world.jobs.delete(ADMIN, job_id)
    with pytest.raises(NotFound):
        await history.page(ADMIN, job_id)


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as application:
        yield application


async def test_programs_read_the_history_and_roll_back(web: Served) -> None:
    made = await web.services.executors.create(ADMIN, name="billing", description="")
    job_id = await web.services.jobs.create(ADMIN, made.id, JOB)
    await web.services.jobs.update(ADMIN, job_id, JOB | {"priority": 1}, revision=1)
    headers = await web.token_for("dora", Role.DEVELOPER)
    address = f"/api/v1/jobs/{job_id}"

    async def got(path: str) -> Any:
        async with web.client.get(path, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    listed = await got(f"{address}/revisions?limit=1")
    assert listed["items"][0] == {
        "revision": 2,
        "at": "2027-01-15T08:00:00Z",
        "by": "ada",
        "changes": [{"field": "priority", "before": 5, "after": 1}],
    }
    assert (await got(f"{address}/revisions?cursor={listed['next']}"))["items"][0]["revision"] == 1
    assert (await got(f"{address}/revisions/1"))["config"]["priority"] == 5

    async with web.client.post(
        f"{address}/roll-back", headers=headers, json={"to": 1, "revision": 2}
    ) as answer:
        assert (answer.status, await answer.json()) == (200, {"id": job_id, "revision": 3})
    async with web.client.post(f"{address}/roll-back", headers=headers, json={"to": 1}) as answer:
        assert answer.status == 422
    async with web.client.get(f"{address}?format=yaml", headers=headers) as answer:
        assert answer.content_type == "application/yaml"
        assert parse_job(from_yaml(await answer.read())) == parse_job(JOB)


def _last_audit(conn: sa.Connection) -> tuple[str, int, dict[str, Any]]:
    row = conn.execute(
        sa.select(tables.audit).order_by(tables.audit.c.at.desc(), tables.audit.c.id.desc())
    ).first()
    assert row is not None
    detail = json.loads(row.detail)
    return row.action, row.object_id, {name: detail[name] for name in ("revision", "to")}
