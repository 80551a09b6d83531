"""Secrets of executors by the API and in the console: set, listed, deleted, and never shown."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.admin.kit.routes import headers_of, logged_in
from tests.admin.kit.served import Served, served
from tickwheel_admin.domain.users.user import Role, everywhere
from tickwheel_admin.services.users.administration import COMMAND_LINE

MARKER = "canary-7c1f9e"


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as admin:
        yield admin


async def test_programs_set_list_and_delete_them(admin: Served) -> None:
    executor = await admin.services.executors.create(COMMAND_LINE, name="billing", description="")
    headers = await admin.token_for("root", Role.ADMIN)
    path = f"/api/v1/executors/{executor.id}/secrets"
    answers = []

    async def call(method: str, path: str, body: object = None) -> tuple[int, Any]:
        response = await admin.client.request(method, path, json=body, headers=headers)
        answers.append(await response.text() + repr(response.headers))
        return response.status, await response.json() if response.status != 204 else None

    assert (await call("PUT", f"{path}/API_KEY", {"value": MARKER}))[0] == 204
    assert (await call("PUT", f"{path}/API_KEY", {"value": MARKER + "2"}))[0] == 204
    status, listed = await call("GET", path)
    assert (status, [(each["name"], each["version"]) for each in listed["items"]]) == (
        200, [("API_KEY", 2)],
    )  # fmt: skip
    for name, body, field in (
        ("API-KEY", {"value": MARKER}, "name"),
        ("KEY", {"value": 7}, "value"),
        ("KEY", {"value": "abc"}, "value"),
        ("KEY", {}, "value"),
        ("KEY", {"value": MARKER + "\0"}, "value"),
        ("KEY", {"value": MARKER, "name": MARKER}, "name"),
    ):
        status, refused = await call("PUT", f"{path}/{name}", body)
        assert (status, refused["error"]["problems"][0]["field"]) == (422, field), (name, refused)
    assert (await call("DELETE", f"{path}/KEY"))[0] == 404
    assert (await call("DELETE", f"{path}/API_KEY"))[0] == 204
    assert (await call("GET", path))[1] == {"items": []}
    assert MARKER not in "".join(answers)


async def test_people_set_and_delete_them_and_no_page_shows_a_value(admin: Served) -> None:
    executor = await admin.services.executors.create(COMMAND_LINE, name="billing", description="")
    headers = headers_of(await logged_in(admin, "olga", everywhere(Role.ADMIN)))
    path, shown = f"/executors/{executor.id}/secrets", []

    async def get(path: str) -> str:
        response = await admin.client.get(path, headers=headers)
        shown.append(html.unescape(await response.text()))
        assert response.status == 200, path
        return shown[-1]

    async def post(path: str, **form: str) -> int:
        response = await admin.client.post(path, headers=headers, data=form, allow_redirects=False)
        shown.append(html.unescape(await response.text()))
        return response.status

    assert "No secrets yet" in await get(path)
    assert await post(f"{path}/set", name="not a name", value=MARKER) == 422
    assert 'value="not a name"' in shown[-1]
    assert await post(f"{path}/set", name="API_KEY", value=MARKER) == 303
    assert await post(f"{path}/set", name="PEM", lines=f"{MARKER}\r\nsecond\r\n") == 303
    stored = await admin.services.secrets.list(COMMAND_LINE, executor.id)
    assert [each.name for each in stored] == ["API_KEY", "PEM"]
    await admin.services.jobs.create(
        COMMAND_LINE,
        executor.id,
        {"name": "rates", "handler": "http", "parameters": {"a": "${secret.API_KEY}"}},
    )
    assert ">rates</a>" in await get(path)
    assert "readonly" in await get(f"{path}/set?name=API_KEY")
    assert "uses it" in await get(f"{path}/API_KEY/delete")
    assert await post(f"{path}/API_KEY/delete") == 409
    assert "“rates”" in shown[-1]
    assert await post(f"{path}/PEM/delete") == 303
    assert "API_KEY" in await get("/audit?action=executor.secret_added")
    assert MARKER not in "".join(shown)
