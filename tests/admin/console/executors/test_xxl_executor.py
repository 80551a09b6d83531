"""Executors of XXL-JOB's protocol in the console."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.admin.kit.routes import headers_of, logged_in
from tests.admin.kit.served import Served, served
from tickwheel_admin.domain.users.user import Role, everywhere
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database.tables import xxl_address

TOKEN = "an-access-token-of-orders"
NEW = {
    "protocol": "xxl_job",
    "name": "orders",
    "app_name": "orders-executor",
    "token": TOKEN,
    "addresses": "http://10.0.0.5:9999/\nhttp://10.0.0.6:9999",
}


class Console:
    """A person in the console."""

    def __init__(self, admin: Served, headers: dict[str, str]) -> None:
        self.admin = admin
        self.headers = headers

    async def get(self, path: str) -> str:
        response = await self.admin.client.get(path, headers=self.headers)
        assert response.status == 200, path
        return html.unescape(await response.text())

    async def post(self, path: str, **form: str) -> tuple[int, str]:
        """Status, and where it leads or what it shows."""
        response = await self.admin.client.post(
            path, headers=self.headers, data=form, allow_redirects=False
        )
        shown = html.unescape(await response.text())
        return response.status, response.headers.get("Location", shown)


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with served(tmp_path) as admin:
        session = await logged_in(admin, "olga", everywhere(Role.ADMIN))
        yield Console(admin, headers_of(session))


async def test_one_is_added_shown_and_changed(console: Console) -> None:
    assert 'name="app_name"' not in await console.get("/executors/new")
    assert 'name="app_name"' in await console.get("/executors/new?protocol=xxl_job")

    status, page = await console.post("/executors/new", **NEW)
    assert status == 303

    def note_error(conn: sa.Connection) -> None:
        failed = {"dialect": "B", "calls": 7, "errors": 2, "error": "connection refused <b>"}
        conn.execute(sa.update(xxl_address).values(**failed))

    await console.admin.services.store.run(note_error)
    text = await console.get(page)
    for shown in (
        "orders-executor", "http://10.0.0.5:9999", "3.3 – 3.4", "connection refused <b>",
        "Does not answer", "/xxl-job-admin", "xxl.job.admin.addresses=", "xxl.ServerAddr(",
        "ExecutorConfig(", "set by hand",
    ):  # fmt: skip
        assert shown in text, shown
    for hidden in ("Rotate token", "Declared in code", TOKEN, "default_token"):
        assert hidden not in text, hidden

    form = await console.get(f"{page}/xxl-job")
    assert TOKEN not in form
    assert "http://10.0.0.5:9999\nhttp://10.0.0.6:9999" in form
    status, refused = await console.post(f"{page}/xxl-job", app_name="o", token="a b")
    assert status == 422
    assert refused.count("error-text") == 2
    assert "a b" not in refused
    status, _to = await console.post(
        f"{page}/xxl-job", app_name="orders-executor", token="default_token", addresses=""
    )
    assert status == 303
    text = await console.get(page)
    assert "which every copy of XXL-JOB comes with" in text
    assert "registered by its processes" in text
    removed = {"address": "http://10.0.0.6:9999"}
    assert (await console.post(f"{page}/xxl-job/remove", **removed))[0] == 303
    assert "http://10.0.0.6:9999" not in await console.get(page)


async def test_all_that_is_wrong_is_said_and_the_token_is_not_sent_back(console: Console) -> None:
    wrong = {**NEW, "name": "Orders", "token": "", "addresses": "nonsense"}

    status, page = await console.post("/executors/new", **wrong)

    assert status == 422
    assert page.count("error-text") == 3
    assert "xxl.job.accessToken in the executor’s configuration" in page
    assert 'name="app_name" value="orders-executor"' in page
    await console.post("/executors/new", **NEW)
    status, page = await console.post("/executors/new", **{**NEW, "name": "others"})
    assert status == 422
    assert "already register as “orders-executor”" in page
    assert TOKEN not in page


async def test_the_form_of_its_jobs_asks_for_one_text(console: Console) -> None:
    executor_id = await console.admin.services.xxl_executors.create(
        COMMAND_LINE, name="orders", app_name="orders-executor", token=TOKEN
    )
    form = await console.get(f"/jobs/new?executor={executor_id}")
    assert re.search(r'<textarea[^>]+name="param\.param"', form)
    assert "of @XxlJob in Java" in form

    status, page = await console.post(
        "/jobs/new",
        **{
            "executor_id": str(executor_id), "name": "sync", "handler": "syncOrders",
            "parameters_as": "form", "parameters": "{}", "param.param": "a=1\nb=2",
            "blocking": "serial", "when_cut_off": "stop", "concurrency": "1",
        },
    )  # fmt: skip
    assert status == 303, page
    job_id = int(page.rpartition("/")[2])
    job = (await console.admin.services.jobs.get(COMMAND_LINE, job_id)).item.job
    assert job.config.parameters == '{"param":"a=1\\nb=2"}'
    assert job.config.blocking.when_cut_off.value == "continue"
    assert "a=1" in await console.get(f"/jobs/{job_id}/edit")
