"""Lists as lines of JSON: all pages in one answer, and what the last line says of a broken one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import ClientError, web

from tests.admin.api.test_api import Api, api
from tickwheel_admin.api import ndjson
from tickwheel_admin.api.ndjson import NDJSON
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.runs.service import Runs
from tickwheel_admin.store.database.database import DatabaseUnavailable

__all__ = ["api"]  # the fixture

ACCEPT = f"text/html, {NDJSON};q=0.9"


async def lines(api: Api, path: str) -> list[Any]:
    answer = await api.request("GET", path, Accept=ACCEPT)
    assert answer.status == 200
    assert answer.content_type == NDJSON
    return [json.loads(line) for line in (await answer.text()).splitlines()]


async def add_runs(api: Api, count: int) -> int:
    job_id = await api.job()
    for _ in range(count):
        status, _made = await api.call("POST", f"/jobs/{job_id}/run", {})
        assert status == 202
    return job_id


async def test_all_pages_come_in_one_answer(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndjson, "MAX_LIMIT", 2)
    job_id = await add_runs(api, 5)
    listed = await lines(api, f"/runs?job_id={job_id}&limit=1")
    _, page = await api.call("GET", "/runs")
    assert listed == page["items"]
    assert len(listed) == 5
    assert await lines(api, "/runs?state=failed") == []

    _, first = await api.call("GET", "/runs?limit=3")
    assert await lines(api, f"/runs?cursor={first['next']}") == page["items"][3:]
    assert [each["config"]["name"] for each in await lines(api, "/jobs")] == ["nightly"]


async def test_what_is_no_list_or_is_refused_is_answered_as_ever(api: Api) -> None:
    job_id = await api.job()
    one = await api.request("GET", f"/jobs/{job_id}", Accept=NDJSON)
    assert (one.status, one.content_type) == (200, "application/json")
    for path, status, code in (
        ("/runs?state=odd", 422, "invalid_input"),
        ("/runs?cursor=odd", 422, "invalid_input"),
    ):
        refused = await api.request("GET", path, Accept=NDJSON)
        assert (refused.status, (await refused.json())["error"]["code"]) == (status, code)
    nobody = await api.admin.token_for("noah", {})
    refused = await Api(api.admin, nobody).request("GET", "/runs", Accept=NDJSON)
    assert refused.status == 403
    viewer = Api(api.admin, await api.admin.token_for("vera", Role.VIEWER))
    assert len(await lines(viewer, "/jobs")) == 1


@pytest.mark.parametrize("broken", ["database", "time"])
async def test_a_list_that_breaks_off_says_where_to_go_on(
    api: Api, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    monkeypatch.setattr(ndjson, "MAX_LIMIT", 2)
    await add_runs(api, 5)
    if broken == "time":
        monkeypatch.setattr(ndjson, "MAX_SECONDS", -1.0)
    else:
        whole, asked = Runs.page, []

        async def page(self: Runs, *given: Any, **named: Any) -> Any:
            asked.append(1)
            if len(asked) == 2:
                raise DatabaseUnavailable("gone")
            return await whole(self, *given, **named)

        monkeypatch.setattr(Runs, "page", page)
    *items, last = await lines(api, "/runs")
    assert len(items) == 2
    code = {"time": "list.too_long", "database": "database.unavailable"}[broken]
    assert last["error"]["code"] == code
    monkeypatch.undo()
    rest = await lines(api, f"/runs?cursor={last['next']}")
    _, page_now = await api.call("GET", "/runs")
    assert items + rest == page_now["items"]


async def test_too_many_at_once_are_refused(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's lists leave room for those of others, and give it back when they end."""
    monkeypatch.setattr(ndjson, "MAX_LIMIT", 2)
    await add_runs(api, 5)
    viewer = Api(api.admin, await api.admin.token_for("vera", Role.VIEWER))
    whole, begun, go_on = Runs.page, asyncio.Event(), asyncio.Event()

    async def page(self: Runs, *given: Any, **named: Any) -> Any:
        found = await whole(self, *given, **named)
        begun.set()
        await go_on.wait()
        return found

    monkeypatch.setattr(ndjson, "MOST_OF_USER", 1)
    monkeypatch.setattr(ndjson, "MOST_STREAMS", 2)
    monkeypatch.setattr(Runs, "page", page)
    first = asyncio.create_task(lines(api, "/runs"))
    await begun.wait()
    refused = await api.request("GET", "/runs", Accept=NDJSON)
    assert refused.status == 429
    assert refused.headers["Retry-After"] == "5"

    begun.clear()
    second = asyncio.create_task(lines(viewer, "/runs"))
    await begun.wait()
    third = Api(api.admin, await api.admin.token_for("thea", Role.VIEWER))
    assert (await third.request("GET", "/runs", Accept=NDJSON)).status == 429
    go_on.set()
    assert len(await first) == len(await second) == 5
    assert len(await lines(api, "/runs")) == len(await lines(third, "/runs")) == 5


async def test_a_reader_that_takes_nothing_is_cut_off(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_runs(api, 2)

    async def takes_nothing(self: Any, data: bytes) -> None:
        raise TimeoutError

    monkeypatch.setattr(web.StreamResponse, "write", takes_nothing)
    with pytest.raises(ClientError):
        await lines(api, "/runs")
    monkeypatch.undo()
    assert len(await lines(api, "/runs")) == 2
