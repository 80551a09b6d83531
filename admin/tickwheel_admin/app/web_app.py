"""Console, API and `/metrics` as one web application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import sqlalchemy as sa
from aiohttp import web

from tickwheel_admin import __version__
from tickwheel_admin.api import add_api
from tickwheel_admin.config import Config
from tickwheel_admin.console import add_console
from tickwheel_admin.services.metrics.exposition import MetricsPage
from tickwheel_admin.services.metrics.figures import AdminFigures
from tickwheel_admin.services.metrics.meter import Meter
from tickwheel_admin.services.services import Services
from tickwheel_admin.store.database.database import DatabaseUnavailable, Store
from tickwheel_admin.web import metrics as metrics_endpoint
from tickwheel_admin.web.application import create_web_application
from tickwheel_admin.web.health import CHECKS
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.metrics import METRICS


def create_app(config: Config, services: Services) -> web.Application:
    """Console and API. Nothing runs in the background, so HTTP tests need no more than this."""
    app = create_web_application(config, unavailable_when=(DatabaseUnavailable,))
    app[SERVICES] = services
    app[CHECKS]["database"] = _database_check(services.store)
    app[METRICS] = create_metrics_page(config, services.store)
    metrics_endpoint.routes.add_to(app)
    add_api(app)
    add_console(app)
    return app


def create_metrics_page(
    config: Config,
    store: Store,
    meter: Meter | None = None,
    here: Callable[[], AdminFigures] | None = None,
) -> MetricsPage:
    """`/metrics` over a store; without a meter it shows the installation and no counts."""

    def nothing_runs() -> AdminFigures:
        return AdminFigures(version=__version__, name=config.name, database=config.database_kind)

    jobs = [name.partition("/")[::2] for name in config.metrics_jobs]
    return MetricsPage(
        store,
        meter or Meter(),
        here or nothing_runs,
        max_executors=config.metrics_executors,
        jobs=jobs,
    )


def _database_check(store: Store) -> Callable[[], Awaitable[str]]:
    def ask(conn: sa.Connection) -> None:
        conn.execute(sa.select(1))

    async def check() -> str:
        await store.read(ask)
        return "ok"

    return check
