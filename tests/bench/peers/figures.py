"""Every peer in every scenario, on one kind of database: the same machine, the same run."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench.peers.environments import NotInstalledError, interpreter
from tests.bench.peers.harness import (
    Peer,
    PeerFigures,
    measure_herd,
    measure_steady,
    not_measured,
)
from tests.bench.peers.java_builds import java_command

RUNS = 10_000
RATES = (100, 500)  # schedules of one second
SECONDS = 20
QUICK_RUNS, QUICK_RATES, QUICK_SECONDS = 500, (100,), 5
_PROGRAM = "tests.bench.peers.{}_program"
WITH_ENVIRONMENTS = ("apscheduler", "celery")
IN_JAVA = {"db-scheduler": Path(__file__).parent / "db_scheduler"}


def peer_figures(
    kind: str,
    *,
    runs: int = RUNS,
    quick: bool = False,
    commands: Mapping[str, Sequence[str]] | None = None,
    only: Sequence[str] = (),
) -> list[PeerFigures]:
    """Measure Tickwheel, APScheduler, Celery, db-scheduler and whatever else is given.

    Args:
        kind: of the database that each gets one of, empty and durable.
        runs: that are due at one instant.
        commands: further peers by name, see README.md.
        only: names of those to measure; none: all.
    """
    names = ["tickwheel", *WITH_ENVIRONMENTS, *IN_JAVA, *(commands or {})]
    found = []
    for name in names:
        if only and name not in only:
            continue
        try:
            command = (commands or {}).get(name) or _command(name)
        except NotInstalledError as error:
            found.append(not_measured(name, "herd", runs, str(error)))
            print_peer(kind, found[-1])
            continue
        for figures in _all_of(Peer(name=name, command=command), kind, runs=runs, quick=quick):
            found.append(figures)
            print_peer(kind, figures)
    return found


def _all_of(peer: Peer, kind: str, *, runs: int, quick: bool) -> Sequence[PeerFigures]:
    herd = measure_herd(peer, kind, schedules=min(runs, QUICK_RUNS) if quick else runs)
    seconds = QUICK_SECONDS if quick else SECONDS
    rates = QUICK_RATES if quick else RATES
    return [
        herd,
        *(measure_steady(peer, kind, schedules=rate, seconds=seconds) for rate in rates),
    ]


def _command(name: str) -> list[str]:
    if name in IN_JAVA:
        return java_command(IN_JAVA[name])
    python = str(interpreter(name)) if name in WITH_ENVIRONMENTS else sys.executable
    return [python, "-m", _PROGRAM.format(name)]


def print_peer(kind: str, figures: PeerFigures) -> None:
    """A line, and what the peer says of itself."""
    head = f"{kind:<11} {figures.peer:<12} {figures.scenario:<7}{figures.schedules:>7,}"
    if figures.not_measured is not None:
        print(f"{head}   not measured: {figures.not_measured}", flush=True)
        return
    rate = "" if figures.runs_per_second is None else f"  {figures.runs_per_second:,} runs/s"
    cpu = ", ".join(f"{name} {micros}" for name, micros in (figures.cpu_us_per_run or {}).items())
    print(
        f"{head}{rate}  started p50 {figures.late_p50} p99 {figures.late_p99}"
        f" max {figures.late_max} ms late; {figures.missed:,} of {figures.expected:,} missed,"
        f" {figures.duplicates:,} twice; processor µs per run: {cpu}\n{'':<24} ({figures.about})",
        flush=True,
    )
