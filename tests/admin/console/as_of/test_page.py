"""The page of the past: what stood, what changed, and ways to other instants."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.admin.kit.served import Served, served
from tests.admin.kit.services import RUN_COLUMNS, run_row
from tickwheel_admin.domain.users.user import Grant, Role
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.executors.nodes import Arrival, admit_nodes

HOUR_MS = 3_600_000
DAILY = {"kind": "cron", "expression": "0 5 * * *", "timezone": "UTC"}


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Served]:
    """An hour ago a run was there, and one had failed; a job was paused before, and resumed."""
    async with served(tmp_path) as admin:
        jobs = admin.services.jobs
        executor = await admin.services.executors.create(
            COMMAND_LINE, name="billing", description=""
        )
        fields = {"name": "bills <b>", "handler": "h", "triggers": [DAILY]}
        job_id = await jobs.create(COMMAND_LINE, executor.id, fields)
        arrival = Arrival(
            executor_id=executor.id, node_key="a", name="host <i>", sdk="t", slots=2,
            handlers=["h"], unstoppable=[], labels={}, weight=1, address="",
        )  # fmt: skip
        await admin.services.store.run(
            admit_nodes, [arrival], new_ids=[5], session_ids=[5], admin_id=1
        )
        admin.clock.advance(7_200)
        await jobs.pause(COMMAND_LINE, job_id)
        admin.clock.advance(60)
        at = admin.clock.now
        whole: dict[str, Any] = {
            "executor_id": executor.id, "job_id": job_id, "claim_token": "t", "node_id": 5,
            "scheduled_at": at - 9_000, "due_at": at - 9_000, "created_at": at - 9_000,
            "dispatched_at": at - 8_000, "started_at": at - 8_000,
        }  # fmt: skip
        rows = [
            dict.fromkeys(RUN_COLUMNS) | run_row(700, whole | {"ended_at": at + 99_000}),
            dict.fromkeys(RUN_COLUMNS)
            | run_row(
                701, whole | {"ended_at": at - 5_000, "state": "failed", "message": "<u>\nno"}
            ),
        ]
        await admin.services.store.run(insert_rows, tables.run, rows, columns=RUN_COLUMNS)
        admin.clock.advance(60)
        await jobs.resume(COMMAND_LINE, job_id)
        admin.clock.now = at + HOUR_MS
        yield admin


async def text_of(admin: Served, address: str, status: int = 200) -> str:
    async with admin.client.get(address) as answer:
        assert answer.status == status
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", await answer.text()))


async def test_what_was_the_case_an_hour_ago(admin: Served) -> None:
    await admin.log_in("vera", Role.VIEWER)
    page = await text_of(admin, "/as-of")
    assert "this is the past" in page
    assert "#700 bills &lt;b&gt; Running" in page
    assert "host &lt;i&gt; Succeeded" in page
    assert "1 of 2 slots taken" in page
    assert "#701 bills &lt;b&gt; Failed" in page
    assert "&lt;u&gt;" in page
    assert "Job paused bills &lt;b&gt;" in page
    assert "Job resumed" not in page
    assert "Everything was paused" not in page
    of_job = await text_of(admin, "/as-of?job=1")
    assert "Its triggers then" in of_job
    assert "revision 1" in of_job
    later = await text_of(admin, f"/as-of?at={admin.clock.now}&executor=1")
    assert "Job resumed" in later
    assert "No run was there." in later


async def test_ways_to_other_instants(admin: Served) -> None:
    await admin.log_in("vera", Role.VIEWER)
    now = admin.clock.now
    async with admin.client.get(f"/as-of?executor=1&at={now - 2 * HOUR_MS}") as answer:
        page = await answer.text()
    links = {int(at) for at in re.findall(r"[?&;]at=(\d+)", page)}
    assert {now - HOUR_MS, now - 6 * HOUR_MS, now - 3 * HOUR_MS} <= links
    assert all(now - 7 * 24 * HOUR_MS <= at <= now for at in links)
    assert 'type="range"' in page
    assert "executor=1" in page
    local = await text_of(admin, "/as-of?time=2027-01-15T09:30")
    assert "As it was at" in local
    refused = await text_of(admin, "/as-of?time=2001-01-01T00:00")
    assert "At most 7 days back" in refused
    assert "must not be after now" in await text_of(admin, f"/as-of?at={now + HOUR_MS}")


async def test_pages_lead_to_it_and_strangers_see_nothing(admin: Served) -> None:
    await admin.log_in("vera", Role.VIEWER)
    for address, link in (
        ("/", "/as-of"),
        ("/executors/1", "/as-of?executor=1"),
        ("/jobs/1", "/as-of?job=1"),
        ("/runs/701", "/as-of?job=1&amp;at="),
    ):
        async with admin.client.get(address) as answer:
            assert f'href="{link}' in await answer.text()
    other = await admin.services.executors.create(COMMAND_LINE, name="other", description="")
    headers = await admin.token_for("eve", {other.id: Grant(Role.VIEWER)})
    answer = await admin.client.get("/api/v1/as-of", params={"at": "2027-01-15T10:01:00Z"},
                                    headers=headers)  # fmt: skip
    assert (await answer.json())["runs"] == []
