"""Measures one program in one scenario: starts it, waits, reads its output, ends it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.bench.peers.broker import redis
from tests.bench.peers.contract import Order
from tests.bench.peers.judging import Told, Verdict, judge, read_output
from tests.bench.peers.tree import kill_all, processes_of, tree_cpu_seconds
from tests.bench.testbed.bed import SERVERS
from tests.bench.testbed.measure import cpu_seconds
from tests.e2e.cluster import ROOT
from tests.support.processes import ManagedProcess

PERIOD_MS = 1_000
START_SECONDS = 10.0  # from the start of a program to its first instant, at the least
STORE_SECONDS = 0.004  # … and this for each schedule
TRIES = 3  # each with twice the time of the one before, for a program that was not ready
WARM_UP_MS = 3_000
STILL_SECONDS = 20.0  # nothing more will start once nothing has started for so long
STRAGGLER_SECONDS = 5.0  # after the last instant of a steady rate
POLL_SECONDS = 0.2
STOP_SECONDS = 10.0  # then it is killed, with all that it started


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A program that keeps to the contract."""

    name: str
    command: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerFigures:
    """One program in one scenario; lateness in milliseconds after the instant that was due."""

    peer: str
    about: str  # what the program says of itself
    scenario: str  # "herd": all at one instant, once; "steady": all at every full second
    schedules: int
    not_measured: str | None = None  # why everything below says nothing
    expected: int = 0  # executions
    missed: int = 0
    duplicates: int = 0
    runs_per_second: int | None = None  # of a herd: until the last one started
    late_p50: int | None = None
    late_p99: int | None = None
    late_max: int | None = None
    cpu_us_per_run: dict[str, int] | None = None  # of program, database, broker


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """A program at work, and the servers it uses."""

    order: Order
    process: ManagedProcess
    server_pids: dict[str, list[int]]

    def told(self) -> Told:
        path = self.order.output
        return read_output(path.read_text() if path.exists() else "")

    def cpu_seconds(self) -> dict[str, float]:
        servers = {name: cpu_seconds(pids) for name, pids in self.server_pids.items()}
        return {"program": tree_cpu_seconds(self.process.pid), **servers}

    def sleep_until(self, at: float) -> None:
        """Until an instant in ms, unless the program ends before."""
        while (left := at / 1000 - time.time()) > 0 and self.process.is_running:
            time.sleep(min(left, POLL_SECONDS))


def measure_herd(peer: Peer, kind: str, *, schedules: int) -> PeerFigures:
    """Let so many schedules be due at one instant, once."""
    return _measure(peer, kind, "herd", schedules, seconds=None)


def measure_steady(peer: Peer, kind: str, *, schedules: int, seconds: int) -> PeerFigures:
    """Let so many schedules be due at every full second, for so many seconds after a warm-up."""
    return _measure(peer, kind, "steady", schedules, seconds=seconds)


def not_measured(peer: str, scenario: str, schedules: int, why: str) -> PeerFigures:
    """A row that says why there is none."""
    return PeerFigures(
        peer=peer, about=peer, scenario=scenario, schedules=schedules, not_measured=why
    )


def _measure(
    peer: Peer, kind: str, scenario: str, schedules: int, *, seconds: int | None
) -> PeerFigures:
    lead = START_SECONDS + schedules * STORE_SECONDS
    why = ""
    for _ in range(TRIES):
        with _started(peer, kind, schedules, lead=lead, recurs=seconds is not None) as running:
            running.sleep_until(running.order.due_at - 500)
            told = running.told()
            if told.ready is not None:
                if seconds is None:
                    return _herd(peer, running, told.ready)
                return _steady(peer, running, told.ready, seconds)
            if told.cannot is not None:
                why = told.cannot
                break
            why = f"was not ready {lead:.0f} s after its start"
            if not running.process.is_running:
                why = f"ended: {_last_line(running.process)}"
                break
        lead *= 2
    return not_measured(peer.name, scenario, schedules, why)


def _herd(peer: Peer, running: _Running, about: str) -> PeerFigures:
    order = running.order
    running.sleep_until(order.due_at)
    before = running.cpu_seconds()
    seen, seen_at = 0, time.monotonic()
    while seen < order.schedules and time.monotonic() < seen_at + STILL_SECONDS:
        time.sleep(POLL_SECONDS)
        if (count := len(running.told().executions)) > seen:
            seen, seen_at = count, time.monotonic()
    time.sleep(1)  # for results on their way, and for what comes twice
    after = running.cpu_seconds()
    verdict = judge(order, running.told().executions, from_at=order.due_at, to_at=order.due_at + 1)
    ran = verdict.expected - verdict.missed
    rate = None
    if verdict.last_started_at is not None:
        rate = round(ran / max(verdict.last_started_at - order.due_at, 1) * 1000)
    return _figures(peer, order, verdict, about, "herd", before, after, rate=rate)


def _steady(peer: Peer, running: _Running, about: str, seconds: int) -> PeerFigures:
    order = running.order
    from_at = order.due_at + WARM_UP_MS
    to_at = from_at + seconds * 1000
    running.sleep_until(from_at)
    before = running.cpu_seconds()
    running.sleep_until(to_at)
    after = running.cpu_seconds()
    running.sleep_until(to_at + STRAGGLER_SECONDS * 1000)
    verdict = judge(order, running.told().executions, from_at=from_at, to_at=to_at)
    return _figures(peer, order, verdict, about, "steady", before, after, rate=None)


def _figures(
    peer: Peer,
    order: Order,
    verdict: Verdict,
    about: str,
    scenario: str,
    before: dict[str, float],
    after: dict[str, float],
    *,
    rate: int | None,
) -> PeerFigures:
    ran = max(verdict.expected - verdict.missed, 1)
    return PeerFigures(
        peer=peer.name,
        about=about,
        scenario=scenario,
        schedules=order.schedules,
        expected=verdict.expected,
        missed=verdict.missed,
        duplicates=verdict.duplicates,
        runs_per_second=rate,
        late_p50=verdict.late_p50,
        late_p99=verdict.late_p99,
        late_max=verdict.late_max,
        cpu_us_per_run={name: round((after[name] - before[name]) / ran * 1e6) for name in before},
    )


@contextmanager
def _started(
    peer: Peer, kind: str, schedules: int, *, lead: float, recurs: bool
) -> Iterator[_Running]:
    """The program over servers of its own, which are as durable as production's."""
    with (
        tempfile.TemporaryDirectory(prefix="tickwheel-peer") as name,
        _database(Path(name), kind) as (url, database_pids),
        redis(Path(name)) as broker,
    ):
        directory = Path(name)
        work = directory / "work"
        work.mkdir()
        earliest = round((time.time() + lead) * 1000)
        order = Order(
            schedules=schedules,
            due_at=earliest + -earliest % 1000,
            period_ms=PERIOD_MS if recurs else None,
            database_url=url,
            broker_url=None if broker is None else broker[0],
            directory=work,
            output=directory / "output",
        )
        process = ManagedProcess(
            peer.command,
            directory / "program.log",
            environment=order.environment(),
            directory=ROOT,
        )
        pids = {"database": database_pids, "broker": [] if broker is None else [broker[1]]}
        with process:
            try:
                yield _Running(order=order, process=process, server_pids=pids)
            finally:
                family = processes_of(process.pid)
                if process.is_running:
                    with suppress(TimeoutError):  # it was killed then
                        process.stop(timeout_seconds=STOP_SECONDS)
                kill_all(family[1:])


def _last_line(process: ManagedProcess) -> str:
    lines = [line for line in process.output().splitlines() if line.strip()]
    return "".join(lines[-1:]) or "without a word"


@contextmanager
def _database(directory: Path, kind: str) -> Iterator[tuple[str, list[int]]]:
    """The URL of an empty database, and the server's processes."""
    if kind == "sqlite":
        yield f"sqlite:///{directory / 'peer.db'}", []
        return
    with SERVERS[kind](durable=True) as server:
        server.create_database("tickwheel")
        yield server.url("tickwheel"), [server.pid]
