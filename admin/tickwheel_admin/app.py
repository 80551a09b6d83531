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
from typing import TYPE_CHECKING

import sqlalchemy as sa
import structlog
from aiohttp import web

from tickwheel_admin import __version__
from tickwheel_admin.api import add_api
from tickwheel_admin.channels.senders import Channels
from tickwheel_admin.config import Config
from tickwheel_admin.console import add_console
from tickwheel_admin.console.compile_templates import compile_templates, read_compiled
from tickwheel_admin.console.frame.rendering import RENDERER
from tickwheel_admin.domain.network_guard import alarm_guard
from tickwheel_admin.domain.users.oidc import OidcSettings
from tickwheel_admin.engine.alarms.counted_sender import CountedSender
from tickwheel_admin.engine.alarms.ports import ChannelSender
from tickwheel_admin.engine.engine import Engine
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.engine.ports import RunTracer
from tickwheel_admin.links import endpoint as link_endpoint
from tickwheel_admin.links.hub import LinkHub
from tickwheel_admin.services.alarms.alarms import Alarms
from tickwheel_admin.services.alarms.channels import AlarmChannels
from tickwheel_admin.services.alarms.deliveries import Deliveries
from tickwheel_admin.services.alarms.rules import AlarmRules
from tickwheel_admin.services.as_of.service import TimeMachine
from tickwheel_admin.services.as_of.why import WhyThen
from tickwheel_admin.services.backfills.service import Backfills
from tickwheel_admin.services.calendars.service import Calendars
from tickwheel_admin.services.delays.process import DelayProcesses
from tickwheel_admin.services.delays.service import Delays
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.events.relay import EventRelay
from tickwheel_admin.services.executors.nodes import Nodes
from tickwheel_admin.services.executors.service import Executors
from tickwheel_admin.services.failures.failures import FailureGroups
from tickwheel_admin.services.forecast.plan import NightPlans
from tickwheel_admin.services.forecast.process import ForecastProcesses
from tickwheel_admin.services.forecast.service import Forecasts
from tickwheel_admin.services.gitops.service import GitOps
from tickwheel_admin.services.imports.importer import ForeignImports
from tickwheel_admin.services.jobs.bulk import JobBulk
from tickwheel_admin.services.jobs.creation import JobCreation
from tickwheel_admin.services.jobs.declared.service import DeclaredJobs
from tickwheel_admin.services.jobs.history import JobHistory
from tickwheel_admin.services.jobs.kept_state import JobStates
from tickwheel_admin.services.jobs.maps import JobMaps
from tickwheel_admin.services.jobs.parents import JobParents
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.services.jobs.tries import ScriptTries
from tickwheel_admin.services.lists.saved_views import SavedViews
from tickwheel_admin.services.lists.suggestions import Suggestions
from tickwheel_admin.services.metrics.exposition import MetricsPage
from tickwheel_admin.services.metrics.figures import AdminFigures, LoopFigures
from tickwheel_admin.services.metrics.meter import Meter
from tickwheel_admin.services.overview.attention.service import Attention
from tickwheel_admin.services.overview.list_counts import ListCounts
from tickwheel_admin.services.overview.service import Overview
from tickwheel_admin.services.overview.trends import TrendFigures
from tickwheel_admin.services.pools.service import Pools
from tickwheel_admin.services.proof.export import ProofExport
from tickwheel_admin.services.proof.keys import ProofKeys
from tickwheel_admin.services.proof.service import Proofs
from tickwheel_admin.services.runs.events import RunEventFeed
from tickwheel_admin.services.runs.purge import Purge
from tickwheel_admin.services.runs.service import Runs
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.secrets.service import Secrets
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.system.audit import AuditLog
from tickwheel_admin.services.system.self_audit import SelfAuditLog
from tickwheel_admin.services.system.service import System
from tickwheel_admin.services.system.settings import Settings
from tickwheel_admin.services.triggers.service import Triggers
from tickwheel_admin.services.users.administration import UserAdministration
from tickwheel_admin.services.users.api_tokens import ApiTokens
from tickwheel_admin.services.users.logins import Logins
from tickwheel_admin.services.users.oidc.login import OidcLogin
from tickwheel_admin.services.users.own_account import OwnAccount
from tickwheel_admin.services.users.passwords import Passwords
from tickwheel_admin.services.workflows.answers import StepAnswers
from tickwheel_admin.services.workflows.interventions import StepInterventions
from tickwheel_admin.services.workflows.questions import StepQuestions
from tickwheel_admin.services.workflows.steps import WorkflowRuns
from tickwheel_admin.services.workflows.uses import WorkflowUses
from tickwheel_admin.services.xxl_job.imports.importer import Importer
from tickwheel_admin.services.xxl_job.job_requests import XxlJobRequests
from tickwheel_admin.services.xxl_job.nodes import XxlNodes
from tickwheel_admin.services.xxl_job.refusals import XxlRefusals
from tickwheel_admin.services.xxl_job.service import XxlExecutors
from tickwheel_admin.store.database.database import Database, DatabaseUnavailable, Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.system.moved import DatabaseMove
from tickwheel_admin.web import metrics as metrics_endpoint
from tickwheel_admin.web.alarms import ALARM_SENDER
from tickwheel_admin.web.application import create_web_application
from tickwheel_admin.web.health import CHECKS
from tickwheel_admin.web.i18n import LANGUAGES
from tickwheel_admin.web.keys import SERVICES
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
    proofs, proof_keys = Proofs(store), ProofKeys(store, ids, cipher)
    jobs, processes = Jobs(store, ids, events), ForecastProcesses()
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
        job_maps=JobMaps(store),
        declared_jobs=DeclaredJobs(store, ids, events),
        gitops=GitOps(store, ids, events, cipher, languages=tuple(LANGUAGES)),
        runs=Runs(store, ids, events),
        run_events=RunEventFeed(store, events),
        list_counts=ListCounts(store),
        saved_views=SavedViews(store, ids),
        suggestions=Suggestions(store),
        backfills=Backfills(store, ids, events),
        workflow_runs=WorkflowRuns(store),
        workflow_uses=WorkflowUses(store),
        step_answers=StepAnswers(store, ids, events),
        step_interventions=StepInterventions(store, ids, events),
        step_questions=StepQuestions(store),
        purge=Purge(store, ids, events),
        calendars=Calendars(store, ids, events),
        pools=Pools(store, ids, events),
        triggers=Triggers(store),
        delays=Delays(store, processes=DelayProcesses()),
        forecasts=Forecasts(store, jobs, processes=processes),
        night_plans=NightPlans(store, processes=processes),
        settings=Settings(store, ids),
        overview=Overview(store),
        trends=TrendFigures(store),
        attention=Attention(store),
        alarms=Alarms(store, ids, events),
        failures=FailureGroups(store, ids, events),
        alarm_rules=AlarmRules(store, ids, events),
        alarm_channels=AlarmChannels(store, ids, events, cipher, languages=tuple(LANGUAGES)),
        deliveries=Deliveries(store, ids, events),
        audit=AuditLog(store),
        self_audit=SelfAuditLog(store),
        time_machine=TimeMachine(store),
        why_then=WhyThen(store),
        proofs=proofs,
        proof_keys=proof_keys,
        proof_export=ProofExport(proofs, proof_keys),
        system=System(store, ids, events),
    )


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
        self._loops: Sequence[Loop] = ()
        self._stopping = False
        self._moved = asyncio.Event()
        self.move: DatabaseMove | None = None  # why it stopped by itself: its database was moved
        self._started_at = 0.0  # event loop time

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
        self._started_at = asyncio.get_running_loop().time()
        self._loops = (*engine.loops, *bridge.loops)
        loops = {loop: _start(loop) for loop in self._loops}
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
        now = asyncio.get_running_loop().time()
        return AdminFigures(
            version=__version__,
            name=self._config.name,
            database=self._config.database_kind,
            loops=[
                LoopFigures(
                    name=loop.name,
                    age_seconds=now - (loop.last_pass_at or self._started_at),
                    interval_seconds=loop.interval_seconds,
                    failing=loop.failing,
                )
                for loop in self._loops
            ],
            stalls=self._watchdog.count,
            stalled_seconds=self._watchdog.seconds,
            sessions=len(self._hub.connected()),
            unrecorded=engine.recorder.backlog,
            clock_offset_ms=engine.leases.clock_offset_ms,
            certificate_expires_at=self._tls.status().expires_at if self._tls else None,
        )

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
