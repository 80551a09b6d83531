"""One drill: jobs move from XXL-JOB to us and back while both sides crash at every step."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import sqlalchemy as sa

from tests.simulation.captured_logs import captured_logs
from tests.simulation.database import SimDatabase
from tests.simulation.history import History
from tests.simulation.scheduler import Process, SimLoop
from tests.simulation.store import FaultShares, SimStore
from tests.simulation.xxl_job.books import Books, judge
from tests.simulation.xxl_job.standin import NextTime, XxlAdmin
from tests.simulation.xxl_job.their_server import (
    ConnectionLostError,
    Fuse,
    Session,
    SimTheirSchedule,
    TheirFaults,
    TheirServer,
    close_after,
)
from tests.support.xxl_job.installation import Installation
from tickwheel_admin.domain.triggers.schedule import parse
from tickwheel_admin.domain.triggers.trigger_json import spec_from_json
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Actor, Role
from tickwheel_admin.engine.planner.loop import Planner
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.services.xxl_job.moves.situation import Moved, Moving
from tickwheel_admin.services.xxl_job.moves.take_over import TakeOver
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import DatabaseUnavailable
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.executors import add_executor
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.triggers.planning import ensure_buckets

VERSION = "3.1"
SOURCE = "drill"
ACTOR = Actor(user_id=0, name="import", grants={ALL_EXECUTORS: Role.ADMIN})
EXECUTOR = 1
EPOCH = 1_800_000_000_000
CRONS = (
    "* * * * * ?",
    "0/2 * * * * ?",
    "0/3 * * * * ?",
    "0/5 * * * * ?",
    "1/7 * * * * ?",
    "3,4,5,30 * * * * ?",
    "0/10 * * * * ?",
    "15,45 * * * * ?",
    "0 * * * * ?",
)
RATES = (1, 2, 4, 9, 20, 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillOutcome:
    """What became of one seed."""

    seed: int
    violations: list[str]
    figures: Mapping[str, int]
    history: list[str]
    real_seconds: float


@dataclass(slots=True)
class _DrillJob:
    their_id: int
    job_id: int
    first_at: int
    next_time: NextTime


class _Command:
    """A process that may be killed or frozen; nobody waits for it then."""

    def __init__(self, loop: SimLoop, name: str, history: History, random: Random) -> None:
        self.process = Process(loop, name)
        self.left = asyncio.Event()  # it has ended, or was killed, or hangs
        self.ended = asyncio.Event()
        self.sessions: list[Session] = []
        self._loop = loop
        self._history = history
        self._random = random
        self.process.on_fuse = self.break_down

    def break_down(self) -> None:
        """What its fuse does."""
        if self._random.random() < 0.25:
            self._history.note(self.process.name, "freezes")
            self.freeze_for(self._random.choice((1.0, 8.0, 30.0)))
            self._loop.world_soon(self.left.set)
        else:
            self.kill()

    def kill(self) -> None:
        if self.process.is_dead:
            return
        self._history.note(self.process.name, "is killed")
        self.process.kill()
        for session in self.sessions:
            close_after(self._loop, session, 0.3)
        self._loop.world_soon(self.end)

    def freeze_for(self, longest: float) -> None:
        self.process.freeze()
        self._loop.world_later(longest, self.process.thaw)

    def end(self) -> None:
        self.left.set()
        self.ended.set()


class Drill:
    """Everything of one seed."""

    def __init__(
        self, seed: int, loop: SimLoop, database: SimDatabase, server: TheirServer
    ) -> None:
        self.random = Random(f"xxl/{seed}")
        self.loop = loop
        self.history = History(lambda: loop.now)
        self.database = database
        self.server = server
        self.epoch = EPOCH + self.random.randrange(86_400_000)
        self.books = Books()
        self.shares = FaultShares()  # of our transactions
        self.their_faults = TheirFaults()  # of the admins' connections
        self.our_faults = TheirFaults()  # of our commands' connections to XXL-JOB's database
        self.jobs: list[_DrillJob] = []
        self.figures: Counter[str] = Counter()
        self.commands = 0
        self.running: list[_Command] = []
        database.begin_simulation(self.history, self.now)
        server.begin()

    def now(self) -> int:
        """True time; every machine's clock is near it."""
        return self.epoch + round(self.loop.now * 1000)

    def clock(self) -> Callable[[], int]:
        """The clock of one machine."""
        off = self.random.randrange(-250, 250)
        return lambda: self.now() + off

    # --- the play --------------------------------------------------------------------------------

    async def play(self) -> None:
        """From the first row to the end of all moves."""
        await self._set_up()
        admins = self._admins()
        planner = self._start_planner()
        for admin in admins:
            self.loop.world_later(self.random.uniform(0, 2), admin.start)
        chaos = asyncio.create_task(self._chaos(admins, planner))
        await asyncio.sleep(self.random.uniform(8, 13))
        moves = self.random.choice(
            [["take"], ["take", "give"], ["take", "give", "take"], ["take", "take", "give"]]
        )
        for move in moves:
            self.our_faults.lost = self.random.choice((0.0, 0.05, 0.2))
            self.shares.rolled_back = self.shares.unknown_commit = self.random.choice((0.0, 0.1))
            self.shares.crash = self.random.choice((0.0, 0.05, 0.15))
            for _ in range(self.random.randrange(1, 4)):
                both = self.random.random() < 0.15
                await asyncio.gather(*(self._command(move, may_die=True) for _ in range(1 + both)))
                await asyncio.sleep(self.random.choice((0.0, 0.5, 3.0, 8.0)))
        chaos.cancel()
        with suppress(asyncio.CancelledError):
            await chaos
        self.our_faults.lost = self.their_faults.lost = 0.0
        self.shares.rolled_back = self.shares.unknown_commit = self.shares.crash = 0.0
        for admin in admins:
            admin.process.thaw()
            admin.start()
        if planner.is_dead:
            planner = self._start_planner()
        planner.thaw()
        for command in self.running:
            await command.ended.wait()  # those that were frozen
        for _ in range(10):
            moved = await self._command(moves[-1], may_die=False)
            if moved is not None and not moved.refused:
                break
            await asyncio.sleep(1.0)
        else:
            self.history.violation(f"the last {moves[-1]} never ended well: {moved}")
        await asyncio.sleep(12.0)
        self._judge(moves[-1])
        self.history.closed = True

    async def _set_up(self) -> None:
        store = self._store(None, None)
        await store.run(ensure_buckets)
        await store.run(
            lambda conn: add_executor(
                conn,
                executor_id=EXECUTOR,
                name="billing",
                description="",
                token_hash="-",
                now=self.now(),
            )
        )
        jobs = Jobs(store, Ids(store), Events())
        for number in range(self.random.randrange(3, 7)):
            await self._add_job(jobs, number)
        # What came due between the creation of a job and its pause.
        await store.run(lambda conn: conn.execute(sa.delete(tables.run)).rowcount)

    async def _add_job(self, jobs: Jobs, number: int) -> None:
        zone = self.random.choice(("UTC", "Asia/Shanghai", "America/New_York"))
        raw: dict[str, Any]
        if self.random.random() < 0.35:
            every = self.random.choice(RATES)
            raw = {"kind": "fixed_rate", "every_seconds": every}
            period_ms = every * 1000
            next_time: NextTime = lambda after: after + period_ms  # noqa: E731
            first_at = self.now() + self.random.randrange(5_000, 5_000 + min(period_ms, 15_000))
            conf, kind = str(every), "FIX_RATE"
        else:
            expression = self.random.choice(CRONS)
            raw = {
                "kind": "cron",
                "expression": expression,
                "dialect": "quartz",
                "timezone": zone,
            }
            first_at = 0
            conf, kind = expression, "CRON"
        # Each instant gets a row of its own, however late we are.
        raw["misfire"] = "fire_all"
        wanted = {"name": f"job-{number}", "handler": "h", "triggers": [raw]}
        job_id = await jobs.create(ACTOR, EXECUTOR, wanted)
        await jobs.pause(ACTOR, job_id)
        if kind == "CRON":
            (row,) = self.database.rows('SELECT spec FROM "trigger" WHERE job_id = ?', [job_id])
            next_time = parse(spec_from_json(row.spec), saved_at=0).next_after
            first_at = next_time(self.now() + 5_000) or 0
        misfire = self.random.choice(("DO_NOTHING", "FIRE_ONCE_NOW"))
        their_id = number + 1
        with self.server.engine.begin() as conn:
            Installation(conn, VERSION).add_job(
                id=their_id,
                cron=conf if kind == "CRON" else "",
                every_seconds=int(conf) if kind == "FIX_RATE" else 0,
                misfire_strategy=misfire,
                trigger_last_time=0,
                trigger_next_time=first_at,
            )
        self.jobs.append(_DrillJob(their_id, job_id, first_at, next_time))
        self.history.note("set-up", f"job {their_id}: {conf}, first at {first_at}")

    def _admins(self) -> list[XxlAdmin]:
        batches = self.random.random() < 0.5
        return [
            XxlAdmin(
                f"xxl-{number}",
                loop=self.loop,
                server=self.server,
                books=self.books,
                history=self.history,
                random=self.random,
                faults=self.their_faults,
                next_times={job.their_id: job.next_time for job in self.jobs},
                now=self.clock(),
                writes_in_batches=batches,
            )
            for number in range(self.random.choice((1, 2, 3)))
        ]

    async def _chaos(self, admins: Sequence[XxlAdmin], planner: Process) -> None:
        """Both sides are killed, frozen and cut off, until this is cancelled."""
        self.their_faults.lost = self.random.choice((0.0, 0.005, 0.03))
        while True:
            await asyncio.sleep(self.random.uniform(0.5, 4.0))
            victim = self.random.choice(admins)
            what = self.random.random()
            if what < 0.4 and not victim.process.is_dead:
                victim.process.fuse = self.random.randrange(1, 60)
                self.loop.world_later(self.random.uniform(0.5, 6.0), victim.start)
            elif what < 0.6:
                victim.process.freeze()
                self.figures["admins of XXL-JOB frozen"] += 1
                self.loop.world_later(self.random.uniform(0.2, 5.0), victim.process.thaw)
            elif what < 0.7:
                planner.freeze()
                self.loop.world_later(self.random.uniform(0.2, 3.0), planner.thaw)
            for admin in admins:
                if admin.process.is_dead and self.random.random() < 0.5:
                    admin.start()

    def _start_planner(self) -> Process:
        process = Process(self.loop, "planner")
        store = self._store(process, None)
        planner = Planner(
            store,
            Ids(store),
            Events(),
            admin_id=1,
            random=self.random,
            configs=JobConfigs(keep=100),
        )

        async def run() -> None:
            while not self.history.closed:
                with suppress(DatabaseUnavailable):
                    await planner.run_once()
                await asyncio.sleep(0.5)

        process.spawn(run(), name="planner")
        return process

    # --- our commands ----------------------------------------------------------------------------

    async def _command(self, move: str, *, may_die: bool) -> Moved | None:
        """One `tickwheel import xxl-job --take-over` or `--give-back`; None: it died or failed."""
        self.commands += 1
        command = _Command(self.loop, f"{move}.{self.commands}", self.history, self.random)
        self.running.append(command)
        process = command.process
        fuse = Fuse(command.break_down)
        if may_die and self.random.random() < 0.5:
            # Before or after each statement and each commit in XXL-JOB's database …
            fuse.steps = self.random.randrange(1, 14)
        elif may_die and self.random.random() < 0.4:
            process.fuse = self.random.randrange(1, 250)  # … or anywhere
        result: list[Moved] = []

        def open_session() -> Session:
            session = Session(
                self.server, self.loop, process, self.random, self.our_faults, fuse=fuse
            )
            command.sessions.append(session)
            return session

        async def run() -> None:
            store = self._store(process, command)
            take_over = TakeOver(
                store,
                Ids(store),
                Events(),
                SimTheirSchedule(open_session, self.clock(), self.books),
                source=SOURCE,
                actor=ACTOR,
            )
            wanted = [
                Moving(their_id=job.their_id, job_id=job.job_id, name=str(job.their_id))
                for job in self.jobs
            ]
            try:
                do = take_over.take_over if move == "take" else take_over.give_back
                result.append(await do(wanted))
                self.history.note(process.name, f"done: {result[0]}")
            except (ConnectionLostError, DatabaseUnavailable, TimeoutError, sa.exc.DBAPIError) as e:
                self.history.note(process.name, f"failed: {e!r:.120}")
                self.figures["commands that failed"] += 1
            except Exception as e:  # noqa: BLE001 - whatever else it is, it is a bug
                self.history.violation(f"{process.name}: {e!r:.200}")
            self.loop.world_soon(command.end)

        process.spawn(run(), name=move)
        await command.left.wait()
        if process.is_dead:
            self.figures["commands killed"] += 1
        elif not command.ended.is_set():
            self.figures["commands frozen"] += 1
        return result[0] if result else None

    def _store(self, process: Process | None, host: _Command | None) -> SimStore:
        shares = self.shares if host is not None else FaultShares()
        return SimStore(self.database, process, self.random, self.history, shares, host=host)

    # --- the verdict -----------------------------------------------------------------------------

    def _judge(self, last_move: str) -> None:
        theirs = {
            row.id: row
            for row in self.server.rows(
                "SELECT id, trigger_status, trigger_next_time FROM xxl_job_info"
            )
        }
        for job in self.jobs:
            row = theirs[job.their_id]
            (our_job,) = self.database.rows("SELECT paused FROM job WHERE id = ?", [job.job_id])
            (trigger,) = self.database.rows(
                'SELECT id, next_fire_at FROM "trigger" WHERE job_id = ?', [job.job_id]
            )
            if bool(our_job.paused) != (last_move == "give") or (
                row.trigger_status != (1 if last_move == "give" else 0)
            ):
                self.history.violation(
                    f"job {job.their_id}: after {last_move}, theirs is {row.trigger_status}"
                    f" and ours is {'paused' if our_job.paused else 'active'}"
                )
                continue
            runs = self.database.rows(
                "SELECT scheduled_at FROM run WHERE trigger_id = ? ORDER BY scheduled_at",
                [trigger.id],
            )
            ours = [each.scheduled_at for each in runs]
            self.figures["our fires"] += len(ours)
            until = row.trigger_next_time if last_move == "give" else trigger.next_fire_at
            for problem in judge(
                job.their_id,
                self.books,
                first=job.first_at,
                until=until,
                ours=ours,
                next_after=lambda at, job=job: job.next_time(at) or 0,  # type: ignore[misc]
            ):
                self.history.violation(problem)
        self.figures += self.books.figures
        self.figures.update(self.their_faults.seen)
        self.figures.update(self.our_faults.seen)
        self.figures.update(self.shares.seen)


def drill(seed: int, database: SimDatabase, server: TheirServer) -> DrillOutcome:
    """Play one seed to its end."""
    began = time.perf_counter()
    loop = SimLoop()
    play = Drill(seed, loop, database, server)
    loop.set_exception_handler(
        lambda _, context: play.history.violation(f"{context.get('message')}: {context!r:.300}")
    )
    try:
        with captured_logs(play.history):
            try:
                loop.run_until_complete(play.play())
            finally:
                play.history.closed = True
                left = [task for process in loop.processes for task in process.dismantle()]
                for process in loop.processes:
                    process.fuse = None
                loop.run_until_complete(_ended(left))
    finally:
        loop.close()
    return DrillOutcome(
        seed=seed,
        violations=play.history.violations,
        figures=play.figures,
        history=play.history.told(),
        real_seconds=time.perf_counter() - began,
    )


async def _ended(tasks: Sequence[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
