"""Who may connect as a node: whoever brings the executor's own token, and nobody else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import CookieJar
from aiohttp.test_utils import TestClient, TestServer

from tests.admin.kit.engine import add_links
from tests.admin.kit.routes import Rewind
from tests.admin.kit.served import Client, cheap_passwords, config_in, fresh_store, raw_answer
from tickwheel_admin.app.services import create_services
from tickwheel_admin.app.web_app import create_app
from tickwheel_admin.domain.users.user import Role, everywhere
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.triggers.planning import ensure_buckets
from tickwheel_shared.protocol import LINK_PATH

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.fixture
async def tried(tmp_path: Path) -> AsyncIterator[tuple[Client, dict[str, dict[str, str]], Rewind]]:
    """A server that nodes can connect to, and what somebody without a token of it might try."""
    async with fresh_store(tmp_path) as store:
        await store.run(ensure_buckets)
        services = create_services(store, passwords=cheap_passwords())
        old = await services.executors.create(COMMAND_LINE, name="billing")
        await services.executors.rotate_token(COMMAND_LINE, old.id)
        gone = await services.executors.create(COMMAND_LINE, name="gone")
        await services.executors.delete(COMMAND_LINE, gone.id)
        password = (
            await services.users.create(COMMAND_LINE, "a", grants=everywhere(Role.ADMIN))
        ).password
        session = await services.logins.login("a", password, address="", user_agent="")
        api_token = await services.api_tokens.create_for(COMMAND_LINE, "a", name="ci")
        app = create_app(config_in(tmp_path), services)
        await add_links(app, store)
        attempts = {
            "nothing": {},
            "made up": {"Authorization": "Bearer twx_" + "n" * 43},
            "empty": {"Authorization": "Bearer "},
            "rotated": {"Authorization": f"Bearer {old.token}"},
            "of a deleted executor": {"Authorization": f"Bearer {gone.token}"},
            "of a person": {"Authorization": f"Bearer {api_token}"},
            "a browser on another site's page": {
                "Cookie": f"tickwheel_session={session.cookie}",
                "Origin": "https://evil.example",
            },
        }
        client = TestClient(TestServer(app), cookie_jar=CookieJar(unsafe=True))
        async with client:
            rewind = Rewind(tmp_path / "tickwheel.db")
            yield client, attempts, rewind
            rewind.close()
        services.close()


async def test_nobody_connects_without_the_executors_token_and_nothing_is_stored(
    tried: tuple[Client, dict[str, dict[str, str]], Rewind],
) -> None:
    client, attempts, rewind = tried
    for name, headers in attempts.items():
        response = await client.get(LINK_PATH, headers=UPGRADE | headers)
        assert response.status == 401, name
        assert (await response.json())["error"]["code"] == "node.token_invalid"
    lines = [f"{name}: {value}\r\n" for name, value in UPGRADE.items()]
    head = f"GET {LINK_PATH} HTTP/1.1\r\nHost: x\r\n{''.join(lines)}Authorization: Bearer "
    for token in (b"\xff\xfe", "twx_é".encode()):
        request = head.encode() + token + b"\r\n\r\n"
        # One that may not be followed: the connection stays open after the first answer.
        status, text = await raw_answer(client, request + b"no request\r\n\r\n")
        assert (status, "node.token_invalid" in text) == (401, True)
    assert rewind.changes() == []
