"""The real console and services over a filled database, with the time standing still.

    python -m tests.browser.kit.console_server DIRECTORY PORT [empty|hostile]

No engine runs: what pages show does not change by itself. Prints one line of JSON once it listens.
A database that is in the directory already is served as it is.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from pathlib import Path

import structlog
from aiohttp import web
from argon2 import PasswordHasher

from tests.browser.kit.hostile_texts import poison
from tests.browser.samples.world import ADMIN, NOW, build
from tickwheel_admin.app import create_app, create_services
from tickwheel_admin.config import load_config
from tickwheel_admin.console.frame.locale import NOW as CONSOLE_NOW
from tickwheel_admin.console.frame.streams import HEARTBEAT
from tickwheel_admin.domain.users.user import Role, everywhere
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.passwords import Passwords
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.tables import metadata


async def main(directory: Path, port: int, *, filled: str) -> None:
    """Serve until killed."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    provider = {"oidc_issuer": "http://127.0.0.1:9", "oidc_client_id": "tickwheel"}  # a button only
    config = load_config(
        {
            "data_dir": directory,
            "port": port,
            "name": "admin-1",
            "oidc_name": "Acme SSO",
            **provider,
        },
        environment={},
    )
    file = directory / "console.db"
    is_new = not file.exists()
    database = Database(f"sqlite:///{file}", clock=lambda: NOW)
    # Argon2id all the same, but cheap: many tests log in.
    passwords = Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    services = create_services(database, passwords=passwords, cipher=Cipher([bytes(range(32))]))
    told = await _fill(services, filled) if is_new else {}
    app = create_app(config, services)
    app[CONSOLE_NOW] = lambda: NOW
    if beat := os.environ.get("TEST_HEARTBEAT_SECONDS"):
        app[HEARTBEAT] = float(beat)
    runner = web.AppRunner(app, access_log=None, handle_signals=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    print(json.dumps({"told": told}), flush=True)
    await asyncio.Event().wait()


async def _fill(services: Services, filled: str) -> dict[str, object]:
    await services.store.run(metadata.create_all)
    passwords = {"admin": await services.users.ensure_first_admin()}
    for name in ("viewer", "newcomer"):
        passwords[name] = (
            await services.users.create(ADMIN, name, grants=everywhere(Role.VIEWER))
        ).password
    ids = {} if filled == "empty" else await build(services)
    if filled == "hostile":
        await services.store.run(poison)
    return {"passwords": passwords, "ids": ids}


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), filled=" ".join(sys.argv[3:])))
