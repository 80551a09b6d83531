"""Ids of another executor in filters and bodies: answered as ids of nothing, without any effect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.admin.kit.routes import (
    FOREIGN,
    MISSING,
    Ids,
    Rewind,
    address,
    all_routes,
    headers_of,
    logged_in,
    names_of,
    parameters_of,
    two_executors,
)
from tests.admin.kit.served import Served
from tickwheel_admin.domain.users.user import Grant, Role, everywhere

FILTERS = ("executor_id", "job_id", "node_id", "run_id", "trigger_id", "user_id")
# What somebody with one executor sends; %(name)s is an id of theirs, %(foreign)s one that is not.
BODIES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST jobs", "executor_id", {"executor_id": "%(foreign)s", "name": "x", "handler": "h"}),
    ("POST jobs/%(job_id)s/run", "node_id", {"node_id": "%(foreign)s"}),
    (
        "POST jobs",
        "job_id",
        {
            "executor_id": "%(executor_id)s",
            "name": "x",
            "handler": "h",
            "children": [{"job_id": "%(foreign)s"}],
        },
    ),
    ("POST runs/cancel", "run_id", {"runs": ["%(foreign)s"]}),
    ("POST runs/retry", "run_id", {"runs": ["%(foreign)s"]}),
    ("POST tokens", "executor_id", {"name": "x", "executors": ["%(foreign)s"]}),
]


async def somebody(site: Served, own: Ids) -> dict[str, str]:
    """Headers of a developer with one executor."""
    grants = {int(own["executor_id"]): Grant(Role.DEVELOPER)}
    return headers_of(await logged_in(site, "somebody", grants))


async def test_filters_by_ids_of_another_executor_find_what_filters_by_nothing_find(
    site: Served,
) -> None:
    own, other = await two_executors(site)
    headers = await somebody(site, own)
    routes = [route for route in all_routes(site.client) if route.method == "GET" and route.api]
    asked = 0
    for route in routes:
        known = await names_of(site, address(route, own), headers)
        for name in (each for each in FILTERS if each in known):
            asked += 1
            said = []
            for ids in (other, MISSING):
                response = await site.client.get(
                    f"{address(route, own)}?{name}={ids[name]}", headers=headers
                )
                text = await response.text()
                assert FOREIGN not in text, f"{route.path} {name}"
                said.append(
                    (response.status, text.replace(response.headers["X-Correlation-Id"], ""))
                )
            assert said[0] == said[1], f"{route.path} {name}"
    assert asked > 10


async def test_pages_tell_nothing_of_another_executor_whatever_they_are_asked_for(
    site: Served,
) -> None:
    own, other = await two_executors(site)
    headers = await somebody(site, own)
    asked_for = {name: str(other[name]) for name in FILTERS}
    asked_for |= {name.removesuffix("_id"): value for name, value in asked_for.items()}
    pages = [route for route in all_routes(site.client) if route.method == "GET" and not route.api]
    for route in pages:
        response = await site.client.get(
            address(route, own), params=asked_for, headers=headers, allow_redirects=False
        )
        if response.content_type == "text/event-stream":
            response.close()
        else:
            assert FOREIGN not in await response.text(), route.path
    assert len(pages) > 50


async def test_a_body_with_ids_of_another_executor_is_one_with_ids_of_nothing(
    site: Served, tmp_path: Path
) -> None:
    own, other = await two_executors(site)
    headers = await somebody(site, own)
    rewind = Rewind(tmp_path / "tickwheel.db")
    for request_line, name, body in BODIES:
        method, path = request_line.split()
        said = []
        for ids in (other, MISSING):
            known = {**own, "foreign": ids[name]}
            sent = json.loads(json.dumps(body).replace('"%(', "%(").replace(')s"', ")s") % known)
            response = await site.client.request(
                method, f"/api/v1/{path % known}", headers=headers, json=sent
            )
            text = (await response.text()).replace(response.headers["X-Correlation-Id"], "")
            said.append((response.status, text.replace(str(ids[name]), "")))
        assert said[0] == said[1], request_line
        assert said[0][0] in (404, 422) or '"runs": []' in said[0][1], request_line
        assert rewind.changes() == [], request_line
    rewind.close()


async def test_what_belongs_to_something_else_is_not_found_below_this(site: Served) -> None:
    """Also by who may do everything: an address says one thing, or it says nothing."""
    own, other = await two_executors(site)
    headers = headers_of(await logged_in(site, "root", everywhere(Role.ADMIN)))
    routes = [
        route for route in all_routes(site.client)
        if len([name for name in parameters_of(route) if name in MISSING]) > 1
    ]  # fmt: skip
    wrong = []
    for route in routes:
        last = [name for name in parameters_of(route) if name in MISSING][-1]
        response = await site.client.request(
            route.method, address(route, {**own, last: other[last]}), headers=headers
        )
        if response.status != 404:
            wrong.append(f"{route.method} {route.path} answers {response.status}")

    assert wrong == []
    assert len(routes) > 5
