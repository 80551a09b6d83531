"""A machine that runs one admin after the other: the real engine, sockets and services."""

from __future__ import annotations

import asyncio
import hashlib
from random import Random

from tests.simulation.database import SimDatabase
from tests.simulation.faults.troubles import Troubles
from tests.simulation.history import History
from tests.simulation.host import Host
from tests.simulation.network import Network, Pipe
from tests.simulation.scheduler import Process, SimLoop
from tests.simulation.store import FaultShares, SimStore
from tests.simulation.xxl_executors.wire import SimCaller, Wire
from tickwheel_admin.domain.errors import Unavailable
from tickwheel_admin.domain.xxl_job.bridge import ClientKind
from tickwheel_admin.engine.alarms.ports import ChannelSender
from tickwheel_admin.engine.engine import Engine
from tickwheel_admin.links.hub import LinkHub
from tickwheel_admin.links.session import NodeSession
from tickwheel_admin.services.backfills.service import Backfills
from tickwheel_admin.services.calendars.service import Calendars
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.executors.nodes import Nodes
from tickwheel_admin.services.executors.service import Executors
from tickwheel_admin.services.failures.failures import FailureGroups
from tickwheel_admin.services.jobs.kept_state import JobStates
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.services.runs.service import Runs
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.system.service import System
from tickwheel_admin.services.workflows.answers import StepAnswers
from tickwheel_admin.services.workflows.interventions import StepInterventions
from tickwheel_admin.services.xxl_job.nodes import XxlNodes
from tickwheel_admin.store.database.database import DatabaseUnavailable
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.xxl_job import dialects
from tickwheel_admin.xxl_job.addresses import AddressGuard
from tickwheel_admin.xxl_job.bridge import XxlBridge
from tickwheel_admin.xxl_job.callbacks import NotRecorded
from tickwheel_admin.xxl_job.inbound import CallerRefused, Inbound
from tickwheel_executor.errors import ConnectError, UnauthorizedError

RETENTION_DAYS = 30
CIPHER = Cipher([bytes(32)])


class AdminHost(Host):
    """One address, and the admin that serves it now, if any."""

    def __init__(
        self,
        name: str,
        *,
        loop: SimLoop,
        database: SimDatabase,
        network: Network,
        random: Random,
        history: History,
        shares: FaultShares,
        troubles: Troubles,
        wire: Wire | None,
        sender: ChannelSender | None = None,
    ) -> None:
        """A machine without a process; without a wire, nobody speaks XXL-JOB's protocol."""
        super().__init__(
            "admin", name, loop=loop, network=network, history=history, troubles=troubles
        )
        self.url = f"http://{name}:8500"
        self._database = database
        self._random = random
        self._shares = shares
        self._clock_is_off_by = random.randrange(-3_600_000, 3_600_000)
        self._wire = wire
        self._sender = sender
        if wire is not None:
            wire.admins[name] = self

    def kill(self, *, vanished: bool = False) -> None:
        """As `kill -9`, or as if its machine were gone."""
        if not self.process.is_dead:
            self._network.unlisten(self.url)
        super().kill(vanished=vanished)

    def stop(self) -> None:
        """As SIGTERM."""
        if self.is_up:
            self._troubles.begin(admin=self.name)
            self._history.note(self.process.name, "is asked to stop")
            self.is_serving = False
            self.process.spawn(self._stop(self.process), name="stop")

    def freeze_for(self, longest: float) -> None:
        """Freeze, and go on after at most this many seconds."""
        self.freeze()
        self._loop.world_later(self._random.uniform(0.1, longest), self.thaw)

    async def _main(self, process: Process) -> None:
        self.store = SimStore(
            self._database, process, self._random, self._history, self._shares, host=self
        )
        self.ids = Ids(self.store)
        self.events = Events()
        self.hub = LinkHub()
        self.answers = StepAnswers(self.store, self.ids, self.events)
        self.interventions = StepInterventions(self.store, self.ids, self.events)
        self.backfills = Backfills(self.store, self.ids, self.events)
        self.calendars = Calendars(self.store, self.ids, self.events)
        self.jobs = Jobs(self.store, self.ids, self.events)
        self.job_states = JobStates(self.store, self.ids, self.events)
        self.runs = Runs(self.store, self.ids, self.events)
        self.executors = Executors(self.store, self.ids, self.events)
        self.nodes = Nodes(self.store, self.ids, self.events)
        self.system = System(self.store, self.ids, self.events)
        self.failures = FailureGroups(self.store, self.ids, self.events)
        self.engine = await self._until_database_answers()
        self._bridge = self._create_bridge(self._wire) if self._wire is not None else None
        loops = [*self.engine.loops, *(self._bridge.loops if self._bridge is not None else ())]
        self._loops = [process.spawn(loop.run(), name=type(loop).__name__) for loop in loops]
        self._network.listen(self.url, self)
        self.is_serving = True
        self._troubles.end_of(admin=self.name)

    async def _until_database_answers(self) -> Engine:
        while True:
            try:
                admin_id = await self.ids.take("admin")
                engine = Engine(
                    self.store,
                    self.ids,
                    self.hub,
                    self.events,
                    admin_id=admin_id,
                    name=f"{self.name}-{self._starts}",
                    url=self.url,
                    version="0",
                    random=self._random,
                    new_token=lambda: f"{self._random.getrandbits(128):032x}",
                    retention_days=RETENTION_DAYS,
                    sender=self._sender,
                    wall_clock=lambda: self._database.now() + self._clock_is_off_by,
                )
                await engine.membership.enter()
                return engine
            except DatabaseUnavailable:
                await asyncio.sleep(1)

    def _create_bridge(self, wire: Wire) -> XxlBridge:
        return XxlBridge(
            XxlNodes(self.store, self.events, CIPHER),
            self.engine,
            self.hub,
            SimCaller(wire, self.name),
            AddressGuard(),
            admin_id=self.engine.admin_id,
            wall_clock_ms=lambda: self._database.now() + self._clock_is_off_by,
        )

    async def serve_executor(self, path: str, token: str, body: bytes) -> bytes | None:
        """What `xxl_job.endpoint` does with a request; None: the connection is broken off."""
        assert self._bridge is not None
        try:
            message = await _answered(self._bridge.inbound, path, token, body)
        except CallerRefused as refused:
            return dialects.answer(500, str(refused))
        except (DatabaseUnavailable, NotRecorded):
            return None
        return dialects.answer(200, message)

    async def serve(self, pipe: Pipe, token: str) -> None:
        """What `links.endpoint` does with a connection."""
        token_hash = hashlib.sha256(token.encode()).hexdigest()
        try:
            executor = await self.engine.membership.executor_of(token_hash)
        except Unavailable:
            pipe.respond(ConnectError("the admin answered 503"))
            return
        if executor is None:
            pipe.respond(UnauthorizedError("the admin answered 401"))
            return
        pipe.respond(None)
        executor_id, executor_name = executor
        session = NodeSession(
            pipe.admin_end,
            executor_id=executor_id,
            executor_name=executor_name,
            token_hash=token_hash,
            address="192.0.2.1",
            hub=self.hub,
            membership=self.engine.membership,
            recorder=self.engine.recorder,
        )
        await session.serve()

    async def _stop(self, process: Process) -> None:
        self.engine.dispatcher.stopped = True
        self._network.unlisten(self.url)
        if self._bridge is not None:
            await self._bridge.close()
        await self.hub.close_all("the admin stops")
        for loop in reversed(self._loops):
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        try:
            await self.engine.settle()
            await self.engine.membership.leave()
        except DatabaseUnavailable:
            pass  # its lease runs out
        self._history.note(process.name, "has stopped")
        self._loop.world_soon(self._exit, process)


async def _answered(inbound: Inbound, path: str, token: str, body: bytes) -> str:
    executors = await inbound.shown_by(token, None)
    client = ClientKind.JAVA
    if path == "/callback":
        return await inbound.report(
            dialects.read_callbacks(body), executors, client, note=lambda _: None
        )
    said = dialects.read_registry(body)
    if path == "/registry":
        await inbound.register(said, executors, None, client)
    else:
        await inbound.unregister(said, executors)
    return ""
