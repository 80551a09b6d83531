"""Several admins over one database, without loops, behind a proxy that asks them in turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from aiohttp import ClientResponse, ClientSession, CookieJar
from aiohttp.test_utils import TestServer

from tests.admin.kit.clock import Clock
from tests.admin.kit.served import (
    GOOD_PASSWORD,
    cheap_passwords,
    config_in,
    everywhere,
    fresh_store,
)
from tests.support.round_robin import RoundRobin
from tickwheel_admin.app.services import create_services
from tickwheel_admin.app.web_app import create_app
from tickwheel_admin.domain.admin_status import AdminStatus, status_to_json
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.engine.membership.notifier import Notifier
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.executors.admins import enter_admin


class OneAdmin:
    """What one process has: its services with their memories, and its way to tell the others."""

    def __init__(self, database: Database, admin_id: int) -> None:
        self.services = create_services(database, passwords=cheap_passwords())
        self.services.relay.admin_id = admin_id
        self.notifier = Notifier(
            database,
            self.services.events,
            admin_id=admin_id,
            status=lambda: status_to_json(AdminStatus(changes=self.services.events.counts())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Several:
    """The admins, the proxy before them, and a browser."""

    admins: list[OneAdmin]
    urls: list[str]  # of the admins themselves
    proxy: RoundRobin
    url: str  # of the proxy
    browser: ClientSession
    database: Database
    clock: Clock

    @property
    def services(self) -> Services:
        """Of the first admin."""
        return self.admins[0].services

    async def get(self, path: str) -> str:
        """A page, from whichever admin is next."""
        async with self.browser.get(self.url + path, allow_redirects=False) as answer:
            assert answer.status == 200, (path, answer.status, answer.headers.get("Location"))
            return await answer.text()

    async def post(self, path: str, **fields: str) -> ClientResponse:
        """Send a form with the token of a page that another admin made."""
        token = csrf_token(await self.get("/account"))
        answer = await self.browser.post(
            self.url + path, data={"csrf_token": token, **fields}, allow_redirects=False
        )
        await answer.read()
        return answer

    async def log_in(self, name: str, role: Role) -> None:
        """Be a new person who has chosen a password."""
        password = (
            await self.services.users.create(COMMAND_LINE, name, grants=everywhere(role))
        ).password
        fields = {"name": name, "password": password}
        async with self.browser.post(self.url + "/login", data=fields) as answer:
            token = csrf_token(await answer.text())
        fields = {"old": password, "new": GOOD_PASSWORD, "again": GOOD_PASSWORD}
        async with self.browser.post(
            self.url + "/password", data={"csrf_token": token, **fields}, allow_redirects=False
        ) as answer:
            assert answer.status == 303, await answer.text()


def csrf_token(page: str) -> str:
    return page.split('name="csrf_token" value="')[1].split('"')[0]


@asynccontextmanager
async def several_admins(directory: Path, number: int = 3) -> AsyncIterator[Several]:
    """Serve; every admin has entered the database and believes the proxy."""
    clock = Clock()
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(fresh_store(directory, clock))
        admins = [OneAdmin(database, admin_id) for admin_id in range(1, number + 1)]
        urls = []
        for admin_id, admin in enumerate(admins, start=1):
            stack.callback(admin.services.close)
            config = config_in(directory, trusted_proxies=["127.0.0.1"], name=f"admin-{admin_id}")
            server = TestServer(create_app(config, admin.services))
            await stack.enter_async_context(server)
            urls.append(str(server.make_url("/")).rstrip("/"))
            await database.run(_enter, admin_id, urls[-1])
        proxy = RoundRobin(urls)
        url = await stack.enter_async_context(proxy.serving())
        browser = await stack.enter_async_context(ClientSession(cookie_jar=CookieJar(unsafe=True)))
        yield Several(
            admins=admins,
            urls=urls,
            proxy=proxy,
            url=url,
            browser=browser,
            database=database,
            clock=clock,
        )


def _enter(conn: sa.Connection, admin_id: int, url: str) -> None:
    enter_admin(conn, admin_id=admin_id, name=f"admin-{admin_id}", url=url, version="1")


async def next_event(answer: ClientResponse) -> str:
    """The name of the next event of a stream; "" when it ended."""
    async with asyncio.timeout(10):
        async for line in answer.content:
            if line.startswith(b"event: "):
                return line.removeprefix(b"event: ").decode().strip()
    return ""
