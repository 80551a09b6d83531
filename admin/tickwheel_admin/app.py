"""Composition root: the one place that builds concrete things, starts them and stops them.

Start: schema, services, this admin's entry in the database, loops, and only then HTTP, so that
nobody is answered by half an admin. The listening sockets are bound before all that: a taken port
must not leave traces in the database.

Stop (G13): claiming and planning first, so that nothing new begins; then streams and node sockets,
flushed, so that what was claimed is sent and nodes turn to other admins; then what nodes said is
recorded and acknowledged by whoever they reach next; then this admin leaves the database, so that
others need not wait for its lease; the database last, because everything before needs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

import sqlalchemy as sa
import structlog
from aiohttp import web

from tickwheel_admin import __version__
from tickwheel_admin.api import add_api
from tickwheel_admin.config import Config
from tickwheel_admin.console import add_console
from tickwheel_admin.console.frame.rendering import RENDERER
from tickwheel_admin.domain.users.oidc import OidcSettings
from tickwheel_admin.engine.engine import Engine
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.links import endpoint as link_endpoint
from tickwheel_admin.links.hub import LinkHub
from tickwheel_admin.services.calendars.service import Calendars
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.events.relay import EventRelay
from tickwheel_admin.services.executors.nodes import Nodes
from tickwheel_admin.services.executors.service import Executors
from tickwheel_admin.services.imports.importer import ForeignImports
from tickwheel_admin.services.jobs.bulk import JobBulk
from tickwheel_admin.services.jobs.creation import JobCreation
from tickwheel_admin.services.jobs.declared.service import DeclaredJobs
from tickwheel_admin.services.jobs.history import JobHistory
from tickwheel_admin.services.jobs.kept_state import JobStates
from tickwheel_admin.services.jobs.parents import JobParents
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.services.jobs.tries import ScriptTries
from tickwheel_admin.services.lists.saved_views import SavedViews
from tickwheel_admin.services.lists.suggestions import Suggestions
from tickwheel_admin.services.overview.attention.service import Attention
from tickwheel_admin.services.overview.list_counts import ListCounts
from tickwheel_admin.services.overview.service import Overview
from tickwheel_admin.services.runs.purge import Purge
from tickwheel_admin.services.runs.service import Runs
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.secrets.service import Secrets
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.system.audit import AuditLog
from tickwheel_admin.services.system.service import System
from tickwheel_admin.services.system.settings import Settings
from tickwheel_admin.services.triggers.service import Triggers
from tickwheel_admin.services.users.administration import UserAdministration
from tickwheel_admin.services.users.api_tokens import ApiTokens
from tickwheel_admin.services.users.logins import Logins
from tickwheel_admin.services.users.oidc.login import OidcLogin
from tickwheel_admin.services.users.own_account import OwnAccount
from tickwheel_admin.services.users.passwords import Passwords
from tickwheel_admin.services.xxl_job.importer import Importer
from tickwheel_admin.services.xxl_job.job_requests import XxlJobRequests
from tickwheel_admin.services.xxl_job.nodes import XxlNodes
from tickwheel_admin.services.xxl_job.refusals import XxlRefusals
from tickwheel_admin.services.xxl_job.service import XxlExecutors
from tickwheel_admin.store.database.database import Database, DatabaseUnavailable, Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.web.application import create_web_application
from tickwheel_admin.web.health import CHECKS
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.server import create_runner, serve
from tickwheel_admin.web.watchdog import Watchdog
from tickwheel_admin.xxl_job import endpoint as xxl_endpoint
from tickwheel_admin.xxl_job import job_endpoint
from tickwheel_admin.xxl_job.addresses import AddressGuard
from tickwheel_admin.xxl_job.bridge import XxlBridge
from tickwheel_admin.xxl_job.caller import HttpCaller, NodeCaller

log = structlog.get_logger(__name__)

STANDSTILL_SECONDS = 30  # a loop without a pass for so long, beyond its interval, is not healthy
PASS_SECONDS = 5  # a pass under way gets so long at the end
SECRET_KEY_FILE = "secret.key"  # noqa: S105 - in `data_dir`
REQUEST_SECONDS = 5  # requests under way get so long at the end


def create_cipher(config: Config) -> Cipher:
    """The keys of the configuration; the embedded database has one of its own beside it."""
    file = config.data_dir / SECRET_KEY_FILE if config.is_embedded else None
    return Cipher(config.secret_key, key_file=file)


def create_services(
    store: Store,
    *,
    ids: Ids | None = None,
    passwords: Passwords | None = None,
    oidc: OidcSettings | None = None,
    cipher: Cipher | None = None,
) -> Services:
    """The use cases over a store; tests pass cheaper password parameters."""
    ids, events = ids or Ids(store), Events()
    cipher = cipher or Cipher()
    jobs = Jobs(store, ids, events)
    passwords = passwords or Passwords()
    logins = Logins(store, ids, events, passwords)
    return Services(
        store=store,
        ids=ids,
        events=events,
        relay=EventRelay(store, events),
        cipher=cipher,
        logins=logins,
        users=UserAdministration(store, ids, events, passwords),
        api_tokens=ApiTokens(store, ids, events),
        own_account=OwnAccount(store, ids, events),
        oidc=OidcLogin(store, ids, events, logins, oidc) if oidc else None,
        executors=Executors(store, ids, events),
        nodes=Nodes(store, ids, events),
        secrets=Secrets(store, ids, events, cipher),
        xxl_executors=XxlExecutors(store, ids, events, cipher),
        importer=Importer(store, ids, events, cipher),
        foreign_imports=ForeignImports(store, ids, events),
        jobs=jobs,
        job_bulk=JobBulk(store, ids, jobs),
        job_creation=JobCreation(store, ids, jobs, events),
        job_states=JobStates(store, ids, events),
        job_history=JobHistory(store, ids, events),
        script_tries=ScriptTries(store, ids, events),
        job_parents=JobParents(store),
        declared_jobs=DeclaredJobs(store, ids, events),
        runs=Runs(store, ids, events),
        list_counts=ListCounts(store),
        saved_views=SavedViews(store, ids),
        suggestions=Suggestions(store),
        purge=Purge(store, ids, events),
        calendars=Calendars(store, ids, events),
        triggers=Triggers(store),
        settings=Settings(store, ids),
        overview=Overview(store),
        attention=Attention(store),
        audit=AuditLog(store),
        system=System(store, ids, events),
    )


def create_app(config: Config, services: Services) -> web.Application:
    """Console and API. Nothing runs in the background, so HTTP tests need no more than this."""
    app = create_web_application(config, unavailable_when=(DatabaseUnavailable,))
    app[SERVICES] = services
    app[CHECKS]["database"] = _database_check(services.store)
    add_api(app)
    add_console(app)
    return app


class Admin:
    """One admin process: HTTP, node sockets and loops over one database."""

    def __init__(self, config: Config, database: Database) -> None:
        self._config = config
        self._database = database
        # Ids are the engine's too: it must not wait behind people's requests for them.
        self.services = create_services(
            database.for_people,
            ids=Ids(database),
            oidc=config.oidc,
            cipher=create_cipher(config),
        )
        self._hub = LinkHub()
        self._watchdog = Watchdog()
        self._guard = AddressGuard(config.xxl_job_networks)
        self._loops: Sequence[Loop] = ()
        self._stopping = False
        self._started_at = 0.0  # event loop time

    async def run(
        self,
        sockets: Sequence[socket.socket],
        *,
        stop: asyncio.Event,
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        """Serve until `stop` is set.

        Args:
            sockets: bound and listening.
            ready: called once requests are answered.

        Raises:
            DatabaseUnavailable: the database was away at the start.
            ExceptionGroup: a loop ended by itself, which is a bug.
        """
        engine = await self._create_engine()
        await engine.membership.enter()
        caller = HttpCaller(self._guard)
        bridge = self._create_bridge(engine, caller)
        app = self._create_app(engine, bridge)
        runner = create_runner(app, shutdown_seconds=REQUEST_SECONDS)
        await runner.setup()
        self._started_at = asyncio.get_running_loop().time()
        self._loops = (*engine.loops, *bridge.loops)
        loops = {loop: _start(loop) for loop in self._loops}
        stopped = asyncio.create_task(stop.wait(), name="stop")
        compiling: asyncio.Task[None] | None = None
        try:
            await serve(runner, list(sockets))
            log.info("admin.started", name=self._config.name, url=self._config.public_url)
            await ready()
            compiling = asyncio.create_task(app[RENDERER].compile_all(), name="compile templates")
            self._watchdog.start()  # what happens before is the start, and nobody's fault
            await asyncio.wait([stopped, *loops.values()], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            if compiling is not None:
                compiling.cancel()
            self._watchdog.stop()
            await self._stop(engine, bridge, runner, loops)
            await caller.close()
        for loop in loops.values():
            if not loop.cancelled() and (error := loop.exception()) is not None:
                raise error

    async def close(self) -> None:
        """Give back threads and connections."""
        self.services.close()
        await self._database.close()

    async def _create_engine(self) -> Engine:
        admin_id = await self.services.ids.take("admin")
        self.services.relay.admin_id = admin_id
        return Engine(
            self._database,
            self.services.ids,
            self._hub,
            self.services.events,
            admin_id=admin_id,
            name=self._config.name,
            url=self._config.public_url,
            version=__version__,
            random=random.Random(),
            new_token=lambda: secrets.token_hex(16),
            retention_days=self._config.retention_days,
            wall_clock=_wall_clock_ms,
            cipher=self.services.cipher,
            stall=self._watchdog.told,
        )

    def _create_bridge(self, engine: Engine, caller: NodeCaller) -> XxlBridge:
        return XxlBridge(
            XxlNodes(self._database, self.services.events, self.services.cipher),
            engine,
            self._hub,
            caller,
            self._guard,
            admin_id=engine.admin_id,
            wall_clock_ms=_wall_clock_ms,
            refusals=XxlRefusals(self._database, self.services.ids, clock=time.monotonic),
        )

    def _create_app(self, engine: Engine, bridge: XxlBridge) -> web.Application:
        app = create_app(self._config, self.services)
        app[link_endpoint.MEMBERSHIP] = engine.membership
        app[link_endpoint.RECORDER] = engine.recorder
        app[link_endpoint.HUB] = self._hub
        link_endpoint.routes.add_to(app)
        app[xxl_endpoint.INBOUND] = bridge.inbound
        xxl_endpoint.routes.add_to(app)
        app[job_endpoint.REQUESTS] = XxlJobRequests(self.services.jobs, self.services.settings)
        job_endpoint.routes.add_to(app)
        app[CHECKS]["loops"] = self._check_loops
        return app

    async def _stop(
        self,
        engine: Engine,
        bridge: XxlBridge,
        runner: web.AppRunner,
        loops: Mapping[Loop, asyncio.Task[None]],
    ) -> None:
        self._stopping = True
        log.info("admin.stopping")
        engine.dispatcher.stopped = True
        # To the end of their passes: what was just claimed is still sent.
        await _end(loops, engine.planner, engine.dispatcher)
        for site in runner.sites:
            await site.stop()  # nodes that are sent away must not come back
        # Before the runner stops: it closes connections under the sockets' feet.
        await _end(loops, *bridge.loops)
        await bridge.close()
        await self._hub.close_all("the admin stops")
        await runner.cleanup()
        await _end(loops, *engine.loops)
        with contextlib.suppress(DatabaseUnavailable):  # what was not acknowledged is sent again
            await engine.settle()
        with contextlib.suppress(DatabaseUnavailable):  # our lease ends by itself
            await engine.membership.leave()
        log.info("admin.stopped")

    async def _check_loops(self) -> str:
        if self._stopping:
            return "stopping"
        now = asyncio.get_running_loop().time()
        for loop in self._loops:
            name = loop.name
            if loop.failing:
                return f"the {name} fails"
            late = STANDSTILL_SECONDS + loop.interval_seconds
            if now - (loop.last_pass_at or self._started_at) > late:
                return f"the {name} stands still"
        return "ok"


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def _start(loop: Loop) -> asyncio.Task[None]:
    return asyncio.create_task(loop.run(), name=type(loop).__name__)


async def _end(tasks: Mapping[Loop, asyncio.Task[None]], *loops: Loop) -> None:
    """Let the passes under way finish; a pass that hangs is cut off."""
    for loop in loops:
        loop.finish()
    _done, hanging = await asyncio.wait([tasks[loop] for loop in loops], timeout=PASS_SECONDS)
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)


def _database_check(store: Store) -> Callable[[], Awaitable[str]]:
    def ask(conn: sa.Connection) -> None:
        conn.execute(sa.select(1))

    async def check() -> str:
        await store.read(ask)
        return "ok"

    return check
