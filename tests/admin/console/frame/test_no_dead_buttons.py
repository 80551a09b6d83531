"""Nobody is shown what they may not do: each role follows every link and presses every button.

Generated from the pages themselves: whatever a page of the sample offers somebody must not be
refused to them.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer

from tests.admin.kit.served import SECRET_KEY, Client, cheap_passwords, config_in, new_session
from tests.browser.samples.rows import NOW
from tests.browser.samples.world import build
from tests.support.nightly import IS_NIGHT, often
from tickwheel_admin.app.services import create_services
from tickwheel_admin.app.web_app import create_app
from tickwheel_admin.console.frame.locale import NOW as CONSOLE_NOW
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Grant, Role
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.services import Services
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.tables import metadata

OF_EACH_KIND = often(1, by_night=3)  # pages that differ only in their id
OF_ONE = tuple(Role) if IS_NIGHT else (Role.VIEWER, Role.DEVELOPER)
OF_ALL = (Role.DEVELOPER, Role.ADMIN) if IS_NIGHT else (Role.ADMIN,)
# What ends the session that looks, or takes away what the next one would look at.
NOT_PRESSED = re.compile(r"/logout|.*/(delete|purge|end|end-others|revoke|roll-back)")


class Offers(HTMLParser):
    """What a page lets one do: addresses it leads to, and those its buttons post to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.actions: dict[str, dict[str, str]] = {}  # with what the form fills in by itself
        self.parts: set[tuple[str, str]] = set()  # addresses, and the block that a page fetches
        self._fields: dict[str, str] = {}
        self._method = "get"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "a":
            self.links.add(given.get("href", ""))
            if "data-dialog" in given:
                self.parts.add((given.get("href", ""), "dialog"))
        if "hx-get" in given:
            asked = json.loads(given.get("hx-headers", "{}"))
            block = given.get("data-block") or asked.get("X-Block", "")
            self.parts.add((given["hx-get"], block))
        self.links.add(given.get("data-href", ""))  # of the command palette
        if tag == "form":
            self._fields, self._method = {}, given.get("method", "get")
            if self._method == "post":
                self.actions.setdefault(given["action"], self._fields)
            else:
                self.links.add(given.get("action", ""))
        if tag == "input" and given.get("type") == "hidden":
            self._fields[given["name"]] = given["value"]
        if given.get("formmethod", self._method) == "post":
            self.actions.setdefault(given.get("formaction", ""), self._fields)
        self.actions.setdefault(given.get("hx-post", ""), self._fields)


def is_own(address: str) -> bool:
    """Whether it is an address of this console that answers by who asks."""
    return address.startswith("/") and not address.startswith("/static/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Something that a page lets one do."""

    page: str
    fields: dict[str, str]


def kind_of(address: str) -> str:
    """An address without its ids, the names of the API reference's pages, and its query."""
    path = re.sub(r"[0-9]+", "0", address.partition("?")[0].partition("#")[0])
    return re.sub(r"^(/api-reference(?:/types)?/)\w+$", r"\1x", path)


@asynccontextmanager
async def sample(
    directory: Path, *, filled: bool = True
) -> AsyncIterator[tuple[Client, Services, dict[str, int]]]:
    """The sample of the browser tests behind real HTTP, or a fresh installation."""
    database = Database(f"sqlite:///{directory / 'console.db'}", clock=lambda: NOW)
    await database.run(metadata.create_all)
    cipher = Cipher([SECRET_KEY])
    services = create_services(database, passwords=cheap_passwords(), cipher=cipher)
    await services.users.ensure_first_admin()
    ids = await build(services) if filled else {}
    app = create_app(config_in(directory), services)
    app[CONSOLE_NOW] = lambda: NOW
    async with TestClient(TestServer(app)) as client:
        yield client, services, ids
    services.close()
    await database.close()


async def log_in(services: Services, name: str, grants: dict[int, Grant]) -> tuple[str, str]:
    """Cookie and CSRF token of a new person who has chosen a password."""
    session = await new_session(services, name, grants)
    return session.cookie, session.csrf_token


async def press(client: Client, headers: dict[str, str], action: str, offer: Offer) -> int | None:
    """Post as the button would; the status when it was refused."""
    if NOT_PRESSED.fullmatch(action.partition("?")[0]):
        return None
    async with client.post(
        action, data=offer.fields, headers=headers, allow_redirects=False
    ) as answer:
        status = answer.status
    if status == 404 and not await is_still_offered(client, headers, action, offer):
        return None
    return status if status in (403, 404, 405, 500) else None


async def is_still_offered(
    client: Client, headers: dict[str, str], action: str, offer: Offer
) -> bool:
    """Not when an earlier button of the test did away with it."""
    async with client.get(offer.page, headers=headers) as answer:
        offers = Offers()
        offers.feed(await answer.text())
    return offers.actions.get(action) == offer.fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What somebody found who followed every link."""

    refused: dict[str, int]  # address → status
    actions: dict[str, Offer]


async def fetch(client: Client, headers: dict[str, str], part: str, block: str) -> int | None:
    """Ask for a part of a page, as a script would; the status when it was refused."""
    wanted = {"HX-Request": "true", "X-Block": block}
    async with client.get(part, headers=headers | wanted, allow_redirects=False) as answer:
        return answer.status if answer.status >= 400 else None


async def look_around(client: Client, headers: dict[str, str]) -> Seen:
    """Follow every link that is offered, a few of each kind."""
    refused: dict[str, int] = {}
    actions: dict[str, Offer] = {}
    seen, kinds = {"/"}, Counter[str]()
    ahead = deque(["/"])
    while ahead:
        address = ahead.popleft()
        async with client.get(address, headers=headers, allow_redirects=False) as answer:
            is_page = answer.content_type == "text/html" and answer.status < 300
            text = await answer.text() if is_page else ""
            if answer.status >= 400:
                refused[address] = answer.status
        offers = Offers()
        offers.feed(text)
        for part, block in sorted(offers.parts):
            kinds[kind := f"{block} of {kind_of(part)}"] += 1
            if (
                is_own(part)
                and kinds[kind] == 1
                and (status := await fetch(client, headers, part, block))
            ):
                refused[f"{block} of {part}"] = status
        for action, fields in offers.actions.items():
            kinds[f"POST {kind_of(action)}"] += action not in actions
            if is_own(action) and kinds[f"POST {kind_of(action)}"] <= OF_EACH_KIND:
                actions.setdefault(action, Offer(page=address, fields=fields))
        for link in sorted(filter(is_own, offers.links)):
            path, kind = link.partition("?")[0].partition("#")[0], kind_of(link)
            if path not in seen and kinds[kind] < OF_EACH_KIND:
                seen.add(path)
                kinds[kind] += 1
                ahead.append(link)
    return Seen(refused=refused, actions=actions)


@pytest.mark.parametrize("filled", [True, False], ids=["sample", "fresh installation"])
async def test_no_role_is_shown_what_is_refused(tmp_path: Path, filled: bool) -> None:
    faults: dict[str, object] = {}
    async with sample(tmp_path, filled=filled) as (client, services, ids):
        # Who may more comes later, and may well change what the others saw. What belongs to no
        # executor is for developers and admins of all.
        people = [(role, ids["executor:billing"]) for role in OF_ONE if filled]
        people += [(role, ALL_EXECUTORS) for role in OF_ALL]
        for number, (role, executor_id) in enumerate(people):
            cookie, csrf_token = await log_in(
                services, f"person-{number}", {executor_id: Grant(role)}
            )
            headers = {"Cookie": f"tickwheel_session={cookie}", "X-CSRF-Token": csrf_token}
            found = await look_around(client, headers)
            assert len(found.actions) > 3, "nothing is offered"
            who = f"{role} of {executor_id or 'all'}"
            faults |= {f"{who}: {link}": status for link, status in found.refused.items()}
            for action, offer in found.actions.items():
                if status := await press(client, headers, action, offer):
                    faults[f"{who}: {action} on {offer.page}"] = status
    assert faults == {}


async def test_who_has_no_role_finds_what_is_theirs(tmp_path: Path) -> None:
    """They may log in before anybody gave them a role; no page then leads to a refusal."""
    async with sample(tmp_path, filled=False) as (client, services, _ids):
        cookie, _csrf = await log_in(services, "nobody", {})
        headers = {"Cookie": f"tickwheel_session={cookie}"}
        for address in ("/account", "/tokens", "/tokens/new", "/about", "/password"):
            async with client.get(address, headers=headers) as answer:
                assert answer.status == 200, address
