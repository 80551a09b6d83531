"""The map of jobs: what starts what, within what the reader may see, and bounded."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.console.jobs.map import graph_of_map
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.jobs import maps
from tickwheel_admin.services.jobs.maps import JobMap, JobMaps


def told(found: JobMap) -> tuple[list[str], list[tuple[str, str, str]]]:
    """Names, those that were not asked for in brackets; links with when they are followed."""
    names = [job.name if job.is_asked_for else f"({job.name})" for job in found.jobs]
    return names, sorted(
        (found.jobs[each.source].name, each.on or "step", found.jobs[each.target].name)
        for each in found.links
    )


@pytest.mark.every_database(nightly=True)
async def test_jobs_are_shown_with_what_they_start(
    world: World, executor_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_id = await world.executor("warehouse")

    async def job(name: str, at: int = executor_id, **changes: Any) -> int:
        return await world.jobs.create(ADMIN, at, JOB | {"name": name} | changes)

    await job("alone")
    load = await job("load", other_id, tags=["night"])
    tell = await job("tell")
    clean = await job("clean", children=[{"job": tell, "on": "failure"}], tags=["night"])
    steps = [{"key": "a", "job": load}, {"key": "b", "handler": "x", "needs": ["a"]}]
    flow = {"name": "close", "workflow": {"steps": steps}, "children": [{"job": clean}]}
    close = await world.jobs.create(ADMIN, executor_id, flow)
    job_maps = JobMaps(world.database)

    whole = await job_maps.get(ADMIN)
    links = [("clean", "failure", "tell"), ("close", "step", "load"), ("close", "success", "clean")]
    assert told(whole) == (["clean", "close", "load", "tell"], links)
    assert [job.is_workflow for job in whole.jobs] == [False, True, False, False]
    graph = graph_of_map(whole)
    assert graph.nodes[0].node.href == f"/jobs/{clean}"
    assert len(graph.links) == 3

    there = await job_maps.get(ADMIN, executor_id=other_id)
    assert told(there) == (["load", "(close)"], [links[1]])
    tagged = await job_maps.get(ADMIN, tag="night")
    assert told(tagged) == (["clean", "load", "(close)", "(tell)"], links)
    assert (await job_maps.get(ADMIN, tag="nigh")).jobs == []

    stranger = actor_with(Role.VIEWER, executor_id)
    assert told(await job_maps.get(stranger)) == (["clean", "close", "tell"], [links[0], links[2]])
    assert (await job_maps.get(stranger, executor_id=other_id)).jobs == []

    # What was taken away since is not there, although nobody has read the links of all jobs again.
    await world.jobs.update(ADMIN, clean, JOB | {"name": "clean", "tags": ["night"]}, revision=1)
    assert told(await job_maps.get(ADMIN))[1] == links[1:]
    await world.jobs.delete(ADMIN, close)
    assert (await job_maps.get(ADMIN)).jobs == []

    await world.jobs.create(ADMIN, executor_id, flow)
    monkeypatch.setattr(maps, "MAX_JOBS", 2)
    cut = await job_maps.get(ADMIN)
    assert (0 < len(cut.jobs) <= 2, cut.is_cut, whole.is_cut) == (True, True, False)
