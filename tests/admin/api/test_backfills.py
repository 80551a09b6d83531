"""Backfills by the API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.admin.api.test_alarms import Program
from tests.admin.kit.served import Served, served
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.users.administration import COMMAND_LINE

MARCH = {"from": "2026-03-01T00:00:00Z", "to": "2026-04-01T00:00:00Z"}
DAILY = {"kind": "cron", "expression": "0 3 * * *"}
JOB = {"name": "report", "handler": "h", "triggers": [DAILY]}


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as admin:
        yield admin


@pytest.fixture
async def program(admin: Served) -> Program:
    return Program(admin, await admin.token_for("root", Role.ADMIN))


async def add_job(admin: Served, **changes: Any) -> int:
    executor = await admin.services.executors.create(COMMAND_LINE, name="billing", description="")
    return await admin.services.jobs.create(COMMAND_LINE, executor.id, JOB | changes)


async def test_a_backfill_from_its_preview_to_its_end(admin: Served, program: Program) -> None:
    path = f"/jobs/{await add_job(admin)}/backfills"

    status, preview = await program.call("POST", f"{path}/preview", MARCH)
    assert status == 200
    assert (preview["total"], preview["existing"], preview["new"]) == (31, 0, 31)
    assert preview["first_at"] == "2026-03-01T03:00:00Z"
    assert preview["last_at"] == "2026-03-31T03:00:00Z"

    status, started = await program.call("POST", path, MARCH | {"parallel": 4})
    assert status == 201
    one = f"/backfills/{started['id']}"
    for action, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
        assert (await program.call("POST", f"{one}/{action}", {}))[0] == 204
        assert (await program.call("GET", one))[1]["state"] == state
    status, refused = await program.call("POST", f"{one}/resume", {})
    assert (status, refused["error"]["code"]) == (409, "backfill.ended")
    status, listed = await program.call("GET", "/backfills?limit=1")
    assert [each["id"] for each in listed["items"]] == [started["id"]]
    assert listed["items"][0]["total"] == 31
    status, instants = await program.call("GET", f"{one}/instants?outcome=open")
    assert (status, instants["items"]) == (200, [])


@pytest.mark.parametrize(
    ("job", "asked", "field", "code"),
    [
        ({}, {"to": "2026-02-01T00:00:00Z"}, "to", "backfill.empty_range"),
        ({}, {"to": "2999-01-01T00:00:00Z"}, "to", "backfill.not_past"),
        ({}, {"to": "2026-03-01T02:00:00Z"}, "from", "backfill.no_instant"),
        ({}, {"parallel": 101}, "parallel", "out_of_range"),
        ({}, {"parameters": [1]}, "parameters", "json.not_an_object"),
        ({}, {"trigger_id": 7}, "trigger_id", "backfill.unknown_trigger"),
        (
            {"triggers": [{"kind": "fixed_rate", "every_seconds": 60}]},
            {},
            "from",
            "backfill.no_instant",
        ),
        ({"triggers": []}, {}, "trigger_id", "backfill.no_trigger"),
        (
            {"triggers": [DAILY, DAILY | {"expression": "0 4 * * *"}]},
            {},
            "trigger_id",
            "backfill.which_trigger",
        ),
        (
            {"triggers": [{"kind": "fixed_delay", "every_seconds": 60}]},
            {},
            "trigger_id",
            "backfill.no_trigger",
        ),
        (
            {"triggers": [DAILY | {"expression": "* * * * *"}]},
            {"from": "2020-03-01T00:00:00Z"},
            "from",
            "backfill.too_many",
        ),
    ],
)
async def test_what_cannot_be_filled_is_refused_with_a_way_out(
    admin: Served,
    program: Program,
    job: dict[str, Any],
    asked: dict[str, Any],
    field: str,
    code: str,
) -> None:
    path = f"/jobs/{await add_job(admin, **job)}/backfills"
    status, refused = await program.call("POST", path, MARCH | asked)
    assert status == 422
    assert [(p["field"], p["code"]) for p in refused["error"]["problems"]] == [(field, code)]


async def test_a_start_that_is_repeated_is_one_backfill(admin: Served) -> None:
    headers = await admin.token_for("root", Role.ADMIN) | {"Idempotency-Key": "march"}
    program = Program(admin, headers)
    path = f"/jobs/{await add_job(admin)}/backfills"
    first, second = [await program.call("POST", path, MARCH) for _ in range(2)]
    assert first == second


async def test_coverage_tells_holes_and_refuses_what_it_cannot_compute(
    admin: Served, program: Program
) -> None:
    path = f"/jobs/{await add_job(admin)}/coverage"
    march = "from=2026-03-01T00:00:00Z&until=2026-04-01T00:00:00Z"
    status, found = await program.call("GET", f"{path}?{march}")
    assert status == 200
    assert (found["is_whole"], found["holes"], found["next"]) == (False, 31, None)
    assert found["counts"] == dict.fromkeys(found["counts"], 0) | {"no_run": 31}
    assert found["segments"] == [
        {
            "start_at": "2026-02-28T03:00:00Z",
            "first_at": "2026-03-01T03:00:00Z",
            "last_at": "2026-03-31T03:00:00Z",
            "state": "no_run",
            "reason": None,
            "intervals": 31,
            "run_ids": [],
        }
    ]
    status, found = await program.call("GET", path)
    assert (status, found["is_whole"], found["segments"]) == (200, True, []), "it is new"
    for query, field in (
        ("from=2026-04-01T00:00:00Z&until=2026-03-01T00:00:00Z", "until"),
        ("trigger_id=7", "trigger_id"),
    ):
        status, refused = await program.call("GET", f"{path}?{query}")
        assert (status, [p["field"] for p in refused["error"]["problems"]]) == (422, [field])
    assert (await program.call("GET", "/jobs/999/coverage"))[0] == 404
