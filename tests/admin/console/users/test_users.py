"""The pages for people over real HTTP: their forms, what they show once, what they export."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from aiohttp import ClientSession, CookieJar

from tests.admin.kit.served import GOOD_PASSWORD, Client, Served, served
from tickwheel_admin.config import load_config
from tickwheel_admin.console.frame.locale import REQUEST_LOCALE, RequestLocale
from tickwheel_admin.console.system.configuration import configured
from tickwheel_admin.console.users.grants_form import MOST_ROWS, grant_rows
from tickwheel_admin.console.users.labels import browser_name, expiry_text, scope_text
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Actor, Grant, Role, everywhere
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database import tables

DAY = 86_400_000


class Browser:
    """Somebody logged in, who fills in forms."""

    def __init__(self, client: Client, csrf_token: str) -> None:
        self.client = client
        self.csrf_token = csrf_token

    async def get(self, address: str) -> str:
        async with self.client.get(address) as answer:
            assert answer.status == 200, (address, answer.status)
            return await answer.text()

    async def post(self, address: str, /, **fields: Any) -> tuple[int, str, str]:
        """Status, where it leads, what it shows."""
        data = {"csrf_token": self.csrf_token} | fields
        async with self.client.post(address, data=data, allow_redirects=False) as answer:
            return answer.status, answer.headers.get("Location", ""), await answer.text()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path, name="admin-1") as site:
        yield site


async def log_in(site: Served, name: str, grants: dict[int, Grant]) -> Browser:
    """A new person in the browser of the site."""
    one_time = (await site.services.users.create(COMMAND_LINE, name, grants=grants)).password
    form = {"name": name, "password": one_time}
    async with site.client.post("/login", data=form) as answer:
        token = re.search(r'name="csrf_token" value="([^"]+)"', await answer.text())
        assert token is not None
    browser = Browser(site.client, token[1])
    await browser.post("/password", old=one_time, new=GOOD_PASSWORD, again=GOOD_PASSWORD)
    token = re.search(r'name="csrf_token" value="([^"]+)"', await browser.get("/account"))
    assert token is not None
    browser.csrf_token = token[1]
    return browser


@pytest.fixture
async def admin(site: Served) -> Browser:
    return await log_in(site, "ada", {ALL_EXECUTORS: Grant(Role.ADMIN)})


@asynccontextmanager
async def elsewhere(site: Served) -> AsyncIterator[ClientSession]:
    """A browser of its own."""
    jar = CookieJar(unsafe=True)
    async with ClientSession(base_url=site.client.make_url("/"), cookie_jar=jar) as session:
        yield session


async def status_elsewhere(site: Served, address: str, headers: dict[str, str]) -> int:
    async with elsewhere(site) as program, program.get(address, headers=headers) as answer:
        return answer.status


async def executor(site: Served, name: str) -> int:
    return (await site.services.executors.create(COMMAND_LINE, name=name)).id


async def person(site: Served, name: str) -> int:
    everybody = await site.services.users.list(COMMAND_LINE)
    return next(each.id for each in everybody if each.name == name)


# --- users -----------------------------------------------------------------------------------


async def test_a_user_is_added_with_roles_and_a_password_shown_once(
    site: Served, admin: Browser
) -> None:
    billing = await executor(site, "billing")
    roles = {f"role_{billing}": "developer", f"scripts_{billing}": "yes"}
    status, _to, page = await admin.post("/users/new", name="Bob", **roles)
    password = re.search(r'id="one-time-password">([^<]+)<', page)
    assert status == 200
    assert password is not None
    assert password[1] not in await admin.get("/users")
    detail = await site.services.users.get(COMMAND_LINE, await person(site, "bob"))
    assert detail.item.grants == {billing: Grant(Role.DEVELOPER, scripts=True)}
    assert "Developer with scripts of billing" in await admin.get("/users?q=OB")
    assert "No user matches" in await admin.get("/users?q=zzz")


async def test_scripts_are_a_right_beside_the_role(site: Served, admin: Browser) -> None:
    grants = everywhere(Role.DEVELOPER, scripts=True)
    await site.services.users.create(COMMAND_LINE, "bob", grants=grants)
    bob = await person(site, "bob")
    assert "Developer with scripts of all executors" in await admin.get("/users")
    assert re.search(r'name="scripts_0" value="yes" checked', await admin.get(f"/users/{bob}"))
    # It goes with a role that may not have it, and when its box is empty.
    for role, box, held in (
        ("admin", {"scripts_0": "yes"}, True),
        ("admin", {}, False),
        ("viewer", {"scripts_0": "yes"}, False),
    ):
        await admin.post(f"/users/{bob}/grants", role_0=role, **box)
        found = (await site.services.users.find(COMMAND_LINE, "bob")).grants
        assert found == everywhere(Role(role), scripts=held)


async def test_what_is_refused_stays_in_the_form(site: Served, admin: Browser) -> None:
    status, _to, page = await admin.post("/users/new", name="Not a name", role_0="operator")
    assert status == 422
    assert 'value="Not a name"' in page
    assert re.search(r'value="operator" selected', page)
    status, _to, page = await admin.post("/users/new", name="ada")
    assert status == 409
    assert "already a person called ada" in page


async def test_the_last_admin_keeps_the_role_and_is_told_why(site: Served, admin: Browser) -> None:
    ada = await person(site, "ada")
    status, _to, page = await admin.post(f"/users/{ada}/grants", role_0="viewer")
    assert status == 409
    assert "You cannot take a role from yourself" in page


async def test_a_page_that_is_out_of_date_gives_no_role_back_that_was_taken(
    site: Served, admin: Browser
) -> None:
    await site.services.users.create(COMMAND_LINE, "bob", grants=everywhere(Role.ADMIN))
    bob = await person(site, "bob")
    old = re.search(r'name="instead_of" value="(.*?)"', await admin.get(f"/users/{bob}"))
    assert old is not None
    await site.services.users.set_grants(COMMAND_LINE, bob, everywhere(Role.VIEWER))

    fields = {"role_0": "admin", "scripts_0": "yes", "instead_of": old[1]}
    status, _to, page = await admin.post(f"/users/{bob}/grants", **fields)

    assert status == 409
    assert "Somebody else changed the roles of bob" in page
    assert (await site.services.users.find(COMMAND_LINE, "bob")).grants == (everywhere(Role.VIEWER))
    fields["instead_of"] = "0:viewer"
    assert (await admin.post(f"/users/{bob}/grants", **fields))[0] == 303


async def test_somebody_is_shut_out_let_in_reset_and_deleted(site: Served, admin: Browser) -> None:
    await site.services.users.create(COMMAND_LINE, "bob", grants={})
    bob = await person(site, "bob")
    for action, words in (("disable", "Shut out"), ("enable", "Invited")):
        status, to, _page = await admin.post(f"/users/{bob}/{action}")
        assert (status, to) == (303, f"/users/{bob}")
        assert words in await admin.get(f"/users/{bob}")
    assert "A new password for bob" in (await admin.post(f"/users/{bob}/reset-password"))[2]
    assert "0 sessions end" in await admin.get(f"/users/{bob}/delete")
    assert (await admin.post(f"/users/{bob}/delete"))[:2] == (303, "/users")


def test_a_form_for_many_executors_shows_those_with_a_role() -> None:
    names = {number: f"e{number}" for number in range(1, MOST_ROWS + 2)}
    rows = grant_rows({3: Grant(Role.VIEWER)}, names)
    assert [(row.executor_id, row.role) for row in rows] == [(0, ""), (3, "viewer")]
    assert len(grant_rows({}, {1: "e1"})) == 2


# --- tokens ----------------------------------------------------------------------------------


async def test_a_token_is_made_shown_once_listed_and_revoked(site: Served, admin: Browser) -> None:
    billing = await executor(site, "billing")
    fields = {"name": "ci", "valid_days": "10", "role": "operator", "where": "some"}
    status, _to, page = await admin.post("/tokens/new", **fields, executor=str(billing))
    token = re.search(r'id="token">([^<]+)<', page)
    assert status == 200
    assert token is not None
    assert f"Bearer {token[1]}" in page
    bearer = {"Authorization": f"Bearer {token[1]}"}
    assert await status_elsewhere(site, "/api/v1/jobs", bearer) == 200
    page = await admin.get("/tokens")
    assert token[1] not in page
    assert "Operator, on billing" in page
    assert re.search(r"expires in [0-9]+ days", page)
    (made,) = (await site.services.api_tokens.page(COMMAND_LINE)).items
    status, to, _page = await admin.post(f"/tokens/{made.id}/revoke", back="/tokens?of=all")
    assert (status, to) == (303, "/tokens?of=all")
    assert await status_elsewhere(site, "/api/v1/jobs", bearer) == 401


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"name": ""}, "Use 1 to 100 printable characters"),
        ({"name": "a", "valid_days": "soon"}, "a number of days from 1 to 3650"),
        ({"name": "a", "role": "emperor"}, "There is no role “emperor”"),
        ({"name": "a", "where": "some"}, "Choose one executor at least"),
    ],
)
async def test_a_token_that_makes_no_sense_is_refused(
    site: Served, admin: Browser, fields: dict[str, str], told: str
) -> None:
    status, _to, page = await admin.post("/tokens/new", **fields)
    assert status == 422
    assert told in page


async def test_only_admins_see_the_tokens_of_others(site: Served) -> None:
    bob = await log_in(site, "bob", {ALL_EXECUTORS: Grant(Role.DEVELOPER)})
    await site.services.users.create(COMMAND_LINE, "eve", grants={})
    await site.services.api_tokens.create_for(COMMAND_LINE, "eve", name="of-eve")
    assert "of-eve" not in await bob.get("/tokens?of=all")


# --- one's account ---------------------------------------------------------------------------


async def test_preferences_hold_at_once_and_at_the_next_login(site: Served, admin: Browser) -> None:
    chosen = {"language": "zh_CN", "theme": "dark", "timezone": "Asia/Tokyo"}
    assert (await admin.post("/account/preferences", **chosen))[:2] == (303, "/account")
    async with elsewhere(site) as browser:
        form = {"name": "ada", "password": GOOD_PASSWORD}
        async with browser.post("/login", data=form) as answer:
            page = await answer.text()
    for text in (page, await admin.get("/account")):
        assert '<html lang="zh-CN" data-theme="dark">' in text
        assert 'data-zone="Asia/Tokyo" data-zone-chosen' in text


async def test_the_quick_menus_change_one_preference_and_lead_back(
    site: Served, admin: Browser
) -> None:
    await admin.post("/account/preferences", timezone="Asia/Tokyo", language="", theme="")
    to = (await admin.post("/account/preferences", theme="light", next="/jobs?q=a"))[1]
    assert to == "/jobs?q=a"
    page = await admin.get("/account")
    assert 'data-theme="light"' in page
    assert 'data-zone="Asia/Tokyo"' in page
    assert (await admin.post("/account/preferences", theme="dark", next="//evil"))[1] == "/account"
    assert (await admin.post("/account/preferences", timezone="Mars/Base"))[0] == 422


async def test_who_has_no_password_is_offered_no_change_of_it(site: Served, admin: Browser) -> None:
    """They come in through a provider."""
    assert 'class="button" href="/password"' in await admin.get("/account")
    no_password = sa.update(tables.user).values(password_hash=None)
    await site.services.store.run(lambda conn: conn.execute(no_password).rowcount)
    page = await admin.get("/account")
    assert 'class="button" href="/password"' not in page
    assert "you log in through the OpenID provider" in page


async def test_a_session_is_ended_from_another_one(site: Served, admin: Browser) -> None:
    other = await site.services.logins.login(
        "ada", GOOD_PASSWORD, address="10.0.0.9", user_agent="Mozilla/5.0 (X11; Linux) Firefox/1"
    )
    page = await admin.get("/account")
    assert "Firefox on Linux" in page
    keys = re.findall(r'name="key" value="([0-9a-f]{16})"', page)
    assert len(keys) == 2
    await admin.post("/account/sessions/end-others")
    assert await site.services.logins.session(other.cookie) is None
    await admin.get("/account")


async def test_the_zone_of_readers_is_theirs_the_browsers_or_the_installations(
    site: Served, admin: Browser
) -> None:
    assert 'data-zone="UTC"' in await admin.get("/account")
    await admin.post("/settings", default_timezone="Europe/Berlin", audit_retention_days="400")
    assert 'data-zone="Europe/Berlin" data-zone-c' in await admin.get("/account")
    site.client.session.cookie_jar.update_cookies({"tickwheel_time_zone": "America/Lima"})
    assert 'data-zone="America/Lima" data-zone-cookie' in await admin.get("/account")
    await admin.post("/account/preferences", timezone="Asia/Tokyo")
    assert 'data-zone="Asia/Tokyo" data-zone-chosen' in await admin.get("/account")


# --- settings, about -------------------------------------------------------------------------


async def test_the_name_of_the_installation_is_on_every_page(site: Served, admin: Browser) -> None:
    status, to, _page = await admin.post(
        "/settings", instance_name="prod-eu", retention_days="", audit_retention_days="30"
    )
    assert (status, to) == (303, "/settings")
    assert "<title>Jobs · Tickwheel [prod-eu]</title>" in await admin.get("/jobs")
    async with elsewhere(site) as browser, browser.get("/login") as answer:
        assert "[prod-eu]</title>" in await answer.text()
    status, _to, page = await admin.post("/settings", instance_name="x" * 41, retention_days="ten")
    assert status == 422
    assert "At most 40 characters" in page
    assert "This must be a whole number" in page
    assert 'value="ten"' in page


def test_no_secret_is_shown_with_the_configuration(tmp_path: Path) -> None:
    environment = {
        "TICKWHEEL_DATABASE_URL": "postgresql+psycopg://u:CANARY@db:5432/tw?password=CANARY",
        "TICKWHEEL_OIDC_ISSUER": "https://login.example",
        "TICKWHEEL_OIDC_CLIENT_ID": "tickwheel",
        "TICKWHEEL_OIDC_CLIENT_SECRET": "CANARY",
        "TICKWHEEL_OIDC_ROLES": "ops=operator@billing, admins=admin+scripts",
    }
    rows = {
        row.name: row
        for row in configured(load_config({"data_dir": tmp_path}, environment=environment))
    }
    assert "CANARY" not in repr(rows)
    assert rows["database_url"].value == "postgresql+psycopg://u@db:5432/tw"
    assert rows["database_url"].place == "TICKWHEEL_DATABASE_URL"
    assert rows["oidc_client_secret"].is_secret
    assert rows["oidc_roles"].value == "ops=operator@billing, admins=admin+scripts"
    assert rows["data_dir"].place == "--data-dir"
    assert rows["port"].place is None


async def test_about_names_versions_and_licences(admin: Browser) -> None:
    page = await admin.get("/about")
    for text in ("SQLite", "Apache-2.0", "htmx.org", "0BSD", "aiohttp", "/api/v1"):
        assert text in page, text


# --- the audit -------------------------------------------------------------------------------


async def test_the_audit_is_filtered_by_its_address(site: Served, admin: Browser) -> None:
    await executor(site, "billing")
    await admin.post("/settings", instance_name="prod", audit_retention_days="400")
    page = await admin.get("/audit?action=executor.")
    assert "Executor added" in page
    assert "Settings changed" not in page
    page = await admin.get("/audit?person=ADA")
    assert "Settings changed" in page
    assert "Executor added" not in page
    assert "Nothing matches" in await admin.get("/audit?to=2001-01-01T00:00")
    assert "Nothing matches" in await admin.get("/audit?object=123456")


async def test_an_edit_of_a_job_leads_to_what_it_changed(site: Served, admin: Browser) -> None:
    job = {"name": "invoices", "handler": "h"}
    job_id = await site.services.jobs.create(COMMAND_LINE, await executor(site, "billing"), job)
    await site.services.jobs.update(COMMAND_LINE, job_id, job | {"retries": 1}, revision=1)
    page = await admin.get("/audit?action=job.updated")
    (address,) = re.findall(r'href="(/jobs/[0-9]+/history\?[^"#]+)', page)
    assert "Retries" in page
    assert "Retries" in await admin.get(address.replace("&amp;", "&"))


async def test_the_audit_is_exported_whole_in_the_order_of_the_page(
    site: Served, admin: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("billing", "crm", "ml"):
        await executor(site, name)
    monkeypatch.setattr("tickwheel_admin.console.system.audit_export.PER_READ", 2)
    lines = (await admin.get("/audit.jsonl?action=executor.")).splitlines()
    assert {json.loads(line)["detail"]["name"] for line in lines} == {"billing", "crm", "ml"}
    head, *rows = (await admin.get("/audit.csv?action=executor.")).splitlines()
    assert head == "at,person,address,action,executor,object_id,detail,object,id,part_of"
    assert len(rows) == 3
    monkeypatch.setattr("tickwheel_admin.console.system.audit_export.MOST_ROWS", 2)
    assert len((await admin.get("/audit.jsonl?action=executor.")).splitlines()) == 2


async def test_no_cell_of_the_export_is_a_formula(site: Served, admin: Browser) -> None:
    """Spreadsheets would work it out; names of jobs may begin with anything."""
    billing = await executor(site, "billing")
    job = {"name": "x;=1+1", "handler": "h"}
    await site.services.jobs.create(COMMAND_LINE, billing, job)
    audited = replace_person("=cmd")
    await site.services.jobs.create(audited, billing, job | {"name": "b"})
    page = await admin.get("/audit.csv?action=job.")
    assert ",'=cmd," in page
    assert ";" not in page
    rows = list(csv.DictReader(page.splitlines()))
    assert json.loads(rows[-1]["detail"])["name"] == "x;=1+1"


def replace_person(name: str) -> Actor:
    """Somebody whose name no person could be given here; an OpenID provider may well."""
    return replace(COMMAND_LINE, name=name)


# --- words -----------------------------------------------------------------------------------


def test_scopes_and_expiry_in_words() -> None:
    assert scope_text(None, None, {}) == "All that its owner may"
    assert scope_text(Role.VIEWER, None, {}) == "Viewer, wherever its owner may"
    assert scope_text(None, [4], {4: "ml"}) == "All that its owner may, on ml"
    assert scope_text(Role.ADMIN, [9], {4: "ml"}) == "Admin, on none"
    token = REQUEST_LOCALE.set(RequestLocale(now_at=100 * DAY))
    try:
        assert expiry_text(None) == "does not expire"
        assert expiry_text(101 * DAY) == "expires in 1 day"
        assert expiry_text(100 * DAY + 3_600_000) == "expires today, at 01:00"
        assert expiry_text(99 * DAY).startswith("expired on ")
    finally:
        REQUEST_LOCALE.reset(token)


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/142.0 Safari/537.36 Edg/142.0", "Edge on Windows"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) Version/18 Safari/605", "Safari on macOS"),
        ("curl/8.5.0", "curl/8.5.0"),
        ("<script>", "Unknown browser"),
        ("", "Unknown browser"),
    ],
)
def test_browsers_are_called_by_name(agent: str, name: str) -> None:
    assert browser_name(agent) == name
