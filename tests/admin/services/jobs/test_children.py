"""Child jobs: links that lead nowhere, close a circle or make too long a chain are refused."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.jobs.child_graph import circle_through, longest_chain_through
from tickwheel_admin.domain.jobs.children import MAX_DEPTH
from tickwheel_admin.domain.users.user import Role

pytestmark = pytest.mark.every_database(nightly=True)


def job(name: str, *children: int, **changes: Any) -> dict[str, Any]:
    return JOB | {"name": name, "children": [{"job": each} for each in children]} | changes


def one_problem(caught: pytest.ExceptionInfo[InvalidInput]) -> Problem:
    (problem,) = caught.value.problems
    return problem


async def test_children_are_kept_with_the_job(world: World, executor_id: int) -> None:
    child = await world.jobs.create(ADMIN, executor_id, job("b"))
    parent = await world.jobs.create(ADMIN, executor_id, job("a", child))
    config = (await world.jobs.get(ADMIN, parent)).item.job.config
    assert [link.job_id for link in config.children] == [child]
    assert (await world.jobs.get(ADMIN, parent)).child_names == {child: "b"}
    other = await world.jobs.create(ADMIN, await world.executor("other"), job("c", child))
    stranger = actor_with(Role.VIEWER, (await world.jobs.get(ADMIN, other)).item.job.executor_id)
    assert (await world.jobs.get(stranger, other)).child_names == {}


async def test_a_child_that_is_not_there_is_refused(world: World, executor_id: int) -> None:
    gone = await world.jobs.create(ADMIN, executor_id, job("b"))
    await world.jobs.delete(ADMIN, gone)
    with pytest.raises(InvalidInput) as caught:
        await world.jobs.create(ADMIN, executor_id, job("a", gone, 999))
    assert [(p.field, p.code) for p in caught.value.problems] == [
        ("children[0].job", "child.unknown"),
        ("children[1].job", "child.unknown"),
    ]


async def test_a_child_must_be_a_job_that_one_may_run(world: World, executor_id: int) -> None:
    other_id = await world.executor("other")
    other = await world.jobs.create(ADMIN, other_id, job("b"))
    developer = actor_with(Role.DEVELOPER, executor_id)
    with pytest.raises(InvalidInput) as caught:
        await world.jobs.create(developer, executor_id, job("a", other))
    assert one_problem(caught).code == "child.unknown"
    watching = type(developer)(
        user_id=2, name="bob", grants={executor_id: Role.DEVELOPER, other_id: Role.VIEWER}
    )
    with pytest.raises(InvalidInput) as caught:
        await world.jobs.create(watching, executor_id, job("a", other))
    assert one_problem(caught).code == "child.not_allowed"
    running = type(developer)(
        user_id=2, name="bob", grants={executor_id: Role.DEVELOPER, other_id: Role.OPERATOR}
    )
    parent = await world.jobs.create(running, executor_id, job("a", other))
    # Links that somebody else made do not stand in the way of other edits.
    changed = job("a", other, owner="x")
    assert await world.jobs.update(developer, parent, changed, revision=1) == 2


@pytest.mark.every_database
async def test_circles_are_refused_with_the_way_they_take(world: World, executor_id: int) -> None:
    third = await world.jobs.create(ADMIN, executor_id, job("c"))
    second = await world.jobs.create(ADMIN, executor_id, job("b", third))
    first = await world.jobs.create(ADMIN, executor_id, job("a", second))
    with pytest.raises(InvalidInput) as caught:
        await world.jobs.update(ADMIN, third, job("c", first), revision=1)
    problem = one_problem(caught)
    assert (problem.field, problem.code) == ("children[0].job", "child.circle")
    assert "c → a → b → c" in problem.message
    with pytest.raises(InvalidInput) as caught:
        await world.jobs.update(ADMIN, third, job("c", third), revision=1)
    assert "c → c" in one_problem(caught).message
    await world.jobs.update(ADMIN, second, job("b"), revision=1)
    await world.jobs.update(ADMIN, third, job("c", first), revision=1)


async def test_names_of_jobs_one_may_not_see_are_not_told(world: World, executor_id: int) -> None:
    other_id = await world.executor("other")
    mine = await world.jobs.create(ADMIN, executor_id, job("mine"))
    hidden = await world.jobs.create(ADMIN, other_id, job("hidden", mine))
    middle = await world.jobs.create(ADMIN, executor_id, job("middle", hidden))
    developer = actor_with(Role.DEVELOPER, executor_id)
    with pytest.raises(InvalidInput) as caught:
        await world.jobs.update(developer, mine, job("mine", middle), revision=1)
    assert f"mine → middle → #{hidden} → mine" in one_problem(caught).message


@pytest.mark.every_database
async def test_two_edits_at_once_close_no_circle(world: World, executor_id: int) -> None:
    jobs = [await world.jobs.create(ADMIN, executor_id, job(name)) for name in "abcd"]
    results = await asyncio.gather(
        *(
            world.jobs.update(ADMIN, mine, job("abcd"[place], jobs[(place + 1) % 4]), revision=1)
            for place, mine in enumerate(jobs)
        ),
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == [
        "InvalidInput",
        "int",
        "int",
        "int",
    ]


@pytest.mark.parametrize("from_the_top", [True, False])
async def test_chains_are_bounded_from_either_end(
    world: World, executor_id: int, from_the_top: bool
) -> None:
    jobs = [await world.jobs.create(ADMIN, executor_id, job(f"j{n}")) for n in range(MAX_DEPTH + 1)]
    links = list(enumerate(itertools.pairwise(jobs)))
    for place, (parent, child) in links[:-1] if from_the_top else links[:0:-1]:
        await world.jobs.update(ADMIN, parent, job(f"j{place}", child), revision=1)
    place, (parent, child) = links[-1] if from_the_top else links[0]
    with pytest.raises(InvalidInput) as caught:
        await world.jobs.update(ADMIN, parent, job(f"j{place}", child), revision=1)
    problem = one_problem(caught)
    assert (problem.field, problem.code) == ("children", "child.chain_too_long")
    assert "j0 → j1 → j2" in problem.message


def test_graphs() -> None:
    graph = {1: [2, 3], 2: [4], 3: [4], 4: [5]}
    assert circle_through(graph, 1) is None
    assert circle_through(graph | {5: [1]}, 4) == [4, 5, 1, 2, 4]
    assert circle_through(graph | {5: [2]}, 1) is None  # a circle that 1 leads into, not through
    assert len(longest_chain_through(graph, 4, limit=9)) == 4
    assert longest_chain_through({1: [2], 2: [3], 4: [3]}, 2, limit=9) == [1, 2, 3]
    assert longest_chain_through({1: [2, 3], 2: [3]}, 1, limit=9) == [1, 2, 3]
    assert len(longest_chain_through({1: [1]}, 1, limit=5)) == 9
