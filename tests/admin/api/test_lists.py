"""Lists over HTTP: filters of jobs, pages back and on, many jobs at once, saved views."""

from __future__ import annotations

from typing import Any

from tests.admin.api.test_api import JOB, Api, api, codes
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.jobs.yaml_reader import read_yaml

__all__ = ["api"]  # the fixture

JOBS = {
    "a": {"owner": "maria", "tags": ["night", "money"]},
    "b": {"owner": "maria", "tags": ["night"]},
    "c": {"owner": "42", "tags": []},
}


async def add_jobs(api: Api) -> list[int]:
    executor_id = await api.executor()
    made = []
    for name, more in JOBS.items():
        raw = {"executor_id": executor_id} | JOB | more | {"name": name}
        _, new = await api.call("POST", "/jobs", raw)
        made.append(int(new["id"]))
    return made


async def names(api: Api, query: str) -> list[str]:
    status, page = await api.call("GET", f"/jobs?{query}")
    assert status == 200, page
    return [item["config"]["name"] for item in page["items"]]


async def test_jobs_by_owner_tags_and_order(api: Api) -> None:
    ids = await add_jobs(api)
    for query, found in (
        ("owner=maria", ["a", "b"]),
        ("owner=42", ["c"]),
        ("tag=night,money", ["a"]),
        ("tag=night&sort=-name", ["b", "a"]),
        ("handler=report", ["a", "b", "c"]),
        ("view=active&limit=500", ["a", "b", "c"]),
    ):
        assert await names(api, query) == found, query
    assert (await api.call("GET", "/jobs/count?tag=night"))[1] == {"jobs": 2, "capped": False}
    assert (await api.call("GET", "/jobs/count?view=failing"))[1] == {"jobs": 0, "capped": True}
    api.admin.clock.advance(5)
    await api.call("POST", f"/jobs/{ids[1]}/pause")
    assert await names(api, "sort=-changed&limit=1") == ["b"]
    for query, problem in (
        ("sort=owner", ("sort", "not_one_of")),
        ("owner=a%00b", ("owner", "control_characters")),
    ):
        status, answer = await api.call("GET", f"/jobs?{query}")
        assert (status, codes(answer)) == (422, [problem])


async def test_pages_of_jobs_and_runs_lead_back(api: Api) -> None:
    (first, *_) = await add_jobs(api)
    for key in "xyz":
        await api.call("POST", f"/jobs/{first}/run", idempotency_key=key)
    for path in ("/jobs", "/runs"):
        _, one = await api.call("GET", f"{path}?limit=2")
        _, two = await api.call("GET", f"{path}?limit=2&cursor={one['next']}")
        assert (one["previous"], two["next"], len(two["items"])) == (None, None, 1)
        _, back = await api.call("GET", f"{path}?limit=2&cursor={two['previous']}")
        assert [each["id"] for each in back["items"]] == [each["id"] for each in one["items"]]
        assert back["next"] == one["next"]


async def test_many_jobs_by_ids_or_by_a_filter(api: Api) -> None:
    a, b, c = await add_jobs(api)
    night: dict[str, Any] = {"filter": {"tag": ["night"]}}
    status, told = await api.call("POST", "/jobs/pause", night)
    assert (status, told) == (200, {"done": 2, "jobs": [a, b], "skipped": {}, "next": None})
    assert await names(api, "view=paused") == ["a", "b"]
    _, told = await api.call("POST", "/jobs/resume", {"jobs": [b, 999]})
    assert (told["jobs"], told["skipped"]) == ([b], {"not_found": 1})
    await api.call("POST", "/jobs/tag", {"jobs": [a, c], "tag": "money"})
    await api.call("POST", "/jobs/untag", {"jobs": [b], "tag": "night"})
    assert await names(api, "tag=money") == ["a", "c"]
    assert await names(api, "tag=night") == ["a"]
    for _ in range(2):  # the same request starts no job twice
        _, told = await api.call("POST", "/jobs/run", {"jobs": [a, b]}, idempotency_key="once")
        assert told["jobs"] == [a, b]
    _, runs = await api.call("GET", "/runs")
    assert sorted((run["job_id"], run["origin"]) for run in runs["items"]) == [
        (a, "api"),
        (b, "api"),
    ]
    response = await api.request("POST", "/jobs/export", {"filter": {"tag": "money"}})
    documents = (await response.text()).split("---\n")[1:]
    assert response.content_type == "application/yaml"
    assert [read_yaml(each).value["name"] for each in documents] == ["a", "c"]
    response = await api.admin.client.post(
        "/api/v1/jobs/import?executor_id=1",
        data="name: d\nhandler: h\n---\nname: e\nhandler: h\nprioriti: 1\n",
        headers=api.headers | {"Content-Type": "application/yaml"},
    )
    [problem] = (await response.json())["error"]["problems"]
    assert (problem["field"], problem["line"]) == ("prioriti", 6)
    _, told = await api.call("POST", "/jobs/delete", {"filter": {"owner": "maria"}})
    assert told["jobs"] == [a, b]
    assert await names(api, "") == ["c"]


async def test_what_many_jobs_are_asked_is_strict(api: Api) -> None:
    (a, *_) = await add_jobs(api)
    for path, body, problem in (
        ("pause", {}, ("jobs", "required")),
        ("pause", {"jobs": [a], "filter": {}}, ("jobs", "required")),
        ("pause", {"jobs": []}, ("jobs", "out_of_range")),
        ("pause", {"jobs": ["1"]}, ("jobs", "wrong_type")),
        ("pause", {"jobs": "1"}, ("jobs", "wrong_type")),
        ("pause", {"jobs": [a], "cursor": "x"}, ("cursor", "does_not_apply")),
        ("pause", {"filter": {"sort": "name"}}, ("filter.sort", "unknown_field")),
        ("pause", {"filter": {"tag": [1]}}, ("filter.tag", "wrong_type")),
        ("pause", {"filter": {}, "cursor": "x" * 600}, ("cursor", "cursor.invalid")),
        ("pause", {"jobs": [a], "tag": "x"}, ("tag", "unknown_field")),
        ("tag", {"jobs": [a]}, ("tag", "tag.invalid")),
        ("run", {"jobs": [a]}, ("Idempotency-Key", "required")),
        ("export", {"jobs": [a], "tag": "x"}, ("tag", "unknown_field")),
    ):
        status, answer = await api.call("POST", f"/jobs/{path}", body)
        assert (status, codes(answer)) == (422, [problem]), (path, body)
    assert await names(api, "view=active") == ["a", "b", "c"]


async def test_views_over_http(api: Api) -> None:
    view = {"page": "jobs", "name": "Nights", "query": "q=tag%3Anight&cursor=x", "shared": True}
    status, new = await api.call("POST", "/saved-views", view)
    assert status == 201
    bob = Api(api.admin, await api.admin.token_for("bob", Role.VIEWER))
    _, seen = await bob.call("GET", "/saved-views?page=jobs")
    (shared,) = seen["items"]
    assert (shared["name"], shared["query"], shared["own"]) == ("Nights", "q=tag%3Anight", False)
    path = f"/saved-views/{new['id']}"
    assert (await bob.call("PUT", path, {"name": "x"}))[0] == 403
    assert (await bob.call("DELETE", path))[0] == 403
    assert (await api.call("PUT", path, {"shared": False}))[0] == 204
    assert (await bob.call("GET", path))[0] == 404
    assert (await api.call("GET", path))[1]["name"] == "Nights"
    assert (await api.call("POST", "/saved-views", view))[0] == 409
    status, answer = await api.call("POST", "/saved-views", view | {"name": "x" * 61})
    assert (status, codes(answer)) == (422, [("name", "too_long")])
    assert (await api.call("DELETE", path))[0] == 204
    assert (await api.call("GET", "/saved-views"))[1] == {"items": []}
