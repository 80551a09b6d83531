"""An admin served over real HTTP, on SQLite: console and API, cheap passwords, a clock to turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from aiohttp import CookieJar, web
from aiohttp.test_utils import TestClient, TestServer
from argon2 import PasswordHasher

from tests.admin.kit.clock import Clock
from tests.admin.kit.contract import watched
from tests.support.databases import sqlite_with_tables
from tickwheel_admin.app.services import create_services
from tickwheel_admin.app.web_app import create_app
from tickwheel_admin.config import Config, load_config
from tickwheel_admin.domain.users.user import Grant, Role, everywhere
from tickwheel_admin.engine.alarms.ports import ChannelSender
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.services.users.logins import Logins, NewSession
from tickwheel_admin.services.users.passwords import Passwords
from tickwheel_admin.services.users.throttle import LoginThrottle
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.web.alarms import ALARM_SENDER
from tickwheel_admin.web.identity import SESSION_COOKIE

SECRET_KEY = bytes(range(32))
GOOD_PASSWORD = "correct horse battery"

Client = TestClient[web.Request, web.Application]


def cheap_passwords() -> Passwords:
    """Argon2id all the same, but in under a millisecond."""
    return Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


def services_over(
    store: Database,
    *,
    passwords: Passwords | None = None,
    throttle: LoginThrottle | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Services:
    """The use cases, with cheap passwords and a throttle of the test's own."""
    passwords = passwords or cheap_passwords()
    services = create_services(store, passwords=passwords, cipher=Cipher([SECRET_KEY]))
    logins = Logins(store, services.ids, services.events, passwords, throttle=throttle, sleep=sleep)
    return replace(services, logins=logins)


def config_in(directory: Path, **settings: object) -> Config:
    return load_config({"data_dir": directory, **settings}, environment={})


@asynccontextmanager
async def fresh_store(directory: Path, clock: Clock | None = None) -> AsyncIterator[Database]:
    """A Database with every table, on SQLite."""
    database = Database(sqlite_with_tables(directory / "tickwheel.db"), clock=clock)
    try:
        yield database
    finally:
        await database.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The whole application over an empty database, with nothing in the background."""

    client: Client
    services: Services
    clock: Clock

    async def token_for(self, name: str, role: Role | Mapping[int, Grant]) -> dict[str, str]:
        """Headers of a program that acts for a new person, with a role everywhere or grants."""
        grants = everywhere(role) if isinstance(role, Role) else role
        await self.services.users.create(COMMAND_LINE, name, grants=grants)
        token = await self.services.api_tokens.create_for(COMMAND_LINE, name, name="test")
        return {"Authorization": f"Bearer {token}"}

    async def log_in(self, name: str, role: Role) -> NewSession:
        """Be a new person in the browser."""
        session = await new_session(self.services, name, everywhere(role))
        self.client.session.cookie_jar.update_cookies({SESSION_COOKIE: session.cookie})
        return session


async def new_session(services: Services, name: str, grants: Mapping[int, Grant]) -> NewSession:
    """Of a new person who has chosen a password."""
    one_time = (await services.users.create(COMMAND_LINE, name, grants=grants)).password
    first = await services.logins.login(name, one_time, address="", user_agent="")
    view = await services.logins.session(first.cookie)
    assert view is not None
    return await services.logins.change_password(
        view.actor, first.cookie, old=one_time, new=GOOD_PASSWORD
    )


@asynccontextmanager
async def served(
    directory: Path, *, sender: ChannelSender | None = None, **settings: object
) -> AsyncIterator[Served]:
    """Serve console and API over real HTTP.

    Args:
        sender: of test messages of channels; None: they are refused.
    """
    clock = Clock()
    async with fresh_store(directory, clock) as database:
        cipher = Cipher([SECRET_KEY])
        services = create_services(database, passwords=cheap_passwords(), cipher=cipher)
        app = create_app(config_in(directory, **settings), services)
        if sender is not None:
            app[ALARM_SENDER] = sender
        broken: list[str] = []
        watched(app, broken)
        client = TestClient(TestServer(app), cookie_jar=CookieJar(unsafe=True))
        async with client:
            yield Served(client=client, services=services, clock=clock)
        services.close()
        assert not broken, "\n".join(dict.fromkeys(broken))


async def raw_answer(client: Client, sent: bytes) -> tuple[int, str]:
    """Status and text of the answer to these very bytes, which no HTTP client would send."""
    reader, writer = await asyncio.open_connection(client.server.host, client.server.port)
    writer.write(sent)
    async with asyncio.timeout(30):
        answer = (await reader.read()).decode(errors="replace")
    writer.close()
    return int(answer.split()[1]), answer
