"""Search seeds for broken promises: python -m tests.simulation --seeds 100."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.simulation.database import SimDatabase
from tests.simulation.world import Options, Outcome, simulate

_database: SimDatabase | None = None


def simulate_all(
    seeds: Iterable[int], options: Options, *, processes: int | None = None
) -> Iterator[Outcome]:
    """Outcomes as they come, on all cores."""
    count = processes or len(os.sched_getaffinity(0))
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="tickwheel-simulation-") as directory:
        with context.Pool(count, _begin, (directory,)) as pool:
            yield from pool.imap_unordered(_simulate, ((seed, options) for seed in seeds))


def _begin(directory: str) -> None:
    global _database
    own = Path(directory, str(os.getpid()))
    own.mkdir()
    _database = SimDatabase(own)


def _simulate(work: tuple[int, Options]) -> Outcome:
    assert _database is not None
    seed, options = work
    return simulate(seed, _database, options)


def report(outcomes: Iterable[Outcome]) -> int:
    """Print failing seeds as they come, and a summary; returns how many failed."""
    began = time.monotonic()
    seeds = fires = starts = faults = failed = 0
    hours = 0.0
    for outcome in outcomes:
        seeds += 1
        hours += outcome.virtual_seconds / 3600
        fires += outcome.fires
        starts += outcome.starts
        faults += outcome.faults
        if outcome.violations:
            failed += 1
            print(f"seed {outcome.seed}: {len(outcome.violations)} violations")
            for violation in outcome.violations[:10]:
                print(f"    {violation}")
    print(
        f"{seeds} seeds, {hours:.1f} virtual hours, {fires:,} fires, {starts:,} starts,"
        f" {faults:,} faults, {failed} failed seeds, {time.monotonic() - began:.0f} s"
    )
    if failed:
        print("replay one with: python -m tests.simulation --seed N --verbose")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds (default: 100)")
    parser.add_argument("--first", type=int, default=1, help="the first of them (default: 1)")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--verbose", action="store_true", help="print the history of each seed")
    parser.add_argument("--load", type=int, default=Options().load_seconds, metavar="SECONDS")
    arguments = parser.parse_args()
    options = Options(load_seconds=arguments.load)
    if arguments.seed is None:
        seeds = range(arguments.first, arguments.first + arguments.seeds)
        return 1 if report(simulate_all(seeds, options)) else 0
    with tempfile.TemporaryDirectory(prefix="tickwheel-simulation-") as directory:
        outcome = simulate(arguments.seed, SimDatabase(Path(directory)), options)
    if arguments.verbose:
        print("\n".join(outcome.history))
    return 1 if report([outcome]) else 0


if __name__ == "__main__":
    sys.exit(main())
