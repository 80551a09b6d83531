"""Whatever stands in a query: an answer that says so or finds nothing, never a failure.

Every declared route that reads is asked, with the names of parameters that any of them knows.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.admin.kit.routes import (
    Rewind,
    address,
    all_routes,
    headers_of,
    logged_in,
    names_of,
    two_executors,
)
from tests.admin.kit.served import Served
from tickwheel_admin.domain.users.user import Role, everywhere

NAMES = (  # of pages, which let others pass; endpoints tell theirs
    *("q", "text", "view", "state", "executor", "executor_id", "job", "job_id", "node", "user"),
    *("action", "object_id", "from", "to", "sort", "order", "cursor", "before", "after", "limit"),
    *("page", "period", "zone", "days", "start", "attempt", "line", "handler", "name", "tag"),
)
ATTACKS = (
    "' OR 1=1 --",
    "1; DROP TABLE run",
    'executor:"x\' OR 1=1" state:%00 tag:\\',
    "%_\\",
    "\x00",
    "1000000000000000000000",
    "-1",
    "NaN",
    "[]",
    "{{7*7}}${jndi:ldap://x}",
    "../../etc/passwd",
    "😀" * 300,
)


async def test_no_query_makes_a_list_fail_or_change_anything(site: Served, tmp_path: Path) -> None:
    own, _ = await two_executors(site)
    headers = headers_of(await logged_in(site, "root", everywhere(Role.ADMIN)))
    rewind = Rewind(tmp_path / "tickwheel.db")
    wrong = []
    for route in all_routes(site.client):
        if route.method != "GET" or route.path.startswith(("/static", "/events")):
            continue
        path = address(route, own)
        names = await names_of(site, path, headers) if route.api else NAMES
        for turn in range(0, len(ATTACKS), 4):
            given = {
                name: ATTACKS[(place + turn) % len(ATTACKS)] for place, name in enumerate(names)
            }
            response = await site.client.get(
                path, params=given, headers=headers, allow_redirects=False
            )
            if response.status >= 500:
                wrong.append(f"{route.path} answers {response.status} to {given}")
            if response.content_type == "text/event-stream":
                response.close()
            elif "49${" in await response.text():
                wrong.append(f"{route.path} evaluates what it was asked")
    assert wrong == []
    assert rewind.changes() == []
    rewind.close()


async def test_a_page_is_of_one_to_five_hundred(site: Served) -> None:
    headers = headers_of(await logged_in(site, "root", everywhere(Role.ADMIN)))
    lists = set()
    for route in all_routes(site.client):
        if route.method != "GET" or not route.api or "{" in route.path:
            continue
        if "limit" not in await names_of(site, route.path, headers):
            continue
        for limit in ("1000000000", "0", "-1", "NaN", "1.5", "[1]", "", "1&limit=2"):
            response = await site.client.get(f"{route.path}?limit={limit}", headers=headers)
            told = '"field": "limit"' in await response.text()
            assert (response.status, told) == (422, True), f"{route.path} {limit}"
            lists.add(route.path)
    assert len(lists) >= 5


@pytest.mark.parametrize("path", ["/jobs/bulk", "/runs/bulk"])
@pytest.mark.parametrize("what", [{}, {"do": "purge"}])
async def test_nothing_is_done_to_many_by_a_word_that_means_nothing(
    site: Served, tmp_path: Path, path: str, what: dict[str, str]
) -> None:
    await two_executors(site)
    headers = headers_of(await logged_in(site, "root", everywhere(Role.ADMIN)))
    rewind = Rewind(tmp_path / "tickwheel.db")

    response = await site.client.post(path, data=what | {"all": "yes"}, headers=headers)

    assert response.status == 400
    assert rewind.changes() == []
    rewind.close()
