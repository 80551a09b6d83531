"""All loops of one admin, wired together; the server and the simulator build the same thing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tickwheel_admin.domain.admin_status import (
    AdminStatus,
    LoopStall,
    LoopStatus,
    TlsStatus,
    status_to_json,
)
from tickwheel_admin.domain.routing.strategy import RandomSource
from tickwheel_admin.engine.alarms.delivery import AlarmDelivery
from tickwheel_admin.engine.alarms.evaluator import AlarmEvaluator
from tickwheel_admin.engine.alarms.ports import ChannelSender
from tickwheel_admin.engine.backfills.backfiller import Backfiller
from tickwheel_admin.engine.catch_up_pace import CatchUpPace
from tickwheel_admin.engine.dispatcher.loop import Dispatcher
from tickwheel_admin.engine.failures.canary_retrier import CanaryRetrier
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.engine.maintenance.cleaner import Cleaner
from tickwheel_admin.engine.maintenance.coverage_watcher import CoverageWatcher
from tickwheel_admin.engine.maintenance.deadline_forecaster import DeadlineForecaster, Plan
from tickwheel_admin.engine.maintenance.refresher import Refresher
from tickwheel_admin.engine.maintenance.rollup import Rollup
from tickwheel_admin.engine.maintenance.self_audit import SelfAudit
from tickwheel_admin.engine.maintenance.window_placer import Place, WindowPlacer
from tickwheel_admin.engine.membership.leases import Leases
from tickwheel_admin.engine.membership.membership import Membership
from tickwheel_admin.engine.membership.notifier import Notifier
from tickwheel_admin.engine.planner.loop import Planner
from tickwheel_admin.engine.ports import NodeLinks, RunTracer
from tickwheel_admin.engine.recorder.loop import Recorder
from tickwheel_admin.engine.sweeper.loop import Sweeper
from tickwheel_admin.services.events import events as topics
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.secrets.values import SecretReader
from tickwheel_admin.store.calendars.calendars import CalendarCache
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.system.moved import DatabaseMove


class Engine:
    """The loops and what they share. The owner of the process starts and stops them."""

    def __init__(
        self,
        store: Store,
        ids: Ids,
        links: NodeLinks,
        events: Events,
        *,
        admin_id: int,
        name: str,
        url: str,
        version: str,
        random: RandomSource,
        new_token: Callable[[], str],
        retention_days: int,
        wall_clock: Callable[[], int],
        cipher: Cipher | None = None,
        stall: Callable[[], LoopStall | None] = lambda: None,
        sender: ChannelSender | None = None,
        console_url: str | None = None,
        tracer: RunTracer | None = None,
        moved: Callable[[DatabaseMove], None] = lambda move: None,
        tls: Callable[[], TlsStatus | None] = lambda: None,
        place: Place | None = None,
        plan: Plan | None = None,
    ) -> None:
        """Wire the loops; nothing runs yet.

        Args:
            url: where nodes reach this admin.
            new_token: an unguessable claim token of at most 32 characters.
            retention_days: how long ended runs are kept.
            wall_clock: this machine's clock, in UTC epoch ms; only shown, it decides nothing.
            cipher: of secrets; None: this admin has no key, and runs that need one wait.
            stall: what blocked the event loop lately, for the status.
            sender: sends messages of alarms; None: this admin leaves that to others.
            console_url: where people reach the console, for links in messages; None: at `url`.
            tracer: records spans of runs; None: this admin does not trace.
            moved: is told when the installation is moved to another database.
            tls: the certificate that this admin shows, for the status.
            place: chooses when in their windows triggers fire; None: others do.
            plan: forecasts the next hours of executors with deadlines; None: others do.
        """
        configs, calendars = JobConfigs(), CalendarCache()
        self.admin_id = admin_id
        self.membership = Membership(
            store, ids, events, admin_id=admin_id, name=name, url=url, version=version
        )
        self._cipher = cipher or Cipher()
        self._links = links
        self._stall, self._tls = stall, tls
        self.leases = Leases(
            store,
            links,
            self.membership.admission,
            admin_id=admin_id,
            enter=self.membership.enter,
            wall_clock=wall_clock,
            status=self.status,
            moved=moved,
        )
        pace = CatchUpPace()
        self.planner = Planner(
            store,
            ids,
            events,
            admin_id=admin_id,
            random=random,
            configs=configs,
            calendars=calendars,
            pace=pace,
        )
        self.dispatcher = Dispatcher(
            store,
            ids,
            links,
            events,
            random=random,
            new_token=new_token,
            configs=configs,
            secrets=SecretReader(self._cipher),
            tracer=tracer,
            pace=pace,
        )
        self.recorder = Recorder(
            store, ids, self.dispatcher, events, configs=configs, tracer=tracer
        )
        self.sweeper = Sweeper(
            store, ids, links, self.leases, events, configs=configs, tracer=tracer
        )
        self.backfiller = Backfiller(store, ids, events, calendars=calendars)
        self.canary_retrier = CanaryRetrier(store, ids, events, configs=configs)
        self.refresher = Refresher(store, events, calendars=calendars)
        self.window_placer = WindowPlacer(
            store, ids, events, place=place, configs=configs, calendars=calendars
        )
        self.deadline_forecaster = DeadlineForecaster(store, events, plan=plan)
        self.coverage_watcher = CoverageWatcher(
            store, events, calendars=calendars, admin_id=admin_id
        )
        self.cleaner = Cleaner(store, retention_days=retention_days)
        self.rollup = Rollup(store)
        self.self_audit = SelfAudit(store, admin_id=admin_id, retention_days=retention_days)
        self.notifier = Notifier(store, events, admin_id=admin_id, status=self.status)
        self.evaluator = AlarmEvaluator(
            store,
            ids,
            events,
            calendars=calendars,
            new_token=new_token,
            watch=configs.watch,
        )
        self.delivery = AlarmDelivery(
            store,
            events,
            sender,
            admin_id=admin_id,
            console_url=console_url or url,
            cipher=self._cipher,
            new_token=new_token,
        )
        self._events = events
        events.listen(topics.TRIGGERS, self.planner.wake)
        events.listen(topics.CALENDARS, self.refresher.wake)
        events.listen(topics.QUEUED, self.dispatcher.wake)
        events.listen(topics.CANCEL, self.sweeper.wake)

    @property
    def loops(self) -> tuple[Loop, ...]:
        """Every loop, in the order of their start. The recorder is stopped last."""
        return (
            self.recorder,
            self.leases,
            self.sweeper,
            self.dispatcher,
            self.planner,
            self.backfiller,
            self.canary_retrier,
            self.refresher,
            self.window_placer,
            self.deadline_forecaster,
            self.coverage_watcher,
            self.cleaner,
            self.rollup,
            self.self_audit,
            self.evaluator,
            self.delivery,
            self.notifier,
        )

    def status(self) -> str:
        """The status of this admin, as JSON of AdminStatus."""
        now = asyncio.get_running_loop().time()
        loops = {
            each.name: LoopStatus(
                last_pass_ms_ago=None
                if each.last_pass_at is None
                else int((now - each.last_pass_at) * 1000),
                failing=each.failing,
            )
            for each in self.loops
        }
        status = AdminStatus(
            clock_offset_ms=self.leases.clock_offset_ms,
            database_ms=self.leases.renewal_ms,
            sessions=len(self._links.connected()),
            waiting=self.recorder.backlog,
            loops=loops,
            stall=self._stall(),
            changes=self._events.counts(),
            secret_keys=self._cipher.key_ids,
            tls=self._tls(),
            node_clocks=self.membership.clocks.worst(),
        )
        return status_to_json(status)

    async def settle(self) -> None:
        """After the loops were stopped: record what nodes have already reported, and mark what
        channels have taken.
        """
        await self.delivery.settle()
        while await self.recorder.run_once():
            pass
