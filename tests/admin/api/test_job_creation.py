"""Many new jobs at once: each has its own answer, and they come in few transactions."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.api.test_api import Api, api, codes
from tickwheel_admin.services.jobs import creation as job_creation
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database

JOB: dict[str, Any] = {
    "handler": "report",
    "parameters": {"big": 123456789012345678901234567890, "text": "报告"},
    "triggers": [{"kind": "cron", "expression": "0 3 * * *", "timezone": "Europe/Berlin"}],
}

__all__ = ["api"]  # the fixture


def rows(api: Api, statement: sa.Select[Any]) -> list[Any]:
    database = api.admin.services.store
    assert isinstance(database, Database)
    return database.read_sync(lambda conn: list(conn.execute(statement)))


async def send(api: Api, body: object) -> tuple[int, Any]:
    """As aiohttp wants large bodies."""
    response = await api.admin.client.post(
        "/api/v1/jobs/bulk",
        data=io.BytesIO(json.dumps(body).encode()),
        headers=api.headers | {"Content-Type": "application/json"},
    )
    return response.status, await response.json()


def problems(answer: Any) -> list[list[tuple[str, str]]]:
    return [codes(each) if each["error"] else [] for each in answer["jobs"]]


async def test_each_job_is_answered_by_itself(api: Api) -> None:
    executor_id = await api.executor()
    other_id = await api.executor("crm")
    jobs: list[dict[str, Any]] = [
        JOB | {"name": "a"},
        JOB | {"name": "b", "handler": "", "retries": -1},
        JOB | {"name": "a"},
        JOB | {"name": "a", "executor_id": other_id},
        JOB | {"name": "c", "executor_id": 999},
        JOB | {"name": "d", "triggers": [{"kind": "once", "at": "2001-01-01T00:00:00Z"}]},
        JOB
        | {"name": "e", "triggers": [{"kind": "fixed_rate", "every_seconds": 5, "calendar": "x"}]},
    ]
    status, told = await api.call("POST", "/jobs/bulk", {"executor_id": executor_id, "jobs": jobs})
    assert status == 200, told
    assert (told["created"], told["failed"]) == (2, 5)
    assert [each["error"] and each["error"]["code"] for each in told["jobs"]] == [
        None, "invalid_input", "job.name_taken", None, "not_found", "invalid_input",
        "invalid_input",
    ]  # fmt: skip
    assert {field for field, _ in problems(told)[1]} == {"handler", "retries"}
    assert problems(told)[5:] == [
        [("triggers[0]", "trigger.never_fires")],
        [("triggers[0].calendar", "calendar.unknown")],
    ]
    for place in (0, 3):
        _, job = await api.call("GET", f"/jobs/{told['jobs'][place]['id']}")
        config = job["config"]
        assert (config["name"], config["parameters"]) == ("a", JOB["parameters"])
        assert job["next_fire_at"] is not None
    assert len(rows(api, sa.select(tables.job.c.id))) == 2


async def test_a_request_that_is_sent_again_finds_the_jobs_that_it_made(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_creation, "BATCH", 2)
    executor_id = await api.executor()
    body = {"executor_id": executor_id, "jobs": [JOB | {"name": f"job-{n}"} for n in range(5)]}
    key = {"Idempotency_Key": "import-1"}
    _, told = await api.call("POST", "/jobs/bulk", body, **key)
    assert told["created"] == 5
    assert (await api.call("POST", "/jobs/bulk", body, **key))[1] == told
    _, refused = await api.call("POST", "/jobs/bulk", body)
    assert [each["error"]["code"] for each in refused["jobs"]] == ["job.name_taken"] * 5
    # So does a single job.
    single = {"executor_id": executor_id, **JOB, "name": "single"}
    _, one = await api.call("POST", "/jobs", single, **key)
    assert (await api.call("POST", "/jobs", single, **key))[1] == one
    assert (await api.call("POST", "/jobs", single))[0] == 409


async def test_jobs_with_children_are_checked_one_by_one(api: Api) -> None:
    executor_id = await api.executor()
    _, child = await api.call(
        "POST", "/jobs", {"executor_id": executor_id} | JOB | {"name": "child"}
    )
    jobs = [
        JOB | {"name": "parent", "children": [{"job": child["id"]}]},
        JOB | {"name": "orphan", "children": [{"job": 999_999}]},
        JOB | {"name": "plain"},
    ]
    _, told = await api.call("POST", "/jobs/bulk", {"executor_id": executor_id, "jobs": jobs})
    assert problems(told) == [[], [("children[0].job", "child.unknown")], []]


async def test_what_is_no_list_of_jobs_is_refused_as_a_whole(api: Api) -> None:
    executor_id = await api.executor()
    many = [{}] * (job_creation.MAX_JOBS + 1)
    for body, problem in [
        ({}, ("jobs", "required")),
        ({"jobs": {}}, ("jobs", "required")),
        ({"jobs": [], "executor_id": executor_id}, ("jobs", "out_of_range")),
        ({"jobs": many, "executor_id": executor_id}, ("jobs", "out_of_range")),
        ({"jobs": [1], "executor_id": executor_id}, ("jobs[0]", "wrong_type")),
        ({"jobs": [{}]}, ("jobs[0].executor_id", "required")),
        ({"jobs": [{"executor_id": "x"}]}, ("jobs[0].executor_id", "required")),
    ]:
        status, answer = await api.call("POST", "/jobs/bulk", body)
        assert (status, codes(answer)) == (422, [problem])


async def test_a_large_request_is_taken_and_a_larger_one_is_told_the_limit(api: Api) -> None:
    executor_id = await api.executor()
    large = [JOB | {"name": f"job-{n}", "description": "x" * 3_900} for n in range(400)]
    body = {"executor_id": executor_id, "jobs": large}
    status, told = await send(api, body)
    assert (status, told["created"]) == (200, 400)
    larger = body | {"jobs": [JOB | {"description": "x" * 4_000}] * 2_200}
    status, answer = await send(api, larger)
    assert (status, codes(answer)) == (422, [("jobs", "too_large")])


async def test_many_jobs_are_one_entry_of_the_audit_with_all_of_them_behind_it(api: Api) -> None:
    executor_id = await api.executor()
    jobs = [JOB | {"name": f"job-{n}"} for n in range(30)] + [JOB | {"name": "job-0"}]
    _, told = await api.call("POST", "/jobs/bulk", {"executor_id": executor_id, "jobs": jobs})
    _, audit = await api.call("GET", "/audit?action=job")
    (entry,) = audit["items"]
    assert (entry["action"], entry["detail"]["done"]) == ("jobs.created", 30)
    assert entry["detail"]["skipped"] == {"job.name_taken": 1}
    assert len(entry["parts"]) == 20
    _, parts = await api.call("GET", f"/audit?part_of={entry['id']}&limit=100")
    assert {each["object_id"] for each in parts["items"]} == {j["id"] for j in told["jobs"][:30]}
    assert {each["job_name"] for each in parts["items"]} == {job["name"] for job in jobs}


async def test_a_hundred_jobs_take_one_transaction_and_few_statements(api: Api) -> None:
    """3,000 jobs one by one took 67 seconds."""
    executor_id = await api.executor()
    database = api.admin.services.store
    assert isinstance(database, Database)
    statements: list[str] = []
    sa.event.listen(
        database.engine, "before_cursor_execute", lambda *call: statements.append(call[2])
    )
    body = {"executor_id": executor_id, "jobs": [JOB | {"name": f"job-{n}"} for n in range(200)]}
    _, told = await api.call("POST", "/jobs/bulk", body)
    assert told["created"] == 200
    assert len(statements) < 120
    assert sum(each.startswith("INSERT INTO") and '"job"' in each for each in statements) == 2
