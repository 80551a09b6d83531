"""/api/v1/users, /tokens, /audit and /me from outside, by session and by token."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.admin.kit.routes import headers_of, logged_in
from tests.admin.kit.served import GOOD_PASSWORD, Served, served
from tickwheel_admin.domain.users.user import Role, everywhere
from tickwheel_admin.services.users.administration import COMMAND_LINE


class Api:
    """Short calls as one administrator."""

    def __init__(self, admin: Served, headers: Mapping[str, str]) -> None:
        self.admin = admin
        self.headers = headers

    async def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        response = await self.admin.client.request(
            method, f"/api/v1{path}", json=body, headers=self.headers
        )
        return response.status, await response.json() if response.status != 204 else None

    def bearing(self, token: str) -> Api:
        return Api(self.admin, {"Authorization": f"Bearer {token}"})


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with served(tmp_path) as admin:
        session = await logged_in(admin, "root", everywhere(Role.ADMIN))
        yield Api(admin, headers_of(session))


async def test_a_person_is_added_changed_shut_out_and_forgotten(api: Api) -> None:
    executor_id = (await api.admin.services.executors.create(COMMAND_LINE, name="billing")).id
    grants = [
        {"executor_id": None, "role": "viewer"},
        {"executor_id": executor_id, "role": "developer", "scripts": True},
    ]
    status, new = await api.call("POST", "/users", {"name": "Olga", "grants": grants})
    assert (status, new["name"]) == (201, "olga")
    one = f"/users/{new['id']}"
    _, person = await api.call("GET", one)
    assert person["grants"] == grants
    assert (person["must_change_password"], person["logged_in_at"]) == (True, None)
    first = await api.admin.services.logins.login(
        "olga", new["password"], address="192.0.2.1", user_agent="Firefox"
    )
    _, person = await api.call("GET", one)
    assert [each["user_agent"] for each in person["sessions"]] == ["Firefox"]
    assert "key" not in person["sessions"][0]
    assert await api.call("DELETE", f"{one}/sessions") == (200, {"ended": 1})
    assert await api.admin.services.logins.session(first.cookie) is None

    status, person = await api.call("PUT", one, {"grants": grants[:1], "disabled": True})
    assert (status, person["grants"], person["disabled"]) == (200, grants[:1], True)
    _, person = await api.call("PUT", one, {"disabled": False})
    assert (person["grants"], person["disabled"]) == (grants[:1], False)
    _, listed = await api.call("GET", "/users?text=OL")
    assert [each["name"] for each in listed["items"]] == ["olga"]
    status, reset = await api.call("POST", f"{one}/reset-password")
    assert status == 200
    assert reset["password"] != new["password"]
    assert (await api.call("DELETE", one))[0] == 204
    assert (await api.call("GET", one))[0] == 404
    _, audit = await api.call("GET", "/audit?action=user.&user=root")
    assert [each["action"] for each in audit["items"]] == [
        "user.deleted", "user.password_reset", "user.enabled", "user.disabled",
        "user.grants_changed", "user.sessions_ended", "user.created",
        "user.password_changed", "user.logged_in",
    ]  # fmt: skip


GRANTS: list[tuple[object, str, str]] = [
    ("admin", "grants", "wrong_type"),
    ([7], "grants[0]", "wrong_type"),
    ([{"role": "root"}], "grants[0].role", "not_one_of"),
    ([{"executor_id": 1}], "grants[0].role", "required"),
    ([{"role": "viewer"}, {"role": "admin"}], "grants[1].executor_id", "grants.repeated"),
    ([{"role": "viewer", "executor_id": -1}], "grants[0].executor_id", "out_of_range"),
    ([{"role": "viewer", "executor_id": 77}], "grants", "executor.unknown"),
    ([{"role": "viewer", "scripts": "yes"}], "grants[0].scripts", "wrong_type"),
    ([{"role": "viewer", "scripts": True}], "grants", "grants.scripts_need_developer"),
]


async def test_grants_that_break_a_rule_are_refused_where_they_stand(api: Api) -> None:
    for grants, field, code in GRANTS:
        status, answer = await api.call("POST", "/users", {"name": "olga", "grants": grants})
        assert status == 422, grants
        problems = answer["error"]["problems"]
        assert [(each["field"], each["code"]) for each in problems] == [(field, code)]


async def test_one_makes_a_token_uses_it_and_ends_it(api: Api) -> None:
    executor_id = (await api.admin.services.executors.create(COMMAND_LINE, name="billing")).id
    wanted = {"name": "ci", "role": "operator", "executors": [executor_id], "valid_days": 30}
    status, new = await api.call("POST", "/tokens", wanted)
    assert status == 201
    token = api.bearing(new["token"])

    _, me = await token.call("GET", "/me")
    grant = {"executor_id": executor_id, "role": "operator"}
    assert (me["name"], me["grants"], me["token_id"]) == ("root", [grant], new["id"])
    _, listed = await token.call("GET", "/tokens")
    [item] = listed["items"]
    assert (item["name"], item["role"], item["executors"]) == ("ci", "operator", [executor_id])
    assert item["used_at"] is not None
    assert (await token.call("GET", f"/executors/{executor_id}"))[0] == 200
    assert (await token.call("POST", f"/executors/{executor_id}/token"))[0] == 403
    assert (await token.call("GET", "/users"))[0] == 403
    _, listed = await api.call("GET", "/tokens/all?limit=1")
    assert [each["user_name"] for each in listed["items"]] == ["root"]
    assert (await token.call("DELETE", f"/tokens/{new['id']}"))[0] == 204
    assert (await token.call("GET", "/me"))[0] == 401
    _, audit = await api.call("GET", "/audit?action=token.")
    acted = {each["action"]: each["detail"].get("by_token") for each in audit["items"]}
    assert acted == {"token.created": None, "token.revoked": new["id"]}


TOKENS: list[tuple[dict[str, object], str]] = [
    ({}, "name"),
    ({"name": "a\nb"}, "name"),
    ({"name": "x", "role": "root"}, "role"),
    ({"name": "x", "valid_days": 0}, "valid_days"),
    ({"name": "x", "valid_days": 3_651}, "valid_days"),
    ({"name": "x", "executors": []}, "executors"),
    ({"name": "x", "executors": "1"}, "executors"),
    ({"name": "x", "executors": ["1"]}, "executors"),
    ({"name": "x", "executors": [0]}, "executors"),
    ({"name": "x", "executors": [999]}, "executors"),
]


async def test_tokens_that_break_a_rule_are_refused(api: Api) -> None:
    for body, field in TOKENS:
        status, answer = await api.call("POST", "/tokens", body)
        assert status == 422, body
        assert [each["field"] for each in answer["error"]["problems"]] == [field]


async def test_even_an_administrators_token_makes_no_tokens_people_or_passwords(api: Api) -> None:
    token = await api.admin.services.api_tokens.create_for(COMMAND_LINE, "root", name="ci")
    for path, body in (
        ("/tokens", {"name": "x"}),
        ("/users", {"name": "x"}),
        ("/users/1/reset-password", None),
    ):
        status, answer = await api.bearing(token).call("POST", path, body)
        assert (status, answer["error"]["code"]) == (403, "token.not_in_person")
    await api.admin.services.logins.login("root", GOOD_PASSWORD, address="", user_agent="")


async def test_filters_of_the_audit_are_strict(api: Api) -> None:
    for query in (
        *("executor_id=x", "object_id=-1", "from=yesterday", "limit=0", "cursor=x", "who=me"),
        *("user=" + "x" * 101, "action=" + "x" * 51),
    ):
        status, answer = await api.call("GET", f"/audit?{query}")
        assert status == 422, query
        assert [each["field"] for each in answer["error"]["problems"]] == [query.split("=")[0]]
