"""Search seeds for broken promises: python -m tests.simulation --seeds 100."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable

from tests.simulation.mutations import MUTATIONS
from tests.simulation.search import simulate_all, simulate_one
from tests.simulation.world import Options, Outcome


def report(outcomes: Iterable[Outcome]) -> int:
    """Print failing seeds as they come, and a summary; returns how many failed."""
    began = time.monotonic()
    seeds = fires = starts = failed = violations = 0
    faults: Counter[str] = Counter()
    hours = 0.0
    for outcome in outcomes:
        seeds += 1
        hours += outcome.virtual_seconds / 3600
        fires += outcome.fires
        starts += outcome.starts
        faults.update(outcome.faults)
        if outcome.violations:
            failed += 1
            violations += len(outcome.violations)
            print(f"seed {outcome.seed}: {len(outcome.violations)} violations")
            for violation in outcome.violations[:10]:
                print(f"    {violation}")
    print(
        f"{seeds} seeds, {hours:.1f} virtual hours, {fires:,} fires, {starts:,} starts,"
        f" {faults.total():,} faults, {violations} violations in {failed} seeds,"
        f" {time.monotonic() - began:.0f} s"
    )
    for kind, count in sorted(faults.items()):
        print(f"    {kind}: {count:,}")
    if failed:
        print("replay one with: python -m tests.simulation --seed N --verbose")
    return failed


def report_mutations(seeds: int, options: Options) -> int:
    """Print which seeds notice each mutation; returns how many no seed noticed."""
    unseen = 0
    for name, mutate in MUTATIONS.items():
        outcomes = simulate_all(range(1, seeds + 1), options, prepare=mutate)
        failing = [outcome for outcome in outcomes if outcome.violations]
        unseen += not failing
        example = f": {failing[0].violations[0]}" if failing else ""
        print(f"{name}: noticed by {len(failing)} of {seeds} seeds{example}", flush=True)
    return unseen


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds (default: 100)")
    parser.add_argument("--first", type=int, default=1, help="the first of them (default: 1)")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--verbose", action="store_true", help="print the history of each seed")
    parser.add_argument("--load", type=int, default=Options().load_seconds, metavar="SECONDS")
    parser.add_argument(
        "--mutations", action="store_true", help="switch guarantees off, to see it noticed"
    )
    arguments = parser.parse_args()
    options = Options(load_seconds=arguments.load)
    if arguments.mutations:
        return report_mutations(arguments.seeds, options)
    if arguments.seed is None:
        seeds = range(arguments.first, arguments.first + arguments.seeds)
        return 1 if report(simulate_all(seeds, options)) else 0
    outcome = simulate_one(arguments.seed, options)
    if outcome.involved:
        print("--- what was involved ---", *outcome.involved, sep="\n")
    if arguments.verbose:
        print("--- the whole history ---", *outcome.history, sep="\n")
    return 1 if report([outcome]) else 0


if __name__ == "__main__":
    sys.exit(main())
