"""Logging in at an OpenID provider: who comes in, as whom, and what they may do then."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestServer

from tests.admin.kit.clock import Clock
from tests.admin.kit.oidc import Oidc, oidc_world
from tests.admin.kit.served import GOOD_PASSWORD, everywhere
from tests.support.oidc_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    LocalProvider,
    ec_key,
    local_provider,
)
from tickwheel_admin.domain.users.oidc import (
    OidcSettings,
    claim_at,
    grants_of_groups,
    groups_of,
    parse_role_rules,
    user_name_of,
)
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Grant, Role
from tickwheel_admin.services.system.audit import AuditQuery
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.services.users.lists import UserItem
from tickwheel_admin.services.users.oidc.http import ProviderUnusable, ask
from tickwheel_admin.services.users.oidc.provider import OidcProvider

ADMIN = {ALL_EXECUTORS: Grant(Role.ADMIN)}


async def person(oidc: Oidc, name: str) -> UserItem | None:
    people = await oidc.services.users.list(COMMAND_LINE)
    return next((each for each in people if each.name == name), None)


async def notice(answer: ClientResponse) -> str:
    """What the login page says is wrong."""
    found = re.search(r'role="alert">.*?<p>(.*?)</p>', await answer.text(), re.DOTALL)
    assert found is not None
    return found[1]


# --- people ---------------------------------------------------------------------------------------


async def test_a_first_login_makes_the_person_with_the_groups_roles(oidc: Oidc) -> None:
    billing = await oidc.services.executors.create(COMMAND_LINE, name="billing")
    oidc.provider.person["groups"] = ["ops", "unknown"]

    answer = await oidc.log_in(next_page="/runs?state=failed")

    assert (answer.status, answer.headers["Location"]) == (303, "/runs?state=failed")
    assert await oidc.who() == 200
    ada = await person(oidc, "ada")
    assert ada is not None
    assert (ada.is_from_oidc, ada.has_password) == (True, False)
    assert ada.grants == {billing.id: Grant(Role.OPERATOR)}
    noted = await oidc.services.audit.page(COMMAND_LINE, AuditQuery(action="user."))
    by_action = {each.action: each for each in noted.items}
    assert by_action["user.logged_in"].detail == {"provider": oidc.provider.url}
    assert by_action["user.created"].user_name == "Example SSO"


async def test_the_login_page_has_a_button_that_keeps_where_one_wanted_to_go(oidc: Oidc) -> None:
    page = await (await oidc.client.get("/login?next=/runs")).text()

    assert "Log in with Example SSO" in page
    assert 'href="/login/oidc?next=%2Fruns"' in page
    assert 'name="password"' in page


async def test_a_person_is_found_by_subject_whatever_the_name_is_now(oidc: Oidc) -> None:
    await oidc.log_in()
    oidc.provider.person["preferred_username"] = "ada.lovelace"

    await oidc.log_in()

    assert [each.name for each in await oidc.services.users.list(COMMAND_LINE)] == ["ada"]


@pytest.mark.parametrize("from_oidc", [False, True])
async def test_somebody_elses_name_is_not_taken_over(oidc: Oidc, from_oidc: bool) -> None:
    if from_oidc:
        await oidc.log_in()
        await oidc.services.logins.logout(_session_of(oidc))
        oidc.provider.person["sub"] = "another"
    else:
        await oidc.services.users.create(COMMAND_LINE, "ada", grants=everywhere(Role.VIEWER))

    answer = await oidc.log_in()

    assert answer.status == 409
    assert "somebody else is called that here" in await notice(answer)
    assert await oidc.who() == 401


def _session_of(oidc: Oidc) -> str:
    jar = oidc.client.session.cookie_jar.filter_cookies(oidc.client.make_url("/"))
    return jar["tickwheel_session"].value


async def test_who_is_shut_out_stays_out(oidc: Oidc) -> None:
    await oidc.log_in()
    await oidc.services.users.create(COMMAND_LINE, "root", grants=ADMIN)
    await oidc.services.users.set_disabled(COMMAND_LINE, "ada", disabled=True)

    answer = await oidc.log_in()

    assert answer.status == 401
    assert "shut out" in await notice(answer)
    assert await oidc.who() == 401


async def test_nobody_is_made_whose_groups_have_no_role(oidc: Oidc) -> None:
    oidc.provider.person["groups"] = ["sales"]

    answer = await oidc.log_in()

    assert answer.status == 403
    assert "none of your groups has a role" in await notice(answer)
    assert await person(oidc, "ada") is None


async def test_a_role_that_is_taken_away_ends_other_sessions(oidc: Oidc) -> None:
    await oidc.services.users.create(COMMAND_LINE, "root", grants=ADMIN)
    await oidc.services.executors.create(COMMAND_LINE, name="billing")
    await oidc.log_in()
    answer = await oidc.come_back(
        oidc.provider.authorize(await oidc.begin(oidc.stranger)), oidc.stranger
    )
    assert (answer.status, await oidc.who(), await oidc.who(oidc.stranger)) == (303, 200, 200)
    oidc.provider.person["groups"] = ["ops"]

    await oidc.log_in()

    ada = await person(oidc, "ada")
    assert ada is not None
    assert [each.role for each in ada.grants.values()] == [Role.OPERATOR]
    assert (await oidc.who(), await oidc.who(oidc.stranger)) == (200, 401)


async def test_the_last_administrator_stays_one_whatever_the_provider_says(oidc: Oidc) -> None:
    await oidc.log_in()
    oidc.provider.person["groups"] = []

    assert (await oidc.log_in()).status == 303

    ada = await person(oidc, "ada")
    assert ada is not None
    assert ada.grants == ADMIN


async def test_without_rules_people_wait_until_they_are_given_a_role(tmp_path: Path) -> None:
    async with oidc_world(tmp_path, oidc_roles=None) as oidc:
        refused = await oidc.log_in()
        told = await notice(refused)
        ada = await person(oidc, "ada")
        assert ada is not None
        await oidc.services.users.set_grants(COMMAND_LINE, ada.id, everywhere(Role.VIEWER))
        let_in = await oidc.log_in()

    assert (refused.status, let_in.status) == (403, 303)
    assert "no role here yet" in told


async def test_groups_may_come_from_the_userinfo_endpoint_alone(oidc: Oidc) -> None:
    del oidc.provider.person["groups"]
    oidc.provider.told_when_asked = {"sub": oidc.provider.person["sub"], "groups": ["admins"]}

    assert (await oidc.log_in()).status == 303


async def test_what_is_told_of_another_subject_does_not_count(oidc: Oidc) -> None:
    del oidc.provider.person["groups"]
    oidc.provider.told_when_asked = {"sub": "somebody else", "groups": ["admins"]}

    assert (await oidc.log_in()).status == 403


async def test_two_first_logins_at_once_make_one_person(oidc: Oidc) -> None:
    ways = [
        (client, oidc.provider.authorize(await oidc.begin(client)))
        for client in (oidc.client, oidc.stranger)
    ]

    answers = await asyncio.gather(*(oidc.come_back(url, client) for client, url in ways))

    assert [answer.status for answer in answers] == [303, 303]
    assert len(await oidc.services.users.list(COMMAND_LINE)) == 1


# --- several admins, one browser ------------------------------------------------------------------


async def test_another_admin_may_answer_the_callback(oidc: Oidc) -> None:
    back = oidc.provider.authorize(await oidc.begin())

    answer = await oidc.come_back(back, oidc.elsewhere)

    assert answer.status == 303
    assert (await oidc.who(), await oidc.who(oidc.elsewhere)) == (200, 200)


async def test_a_browser_at_another_address_is_sent_to_the_consoles_first(oidc: Oidc) -> None:
    """Else the cookie would be kept for a host that the provider never sends it back to."""
    answer = await oidc.elsewhere.get("/login/oidc?next=/jobs", allow_redirects=False)

    assert answer.headers["Location"] == f"{oidc.console_url}/login/oidc?next=/jobs&here=yes"
    # A proxy that hides the host: once is enough.
    again = await oidc.elsewhere.get("/login/oidc?next=/jobs&here=yes", allow_redirects=False)
    assert again.headers["Location"].startswith(oidc.provider.url)


async def test_the_cookie_has_its_flags(tmp_path: Path) -> None:
    async with oidc_world(tmp_path, trusted_proxies=["127.0.0.1"]) as oidc:
        plain = await oidc.client.get("/login/oidc", allow_redirects=False)
        over_tls = await oidc.client.get(
            "/login/oidc", headers={"X-Forwarded-Proto": "https"}, allow_redirects=False
        )

    (cookie,) = plain.headers.getall("Set-Cookie")
    assert cookie.startswith("tickwheel_oidc=")
    assert all(flag in cookie for flag in ("HttpOnly", "SameSite=Lax", "Max-Age=600", "Path=/"))
    (cookie,) = over_tls.headers.getall("Set-Cookie")
    assert cookie.startswith("__Host-tickwheel_oidc=")
    assert "Secure" in cookie


# --- keys and addresses ---------------------------------------------------------------------------


def provider_of(local: LocalProvider, clock: Clock) -> OidcProvider:
    settings = OidcSettings(
        issuer=local.url,
        client_id=CLIENT_ID,
        client_secret=CLIENT_SECRET,
        name="",
        redirect_url="",
        username_claim="",
        roles_claim="",
        roles=(),
    )
    return OidcProvider(settings, monotonic=clock.monotonic)


async def test_addresses_and_keys_are_kept_and_keys_asked_for_again_when_one_is_new() -> None:
    clock = Clock()
    async with local_provider(clock) as local:
        provider = provider_of(local, clock)

        async def has_key(kid: str) -> bool:
            return bool(await provider.keys(wanted=lambda key: key.kid == kid))

        assert await has_key("ec-1")
        clock.advance(600)
        assert await has_key("ec-1")
        assert local.asked == ["/.well-known/openid-configuration", "/keys"]
        local.key = ec_key("ec-2")

        assert await has_key("ec-2")
        assert not await has_key("ec-3")  # asked a moment ago: no flood of unknown keys
        assert local.asked.count("/keys") == 2

        clock.advance(3_601)
        local.key = ec_key("ec-4")
        assert not await has_key("ec-2")  # withdrawn: believed an hour longer at most
        assert local.asked.count("/.well-known/openid-configuration") == 2


async def test_after_a_failure_those_who_waited_do_not_ask_as_well() -> None:
    clock = Clock()
    async with local_provider(clock) as local:
        local.metadata = {"issuer": "https://evil.example"}
        provider = provider_of(local, clock)

        answers = await asyncio.gather(
            *(provider.addresses() for _ in range(5)), return_exceptions=True
        )

        assert all(isinstance(each, ProviderUnusable) for each in answers)
        assert len(local.asked) == 1
        clock.advance(3)
        local.metadata = {}
        assert (await provider.addresses()).token == f"{local.url}/token"


@pytest.mark.parametrize("path", ["/moved", "/huge", "/text"])
async def test_only_a_short_plain_answer_from_the_address_itself_counts(path: str) -> None:
    async def moved(_request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/json"})

    async def huge(_request: web.Request) -> web.Response:
        return web.json_response({"padding": "x" * 300_000})

    async def text(_request: web.Request) -> web.Response:
        return web.Response(text="hello")

    async def told(_request: web.Request) -> web.Response:
        return web.json_response({"a": 1})

    app = web.Application()
    for name, handler in {"moved": moved, "huge": huge, "text": text, "json": told}.items():
        app.router.add_get(f"/{name}", handler)
    async with TestServer(app) as server:
        assert (await ask(str(server.make_url("/json")))).content == {"a": 1}
        assert (await ask(str(server.make_url(path)))).content == {}


async def test_a_provider_that_is_away_is_told_and_passwords_still_work(tmp_path: Path) -> None:
    async with oidc_world(tmp_path, oidc_issuer="http://127.0.0.1:9") as oidc:
        password = (
            await oidc.services.users.create(COMMAND_LINE, "root", grants=everywhere(Role.VIEWER))
        ).password
        answer = await oidc.client.get("/login/oidc", allow_redirects=False)
        told = await notice(answer)
        by_password = await oidc.client.post(
            "/login", data={"name": "root", "password": password}, allow_redirects=False
        )

    assert answer.status == 503
    assert "Example SSO does not answer" in told
    assert answer.headers["X-Correlation-Id"] in told
    assert by_password.status == 303


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://sso.example/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"jwks_uri": None},
    ],
)
async def test_settings_of_a_provider_that_cannot_be_right_are_not_followed(
    oidc: Oidc, metadata: dict[str, str]
) -> None:
    oidc.provider.metadata = metadata

    answer = await oidc.client.get("/login/oidc", allow_redirects=False)

    assert answer.status == 503
    assert "do not understand each other" in await notice(answer)


async def test_a_provider_that_takes_the_secret_in_the_form_gets_it_there(oidc: Oidc) -> None:
    oidc.provider.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}

    answer = await oidc.log_in()

    assert answer.status == 303


# --- without passwords ----------------------------------------------------------------------------


async def test_password_login_can_be_switched_off(tmp_path: Path) -> None:
    async with oidc_world(tmp_path, password_login=False) as oidc:
        password = (
            await oidc.services.users.create(COMMAND_LINE, "root", grants=everywhere(Role.VIEWER))
        ).password
        page = await (await oidc.client.get("/login")).text()
        answer = await oidc.client.post("/login", data={"name": "root", "password": password})
        status = await oidc.who()

    assert 'name="password"' not in page
    assert "Log in with Example SSO" in page
    assert (answer.status, status) == (403, 401)


async def test_without_a_provider_there_is_no_button_and_no_address(tmp_path: Path) -> None:
    async with oidc_world(
        tmp_path,
        oidc_issuer=None,
        oidc_client_id=None,
        oidc_client_secret=None,
        oidc_name=None,
        oidc_roles=None,
    ) as oidc:
        page = await (await oidc.client.get("/login")).text()
        answers = [
            (await oidc.client.get(path)).status for path in ("/login/oidc", "/login/oidc/callback")
        ]

    assert "/login/oidc" not in page
    assert answers == [404, 404]


async def test_nobody_from_the_provider_has_a_password_to_log_in_with(oidc: Oidc) -> None:
    await oidc.log_in()

    for password in ("", GOOD_PASSWORD):
        answer = await oidc.stranger.post("/login", data={"name": "ada", "password": password})
        assert answer.status == 401


# --- what claims mean -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("Ada", "ada"),
        ("ada@example.org", "ada@example.org"),
        ("José Ünal", "jose-unal"),
        ("CORP\\ada", "corp-ada"),
        ("  .._ada  ", "ada"),
        ("a" * 300, "a" * 100),
        ("李", None),
        ("\r\n", None),
        (["ada"], None),
        (None, None),
    ],
)
def test_names_are_made_to_fit_our_rule(told: object, name: str | None) -> None:
    assert user_name_of({"preferred_username": told}, "preferred_username") == name


def test_groups_are_found_by_name_or_by_path() -> None:
    claims = {"realm_access": {"roles": ["a", 1]}, "https://x.example/groups": "b"}

    assert groups_of(claims, "realm_access.roles") == {"a"}
    assert groups_of(claims, "https://x.example/groups") == {"b"}
    assert groups_of(claims, "groups") == frozenset()
    assert claim_at(claims, "realm_access.roles.deeper") is None


def test_of_several_groups_the_most_counts() -> None:
    rules = parse_role_rules(
        ["a=viewer", "b=developer+scripts", "c=operator@billing", "cn=d,ou=x=admin@billing"]
    )

    assert grants_of_groups(frozenset({"a", "b"}), rules) == {
        None: Grant(Role.DEVELOPER, scripts=True)
    }
    assert grants_of_groups(frozenset({"c", "cn=d,ou=x"}), rules) == {"billing": Grant(Role.ADMIN)}
    assert grants_of_groups(frozenset(), rules) == {}
