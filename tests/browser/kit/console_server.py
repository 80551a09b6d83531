"""The real console and services over a filled database, with the time standing still.

No engine runs: what pages show does not change by itself. A database that is in the directory
already is served as it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web
from argon2 import PasswordHasher

from tests.browser.kit.hostile_texts import poison
from tests.browser.samples.world import ADMIN, NOW, build
from tests.support.forks import begin_fork
from tickwheel_admin.app.services import create_services
from tickwheel_admin.app.web_app import create_app
from tickwheel_admin.config import load_config
from tickwheel_admin.console.frame.locale import NOW as CONSOLE_NOW
from tickwheel_admin.console.frame.streams import HEARTBEAT
from tickwheel_admin.domain.users.user import Role, everywhere
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.passwords import Passwords
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.tables import metadata


def serve(
    directory: Path,
    port: int,
    log: Path,
    filled: str,
    heartbeat_seconds: float | None,
    ready: Connection,
) -> None:
    """Serve until killed, as the whole of a process; see `consoles.sample_console`.

    Args:
        ready: is told passwords and ids once the console listens; both are empty when the database
            was there already.
    """
    begin_fork(log)
    asyncio.run(_serve(directory, port, filled, heartbeat_seconds, ready.send))


async def _serve(
    directory: Path,
    port: int,
    filled: str,
    heartbeat_seconds: float | None,
    listens: Callable[[dict[str, Any]], None],
) -> None:
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
    if heartbeat_seconds:
        app[HEARTBEAT] = heartbeat_seconds
    runner = web.AppRunner(app, access_log=None, handle_signals=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    listens(told)
    await asyncio.Event().wait()


async def _fill(services: Services, filled: str) -> dict[str, Any]:
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
