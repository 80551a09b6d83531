"""Search seeds for broken promises: python -m tests.simulation --seeds 100."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.simulation.mutations import MUTATIONS
from tests.simulation.search import first_failing, simulate_all, simulate_one
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


def report_mutations(names: Sequence[str], seeds: Sequence[int], options: Options) -> int:
    """Print the seed that notices each mutation; returns how many no seed noticed."""
    unseen = 0
    for name, outcome, tried in first_failing(dict.fromkeys(names, seeds), options):
        if outcome is None:
            unseen += 1
            print(f"{name}: noticed by none of {tried} seeds", flush=True)
        else:
            print(f"{name}: seed {outcome.seed}: {outcome.violations[0]}", flush=True)
    return unseen


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds (default: 100)")
    parser.add_argument("--first", type=int, default=1, help="the first of them (default: 1)")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--verbose", action="store_true", help="print the history of each seed")
    parser.add_argument("--load", type=int, default=Options().load_seconds, metavar="SECONDS")
    parser.add_argument("--admins", type=int, help="how many (default: as the seed says)")
    parser.add_argument("--faults", nargs="*", default=(), help="only these, such as 'kill node'")
    parser.add_argument("--siege", action="store_true", help="only long faults under light load")
    parser.add_argument("--workflows", action="store_true", help="workflows in each seed")
    parser.add_argument("--canaries", action="store_true", help="canary retries in each seed")
    parser.add_argument("--pools", action="store_true", help="pools in each seed")
    parser.add_argument("--xxl-job", action="store_true", help="executors of XXL-JOB in each seed")
    parser.add_argument(
        "--mutations",
        nargs="*",
        metavar="NAME",
        choices=[*MUTATIONS, []],
        help="switch mechanisms off, one by one, to see it noticed (default: all)",
    )
    arguments = parser.parse_args()
    options = Options(
        load_seconds=arguments.load,
        admins=arguments.admins,
        faults=tuple(arguments.faults),
        siege=arguments.siege or None,
        workflows=arguments.workflows,
        canaries=arguments.canaries,
        pools=arguments.pools,
        xxl_job=False if arguments.workflows else arguments.xxl_job or None,
    )
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.mutations is not None:
        return report_mutations(arguments.mutations or list(MUTATIONS), seeds, options)
    if arguments.seed is None:
        return 1 if report(simulate_all(seeds, options)) else 0
    outcome = simulate_one(arguments.seed, options)
    if outcome.involved:
        print("--- what was involved ---", *outcome.involved, sep="\n")
    if arguments.verbose:
        print("--- the whole history ---", *outcome.history, sep="\n")
    return 1 if report([outcome]) else 0


if __name__ == "__main__":
    sys.exit(main())
