"""An application whose people log in at a local provider, and a browser that does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from aiohttp import ClientResponse, CookieJar
from aiohttp.test_utils import TestClient, TestServer

from tests.admin.kit.clock import Clock
from tests.admin.kit.served import Client, cheap_passwords, config_in, fresh_store
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, LocalProvider, local_provider
from tests.support.processes import free_port
from tickwheel_admin.app.services import create_services
from tickwheel_admin.app.web_app import create_app
from tickwheel_admin.services.services import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class Oidc:
    """A provider, and two admins over one database that know it."""

    provider: LocalProvider
    clock: Clock
    services: Services  # of the first admin
    console_url: str
    client: Client  # a browser, at the first admin
    elsewhere: Client  # the same browser, when a balancer sends it to the other admin
    stranger: Client  # another browser, at the first admin

    async def begin(self, client: Client | None = None, *, next_page: str = "/") -> str:
        """Press the button; returns the address at the provider."""
        answer = await (client or self.client).get(
            "/login/oidc", params={"next": next_page}, allow_redirects=False
        )
        assert answer.status == 303, await answer.text()
        return answer.headers["Location"]

    async def come_back(self, url: str, client: Client | None = None) -> ClientResponse:
        """Follow the provider's answer, at whichever admin the browser is."""
        path = url.removeprefix(self.console_url)
        return await (client or self.client).get(path, allow_redirects=False)

    async def log_in(self, *, next_page: str = "/") -> ClientResponse:
        """The whole way."""
        return await self.come_back(self.provider.authorize(await self.begin(next_page=next_page)))

    async def who(self, client: Client | None = None) -> int:
        """How the browser is answered where one must be logged in."""
        answer = await (client or self.client).get(
            "/palette.json", headers={"Sec-Fetch-Dest": "empty"}
        )
        return answer.status


def query_of(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


@asynccontextmanager
async def oidc_world(directory: Path, **settings: object) -> AsyncIterator[Oidc]:
    """Two admins behind one address, as a balancer would have it."""
    clock = Clock()
    port = free_port()
    console_url = f"http://127.0.0.1:{port}"
    async with fresh_store(directory, clock) as database, local_provider(clock) as provider:
        config = config_in(
            directory,
            **{
                "console_url": console_url,
                "oidc_issuer": provider.url,
                "oidc_client_id": CLIENT_ID,
                "oidc_client_secret": CLIENT_SECRET,
                "oidc_name": "Example SSO",
                "oidc_roles": "ops=operator@billing,admins=admin",
                **settings,
            },
        )
        both = [
            create_services(database, passwords=cheap_passwords(), oidc=config.oidc)
            for _ in range(2)
        ]
        first, second = (
            TestServer(create_app(config, services), port=at)
            for services, at in zip(both, (port, 0), strict=True)
        )
        jar = CookieJar(unsafe=True)
        async with (
            TestClient(first, cookie_jar=jar) as client,
            TestClient(second, cookie_jar=jar) as elsewhere,
            TestClient(first, cookie_jar=CookieJar(unsafe=True)) as stranger,
        ):
            yield Oidc(
                provider=provider,
                clock=clock,
                services=both[0],
                console_url=console_url,
                client=client,
                elsewhere=elsewhere,
                stranger=stranger,
            )
        for services in both:
            services.close()
