"""Trends by the API and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.admin.kit.served import served
from tickwheel_admin.domain.runs.time_histogram import TimeHistogram
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.runs.stats import HOUR_MS, RunStat, write_stats


async def test_trends_of_an_executor(tmp_path: Path) -> None:
    async with served(tmp_path) as admin:
        executor = await admin.services.executors.create(
            COMMAND_LINE, name="billing", description=""
        )
        now = await admin.services.store.read(now_ms)
        hour = now - now % HOUR_MS - 24 * HOUR_MS
        stat = RunStat(
            hour_at=hour,
            executor_id=executor.id,
            succeeded=3,
            failed=1,
            delays=TimeHistogram.of([7] * 4),
            durations=TimeHistogram.of([3] * 3),
        )
        await admin.services.store.run(write_stats, hour, [stat], counted_at=now)
        headers = await admin.token_for("root", Role.ADMIN)

        async def get(**query: str) -> tuple[int, Any]:
            answer = await admin.client.get("/api/v1/trends", params=query, headers=headers)
            return answer.status, await answer.json()

        status, found = await get(step="hour", executor_id=str(executor.id))
        assert status == 200
        whole = found["whole"]
        assert (whole["succeeded"], whole["failed"], whole["failure_rate"]) == (3, 1, 0.25)
        assert (whole["duration_p50_ms"], whole["start_delay_p95_ms"]) == (3, 7)
        assert sum(hour["runs"] for day in found["week"] for hour in day) == 4
        assert [each["succeeded"] for each in found["buckets"]].count(3) == 1
        status, refused = await get(timezone="Mars")
        assert (status, refused["error"]["problems"][0]["field"]) == (422, "timezone")
        assert (await get(job_id="7"))[0] == 404
        assert (await get(tag="night"))[1]["whole"]["succeeded"] == 0
        assert (await get(tag="a,b"))[0] == 422

        await admin.log_in("dora", Role.VIEWER)
        for query, told in (
            ("", "In numbers"),
            (f"?step=day&executor={executor.id}", "25%"),
            ("?tag=night", "Nothing ran in this time"),
            ("?tag=%00", 'role="alert"'),
            ("?step=never&count=7&executor=99", "Runs by outcome"),
        ):
            page = await (await admin.client.get(f"/trends{query}")).text()
            assert told in page
        assert (await admin.client.get("/trends?job=7")).status == 404


async def test_a_job_of_another_executor_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as admin:
        executors = admin.services.executors
        of_job = await executors.create(COMMAND_LINE, name="billing", description="")
        other = await executors.create(COMMAND_LINE, name="reports", description="")
        raw = {"name": "nightly", "handler": "send"}
        job_id = await admin.services.jobs.create(COMMAND_LINE, of_job.id, raw)
        headers = await admin.token_for("root", Role.ADMIN)

        async def get(executor_id: int) -> tuple[int, Any]:
            query = {"job_id": str(job_id), "executor_id": str(executor_id)}
            answer = await admin.client.get("/api/v1/trends", params=query, headers=headers)
            return answer.status, await answer.json()

        assert (await get(of_job.id))[0] == 200
        status, refused = await get(other.id)
        (problem,) = refused["error"]["problems"]
        assert (status, problem["field"]) == (422, "executor_id")
