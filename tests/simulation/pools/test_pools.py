"""Pools keep their limit and the order of their lines whoever dies, and nothing waits for ever."""

from __future__ import annotations

from tests.simulation.search import first_failing, simulate_all
from tests.simulation.world import Options

LOAD = Options(load_seconds=8, pools=True, xxl_job=False, siege=False)
SEEDS = range(1, 6)
# Tests of single claims miss the others (test_switches.py).
TESTED_POOL_MUTATIONS = {
    "pools_are_not_counted": 1,
    "pools_stay_as_they_were_read": 1,
}
LAST_SEED = 12


def test_pools_keep_their_limit() -> None:
    told = [
        f"seed {each.seed}: {each.violations[0]}"
        for each in simulate_all(SEEDS, LOAD)
        if each.violations
    ]
    assert not told, "\n".join(told)


def test_broken_promises_of_pools_are_noticed() -> None:
    seeds = {name: range(first, LAST_SEED) for name, first in TESTED_POOL_MUTATIONS.items()}
    found = {name: outcome for name, outcome, _ in first_failing(seeds, LOAD)}
    assert not [name for name, outcome in found.items() if outcome is None]
