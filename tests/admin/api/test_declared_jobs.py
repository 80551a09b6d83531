"""Jobs declared in code, through the API."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.admin.kit.declared_code import MONTH_SCHEMA, NIGHTLY
from tests.admin.kit.served import Served, served
from tests.admin.kit.services import ADMIN
from tickwheel_admin.domain.input.node_manifest import Process, read_node_manifest
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.jobs.declared.reconciler import DeclaredReconciler

SLASH = "发票/nightly %2F"


class Web:
    """The API with one executor, whose processes start."""

    def __init__(self, admin: Served, headers: dict[str, str]) -> None:
        self.admin = admin
        self.headers = headers
        self._processes = 0

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        kwargs = {} if body is None else {"json": body}
        url = f"/api/v1/executors/1{path}"
        async with self.admin.client.request(
            method, url, headers=self.headers, **kwargs
        ) as response:
            return response.status, None if response.status == 204 else await response.json()

    async def start(self, *jobs: dict[str, Any], schemas: dict[str, Any] | None = None) -> None:
        self._processes += 1
        services = self.admin.services
        proposals = DeclaredReconciler(services.store, services.ids, services.events)
        process = Process(
            executor_id=1,
            node_id=self._processes,
            name="node-1",
            connected_at=self.admin.clock.now + self._processes,
            address="192.0.2.1",
        )
        raws = [json_bytes(job) for job in jobs]
        manifest = read_node_manifest(
            handlers=["send-invoices"],
            schemas={name: json_bytes(schema) for name, schema in (schemas or {}).items()},
            jobs=raws,
        )
        await proposals.take(process, manifest)


def json_bytes(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[Web]:
    async with served(tmp_path) as admin:
        await admin.services.executors.create(ADMIN, name="billing")
        yield Web(admin, await admin.token_for("root", Role.ADMIN))


async def test_the_list_tells_what_became_of_each(web: Web) -> None:
    await web.start(NIGHTLY, NIGHTLY | {"name": "broken", "priority": 10})
    status, answer = await web.call("GET", "/declared-jobs")
    assert status == 200
    broken, nightly = answer["items"]
    assert nightly == {
        "name": "nightly",
        "state": "applied",
        "reason": None,
        "handler": "send-invoices",
        "job_id": 1,
        "job_name": "nightly",
        "managed": True,
        "differences": [],
        "problems": [],
        "declared_by": "node-1",
        "declared_at": nightly["declared_at"],
        "declared_now": True,
        "renamed_from": None,
    }
    assert (broken["state"], broken["problems"]) == (
        "invalid",
        [
            {
                "field": "priority",
                "code": "out_of_range",
                "message": "This must lie between 1 and 9.",
            }
        ],
    )
    headers = web.headers | {"Accept-Language": "zh-CN"}
    url = "/api/v1/executors/1/declared-jobs"
    async with web.admin.client.get(url, headers=headers) as response:
        [problem] = (await response.json())["items"][0]["problems"]
    assert "1" in problem["message"]
    assert problem["message"] != "This must lie between 1 and 9."
    await web.start(NIGHTLY | {"triggers": [{"kind": "cron", "expression": "0 99 * * *"}]})
    async with web.admin.client.get(url, headers=headers) as response:
        [problem] = (await response.json())["items"][0]["problems"]
    assert "时为 0-23" in problem["message"]  # the name of the field is a word, too


async def test_a_person_decides(web: Web) -> None:
    assert await web.call("PUT", "/code-jobs", {"policy": "ask"}) == (204, None)
    for body in ({}, {"policy": "aks"}, {"policy": 5}, {"plicy": "ask"}):
        status, answer = await web.call("PUT", "/code-jobs", body)
        assert (status, answer["error"]["code"]) == (422, "invalid_input")
    await web.start(NIGHTLY, NIGHTLY | {"name": SLASH})
    _, executor = await web.call("GET", "")
    assert (executor["code_jobs"], executor["declared_waiting"]) == ("ask", 2)
    status, accepted = await web.call("POST", "/declared-jobs/nightly/accept")
    assert status == 200
    path = f"/declared-jobs/{quote(SLASH, safe='')}"
    _, answer = await web.call("GET", "/declared-jobs")
    assert (answer["items"][1]["name"], answer["items"][1]["state"]) == (SLASH, "waiting")
    assert await web.call("POST", f"{path}/ignore") == (204, None)
    status, answer = await web.call("POST", f"{path}/accept", {"rename_from": "nightly"})
    assert (status, answer) == (200, accepted)
    assert await web.call("POST", f"{path}/release") == (204, None)
    status, answer = await web.call("POST", f"{path}/accept", {"rename": "nightly"})
    assert (status, answer["error"]["code"]) == (422, "invalid_input")
    status, answer = await web.call("POST", "/declared-jobs/nobody/accept")
    assert status == 404


async def test_what_nobody_has_seen_is_not_accepted(web: Web) -> None:
    await web.call("PUT", "/code-jobs", {"policy": "ask"})
    await web.start(NIGHTLY)
    _, answer = await web.call("GET", "/declared-jobs")
    seen = {"declared_at": answer["items"][0]["declared_at"]}
    await web.start(NIGHTLY | {"handler": "drop-everything"})
    status, answer = await web.call("POST", "/declared-jobs/nightly/accept", seen)
    assert (status, answer["error"]["code"]) == (409, "declared.changed")
    _, answer = await web.call("GET", "/declared-jobs")
    assert answer["items"][0]["state"] == "waiting"
    seen = {"declared_at": answer["items"][0]["declared_at"]}
    await web.start(NIGHTLY | {"handler": "drop-everything"})  # the same once more
    status, _ = await web.call("POST", "/declared-jobs/nightly/accept", seen)
    assert status == 200
    status, _ = await web.call("POST", "/declared-jobs/nightly/accept", {"declared_at": "x"})
    assert status == 422


async def test_a_name_of_any_kind_has_an_address(web: Web) -> None:
    await web.call("PUT", "/code-jobs", {"policy": "ask"})
    names = ["{x}", "a/b", "%2e%2e", "#?&=;+", "'\"<b>\\", "发" * 200]
    await web.start(*(NIGHTLY | {"name": name, "handler": name} for name in names))
    for name in names:
        path = f"/declared-jobs/{quote(name, safe='')}/ignore"
        assert await web.call("POST", path) == (204, None), name
    _, answer = await web.call("GET", "/declared-jobs")
    assert {each["state"] for each in answer["items"]} == {"ignored"}


async def test_no_job_is_nested_so_deeply_that_the_list_of_all_fails(web: Web) -> None:
    def nested(depth: int) -> Any:
        return [] if depth == 1 else [nested(depth - 1)]

    deep, deeper, deepest = (NIGHTLY | {"parameters": {"a": nested(n)}} for n in (99, 100, 600))
    await web.start(deep | {"name": "deep"}, deeper | {"handler": "b"}, deepest | {"name": "c"})
    _, answer = await web.call("GET", "/declared-jobs")
    assert [(each["name"], each["state"]) for each in answer["items"]] == [
        ("deep", "applied"),
        ("nightly", "invalid"),
    ]
    for job, status in ((deep, 201), (deeper, 422), (deepest, 422)):
        body = job | {"executor_id": 1, "name": "by hand"}
        url = "/api/v1/jobs"
        async with web.admin.client.post(url, headers=web.headers, json=body) as response:
            assert response.status == status, await response.text()
    async with web.admin.client.get("/api/v1/jobs", headers=web.headers) as response:
        assert response.status == 200


async def test_a_managed_job_says_so_and_is_not_edited(web: Web) -> None:
    await web.start(NIGHTLY)
    client, headers = web.admin.client, web.headers
    async with client.get("/api/v1/jobs/1", headers=headers) as response:
        job = await response.json()
    assert job["managed"] is True
    edit = job["config"] | {"revision": job["revision"], "owner": "ada"}
    async with client.put("/api/v1/jobs/1", headers=headers, json=edit) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (
            409,
            "job.managed_by_code",
        )
    async with client.get("/api/v1/jobs", headers=headers) as response:
        assert [each["managed"] for each in (await response.json())["items"]] == [True]


async def test_schemas_are_told_with_executor_and_job(web: Web) -> None:
    await web.start(NIGHTLY | {"parameters": {"month": "2026-01"}})
    await web.start(schemas={"send-invoices": MONTH_SCHEMA})
    _, executor = await web.call("GET", "")
    assert executor["schemas"] == {"send-invoices": MONTH_SCHEMA}
    async with web.admin.client.get("/api/v1/jobs/1", headers=web.headers) as response:
        assert (await response.json())["schema"] == MONTH_SCHEMA
    body = {"parameters": {"month": 5, "copis": 1}}
    url = "/api/v1/jobs/1/run"
    async with web.admin.client.post(url, headers=web.headers, json=body) as response:
        assert response.status == 422
        problems = (await response.json())["error"]["problems"]
    assert [(each["field"], each["code"]) for each in problems] == [
        ("parameters.month", "wrong_type"),
        ("parameters.copis", "unknown_field"),
    ]
