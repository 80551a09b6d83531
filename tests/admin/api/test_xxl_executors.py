"""Executors of the protocol `xxl_job`, as programs add, read and change them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.admin.kit.served import Served, served
from tickwheel_admin.domain.users.user import Role

ALL = "/api/v1/executors"
TOKEN = "an-access-token-of-orders"
NEW: dict[str, Any] = {
    "name": "orders",
    "protocol": "xxl_job",
    "xxl_job": {"app_name": "orders-executor", "token": TOKEN, "addresses": None},
}


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as admin:
        admin.client.session.headers.update(await admin.token_for("root", Role.ADMIN))
        yield admin


async def call(admin: Served, method: str, path: str, body: object = None) -> tuple[int, Any]:
    response = await admin.client.request(method, path, json=body)
    return response.status, await response.json() if response.status != 204 else None


async def test_one_is_added_read_and_changed(admin: Served) -> None:
    status, made = await call(admin, "POST", ALL, NEW)
    assert (status, made) == (201, {"id": made["id"], "name": "orders", "protocol": "xxl_job"})
    one = f"{ALL}/{made['id']}"

    changed = {"addresses": ["http://10.0.0.5:9999/"], "token": "another-token"}
    assert (await call(admin, "PUT", f"{one}/xxl-job", changed))[0] == 204

    status, read = await call(admin, "GET", one)
    assert status == 200
    assert read["protocol"] == "xxl_job"
    assert read["schemas"] == {}
    known = read["xxl_job"].pop("known_addresses")
    assert read["xxl_job"] == {
        "app_name": "orders-executor",
        "addresses": ["http://10.0.0.5:9999"],
        "has_default_token": False,
    }
    assert [(each["address"], each["dialect"], each["calls"]) for each in known] == [
        ("http://10.0.0.5:9999", None, 0)
    ]
    assert "token" not in str(read).replace("old_token", "").replace("default_token", "")

    assert (await call(admin, "PUT", f"{one}/xxl-job", {"addresses": None}))[0] == 204
    address = f"{one}/addresses?address=http://10.0.0.5:9999/"
    assert (await call(admin, "DELETE", address))[0] == 204
    assert (await call(admin, "DELETE", address))[0] == 404
    assert (await call(admin, "POST", f"{one}/token", {}))[1]["error"][
        "code"
    ] == "executor.other_protocol"


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({**NEW, "xxl_job": {"app_name": "orders"}}, ["xxl_job.token"]),
        ({**NEW, "xxl_job": None}, ["xxl_job"]),
        ({**NEW, "xxl_job": {**NEW["xxl_job"], "url": "x"}}, ["xxl_job.url"]),
        ({**NEW, "xxl_job": {**NEW["xxl_job"], "addresses": "x"}}, ["xxl_job.addresses"]),
        ({**NEW, "xxl_job": {**NEW["xxl_job"], "token": 5}}, ["xxl_job.token"]),
        ({**NEW, "xxl_job": {**NEW["xxl_job"], "addresses": ["x"]}}, ["xxl_job.addresses[0]"]),
        ({**NEW, "protocol": "quartz"}, ["protocol", "xxl_job"]),
        ({"name": "orders", "xxl_job": NEW["xxl_job"]}, ["xxl_job"]),
    ],
)
async def test_what_is_wrong_is_named(admin: Served, body: object, fields: list[str]) -> None:
    status, refused = await call(admin, "POST", ALL, body)

    assert status == 422
    assert [each["field"] for each in refused["error"]["problems"]] == fields
    assert TOKEN not in str(refused)


async def test_an_executor_of_the_sdk_has_none_of_this(admin: Served) -> None:
    _status, made = await call(admin, "POST", ALL, {"name": "billing"})
    one = f"{ALL}/{made['id']}"

    _status, read = await call(admin, "GET", one)
    assert read["protocol"] == "tickwheel"
    assert "xxl_job" not in read
    status, refused = await call(admin, "PUT", f"{one}/xxl-job", {"token": "x"})
    assert (status, refused["error"]["code"]) == (409, "executor.other_protocol")
