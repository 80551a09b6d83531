"""The past by the API, and on the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.admin.kit.served import Served, served
from tests.admin.kit.services import RUN_COLUMNS, run_row
from tickwheel_admin.cli import main
from tickwheel_admin.domain.fields import instant_to_iso
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.executors.nodes import Arrival, admit_nodes

HOUR_MS = 3_600_000
HOURLY = {"kind": "cron", "expression": "0 * * * *", "timezone": "UTC"}


async def _night(admin: Served) -> tuple[int, int]:
    """A job, and the instant of its fire that waits, beside one that failed before."""
    executor = await admin.services.executors.create(COMMAND_LINE, name="billing", description="")
    fields = {"name": "bills <b>", "handler": "h", "triggers": [HOURLY]}
    job_id = await admin.services.jobs.create(COMMAND_LINE, executor.id, fields)
    at = admin.clock.now - admin.clock.now % HOUR_MS + 2 * HOUR_MS
    arrival = Arrival(
        executor_id=executor.id, node_key="a", name="host", sdk="t", slots=2, handlers=["other"],
        unstoppable=[], labels={}, weight=1, address="",
    )  # fmt: skip
    await admin.services.store.run(admit_nodes, [arrival], new_ids=[5], session_ids=[5], admin_id=1)
    common = {"executor_id": executor.id, "job_id": job_id, "trigger_id": 1}
    rows: list[dict[str, Any]] = [
        {"scheduled_at": at, "due_at": at, "created_at": at - 9, "state": "queued", "attempt": 0,
         "tries": 0},
        {"scheduled_at": at - 999, "created_at": at - 999, "state": "failed",
         "message": "no\x1b[1m", "ended_at": at - 9},
    ]  # fmt: skip
    filled = [
        dict.fromkeys(RUN_COLUMNS) | run_row(700 + n, common | row) for n, row in enumerate(rows)
    ]
    await admin.services.store.run(insert_rows, tables.run, filled, columns=RUN_COLUMNS)
    admin.clock.now = at + HOUR_MS // 2
    return job_id, at


async def test_the_past_by_the_api(tmp_path: Path) -> None:
    async with served(tmp_path) as admin:
        job_id, at = await _night(admin)
        headers = await admin.token_for("dora", Role.VIEWER)

        async def get(path: str, **query: object) -> tuple[int, Any]:
            params = {key: str(value) for key, value in query.items()}
            answer = await admin.client.get(f"/api/v1{path}", params=params, headers=headers)
            return answer.status, await answer.json()

        status, found = await get("/as-of", at=instant_to_iso(at + 5_000), job_id=job_id)
        assert status == 200
        [run] = found["runs"]
        assert (run["run_id"], run["standing"], run["job_name"]) == (700, "queued", "bills <b>")
        assert found["counts"]["queued"] == 1
        assert [each["run_id"] for each in found["failures"]] == [701]
        assert (found["node_count"], found["slots"], found["slots_in_use"]) == (1, 2, 0)
        assert found["triggers"][0]["next_fire_at"] == instant_to_iso(at + HOUR_MS)
        assert found["revision"]["revision"] == 1
        status, refused = await get("/as-of", at=instant_to_iso(at + 9 * HOUR_MS))
        assert (status, refused["error"]["problems"][0]["field"]) == (422, "at")
        assert (await get("/as-of"))[0] == 422
        assert (await get("/as-of", at=instant_to_iso(at), job_id=999))[0] == 404
        status, found = await get(f"/jobs/{job_id}/why", at=instant_to_iso(at))
        [trigger], runs = found["triggers"], found["runs"]
        assert (status, trigger["fires"], trigger["reasons"]) == (200, [instant_to_iso(at)], [])
        assert runs[-1]["waited_for"]["code"] == "no_handler"
        assert "“h”" in runs[-1]["waited_for"]["text"]
        headers["Accept-Language"] = "zh-CN"
        found = (await get(f"/jobs/{job_id}/why", at=instant_to_iso(at)))[1]
        assert "处理器" in found["runs"][-1]["waited_for"]["text"]


async def test_the_past_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as admin:
        job_id, at = await _night(admin)
        token = (await admin.token_for("dora", Role.VIEWER))["Authorization"].split()[1]
        monkeypatch.setenv("TICKWHEEL_URL", str(admin.client.make_url("/")))
        monkeypatch.setenv("TICKWHEEL_API_TOKEN", token)

        async def said(*words: str) -> tuple[int, str]:
            code = await asyncio.to_thread(main, list(words))
            return code, capsys.readouterr().out

        code, told = await said("as-of", instant_to_iso(at + 5_000), "--job", f"{job_id}")
        assert code == 0
        assert "1 queued" in told
        assert "1 nodes were connected, with 0 of 2 slots in use." in told
        assert "billing/bills <b>" in told
        assert "\x1b" not in told
        code, told = await said("why", f"{job_id}", instant_to_iso(at))
        assert code == 1
        assert "offered the handler" in told
        code, told = await said("why", f"{job_id}", instant_to_iso(at - 60_000), "-o", "json")
        told = told[told.index("{") :]  # behind the log of the admin, in this process
        assert (code, json.loads(told)["triggers"][0]["reasons"][0]["code"]) == (0, "not_then")
