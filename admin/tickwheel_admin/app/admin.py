"""One admin process: what it consists of, started and stopped in order.

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
from typing import TYPE_CHECKING

import structlog
from aiohttp import web

from tickwheel_admin import __version__
from tickwheel_admin.app.loop_health import LoopHealth
from tickwheel_admin.app.services import create_cipher, create_services
from tickwheel_admin.app.web_app import create_app, create_metrics_page
from tickwheel_admin.channels.senders import Channels
from tickwheel_admin.config import Config
from tickwheel_admin.console.compile_templates import compile_templates, read_compiled
from tickwheel_admin.console.frame.rendering import RENDERER
from tickwheel_admin.domain.network_guard import alarm_guard
from tickwheel_admin.engine.alarms.counted_sender import CountedSender
from tickwheel_admin.engine.alarms.ports import ChannelSender
from tickwheel_admin.engine.engine import Engine
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.engine.ports import RunTracer
from tickwheel_admin.links import endpoint as link_endpoint
from tickwheel_admin.links.hub import LinkHub
from tickwheel_admin.services.metrics.figures import AdminFigures
from tickwheel_admin.services.metrics.meter import Meter
from tickwheel_admin.services.xxl_job.job_requests import XxlJobRequests
from tickwheel_admin.services.xxl_job.nodes import XxlNodes
from tickwheel_admin.services.xxl_job.refusals import XxlRefusals
from tickwheel_admin.store.database.database import Database, DatabaseUnavailable
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.system.moved import DatabaseMove
from tickwheel_admin.web.alarms import ALARM_SENDER
from tickwheel_admin.web.health import CHECKS
from tickwheel_admin.web.metrics import METRICS, create_metrics_application
from tickwheel_admin.web.server import create_runner, serve
from tickwheel_admin.web.tls import ServerTls
from tickwheel_admin.web.watchdog import Watchdog
from tickwheel_admin.xxl_job import endpoint as xxl_endpoint
from tickwheel_admin.xxl_job import job_endpoint
from tickwheel_admin.xxl_job.addresses import AddressGuard
from tickwheel_admin.xxl_job.bridge import XxlBridge
from tickwheel_admin.xxl_job.caller import HttpCaller, NodeCaller

if TYPE_CHECKING:
    from tickwheel_admin.tracing.spans import RunSpans

log = structlog.get_logger(__name__)

PASS_SECONDS = 5  # a pass under way gets so long at the end
REQUEST_SECONDS = 5  # requests under way get so long at the end


class Admin:
    """One admin process: HTTP, node sockets and loops over one database."""

    def __init__(self, config: Config, database: Database, meter: Meter | None = None) -> None:
        """`meter` counts what the database does; None: nobody counts."""
        self._config = config
        self._database = database
        self._meter = meter or Meter()
        # Ids are the engine's too: it must not wait behind people's requests for them.
        self.services = create_services(
            database.for_people,
            ids=Ids(database),
            oidc=config.oidc,
            cipher=create_cipher(config),
        )
        self._hub = LinkHub()
        self._watchdog = Watchdog()
        self._tls = ServerTls(config.tls) if config.tls is not None else None
        self._guard = AddressGuard(config.xxl_job_networks)
        self._health = LoopHealth()
        self._moved = asyncio.Event()
        self.move: DatabaseMove | None = None  # why it stopped by itself: its database was moved

    async def run(
        self,
        sockets: Sequence[socket.socket],
        *,
        stop: asyncio.Event,
        ready: Callable[[], Awaitable[None]],
        metrics_sockets: Sequence[socket.socket] = (),
    ) -> None:
        """Serve until `stop` is set, or until the installation is moved to another database.

        Args:
            sockets: bound and listening.
            ready: called once requests are answered.
            metrics_sockets: the same, for `/metrics` alone.

        Raises:
            DatabaseUnavailable: the database was away at the start.
            TracingError: an exporter that the environment asks for is not installed.
            ExceptionGroup: a loop ended by itself, which is a bug.
        """
        channels = Channels(alarm_guard(self._config.alarm_networks), now=_wall_clock_ms)
        tracer = self._create_tracer()
        sender = CountedSender(channels, self._meter.delivered)
        engine = await self._create_engine(sender, tracer)
        await engine.membership.enter()
        caller = HttpCaller(self._guard)
        bridge = self._create_bridge(engine, caller)
        read_compiled(self._config.data_dir)
        app = self._create_app(engine, bridge)
        app[ALARM_SENDER] = channels
        page = create_metrics_page(
            self._config, self._database.for_people, self._meter, lambda: self._figures(engine)
        )
        app[METRICS] = page
        runner = create_runner(app, shutdown_seconds=REQUEST_SECONDS)
        await runner.setup()
        scraped = create_runner(create_metrics_application(page, self._config.metrics_token))
        await scraped.setup()
        loops = {loop: _start(loop) for loop in (*engine.loops, *bridge.loops)}
        self._health.start(tuple(loops))
        stopped = asyncio.create_task(stop.wait(), name="stop")
        moved = asyncio.create_task(self._moved.wait(), name="moved")
        compiling: asyncio.Task[None] | None = None
        watching: asyncio.Task[None] | None = None
        try:
            context = None
            if self._tls is not None:
                context = self._tls.context
                watching = asyncio.create_task(self._tls.watch(), name="watch TLS files")
            await serve(runner, list(sockets), tls=context)
            await serve(scraped, list(metrics_sockets), tls=context)
            log.info("admin.started", name=self._config.name, url=self._config.public_url)
            await ready()
            compiling = asyncio.create_task(
                compile_templates(app[RENDERER], self._config.data_dir), name="compile templates"
            )
            self._watchdog.start()  # what happens before is the start, and nobody's fault
            ends = [stopped, moved, *loops.values()]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            moved.cancel()
            for task in (compiling, watching):
                if task is not None:
                    task.cancel()
            self._watchdog.stop()
            await self._stop(engine, bridge, runner, loops)
            await scraped.cleanup()  # the end, too, can be watched
            await caller.close()
            await channels.close()
            if tracer is not None:
                await tracer.close()
        for loop in loops.values():
            if not loop.cancelled() and (error := loop.exception()) is not None:
                raise error

    async def close(self) -> None:
        """Give back threads and connections."""
        self.services.close()
        await self._database.close()

    def _create_tracer(self) -> RunSpans | None:
        if not self._config.tracing:
            return None
        # Only here: OpenTelemetry is an extra, and who does not trace must not wait for it.
        from tickwheel_admin.tracing.spans import RunSpans

        return RunSpans.from_environment(name=self._config.name)

    async def _create_engine(self, sender: ChannelSender, tracer: RunTracer | None) -> Engine:
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
            sender=sender,
            console_url=self._config.console_url,
            tracer=tracer,
            moved=self._leave,
            tls=lambda: self._tls.status() if self._tls is not None else None,
            place=self.services.forecasts.place,
            plan=self.services.forecasts.plan,
        )

    def _leave(self, move: DatabaseMove) -> None:
        if self.move is None:
            log.error("admin.database_moved", to=move.to)
        self.move = move
        self._moved.set()

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
        app[CHECKS]["loops"] = self._health.check
        return app

    async def _stop(
        self,
        engine: Engine,
        bridge: XxlBridge,
        runner: web.AppRunner,
        loops: Mapping[Loop, asyncio.Task[None]],
    ) -> None:
        self._health.is_stopping = True
        log.info("admin.stopping")
        engine.dispatcher.stopped = True
        self.services.forecasts.close()  # a loop may wait for one
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

    def _figures(self, engine: Engine) -> AdminFigures:
        return AdminFigures(
            version=__version__,
            name=self._config.name,
            database=self._config.database_kind,
            loops=self._health.figures(),
            stalls=self._watchdog.count,
            stalled_seconds=self._watchdog.seconds,
            sessions=len(self._hub.connected()),
            unrecorded=engine.recorder.backlog,
            clock_offset_ms=engine.leases.clock_offset_ms,
            certificate_expires_at=self._tls.status().expires_at if self._tls else None,
        )


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
