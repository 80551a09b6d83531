"""The console and API of a real admin over a seeded database, without its loops.

    python -m tests.bench.scenarios.console_admin --url URL [--port 8600]

No run starts or ends meanwhile, so that what is measured twice is the same. What the passing of
time makes stale, the instants of next fires above all, is moved on at the start.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import tempfile
from pathlib import Path

import sqlalchemy as sa
import structlog
from aiohttp import web

from tests.bench.seed.jobs import DAY
from tickwheel_admin.app.services import create_services
from tickwheel_admin.app.web_app import create_app
from tickwheel_admin.config import load_config
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.connections import create_engine
from tickwheel_admin.store.database.database import Database

TRIGGERS_AT_ONCE = 5_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True, help="SQLAlchemy URL of a seeded database")
    parser.add_argument("--port", type=int, default=8600)
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    freshen(asked.url)
    asyncio.run(serve(asked.url, asked.port))


async def serve(url: str, port: int) -> None:
    """Answer until killed; says so on a line of its own once it does."""
    with tempfile.TemporaryDirectory(prefix="tickwheel-bench") as directory:
        settings = {"data_dir": Path(directory), "port": port, "name": "admin-1"}
        config = load_config(settings, environment={})
        database = Database(url)
        runner = web.AppRunner(create_app(config, create_services(database)), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        gc.collect()
        gc.freeze()  # as `tickwheel serve` does
        print(f"listens on http://127.0.0.1:{port}", flush=True)
        await asyncio.Event().wait()


def freshen(url: str) -> None:
    """Move the next fires that have passed since the database was filled to within a day."""
    engine = create_engine(url, connections=1)
    trigger = tables.trigger
    while True:
        with engine.begin() as conn:
            now = now_ms(conn)
            late = list(
                conn.execute(
                    sa.select(trigger.c.id)
                    .where(trigger.c.next_fire_at < now)
                    .limit(TRIGGERS_AT_ONCE)
                ).scalars()
            )
            days = (now - trigger.c.next_fire_at) // DAY + 1
            moved = trigger.c.next_fire_at + days * DAY
            conn.execute(
                sa.update(trigger).where(trigger.c.id.in_(late)).values(next_fire_at=moved)
            )
        if len(late) < TRIGGERS_AT_ONCE:
            break
    engine.dispose()


if __name__ == "__main__":
    main()
