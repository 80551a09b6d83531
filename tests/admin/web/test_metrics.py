"""Who may read `/metrics`: on the console's port and on one of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp.test_utils import TestClient, TestServer

from tests.admin.kit.served import Client, Served
from tickwheel_admin.domain.users.user import Grant, Role
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.web.metrics import METRICS, create_metrics_application

TOKEN = "a-token-that-nobody-guesses"


@asynccontextmanager
async def scraped(site: Served, token: str | None) -> AsyncIterator[Client]:
    assert site.client.app is not None
    app = create_metrics_application(site.client.app[METRICS], token)
    async with TestClient(TestServer(app)) as client:
        yield client


async def test_the_consoles_port_shows_it_to_whoever_may_see_everything(site: Served) -> None:
    everything = await site.token_for("grafana", Role.VIEWER)
    executor = await site.services.executors.create(COMMAND_LINE, name="billing", description="")
    some = await site.token_for("some", {executor.id: Grant(Role.ADMIN)})

    answer = await site.client.get("/metrics", headers=everything)

    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'executor="billing"' in await answer.text()
    assert (await site.client.get("/metrics", headers=some)).status == 403
    assert (await site.client.get("/metrics", headers={"Authorization": "Bearer x"})).status == 401


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer  {TOKEN} ", 200),
        (TOKEN, 401),
        (f"Basic {TOKEN}", 401),
        (f"Bearer {TOKEN}x", 401),
        ("Bearer ", 401),
        ("Bearer \udcff\udcfe", 401),
        (None, 401),
    ],
)
async def test_a_port_of_its_own_asks_for_its_token(
    site: Served, sent: str | None, status: int
) -> None:
    async with scraped(site, TOKEN) as client:
        headers = {} if sent is None else {"Authorization": sent}
        answer = await client.get("/metrics", headers=headers)

        assert answer.status == status
        assert ("tickwheel_build_info" in await answer.text()) == (status == 200)
        assert answer.headers.get("WWW-Authenticate") == ("Bearer" if status == 401 else None)


async def test_a_port_of_its_own_has_nothing_else(site: Served) -> None:
    async with scraped(site, None) as client:
        assert (await client.get("/metrics")).status == 200
        for path in ("/", "/healthz", "/login", "/api/v1/jobs", "/metrics/", "/static/x"):
            answer = await client.get(path)
            assert answer.status == 404, path
            assert answer.headers["Content-Security-Policy"]
        assert (await client.post("/metrics", data=b"x")).status == 405


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", "openmetrics"),
        ("application/openmetrics-text;version=\u0661;escaping=x\u2028", "openmetrics"),
        ("text/plain;version=9.9.9-x;escaping=values", "text/plain; version=0.0.4"),
        ("*/*", "text/plain; version=0.0.4"),
    ],
)
async def test_the_format_is_one_of_two_whatever_is_asked_for(
    site: Served, accept: str, kind: str
) -> None:
    async with scraped(site, None) as client:
        answer = await client.get("/metrics", headers={"Accept": accept})

        assert answer.status == 200
        assert kind in answer.headers["Content-Type"]
