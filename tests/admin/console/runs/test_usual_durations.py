"""What the page of a run calls usual."""

from __future__ import annotations

from typing import Any

from tests.admin.kit.services import ADMIN, JOB, World


def ended(at: int, ms: int, state: str = "succeeded", **more: Any) -> dict[str, Any]:
    return {"scheduled_at": at, "started_at": at, "ended_at": at + ms, "state": state, **more}


async def test_usual_is_the_median_of_the_successes_before(world: World) -> None:
    executor_id = await world.executor()
    job = {"executor_id": executor_id, "job_id": await world.jobs.create(ADMIN, executor_id, JOB)}
    before = [
        ended(1_000, 10),
        ended(2_000, 20),
        ended(3_000, 9_000, "failed"),
        ended(4_000, 40),
        ended(5_000, 30),
        ended(5_500, 9_000, fire_id=7, shard_total=2),
    ]
    asked = {"scheduled_at": 6_000, "started_at": 6_000, "state": "running"}
    later = [ended(7_000 + n, 9_000) for n in range(5)]
    ids = world.add_runs(job | each for each in (*before, asked, *later))

    async def usual(index: int) -> int | None:
        return (await world.runs.get(ADMIN, ids[index])).usual_ms

    assert await usual(6) == 25
    assert await usual(3) is None  # two say nothing yet
    assert await usual(4) == 20  # its own length does not count
    assert await usual(5) is None  # a shard is no whole run
