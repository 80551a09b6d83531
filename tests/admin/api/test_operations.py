"""What operators do through the API: run now, find, count, purge, nodes, tokens, attention."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from tests.admin.api.test_api import Api, api, codes
from tests.admin.kit.clock import NOW
from tickwheel_admin.domain.fields import instant_to_iso
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.executors.nodes import Arrival, admit_nodes

__all__ = ["api"]  # the fixture


async def add_node(api: Api, *, name: str = "host", handlers: tuple[str, ...] = ("report",)) -> int:
    """A live node of the first executor."""
    arrival = Arrival(
        executor_id=1,
        node_key=name,
        name=name,
        sdk="test",
        slots=4,
        handlers=list(handlers),
        unstoppable=[],
        labels={"zone": "eu"},
        weight=1,
        address="192.0.2.1",
    )
    ids = api.admin.services.ids
    new_ids = await ids.take_many("node", 1)
    (stored,) = await api.admin.services.store.run(
        admit_nodes, [arrival], new_ids=new_ids, session_ids=[1], admin_id=1
    )
    return stored.node_id


async def end_runs(api: Api) -> None:
    """All runs succeeded an hour ago."""

    def end(conn: sa.Connection) -> None:
        at = NOW - 3_600_000
        conn.execute(sa.update(tables.run).values(state="succeeded", scheduled_at=at, ended_at=at))

    await api.admin.services.store.run(end)


# --- nodes -----------------------------------------------------------------------------------


async def test_nodes_of_all_executors_are_listed_by_page(api: Api) -> None:
    await api.job()
    ids = [await add_node(api, name=name) for name in ("one", "two")]
    status, page = await api.call("GET", "/nodes?state=live&version=TES&limit=1")
    assert status == 200, page
    (node,) = page["items"]
    assert (node["id"], node["executor_id"]) == (ids[0], 1)
    assert "running" not in node
    _, page = await api.call("GET", f"/nodes?limit=1&cursor={page['next']}")
    assert [each["name"] for each in page["items"]] == ["two"]
    assert page["next"] is None
    status, answer = await api.call("GET", "/nodes?state=asleep&version=2")
    assert (status, codes(answer)) == (422, [("state", "not_one_of")])


# --- run now ---------------------------------------------------------------------------------


async def test_a_job_runs_later_on_a_node_of_ones_choice(api: Api) -> None:
    job_id = await api.job()
    node_id = await add_node(api)
    for chosen in ({"node_id": node_id}, {"node": "host"}):
        wish = chosen | {"delay_seconds": 1.5}
        status, answer = await api.call("POST", f"/jobs/{job_id}/run", wish)
        assert status == 202, answer
        _, run = await api.call("GET", f"/runs/{answer['run_id']}")
        assert run["pinned_node_id"] == node_id
        assert run["scheduled_at"] == instant_to_iso(NOW + 1_500)


async def test_wishes_that_cannot_be_are_refused(api: Api) -> None:
    job_id = await api.job()
    wishes: list[tuple[dict[str, Any], tuple[str, str]]] = [
        ({"node_id": 1, "node": "host"}, ("node", "does_not_apply")),
        ({"node_id": 999}, ("node_id", "node.unknown")),
        ({"node": "nowhere"}, ("node", "node.unknown")),
        ({"node": 7}, ("node", "wrong_type")),
        ({"delay_seconds": -1}, ("delay_seconds", "out_of_range")),
        ({"delay_seconds": 2_592_001}, ("delay_seconds", "out_of_range")),
        ({"delay": 1}, ("delay", "unknown_field")),
        ({"parameters": {"a": "x" * 66_000}}, ("parameters", "json.too_large")),
    ]
    for wish, problem in wishes:
        status, answer = await api.call("POST", f"/jobs/{job_id}/run", wish)
        assert (status, codes(answer)) == (422, [problem])
    assert (await api.call("GET", "/runs"))[1]["items"] == []


# --- runs ------------------------------------------------------------------------------------


async def test_runs_are_found_and_counted_by_the_same_filters(api: Api) -> None:
    job_id = await api.job()
    for _ in range(3):
        await api.call("POST", f"/jobs/{job_id}/run")
    for query, count in (
        ("origin=api&requested_by=root", 3),
        ("origin=schedule", 0),
        ("requested_by=somebody", 0),
        ("trigger_id=1", 0),
        ("node_id=1", 0),
        (f"job_id={job_id}&state=active", 3),
    ):
        _, listed = await api.call("GET", f"/runs?{query}")
        _, counted = await api.call("GET", f"/runs/count?{query}")
        assert (len(listed["items"]), counted) == (count, {"runs": count, "capped": False})
    status, answer = await api.call("GET", "/runs/count?origin=nowhere&limit=1")
    assert status == 422
    assert sorted(codes(answer)) == [("limit", "unknown_field"), ("origin", "not_one_of")]
    for path in ("/runs", "/runs/count"):
        _, answer = await api.call("GET", f"{path}?colour=red")
        (problem,) = answer["error"]["problems"]
        known = problem["message"].rsplit("known are ", 1)[1]
        assert {"state", "retried", "text", "owner", "tag", "error", "from_at"} <= {
            *known.rstrip(".").split(", ")
        }
    wish = {"filter": {"origin": "api", "requested_by": "root"}}
    _, cancelled = await api.call("POST", "/runs/cancel", wish)
    assert cancelled["done"] == 3


async def test_runs_are_purged_after_a_look_at_how_many(api: Api) -> None:
    job_id = await api.job()
    for _ in range(4):
        await api.call("POST", f"/jobs/{job_id}/run")
    await end_runs(api)
    rule = {"job_id": job_id, "keep_newest": 1}
    assert await api.call("POST", "/runs/purge/preview", rule) == (
        200,
        {"runs": 3, "capped": False},
    )
    assert await api.call("POST", "/runs/purge", rule) == (200, {"deleted": 3, "next": None})
    _, left = await api.call("GET", "/runs")
    assert len(left["items"]) == 1
    status, answer = await api.call("POST", "/runs/purge", {"keep_newest": 0, "cursor": "x"})
    assert (status, codes(answer)) == (422, [("cursor", "cursor.invalid")])
    for wrong in ({}, {"keep_newest": 1, "older_than_seconds": 1}):
        status, answer = await api.call("POST", "/runs/purge", wrong)
        assert (status, codes(answer)) == (422, [("older_than_seconds", "required")])


# --- executors and nodes ---------------------------------------------------------------------


async def test_a_token_is_replaced_with_an_overlap_that_can_be_ended(api: Api) -> None:
    await api.executor()
    status, new = await api.call("POST", "/executors/1/token", {"overlap_seconds": 60})
    assert (status, new["name"]) == (200, "billing")
    _, executor = await api.call("GET", "/executors/1")
    assert executor["old_token_until"] == instant_to_iso(NOW + 60_000)
    assert await api.call("DELETE", "/executors/1/old-token") == (204, None)
    _, executor = await api.call("GET", "/executors/1")
    assert executor["old_token_until"] is None
    status, answer = await api.call("POST", "/executors/1/token", {"overlap_seconds": -1})
    assert (status, codes(answer)) == (422, [("overlap_seconds", "out_of_range")])


async def test_an_executor_goes_with_its_jobs_only_when_told_so(api: Api) -> None:
    job_id = await api.job()
    await api.call("POST", f"/jobs/{job_id}/run")
    for path in ("/executors/1", "/executors/1?with_jobs=false"):
        status, answer = await api.call("DELETE", path)
        assert (status, answer["error"]["code"]) == (409, "executor.has_jobs")
        assert "(1)" in answer["error"]["message"]
    status, answer = await api.call("DELETE", "/executors/1?with_jobs=yes")
    assert (status, codes(answer)) == (422, [("with_jobs", "not_one_of")])
    assert (await api.call("GET", "/executors/1"))[1]["waiting"] == 1
    assert await api.call("DELETE", "/executors/1?with_jobs=true") == (204, None)
    assert (await api.call("GET", f"/jobs/{job_id}"))[0] == 404
    assert (await api.call("GET", "/runs/1"))[1]["state"] == "cancelled"


async def test_a_node_is_shown_and_weighed(api: Api) -> None:
    await api.executor()
    node_id = await add_node(api)
    _, node = await api.call("GET", f"/nodes/{node_id}")
    assert (node["name"], node["executor_name"], node["labels"]) == (
        "host",
        "billing",
        {"zone": "eu"},
    )
    assert (node["weight"], node["weight_wanted"], node["running"]) == (1, None, [])
    assert node["seen_at"] == instant_to_iso(NOW)
    assert await api.call("PUT", f"/nodes/{node_id}/weight", {"weight": 7}) == (204, None)
    _, executor = await api.call("GET", "/executors/1")
    (listed,) = executor["nodes"]
    assert (listed["weight"], listed["weight_wanted"]) == (7, 7)
    assert await api.call("PUT", f"/nodes/{node_id}/weight", {"weight": None}) == (204, None)
    for body, code in (({}, "required"), ({"weight": 0}, "out_of_range")):
        status, answer = await api.call("PUT", f"/nodes/{node_id}/weight", body)
        assert (status, codes(answer)) == (422, [("weight", code)])


# --- attention -------------------------------------------------------------------------------


async def test_what_needs_attention_is_told_in_ones_language(api: Api) -> None:
    status, answer = await api.call("GET", "/attention")
    assert (status, answer["items"], answer["succeeded"], answer["failed"]) == (200, [], 0, 0)
    assert answer["looked_at"] is not None
    await api.job()
    api.admin.clock.advance(10)
    status, answer = await api.call("GET", "/attention")
    assert status == 200
    (concern,) = answer["items"]
    assert (concern["kind"], concern["severity"]) == ("no_nodes", "error")
    assert (concern["executor_name"], concern["since"]) == ("billing", None)
    assert concern["message"] == "“billing” has jobs, but no live node."
    _, chinese = await api.call("GET", "/attention", Accept_Language="zh-CN")
    assert "billing" in chinese["items"][0]["message"]
    assert chinese["items"][0]["message"] != concern["message"]
