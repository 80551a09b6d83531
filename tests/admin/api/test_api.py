"""The API over real HTTP: what it takes, what it answers, and what it refuses by name."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from aiohttp import ClientResponse

from tests.admin.kit.clock import NOW
from tests.admin.kit.served import Served, served
from tickwheel_admin.domain import fields
from tickwheel_admin.domain.fields import instant_to_iso
from tickwheel_admin.domain.planning.missed_fires import message_of
from tickwheel_admin.domain.planning.plan import Missed
from tickwheel_admin.domain.runs.run import PARKED_AT
from tickwheel_admin.domain.triggers.spec import MisfirePolicy
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.executors.admins import enter_admin
from tickwheel_admin.store.executors.nodes import Arrival, admit_nodes
from tickwheel_admin.web.routes import declared_routes
from tickwheel_executor import Client

DOCS = Path(__file__).parents[3] / "docs" / "api.md"

JOB = {
    "name": "nightly",
    "handler": "report",
    "parameters": {"big": 123456789012345678901234567890, "text": "报告"},
    "triggers": [{"kind": "cron", "expression": "0 3 * * *", "timezone": "Europe/Berlin"}],
}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with served(tmp_path) as admin:
        yield Api(admin, await admin.token_for("root", Role.ADMIN))


class Api:
    """A program with an administrator's token."""

    def __init__(self, admin: Served, headers: dict[str, str]) -> None:
        self.admin = admin
        self.headers = headers

    async def call(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, Any]:
        """Status and decoded body."""
        response = await self.request(method, path, body, **headers)
        text = await response.text()
        return response.status, json.loads(text) if text else None

    async def request(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> ClientResponse:
        return await self.admin.client.request(
            method,
            f"/api/v1{path}",
            json=body,
            headers=self.headers | {name.replace("_", "-"): v for name, v in headers.items()},
        )

    async def executor(self, name: str = "billing") -> int:
        status, new = await self.call("POST", "/executors", {"name": name})
        assert status == 201, new
        return int(new["id"])

    async def job(self, **fields: object) -> int:
        executor_id = await self.executor()
        status, new = await self.call("POST", "/jobs", {"executor_id": executor_id} | JOB | fields)
        assert status == 201, new
        return int(new["id"])


def codes(answer: Any) -> list[tuple[str, str]]:
    return [(each["field"], each["code"]) for each in answer["error"]["problems"]]


# --- executors -------------------------------------------------------------------------------


async def test_an_executor_from_birth_to_death(api: Api) -> None:
    status, new = await api.call(
        "POST", "/executors", {"name": "billing", "description": "Invoices"}
    )
    assert status == 201
    assert new["token"].startswith("twx_")

    status, listed = await api.call("GET", "/executors")
    assert [(each["name"], each["live_nodes"], each["jobs"]) for each in listed["items"]] == [
        ("billing", 0, 0)
    ]
    status, detail = await api.call("GET", f"/executors/{new['id']}")
    assert (detail["description"], detail["nodes"], detail["handlers"]) == ("Invoices", [], [])
    assert detail["created_at"] == instant_to_iso(NOW)
    assert new["token"] not in json.dumps([listed, detail])

    status, rotated = await api.call("POST", f"/executors/{new['id']}/token")
    assert rotated["token"] != new["token"]
    assert (await api.call("DELETE", f"/executors/{new['id']}")) == (204, None)
    assert (await api.call("GET", f"/executors/{new['id']}"))[0] == 404


async def test_executors_with_a_taken_name_or_with_jobs_conflict(api: Api) -> None:
    await api.job()

    status, taken = await api.call("POST", "/executors", {"name": "billing"})
    assert (status, taken["error"]["code"]) == (409, "executor.name_taken")
    status, busy = await api.call("DELETE", "/executors/1")
    assert (status, busy["error"]["code"]) == (409, "executor.has_jobs")


# --- jobs ------------------------------------------------------------------------------------


async def test_a_job_goes_round_through_get_and_put_unchanged(api: Api) -> None:
    job_id = await api.job()

    _, first = await api.call("GET", f"/jobs/{job_id}")
    edit = {"id": job_id, "revision": 1} | first["config"] | {"description": "Changed"}
    status, updated = await api.call("PUT", f"/jobs/{job_id}", edit)
    _, second = await api.call("GET", f"/jobs/{job_id}")

    assert (status, updated) == (200, {"id": job_id, "revision": 2})
    assert first["config"] | {"description": "Changed"} == second["config"]
    assert first["config"]["parameters"] == JOB["parameters"]
    assert first["next_fire_at"] == second["next_fire_at"] == first["next_fires"][0]


async def test_an_edit_of_an_older_revision_conflicts(api: Api) -> None:
    job_id = await api.job()
    edit = {"revision": 1, "owner": "ops"} | JOB
    assert (await api.call("PUT", f"/jobs/{job_id}", edit))[0] == 200

    edit["owner"] = "dev"
    status, answer = await api.call("PUT", f"/jobs/{job_id}", edit)

    assert (status, answer["error"]["code"]) == (409, "job.changed")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"id": 99}, ("id", "id.differs")),
        ({"role": "admin"}, ("role", "unknown_field")),
        ({"is_admin": True}, ("is_admin", "unknown_field")),
        ({"executor_id": 2}, ("executor_id", "unknown_field")),
        ({"revision": None}, ("revision", "required")),
        ({"revision": True}, ("revision", "wrong_type")),
        ({"revision": -1}, ("revision", "out_of_range")),
        ({"revision": [1]}, ("revision", "wrong_type")),
        ({"revision": 10**30}, ("revision", "out_of_range")),
        ({"priority": 10}, ("priority", "out_of_range")),
        ({"name": "a\r\nb"}, ("name", "control_characters")),
        ({"name": "x" * 10_000}, ("name", "too_long")),
        ({"parameters": [1]}, ("parameters", "json.not_an_object")),
        ({"parameters": "{}"}, ("parameters", "json.not_an_object")),
    ],
)
async def test_what_an_edit_may_not_say_is_refused_by_field(
    api: Api, change: dict[str, object], problem: tuple[str, str]
) -> None:
    job_id = await api.job()

    status, answer = await api.call("PUT", f"/jobs/{job_id}", {"revision": 1} | JOB | change)

    assert status == 422
    assert codes(answer) == [problem]
    assert (await api.call("GET", f"/jobs/{job_id}"))[1]["revision"] == 1


async def test_an_edit_with_an_executor_is_told_that_the_job_stays_with_its_own(api: Api) -> None:
    job_id = await api.job()
    body = {"executor_id": 1, **JOB, "priority": 10}
    _, answer = await api.call("PUT", f"/jobs/{job_id}", body)
    assert codes(answer) == [
        ("executor_id", "unknown_field"),
        ("revision", "required"),
        ("priority", "out_of_range"),
    ]
    assert "stays with its executor" in answer["error"]["problems"][0]["message"]


async def test_every_problem_of_a_job_is_told_at_once(api: Api) -> None:
    executor_id = await api.executor()
    status, answer = await api.call(
        "POST",
        "/jobs",
        {
            "executor_id": executor_id,
            "handlr": "x",
            "name": "",
            "triggers": [{"kind": "cron", "expression": "61 * * * *"}, {"kind": "weekly"}],
        },
    )

    assert status == 422
    assert {field for field, _code in codes(answer)} >= {
        "handlr",
        "name",
        "handler",
        "triggers[0].expression",
        "triggers[1].kind",
    }


async def test_what_only_the_database_knows_is_told_with_the_rest(api: Api) -> None:
    job_id = await api.job()
    wrong = {"name": "nightly", "handler": "x", "retries": -1, "children": [{"job": 999}]}
    wrong["triggers"] = [JOB["triggers"][0] | {"calendar": "none"}]
    told = {
        ("name", "job.name_taken"),
        ("retries", "out_of_range"),
        ("children[0].job", "child.unknown"),
        ("triggers[0].calendar", "calendar.unknown"),
    }
    status, answer = await api.call("POST", "/jobs", {"executor_id": 1} | wrong)
    assert (status, set(codes(answer))) == (422, told)
    status, answer = await api.call("POST", "/jobs", wrong)
    assert {("executor_id", "required"), ("retries", "out_of_range")} == set(codes(answer))
    status, answer = await api.call("PUT", f"/jobs/{job_id}", wrong | {"name": "other"})
    told = told - {("name", "job.name_taken")} | {("revision", "required")}
    assert set(codes(answer)) == told


async def test_jobs_pause_resume_and_disappear(api: Api) -> None:
    job_id = await api.job()

    assert (await api.call("POST", f"/jobs/{job_id}/pause"))[0] == 204
    _, paused = await api.call("GET", f"/jobs/{job_id}")
    assert (paused["paused"], paused["next_fire_at"]) == (True, None)
    assert (await api.call("POST", f"/jobs/{job_id}/resume"))[0] == 204
    assert (await api.call("GET", f"/jobs/{job_id}"))[1]["next_fire_at"] is not None
    assert (await api.call("DELETE", f"/jobs/{job_id}"))[0] == 204
    for method, path in (
        ("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/run")
    ):  # fmt: skip
        assert (await api.call(method, f"/jobs/{job_id}{path}"))[0] == 404


async def test_lists_come_in_pages_that_meet_everything_once(api: Api) -> None:
    executor_id = await api.executor()
    for n in range(7):
        await api.call(
            "POST", "/jobs", {"executor_id": executor_id, "name": f"job-{n}", "handler": "h"}
        )

    names: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        _, page = await api.call("GET", f"/jobs?limit=3{f'&cursor={cursor}' if cursor else ''}")
        names += [item["config"]["name"] for item in page["items"]]
        cursor = page["next"]

    assert names == [f"job-{n}" for n in range(7)]
    assert len((await api.call("GET", "/jobs?text=JOB-3"))[1]["items"]) == 1


# --- runs ------------------------------------------------------------------------------------


async def test_a_run_asked_for_twice_with_one_key_is_one_run(api: Api) -> None:
    job_id = await api.job()
    wish = {"parameters": {"month": "2026-10"}}

    first = await api.request("POST", f"/jobs/{job_id}/run", wish, Idempotency_Key="abc")
    again = await api.request("POST", f"/jobs/{job_id}/run", wish, Idempotency_Key="abc")
    other = await api.request("POST", f"/jobs/{job_id}/run", wish, Idempotency_Key="abd")

    assert first.status == again.status == 202
    run_id = (await first.json())["run_id"]
    assert (await again.json())["run_id"] == run_id
    assert (await other.json())["run_id"] != run_id
    assert first.headers["Location"] == f"/api/v1/runs/{run_id}"
    _, run = await api.call("GET", f"/runs/{run_id}")
    assert (run["state"], run["origin"], run["requested_by"]) == ("queued", "api", "root")
    assert run["parameters"] == JOB["parameters"] | wish["parameters"]


async def test_a_run_and_its_retry_are_part_of_the_callers_trace(api: Api) -> None:
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    job_id = await api.job()
    parent = f"00-{trace_id}-00f067aa0ba902b7-01"

    async def asked(path: str, **headers: str) -> tuple[int, str | None]:
        run_id = (await (await api.request("POST", path, **headers)).json())["run_id"]
        return run_id, (await api.call("GET", f"/runs/{run_id}"))[1]["trace_id"]

    run_id, found = await asked(f"/jobs/{job_id}/run", traceparent=parent, tracestate="a=1")
    assert found == trace_id
    assert (await asked(f"/jobs/{job_id}/run"))[1] is None
    assert (await asked(f"/jobs/{job_id}/run", traceparent="00-0-0-0"))[1] is None  # no error
    await api.call("POST", f"/runs/{run_id}/cancel")
    assert (await asked(f"/runs/{run_id}/retry"))[1] == trace_id
    other = parent.replace("4", "5")
    assert (await asked(f"/runs/{run_id}/retry", traceparent=other))[1] == other[3:35]


async def test_a_runs_answer_holds_no_claim_token(api: Api) -> None:
    job_id = await api.job()
    _, started = await api.call("POST", f"/jobs/{job_id}/run")
    run_id = started["run_id"]

    def claim(conn: sa.Connection) -> None:
        conn.execute(
            sa.update(tables.run).values(state="running", claim_token="secret-claim", attempt=1)
        )

    await api.admin.services.store.run(claim)
    for path in (f"/runs/{run_id}", "/runs", f"/jobs/{job_id}", "/jobs", "/executors/1"):
        status, answer = await api.call("GET", path)
        assert status == 200
        assert "secret-claim" not in json.dumps(answer)


async def test_a_queued_run_is_cancelled_and_then_retried(api: Api) -> None:
    job_id = await api.job()
    _, started = await api.call("POST", f"/jobs/{job_id}/run")
    run_id = started["run_id"]

    assert (await api.call("POST", f"/runs/{run_id}/cancel"))[0] == 202
    _, run = await api.call("GET", f"/runs/{run_id}")
    assert run["state"] == "cancelled"
    status, answer = await api.call("POST", f"/runs/{run_id}/cancel")
    assert (status, answer["error"]["code"]) == (409, "run.ended")

    status, retried = await api.call("POST", f"/runs/{run_id}/retry", {"parameters": {"a": 1}})
    assert status == 202
    _, again = await api.call("GET", f"/runs/{retried['run_id']}")
    assert (again["retry_of"], again["origin"]) == (run_id, "retry")
    assert again["parameters"] == JOB["parameters"] | {"a": 1}
    assert (await api.call("GET", f"/runs/{run_id}"))[1]["retried_by"] == [again["id"]]


async def test_missed_fires_are_told_in_words_and_fields(api: Api) -> None:
    job_id = await api.job()
    _, asked = await api.call("POST", f"/jobs/{job_id}/run")
    path = f"/runs/{asked['run_id']}"

    async def skipped(reason: str, message: str | None) -> Any:
        def skip(conn: sa.Connection) -> None:
            ended = {"state": "skipped", "reason": reason, "message": message, "ended_at": NOW}
            conn.execute(sa.update(tables.run).values(**ended))

        await api.admin.services.store.run(skip)
        one = (await api.call("GET", path))[1]
        listed = (await api.call("GET", "/runs"))[1]["items"][0]
        assert (one["message"], one["misfire"]) == (listed["message"], listed["misfire"])
        return one

    missed = Missed(count=3, first_at=0, last_at=7_200_000)
    told = await skipped("misfire", message_of(missed, policy=MisfirePolicy.FIRE_ONCE, made_up=1))
    assert told["misfire"] == {
        "count": 3,
        "capped": False,
        "first_at": "1970-01-01T00:00:00Z",
        "last_at": "1970-01-01T02:00:00Z",
        "policy": "fire_once",
        "made_up": 1,
    }
    assert told["message"] == (
        "3 fires were missed from 1970-01-01T00:00:00Z to 1970-01-01T02:00:00Z; they are skipped."
        " Its trigger makes up for missed fires with one run."
    )
    # As it was stored before the policy was kept with it.
    told = await skipped("misfire", '{"missed":1001,"from":0,"to":7200000}')
    assert told["misfire"] | {"count": 1000, "capped": True, "policy": None} == told["misfire"]
    assert told["message"].startswith("1,000+ fires were missed from ")
    # Every other skip says why as well, in the caller's language.
    told = await skipped("discarded", None)
    assert told["misfire"] is None
    assert told["message"] == "An earlier run was still going on, and its job skips later ones."
    chinese = await api.call("GET", path, **{"Accept-Language": "zh"})
    assert "任务" in chinese[1]["message"]
    assert (await skipped("by_handler", "nothing to do"))["message"] == "nothing to do"


async def test_the_log_of_a_run_that_never_started_is_empty(api: Api) -> None:
    job_id = await api.job()
    _, started = await api.call("POST", f"/jobs/{job_id}/run")

    status, log = await api.call("GET", f"/runs/{started['run_id']}/log?after=0&limit=10")

    assert status == 200
    assert (log["lines"], log["more"]) == ([], False)


async def test_runs_are_filtered(api: Api) -> None:
    job_id = await api.job()
    for _ in range(3):
        await api.call("POST", f"/jobs/{job_id}/run")
    at = instant_to_iso(NOW)

    async def count(query: str) -> int:
        status, page = await api.call("GET", f"/runs?{query}")
        assert status == 200, page
        return len(page["items"])

    assert await count("") == 3
    assert await count(f"job_id={job_id}&executor_id=1&state=active") == 3
    assert await count("state=failed_any") == 0
    assert await count(f"from_at={at}") == 3
    assert await count(f"to_at={NOW - 1}") == 0
    assert await count("limit=2") == 2


async def test_many_runs_are_cancelled_and_retried_at_once(api: Api) -> None:
    job_id = await api.job()
    runs = [(await api.call("POST", f"/jobs/{job_id}/run"))[1]["run_id"] for _ in range(3)]

    status, done = await api.call("POST", "/runs/cancel", {"runs": [*runs, 999]})
    assert (status, done) == (
        200,
        {"done": 3, "runs": runs, "skipped": {"not_found": 1}, "next": None},
    )
    wish = {"filter": {"job_id": job_id, "state": "cancelled"}, "parameters": {"a": 1}}
    status, answer = await api.call("POST", "/runs/retry", wish)
    assert (status, codes(answer)) == (422, [("Idempotency-Key", "required")])
    _, first = await api.call("POST", "/runs/retry", wish, Idempotency_Key="k")
    _, again = await api.call("POST", "/runs/retry", wish, Idempotency_Key="k")
    assert first == again
    assert (first["done"], first["next"]) == (3, None)
    _, new = await api.call("GET", f"/runs/{first['runs'][0]}")
    assert new["parameters"] == JOB["parameters"] | {"a": 1}
    assert new["retry_of"] == runs[-1]  # newest first


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({}, ("runs", "required")),
        ({"runs": [1], "filter": {}}, ("runs", "required")),
        ({"runs": []}, ("runs", "out_of_range")),
        ({"runs": list(range(1, 1_002))}, ("runs", "out_of_range")),
        ({"runs": "1"}, ("runs", "wrong_type")),
        ({"runs": [True]}, ("runs", "wrong_type")),
        ({"runs": [1.0]}, ("runs", "wrong_type")),
        ({"runs": [10**30]}, ("runs", "wrong_type")),
        ({"runs": [1], "cursor": "x"}, ("cursor", "does_not_apply")),
        ({"filter": []}, ("filter", "wrong_type")),
        ({"filter": {"stat": "failed"}}, ("filter.stat", "unknown_field")),
        ({"filter": {"state": "broken"}}, ("filter.state", "not_one_of")),
        ({"filter": {}, "cursor": "x"}, ("cursor", "cursor.invalid")),
        ({"filter": {}, "cursor": "x" * 501}, ("cursor", "cursor.invalid")),
    ],
)
@pytest.mark.parametrize("what", ["cancel", "retry"])
async def test_many_runs_are_named_or_described_but_not_guessed(
    api: Api, what: str, body: dict[str, object], problem: tuple[str, str]
) -> None:
    status, answer = await api.call("POST", f"/runs/{what}", body, Idempotency_Key="k")

    assert status == 422
    assert problem in codes(answer)


async def test_a_parked_run_is_due_when_its_turn_comes(api: Api) -> None:
    job_id = await api.job(blocking="serial")
    _, started = await api.call("POST", f"/jobs/{job_id}/run")

    def park(conn: sa.Connection) -> None:
        conn.execute(sa.update(tables.run).values(due_at=PARKED_AT))

    await api.admin.services.store.run(park)
    for path in (f"/runs/{started['run_id']}", "/runs"):
        status, answer = await api.call("GET", path)
        assert status == 200
        assert (answer.get("items") or [answer])[0]["due_at"] is None
    assert (await api.call("GET", f"/runs/{started['run_id']}"))[1]["waiting_for"] == "blocked"


async def test_a_run_that_ended_in_line_was_due_when_it_was_asked_for(api: Api) -> None:
    job_id = await api.job(blocking="serial")
    token = api.headers["Authorization"].removeprefix("Bearer ")
    client = Client([str(api.admin.client.make_url("/"))], token)
    _, started = await api.call("POST", f"/jobs/{job_id}/run")
    run_id = started["run_id"]

    def park(conn: sa.Connection) -> None:
        conn.execute(sa.update(tables.run).values(due_at=PARKED_AT))

    await api.admin.services.store.run(park)
    assert (await api.call("POST", f"/runs/{run_id}/cancel"))[0] == 202
    waited = await client.wait(run_id, timeout=5, check=False)
    assert (waited.state, waited.data["due_at"]) == ("cancelled", waited.data["scheduled_at"])

    await api.admin.services.store.run(park)  # as earlier versions left it
    waited = await client.wait(run_id, timeout=5, check=False)
    assert (waited.state, waited.data["due_at"]) == ("cancelled", None)
    status, listed = await api.call("GET", "/runs")
    assert (status, listed["items"][0]["due_at"]) == (200, None)


async def test_a_run_that_stops_is_released(api: Api) -> None:
    job_id = await api.job()
    run_id = (await api.call("POST", f"/jobs/{job_id}/run"))[1]["run_id"]

    status, answer = await api.call("POST", f"/runs/{run_id}/release")
    assert (status, answer["error"]["code"]) == (409, "run.not_stopping")

    def start(conn: sa.Connection) -> None:
        conn.execute(sa.update(tables.run).values(state="running", attempt=1))

    await api.admin.services.store.run(start)
    assert (await api.call("POST", f"/runs/{run_id}/cancel"))[0] == 202
    assert (await api.call("POST", f"/runs/{run_id}/release"))[0] == 204
    _, run = await api.call("GET", f"/runs/{run_id}")
    assert (run["state"], run["reason"]) == ("cancelled", "released")


# --- pauses, nodes, admins -------------------------------------------------------------------


async def test_triggers_executors_and_everything_are_paused_and_resumed(api: Api) -> None:
    job_id = await api.job()
    _, job = await api.call("GET", f"/jobs/{job_id}")
    trigger = f"/jobs/{job_id}/triggers/{job['triggers'][0]['id']}"

    assert (await api.call("POST", f"{trigger}/pause"))[0] == 204
    _, paused = await api.call("GET", f"/jobs/{job_id}")
    assert (paused["triggers"][0]["paused"], paused["next_fires"]) == (True, [])
    assert (await api.call("POST", f"{trigger}/resume"))[0] == 204
    assert (await api.call("POST", f"/jobs/{job_id}/triggers/999/pause"))[0] == 404

    assert (await api.call("POST", "/executors/1/pause"))[0] == 204
    assert (await api.call("GET", "/executors/1"))[1]["paused_at"] == instant_to_iso(NOW)
    assert (await api.call("GET", f"/jobs/{job_id}"))[1]["executor_paused_at"] is not None
    assert (await api.call("POST", "/executors/1/resume"))[0] == 204

    assert (await api.call("POST", "/system/pause"))[0] == 204
    assert await api.call("GET", "/system") == (200, {"paused_at": instant_to_iso(NOW)})
    assert (await api.call("POST", "/system/resume"))[0] == 204
    assert await api.call("GET", "/system") == (200, {"paused_at": None})
    assert (await api.call("GET", f"/jobs/{job_id}"))[1]["next_fires"] == job["next_fires"]


async def test_nodes_are_cordoned_drained_resumed_and_resized(api: Api) -> None:
    executor_id = await api.executor()
    arrival = Arrival(
        executor_id=executor_id,
        node_key="key",
        name="host",
        sdk="",
        slots=4,
        handlers=["report"],
        unstoppable=["report"],
        labels={},
        weight=1,
        address="192.0.2.9",
    )
    await api.admin.services.store.run(
        admit_nodes, [arrival], new_ids=[7], session_ids=[1], admin_id=1
    )

    async def node() -> Any:
        (found,) = (await api.call("GET", f"/executors/{executor_id}"))[1]["nodes"]
        return found

    assert (await api.call("POST", "/nodes/7/cordon"))[0] == 204
    assert ((await node())["cordoned"], (await node())["drain_wanted"]) == (True, False)
    assert (await api.call("POST", "/nodes/7/drain"))[0] == 204
    assert (await node())["drain_wanted"] is True
    assert (await api.call("POST", "/nodes/7/resume"))[0] == 204
    assert (await node())["cordoned"] is False
    assert (await api.call("PUT", "/nodes/7/slots", {"slots": 9}))[0] == 204
    assert ((await node())["slots"], (await node())["slots_wanted"]) == (9, 9)
    assert (await api.call("PUT", "/nodes/7/slots", {"slots": None}))[0] == 204
    assert (await node())["slots_wanted"] is None
    for body, code in (
        ({}, "required"),
        ({"slots": 0}, "out_of_range"),
        ({"slots": "9"}, "wrong_type"),
    ):
        status, answer = await api.call("PUT", "/nodes/7/slots", body)
        assert (status, codes(answer)) == (422, [("slots", code)])
    assert (await api.call("POST", "/nodes/8/drain"))[0] == 404


async def test_admins_tell_how_they_do(api: Api) -> None:
    def enter(conn: sa.Connection) -> None:
        enter_admin(conn, admin_id=3, name="one", url="http://one", version="1.2")

    await api.admin.services.store.run(enter)
    api.admin.clock.advance(5)

    status, answer = await api.call("GET", "/admins")

    (admin,) = answer["items"]
    assert (status, admin["name"], admin["live"], admin["uptime_seconds"]) == (200, "one", True, 5)
    assert (admin["clock_offset_ms"], admin["sessions"], admin["loops"]) == (None, 0, {})


# --- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/jobs?limit=501", ("limit", "out_of_range")),
        ("/jobs?limit=0", ("limit", "out_of_range")),
        ("/jobs?limit=-1", ("limit", "out_of_range")),
        ("/jobs?limit=1000000000", ("limit", "out_of_range")),
        ("/jobs?limit=NaN", ("limit", "wrong_type")),
        ("/jobs?limit=1e3", ("limit", "wrong_type")),
        ("/jobs?limit=%D9%A3", ("limit", "wrong_type")),  # an Arabic digit
        ("/jobs?page=2", ("page", "unknown_field")),
        ("/jobs?sort=name;drop", ("sort", "not_one_of")),
        ("/jobs?limit=1&limit=2", ("limit", "repeated")),
        ("/jobs?limit[]=1", ("limit[]", "unknown_field")),
        ("/jobs?view=' OR 1=1", ("view", "not_one_of")),
        ("/runs?job_id=1%20OR%201=1", ("job_id", "wrong_type")),
        ("/runs?job_id=-1", ("job_id", "out_of_range")),
        ("/runs?state=' OR ''='", ("state", "not_one_of")),
        ("/runs?from_at=yesterday", ("from_at", "instant.invalid")),
        ("/runs?from_at=-1", ("from_at", "out_of_range")),
        ("/runs?cursor=" + "x" * 600, ("cursor", "cursor.invalid")),
        ("/runs/1/log?after=-1", ("after", "out_of_range")),
        ("/runs/1/log?limit=5001", ("limit", "out_of_range")),
        ("/runs/1/log?attempt=0", ("attempt", "out_of_range")),
    ],
)
async def test_bad_query_parameters_are_refused_by_name(
    api: Api, path: str, problem: tuple[str, str]
) -> None:
    status, answer = await api.call("GET", path)

    assert status == 422
    assert problem in codes(answer)


@pytest.mark.parametrize("cursor", ["x", "%00", "1", "eyJhIjoxfQ==", "' OR 1=1 --", "[1]", "ä"])
@pytest.mark.parametrize("path", ["/jobs", "/runs"])
async def test_made_up_cursors_are_refused(api: Api, path: str, cursor: str) -> None:
    status, answer = await api.call("GET", f"{path}?cursor={cursor}")

    assert (status, [field for field, _ in codes(answer)]) == (422, ["cursor"])


@pytest.mark.parametrize("text", ["' OR 1=1 --", "%25", "_", "\\", "%00", "{{7*7}}"])
async def test_a_search_text_is_only_ever_text(api: Api, text: str) -> None:
    await api.job()

    status, page = await api.call("GET", f"/jobs?text={text}")

    assert (status == 200 and page["items"] == []) or (status, codes(page)[0][0]) == (422, "text")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/executors", {"name": "x", "role": "admin"}),
        ("POST", "/executors/1/token", {"token": "mine"}),
        ("POST", "/jobs/1/run", {"parametres": {}}),
        ("POST", "/jobs/1/pause", {"forever": True}),
        ("POST", "/runs/1/cancel", {"force": True}),
        ("POST", "/runs/1/retry", {"attempt": 9}),
        ("POST", "/runs/1/release", {"force": True}),
        ("POST", "/runs/cancel", {"runs": [1], "reason": "x"}),
        ("POST", "/jobs/1/triggers/1/pause", {"until": 5}),
        ("POST", "/executors/1/pause", {"until": 5}),
        ("POST", "/system/pause", {"until": 5}),
        ("POST", "/nodes/1/drain", {"force": True}),
        ("PUT", "/nodes/1/slots", {"slots": 1, "in_use": 0}),
        ("POST", "/schedule/preview", {"trigger": {"kind": "once"}, "n": 5}),
        ("POST", "/schedule/describe", {"trigger": {"kind": "once"}, "language": "zh"}),
        ("POST", "/schedule/explain", {"trigger": {"kind": "once"}, "day": "2026-10-01"}),
        ("POST", "/calendars", {"name": "x", "date": ["2026-10-01"]}),
        ("POST", "/calendars/import", {"format": "csv", "content": "", "file": "x"}),
    ],
)
async def test_unknown_fields_are_refused_everywhere(
    api: Api, method: str, path: str, body: dict[str, object]
) -> None:
    await api.job()
    await api.call("POST", "/jobs/1/run")

    status, answer = await api.call(method, path, body)

    assert status == 422
    assert "unknown_field" in [code for _field, code in codes(answer)]


async def test_where_nothing_can_be_given_an_unknown_field_is_told_so(api: Api) -> None:
    _, answer = await api.call("GET", "/executors?limit=1")
    assert codes(answer) == [("limit", "unknown_field")]
    message = answer["error"]["problems"][0]["message"]
    assert message == "There is no field “limit”: none can be given here. Leave it out."


async def test_of_many_unknown_fields_the_first_are_told(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each costs a look for what was meant, while nobody else is answered."""
    looks: list[str] = []
    monkeypatch.setattr(fields, "closest", lambda text, known: looks.append(text))

    status, answer = await api.call("POST", "/calendars", {f"x{n}": 1 for n in range(5_000)})

    assert status == 422
    assert codes(answer).count(("x0", "unknown_field")) == 1
    assert len(answer["error"]["problems"]) <= 25
    assert len(looks) == 20


@pytest.mark.parametrize("key", ["", "x" * 81, "a b", "ä"])
async def test_bad_idempotency_keys_are_refused(api: Api, key: str) -> None:
    job_id = await api.job()
    status, answer = await api.call("POST", f"/jobs/{job_id}/run", Idempotency_Key=key)

    assert (status, codes(answer)) == (422, [("Idempotency-Key", "idempotency_key.invalid")])


@pytest.mark.parametrize("name", ["0", "999", "x", "-1", "9" * 30, "%D9%A3", "1.0", "1/log"])
@pytest.mark.parametrize("kind", ["executors", "jobs", "runs", "calendars"])
async def test_what_does_not_exist_is_404(api: Api, kind: str, name: str) -> None:
    status, answer = await api.call("GET", f"/{kind}/{name}")

    assert (status, answer["error"]["code"]) == (404, "not_found")


# --- schedules and languages -----------------------------------------------------------------


async def test_a_schedule_is_previewed_before_a_job_has_it(api: Api) -> None:
    trigger = {"kind": "cron", "expression": "0 9 * * 1-5", "timezone": "Europe/Berlin"}

    status, answer = await api.call("POST", "/schedule/preview", {"trigger": trigger, "count": 3})

    assert status == 200
    assert len(answer["fires"]) == 3
    assert all(fire.endswith(("T08:00:00Z", "T07:00:00Z")) for fire in answer["fires"])
    assert "09:00" in answer["description"]


@pytest.mark.parametrize(
    "trigger",
    [
        None,
        [],
        "0 9 * * *",
        {"kind": "cron", "expression": "0 0 30 2 *"},
        {"kind": "cron", "expression": "1," * 7_000 + "1"},
        {"kind": "cron", "expression": "٣ * * * *"},
        {"kind": "cron", "expression": "* * * * *", "timezone": "Mars/Olympus"},
        {"kind": "fixed_rate", "every_seconds": -5},
        {"kind": "fixed_rate", "every_seconds": 1e308},
        {"kind": "once", "at": "9999-12-31T23:59:59"},
    ],
)
async def test_a_schedule_that_cannot_be_is_only_ever_a_422(api: Api, trigger: object) -> None:
    status, answer = await api.call("POST", "/schedule/preview", {"trigger": trigger})

    assert status == 422, answer
    assert codes(answer)


async def test_a_preview_tells_local_time_marks_and_removed_days(api: Api) -> None:
    await api.call("POST", "/calendars", {"name": "holidays", "dates": ["2026-03-30"]})
    trigger = {
        "kind": "cron",
        "expression": "30 2 * * *",
        "timezone": "Europe/Berlin",
        "calendar": "holidays",
    }
    body = {"trigger": trigger, "count": 3, "after": "2026-03-27T12:00:00Z"}
    _, answer = await api.call("POST", "/schedule/preview", body)
    assert answer["local_fires"] == [
        {"at": "2026-03-28T02:30:00+01:00", "mark": None},
        {"at": "2026-03-29T03:00:00+02:00", "mark": "gap"},
        {"at": "2026-03-31T02:30:00+02:00", "mark": None},
    ]
    assert answer["removed"] == [{"date": "2026-03-30", "calendar": "holidays"}]
    assert answer["second_opinion"] is None

    status, answer = await api.call(
        "POST", "/schedule/preview", {"trigger": trigger | {"calendar": "gone"}}
    )
    assert (status, codes(answer)) == (422, [("calendar", "calendar.unknown")])


async def test_a_schedule_is_described_in_the_callers_language(api: Api) -> None:
    body = {"trigger": {"kind": "fixed_rate", "every_seconds": 600}}
    _, english = await api.call("POST", "/schedule/describe", body)
    _, chinese = await api.call("POST", "/schedule/describe", body, Accept_Language="zh-CN")
    assert english["description"] == "Every 10 minutes"
    assert chinese["description"] != english["description"]


async def test_a_date_without_a_fire_is_explained(api: Api) -> None:
    weekdays = {"kind": "cron", "expression": "0 9 * * 1-5", "timezone": "Europe/Berlin"}
    body = {"trigger": weekdays, "date": "2026-10-03"}
    _, answer = await api.call("POST", "/schedule/explain", body)
    assert answer["fires"] == []
    assert [reason["code"] for reason in answer["reasons"]] == ["day_of_week"]
    _, answer = await api.call("POST", "/schedule/explain", body | {"date": "2026-10-02"})
    assert answer == {"fires": ["2026-10-02T07:00:00Z"], "reasons": []}

    for wrong in ({"date": "2026-13-03"}, {"date": None}, {"trigger_id": 1}):
        status, answer = await api.call("POST", "/schedule/explain", body | wrong)
        assert status == 422, wrong


async def test_a_stored_trigger_is_explained_to_those_who_may_see_it(api: Api) -> None:
    job_id = await api.job()
    _, job = await api.call("GET", f"/jobs/{job_id}")
    body = {"trigger_id": job["triggers"][0]["id"], "date": "2027-03-01"}
    _, answer = await api.call("POST", "/schedule/explain", body)
    assert answer == {"fires": ["2027-03-01T02:00:00Z"], "reasons": []}

    await api.call("POST", f"/jobs/{job_id}/pause")
    _, answer = await api.call("POST", "/schedule/explain", body)
    assert [reason["code"] for reason in answer["reasons"]] == ["job_paused"]
    assert answer["fires"] == []

    status, _ = await api.call("POST", "/schedule/explain", body | {"trigger_id": 999})
    assert status == 404


# --- calendars -------------------------------------------------------------------------------


async def test_a_calendar_from_birth_to_death(api: Api) -> None:
    days = {"name": "holidays", "dates": ["2026-10-01"], "weekdays": ["sun"]}
    status, new = await api.call("POST", "/calendars", days)
    assert (status, new) == (201, {"id": 1, "version": 1})

    _, calendar = await api.call("GET", "/calendars/1")
    config = calendar["config"]
    assert (config["dates"], config["weekdays"]) == (["2026-10-01"], ["sun"])
    edit = config | {"version": 1, "dates": ["2026-10-02"]}
    assert await api.call("PUT", "/calendars/1", edit) == (200, {"id": 1, "version": 2})
    status, answer = await api.call("PUT", "/calendars/1", edit)
    assert (status, answer["error"]["code"]) == (409, "calendar.changed")
    status, answer = await api.call("POST", "/calendars", days)
    assert (status, answer["error"]["code"]) == (409, "calendar.name_taken")

    trigger = {"kind": "fixed_rate", "every_seconds": 3_600, "calendar": "holidays"}
    job_id = await api.job(triggers=[trigger])
    _, calendar = await api.call("GET", "/calendars/1")
    assert calendar["used_by_triggers"] == 1
    assert [user["job_id"] for user in calendar["used_by"]] == [job_id]
    status, answer = await api.call("DELETE", "/calendars/1")
    assert (status, answer["error"]["code"]) == (409, "calendar.in_use")
    assert "billing/nightly" in answer["error"]["message"]

    await api.call("DELETE", f"/jobs/{job_id}")
    assert (await api.call("DELETE", "/calendars/1"))[0] == 204
    assert (await api.call("GET", "/calendars"))[1]["items"] == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"format": "pdf", "content": ""}, ("format", "not_one_of")),
        ({"format": "csv"}, ("content", "required")),
        ({"format": "ical", "content": "hello"}, ("content", "import.not_ical")),
        ({"format": "csv", "content": "x" * 1_000_001}, ("content", "import.too_long")),
    ],
)
async def test_what_cannot_be_imported_is_refused(
    api: Api, body: dict[str, object], problem: tuple[str, str]
) -> None:
    status, answer = await api.call("POST", "/calendars/import", body)
    assert (status, codes(answer)) == (422, [problem])


async def test_an_import_answers_with_days_and_the_lines_that_are_none(api: Api) -> None:
    content = "date,name\n2026-10-01,National Day\n12-25,Christmas\n2026-02-30,\n"
    _, answer = await api.call("POST", "/calendars/import", {"format": "csv", "content": content})
    assert (answer["dates"], answer["yearly"]) == (["2026-10-01"], ["12-25"])
    assert answer["names"] == {"2026-10-01": "National Day", "12-25": "Christmas"}
    assert [problem["line"] for problem in answer["problems"]] == [4]


async def test_only_developers_of_everything_change_calendars(api: Api) -> None:
    days = {"name": "holidays", "dates": ["2026-10-01"]}
    assert (await api.call("POST", "/calendars", days))[0] == 201
    operator = await api.admin.token_for("operator", Role.OPERATOR)
    developer = await api.admin.token_for("developer", Role.DEVELOPER)
    for headers, created, deleted in ((operator, 403, 403), (developer, 201, 204)):
        someone = Api(api.admin, headers)
        assert (await someone.call("GET", "/calendars/1"))[0] == 200
        assert (await someone.call("POST", "/calendars", days | {"name": "b"}))[0] == created
        assert (await someone.call("DELETE", "/calendars/1"))[0] == deleted


async def test_a_developer_of_one_executor_sees_calendars_and_changes_none(api: Api) -> None:
    executor_id = await api.executor()
    days = {"name": "holidays", "dates": ["2026-10-01"]}
    await api.call("POST", "/calendars", days)
    someone = Api(api.admin, await api.admin.token_for("dev", Role.DEVELOPER))

    def confine(conn: sa.Connection) -> None:
        dev = sa.select(tables.user.c.id).where(tables.user.c.name == "dev").scalar_subquery()
        moved = sa.update(tables.grant).where(tables.grant.c.user_id == dev)
        conn.execute(moved.values(executor_id=executor_id))

    await api.admin.services.store.run(confine)
    assert (await someone.call("GET", "/calendars/1"))[0] == 200
    for method, path, body in (
        ("POST", "/calendars", days | {"name": "b"}),
        ("PUT", "/calendars/1", days | {"version": 1, "dates": []}),
        ("DELETE", "/calendars/1", None),
    ):
        status, answer = await someone.call(method, path, body)
        assert (status, answer["error"]["code"]) == (403, "not_allowed"), method
        assert "all executors" in answer["error"]["message"]


async def test_what_comes_is_counted_for_those_who_may_see_it(api: Api) -> None:
    every_quarter = {"kind": "fixed_rate", "every_seconds": 900, "anchor_at": 0}
    await api.job(triggers=[every_quarter])
    _, answer = await api.call("GET", "/schedule/coming?zone=Europe/Berlin")
    # Saved at a full quarter, so that one is over.
    assert answer["total"] == 95
    assert answer["cells"] == [0] + [1] * 95
    assert [row["job_name"] for row in answer["jobs"]] == ["nightly"]
    for path in ("days=2", "zone=Mars", "start=tomorrow", "from=1"):
        assert (await api.call("GET", f"/schedule/coming?{path}"))[0] == 422, path

    _, nothing = await api.call("GET", "/schedule/coming?executor_id=999")
    assert nothing["total"] == 0


async def test_messages_follow_accept_language_and_codes_do_not(api: Api) -> None:
    english = await api.request("GET", "/jobs/999")
    chinese = await api.request("GET", "/jobs/999", Accept_Language="zh-CN")

    assert english.headers["Content-Language"] == "en"
    assert chinese.headers["Content-Language"] == "zh-CN"
    assert (await english.json())["error"]["code"] == (await chinese.json())["error"]["code"]


# --- the reference ---------------------------------------------------------------------------


async def test_every_endpoint_and_field_is_in_the_reference(api: Api) -> None:
    text = DOCS.read_text(encoding="utf-8")
    for route in set(declared_routes(api.admin.client.app).values()):
        if route.path.startswith("/api/"):
            path = re.sub(r":(?:[^{}]|\{[^{}]*\})+(?=\})", "", route.path)  # the form of a part
            assert f"`{route.method} {path}`" in text
    await api.job()
    await api.call("POST", "/jobs/1/run")
    await api.call("POST", "/calendars", {"name": "x", "dates": ["2026-10-01"]})
    for path in ("/executors/1", "/jobs/1", "/runs/1", "/calendars/1", "/schedule/coming"):
        _, answer = await api.call("GET", path)
        for field in (*answer, *answer.get("config", ())):
            assert f"`{field}`" in text, field
