"""Which jobs start a job: kept until a link is added, and right all the same."""

from __future__ import annotations

import pytest

from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.domain.jobs.children import ChildOn
from tickwheel_admin.domain.users.user import Actor, Role
from tickwheel_admin.services.jobs import parents as module
from tickwheel_admin.services.jobs.parents import JobParents


async def job(world: World, executor_id: int, name: str, *children: dict[str, object]) -> int:
    return await world.jobs.create(
        ADMIN, executor_id, JOB | {"name": name, "children": list(children)}
    )


async def names(parents: JobParents, job_id: int, actor: Actor = ADMIN) -> list[str]:
    return [parent.name for parent in await parents.of(actor, job_id)]


async def test_parents_are_told_with_what_they_wait_for(world: World) -> None:
    executor_id, parents = await world.executor(), JobParents(world.database)
    child = await job(world, executor_id, "child")
    assert await parents.of(ADMIN, child) == []

    await job(world, executor_id, "load", {"job": child, "on": "always"})
    other = await world.executor("crm")
    await job(world, other, "import", {"job": child, "on": "failure"})

    found = await parents.of(ADMIN, child)
    assert [(parent.name, parent.on) for parent in found] == [
        ("import", ChildOn.FAILURE),
        ("load", ChildOn.ALWAYS),
    ]
    assert await names(parents, child, actor_with(Role.VIEWER, executor_id)) == ["load"]


async def test_links_that_come_go_or_move_are_seen_at_once(world: World) -> None:
    executor_id, parents = await world.executor(), JobParents(world.database)
    child = await job(world, executor_id, "child")
    first = await job(world, executor_id, "first", {"job": child})
    second = await job(world, executor_id, "second", {"job": child})
    assert await names(parents, child) == ["first", "second"]

    await world.jobs.update(ADMIN, first, JOB | {"name": "first"}, revision=1)
    assert await names(parents, child) == ["second"]
    await world.jobs.delete(ADMIN, second)
    assert await names(parents, child) == []
    await world.jobs.update(
        ADMIN, first, JOB | {"name": "renamed", "children": [{"job": child}]}, revision=2
    )
    assert await names(parents, child) == ["renamed"]


async def test_all_jobs_are_read_only_when_a_link_was_added(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor_id, parents = await world.executor(), JobParents(world.database)
    child = await job(world, executor_id, "child")
    parent = await job(world, executor_id, "parent", {"job": child})
    assert await names(parents, child) == ["parent"]

    def never(_conn: object) -> dict[int, tuple[int, ...]]:
        raise AssertionError("every job was read")

    monkeypatch.setattr(module, "child_graph", never)
    await world.jobs.update(ADMIN, child, JOB | {"name": "child", "priority": 1}, revision=1)
    await world.jobs.update(ADMIN, parent, JOB | {"name": "parent"}, revision=1)
    assert await names(parents, child) == []
    await job(world, executor_id, "new", {"job": child})
    with pytest.raises(AssertionError, match="every job"):
        await names(parents, child)
