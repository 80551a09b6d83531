"""What-if by the API and on the command line, over a real socket."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from tests.admin.kit.served import served
from tests.support.polling import wait_until_async
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.web import client

JOB = {"name": "bills", "handler": "h", "triggers": [{"kind": "cron", "expression": "0 * * * *"}]}


async def test_an_answer_tells_both_sides_and_a_reader_who_leaves_ends_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "LOOK_SECONDS", 0.01)
    async with served(tmp_path) as admin:
        executor = await admin.services.executors.create(
            COMMAND_LINE, name="billing", description=""
        )
        job_id = await admin.services.jobs.create(COMMAND_LINE, executor.id, JOB)
        headers = await admin.token_for("vic", Role.VIEWER)
        body = {"changes": [{"kind": "job_pause", "job_id": job_id, "paused": True}], "hours": 3}
        async with admin.client.post("/api/v1/what-if", json=body, headers=headers) as answer:
            assert answer.status == 200
            told = await answer.json()
        assert (told["before"]["fires"], told["after"]["fires"], told["fires_gone"]) == (2, 0, 2)
        assert [hour["fires"] for hour in told["after"]["hours"]] == [0, 0, 0]
        [job] = told["jobs"]
        assert (job["job_name"], len(job["first_gone"]), job["after"]) == ("bills", 2, None)
        assert told["basis"]["assumed_jobs"] == 1

        new = {"kind": "new_job", "executor_id": executor.id, "config": {**JOB, "name": "new"}}
        asked = {"changes": [new], "hours": 3}
        async with admin.client.post("/api/v1/what-if", json=asked, headers=headers) as answer:
            assert answer.status == 403
        developer = await admin.token_for("dev", Role.DEVELOPER)
        async with admin.client.post("/api/v1/what-if", json=asked, headers=developer) as answer:
            told = await answer.json()
        [job] = told["jobs"]
        assert (job["job_id"], job["job_name"], job["fires_new"]) == (None, "new", 2)

        wrong = {"changes": [{"kind": "job_pause", "job_id": job_id}]}
        async with admin.client.post("/api/v1/what-if", json=wrong, headers=headers) as answer:
            assert answer.status == 422

        ended = asyncio.Event()

        async def endless(*_: object, **__: object) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        monkeypatch.setattr(type(admin.services.forecasts), "what_if", endless)
        with pytest.raises(asyncio.TimeoutError):
            await admin.client.post(
                "/api/v1/what-if",
                json=body,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=0.3),
            )
        await wait_until_async(ended.is_set)
