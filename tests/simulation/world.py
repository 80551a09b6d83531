"""One simulated cluster, from its first transaction to the verdict: everything follows from a seed.

Load and faults together, then faults end, then triggers are stopped, then everything that was begun
has to end by itself. Only then is it checked.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.simulation import alarms
from tests.simulation.admin_host import AdminHost
from tests.simulation.backfills.fillers import Fillers
from tests.simulation.backfills.verdict import check_backfills
from tests.simulation.backfills.verdict import unfinished as unfinished_backfills
from tests.simulation.canaries.people import CanaryPeople, breaking_jobs
from tests.simulation.canaries.verdict import check_canaries
from tests.simulation.canaries.verdict import unfinished as unfinished_canaries
from tests.simulation.captured_logs import captured_logs
from tests.simulation.checks import checker
from tests.simulation.checks.as_of import check_as_of
from tests.simulation.checks.fixed_delays import check_fixed_delays_go_on
from tests.simulation.checks.self_audit import check_self_audit
from tests.simulation.database import SimDatabase
from tests.simulation.disk import SimDisk
from tests.simulation.faults.chaos import Chaos, Weather
from tests.simulation.faults.troubles import Troubles
from tests.simulation.handlers import Journal
from tests.simulation.history import History
from tests.simulation.host import Host
from tests.simulation.network import Network
from tests.simulation.node_host import NodeHost
from tests.simulation.operators import OPERATOR, Operators
from tests.simulation.pools.jobs import add_pools, crowd, with_pool
from tests.simulation.pools.verdict import check_pools
from tests.simulation.scheduler import SimLoop
from tests.simulation.schedules import calendar_in_use, draw_epoch
from tests.simulation.store import FaultShares, SimStore
from tests.simulation.workflows.graphs import add_workflows
from tests.simulation.workflows.people import WorkflowPeople
from tests.simulation.workload import ENDLESS, make_jobs
from tests.simulation.xxl_executors.faults import XXL_FAULTS
from tests.simulation.xxl_executors.world import XxlWorld
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.services.calendars.service import Calendars
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.executors import add_executor

RECOVERY_SECONDS = 8.0  # without faults, while triggers still fire
SETTLING_SECONDS = 500.0  # by then everything must have ended
ADMINS = 3
NODES = 4
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How long and how hard; the rest is in the seed."""

    load_seconds: int = 24  # of a storm; a siege takes four times as long, with less load
    chaos: bool = True
    admins: int | None = None  # None: mostly 3
    nodes: int = NODES
    faults: tuple[str, ...] = ()  # names of those that there are; none: as the seed says
    siege: bool | None = None  # None: as the seed says
    alarms: bool = False  # whether a channel is told of them, which takes longer to settle
    backfills: bool = False  # whether people fill in the past of jobs
    canaries: bool = False  # whether people retry failures, wave by wave
    workflows: bool = False  # whether there are some
    pools: bool = False  # whether jobs share slots of some
    xxl_job: bool | None = None  # whether executors of that protocol take part; None: as the seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one seed."""

    seed: int
    violations: list[str]
    digest: str
    virtual_seconds: float
    real_seconds: float
    fires: int
    starts: int
    faults: Mapping[str, int]  # by kind
    canaries: Mapping[str, int]  # canary retries: what there was of them
    history: list[str]
    involved: list[str]  # the part of the history that tells of what the violations are about


def simulate(seed: int, database: SimDatabase, options: Options | None = None) -> Outcome:
    """Let one cluster live and die."""
    began = time.perf_counter()
    loop = SimLoop()
    try:
        world = _World(seed, loop, database, options or Options())
        with captured_logs(world.history):
            try:
                loop.run_until_complete(world.live())
            finally:
                world.history.closed = True
                loop.run_until_complete(world.dismantle())
                world.close()
    finally:
        loop.close()
    return world.outcome(time.perf_counter() - began)


class _World:
    def __init__(self, seed: int, loop: SimLoop, database: SimDatabase, options: Options) -> None:
        self.history = History(loop.time)
        self._seed = seed
        self._loop = loop
        self._database = database
        self._options = options
        random = self._random("world")
        epoch, self._zone = draw_epoch(self._random("epoch"))
        database.begin_simulation(self.history, lambda: epoch + int(loop.now * 1000))
        loop.set_exception_handler(self._unhandled)
        self._shares = FaultShares()
        self._troubles = Troubles(loop.time)
        self._weather = self._draw_weather(random)
        self._load_seconds = options.load_seconds * (4 if self._weather.is_siege else 1)
        number_of_admins = options.admins or random.choices((1, 2, ADMINS), (1, 1, 5))[0]
        self._journal = Journal(self.history, database.latest)
        self._network = Network(
            loop, self._random("network"), self.history, harsh=random.random() < 0.3
        )
        self._xxl_job = XxlWorld.drawn(
            options.xxl_job,
            seed=seed,
            loop=loop,
            network=self._network,
            history=self.history,
            journal=self._journal,
            troubles=self._troubles,
        )
        self._provider: alarms.FaultyProvider | None = None
        if options.alarms:
            self._provider = alarms.FaultyProvider(self._random("provider"), self.history)
        self._executors = ["billing"] if random.random() < 0.5 else ["billing", "mail"]
        self._admins = [self._admin(number) for number in range(1, number_of_admins + 1)]
        shared_disk = self._disk("disk")
        self._nodes = [
            self._node(number, random, shared_disk) for number in range(1, options.nodes + 1)
        ]
        self._executors = [
            name for name in self._executors if any(node.executor == name for node in self._nodes)
        ]
        if self._xxl_job is not None:
            self._xxl_job.add_hosts([admin.name for admin in self._admins])
        self._calm = random.random() < 0.15
        self._operators = Operators(
            self._admins,
            database,
            self._random("operators"),
            self.history,
            calm=self._calm,
            weather=self._weather,
            zone=self._zone,
            workflows=options.workflows,
        )
        self._fillers: Fillers | None = None
        if options.backfills:
            self._fillers = Fillers(
                self._admins, self._operators, database, self._random("fillers"), self.history
            )
        self._canaries: CanaryPeople | None = None
        self._seen_of_canaries: Counter[str] = Counter()
        if options.canaries:
            self._canaries = CanaryPeople(
                self._admins,
                self._operators,
                database,
                self._random("canaries"),
                self.history,
                loop=loop,
                kills=options.chaos,
            )
        self._people: WorkflowPeople | None = None
        if options.workflows:
            self._people = WorkflowPeople(
                self._admins, self._operators, database, self._random("people"), self.history
            )
        self._chaos = Chaos(
            self._admins,
            self._nodes,
            loop=loop,
            database=database,
            network=self._network,
            shares=self._shares,
            random=self._random("chaos"),
            history=self.history,
            troubles=self._troubles,
            weather=self._weather,
            only=options.faults,
            elsewhere=XXL_FAULTS,
        )

    def _draw_weather(self, random: Random) -> Weather:
        is_siege = random.random() < 0.15
        if self._options.siege is not None:
            is_siege = self._options.siege
        return Weather(
            mean_gap_seconds=random.choice((10.0, 20.0) if is_siege else (1.0, 2.5, 5.0)),
            is_siege=is_siege,
            clock_step_ms=random.choice((5_000, 60_000, HOUR_MS)),
        )

    def _disk(self, name: str) -> SimDisk:
        directory = self._database.directory / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        return SimDisk(directory, self._loop, self._random(name), self.history)

    def _random(self, name: str) -> Random:
        # One source a part, so that more of one thing changes nothing about the others.
        return Random(f"{self._seed}/{name}")

    def _admin(self, number: int) -> AdminHost:
        return AdminHost(
            f"admin-{number}",
            loop=self._loop,
            database=self._database,
            network=self._network,
            random=self._random(f"admin-{number}"),
            history=self.history,
            shares=self._shares,
            troubles=self._troubles,
            wire=None if self._xxl_job is None else self._xxl_job.wire,
            sender=self._provider,
        )

    def _node(self, number: int, random: Random, shared_disk: SimDisk) -> NodeHost:
        executor = self._executors[-1] if number == self._options.nodes else self._executors[0]
        name = f"node-{number}"
        own_disk = self._disk(f"disk-{number}")
        return NodeHost(
            name,
            executor=executor,
            token=_token(executor),
            admins=tuple(
                admin.url for admin in self._admins[: random.randint(1, len(self._admins))]
            ),
            slots=random.randint(1, 4),
            # Two executors on one machine may share a directory, but not their results.
            disk=shared_disk if len(self._executors) == 1 and random.random() < 0.4 else own_disk,
            journal=self._journal,
            loop=self._loop,
            network=self._network,
            random=self._random(name),
            history=self.history,
            seed=self._seed,
            now=self._database.now,
            troubles=self._troubles,
        )

    # --- the life of a cluster -------------------------------------------------------------------

    async def live(self) -> None:
        await self._prepare()
        for host in self._hosts:
            host.start()
        under_load = [self._loop.create_task(self._operators.work())]
        if self._fillers is not None:
            under_load.append(self._loop.create_task(self._fillers.work()))
        if self._canaries is not None:
            under_load.append(self._loop.create_task(self._canaries.work()))
        if self._people is not None:
            under_load.append(self._loop.create_task(self._people.work()))
        if self._options.chaos:
            under_load.append(self._loop.create_task(self._chaos.rage()))
            if self._xxl_job is not None:
                faults = self._xxl_job.faults(
                    self._chaos.disasters, self._admins, self._options.faults
                )
                under_load.append(self._loop.create_task(faults.rage()))
        await asyncio.sleep(self._load_seconds)
        for disturbance in under_load:
            disturbance.cancel()
        self.history.note("world", "faults end")
        faults_ended = self.history.now
        await self._heal()
        await self._operators.restore()
        if self._fillers is not None:
            await self._fillers.restore()
        await asyncio.sleep(RECOVERY_SECONDS)
        check_fixed_delays_go_on(self._database, self.history)
        await self._operators.pause_all()
        self.history.note("world", "triggers are stopped")
        await self._settle()
        checker.check(
            self._database,
            self._journal,
            self._nodes,
            [admin.name for admin in self._admins],
            self._troubles,
            self._operators.requests,
            self.history,
            self._xxl_job,
            self._people,
        )
        if self._provider is not None:
            alarms.check_alarms(self._database, self._provider, self.history)
        if self._fillers is not None:
            check_backfills(self._database, self._fillers, self.history)
        if self._canaries is not None:
            self._seen_of_canaries = check_canaries(self._database, self._canaries, self.history)
        if self._options.pools:
            check_pools(self._database, self.history, faults_ended=faults_ended)
        check_as_of(self._database, self.history, self._random("as-of"))
        check_self_audit(self._database, self.history, self._random("self-audit"))

    @property
    def _hosts(self) -> list[Host]:
        mine = [] if self._xxl_job is None else self._xxl_job.hosts
        return [*self._admins, *self._nodes, *mine]

    async def _prepare(self) -> None:
        store = SimStore(self._database, None, self._random("setup"), self.history, FaultShares())
        ids = Ids(store)
        executor_ids = {}
        for name in self._executors:
            executor_ids[name] = await ids.take("executor")
            await store.run(
                add_executor,
                executor_id=executor_ids[name],
                name=name,
                description="",
                token_hash=hashlib.sha256(_token(name).encode()).hexdigest(),
                now=self._database.now(),
            )
        if self._provider is not None:
            per_minute = self._random("channel").choice((6, 20, 120))
            now = self._database.now()
            await store.run(alarms.prepare, per_minute=per_minute, now=now)
        jobs = Jobs(store, ids, Events())
        await Calendars(store, ids, Events()).create(
            OPERATOR,
            calendar_in_use(self._random("calendar"), now=self._database.now(), zone=self._zone),
        )
        slots = {
            name: sum(node.slots for node in self._nodes if node.executor == name)
            for name in self._executors
        }
        pools: dict[str, dict[str, int]] = {}
        of_pools = self._random("pools")
        if self._options.pools:
            pools = await add_pools(store, ids, of_pools, executor_ids)
        job_ids: list[int] = []
        short: list[int] = []
        for name, raw, children in make_jobs(
            self._random("jobs"),
            executors=self._executors,
            slots=slots,
            nodes={
                name: {node.name: node.slots for node in self._nodes if node.executor == name}
                for name in self._executors
            },
            now=self._database.now(),
            zone=self._zone,
            load_seconds=self._load_seconds,
            weather=self._weather,
        ):
            if name in pools:
                raw = with_pool(of_pools, raw, pools[name])
            raw["children"] = [{"job": job_ids[place], "on": on} for place, on in children]
            try:
                job_id = await jobs.create(OPERATOR, executor_ids[name], raw)
            except InvalidInput:  # bounds and holes of the calendar may leave it no fire at all
                for trigger in raw["triggers"]:
                    for limit in ("start_at", "end_at", "calendar"):
                        trigger.pop(limit, None)
                job_id = await jobs.create(OPERATOR, executor_ids[name], raw)
            job_ids.append(job_id)
            if raw["handler"] not in ("hanging", "stubborn", "long") and ENDLESS not in raw["name"]:
                short.append(job_id)
            self.history.note("world", f"job {job_id}: {raw}")
        for name in pools:
            for raw in crowd(of_pools, name, pools[name]):
                await jobs.create(OPERATOR, executor_ids[name], raw)
        if self._options.canaries:
            of_canaries = self._random("breaking jobs")
            for name, executor_id in executor_ids.items():
                for raw in breaking_jobs(of_canaries, name):
                    await jobs.create(OPERATOR, executor_id, raw)
        if self._options.workflows:
            of = list(executor_ids.values())
            random, now = self._random("workflows"), self._database.now()
            await add_workflows(store, ids, random, of, jobs=short, now=now)
        if self._xxl_job is not None:
            await self._xxl_job.prepare(store, ids, jobs)

    async def _heal(self) -> None:
        self._chaos.heal()
        if self._provider is not None:
            self._provider.is_faulty = False
        if self._xxl_job is not None:
            self._xxl_job.heal()
        while not all(host.is_up for host in self._hosts):
            # A host that was asked to stop finishes that, and is started again.
            for host in self._hosts:
                host.start()
            await asyncio.sleep(0.5)

    async def _settle(self) -> None:
        deadline = self._loop.now + SETTLING_SECONDS
        while stuck := self._unfinished():
            if self._loop.now > deadline:
                for what in stuck:
                    self.history.violation(f"G3: stuck: {what}")
                return
            await self._operators.cancel_endless()
            await self._operators.resume_nodes()
            if self._people is not None:
                self._people.answer_what_waits()
            await asyncio.sleep(1)
        await asyncio.sleep(2)

    def _unfinished(self) -> list[str]:
        runs = self._database.rows(
            "SELECT id, state, attempt, node_id, due_at, reason FROM run"
            " WHERE state IN ('queued', 'dispatched', 'running') ORDER BY id"
        )
        results = [
            f"result {run}/{attempt} in a spool"
            for node in self._nodes
            for run, attempt in node.disk.pending()
        ]
        reports = [] if self._xxl_job is None else self._xxl_job.undelivered()
        untold = [] if self._provider is None else alarms.unfinished(self._database)
        unfilled = [] if self._fillers is None else unfinished_backfills(self._database)
        going_on = [] if self._canaries is None else unfinished_canaries(self._database)
        stuck = [f"run {dict(row)}" for row in runs] + results + reports + untold
        return stuck + unfilled + going_on

    def _faults(self) -> Counter[str]:
        faults = self._chaos.faults + self._shares.seen
        if self._xxl_job is not None:
            faults += self._xxl_job.seen
        faults["torn write"] = sum(disk.torn for disk in {node.disk for node in self._nodes})
        return +faults

    async def dismantle(self) -> None:
        """End every coroutine in good order, the dead ones too; nothing they do counts."""
        self._network.over = True
        self._database.is_down = self._database.is_slow = False
        for _ in range(50):
            left = [task for process in self._loop.processes for task in process.dismantle()]
            if not left:
                return
            await asyncio.wait(left, timeout=100)

    def close(self) -> None:
        """Close the files of processes that still lived."""
        for process in self._loop.processes:
            process.kill()

    def outcome(self, real_seconds: float) -> Outcome:
        fires = self._database.rows("SELECT count(*) AS n FROM run WHERE trigger_id IS NOT NULL")
        return Outcome(
            seed=self._seed,
            violations=self.history.violations,
            digest=self.history.digest(),
            virtual_seconds=self._loop.now,
            real_seconds=real_seconds,
            fires=fires[0].n,
            starts=len(self._journal.starts),
            faults=self._faults(),
            canaries=self._seen_of_canaries,
            history=self.history.told(),
            involved=self.history.told_of_violations(),
        )

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.history.violation(f"unhandled: {context.get('message')} {error!r}")


def _token(executor: str) -> str:
    return f"token-of-{executor}-".ljust(40, "x")
