"""Failures are retried one first, then in growing waves while they succeed, whoever dies."""

from __future__ import annotations

from collections import Counter

from tests.simulation.search import first_failing, simulate_all
from tests.simulation.world import Options

LOAD = Options(load_seconds=12, canaries=True, xxl_job=False, siege=False)
SEEDS = range(7, 9)
# With a seed that notices it.
TESTED_CANARY_MUTATIONS = {"canaries_go_on_after_failures": 2}
LAST_SEED = 12


def test_waves_grow_while_they_succeed() -> None:
    outcomes = list(simulate_all(SEEDS, LOAD))
    told = [f"seed {each.seed}: {each.violations[0]}" for each in outcomes if each.violations]
    assert not told, "\n".join(told)
    # A simulation in which nothing happens would pass as well.
    seen = sum((Counter(each.canaries) for each in outcomes), Counter())
    assert max(each.canaries["largest wave"] for each in outcomes) >= 3
    for what in ("done", "stopped failed", "killed under"):
        assert seen[what] > 0, what


def test_a_broken_promise_of_canary_retries_is_noticed() -> None:
    seeds = {
        name: [*range(first, LAST_SEED), *range(1, first)]
        for name, first in TESTED_CANARY_MUTATIONS.items()
    }
    for name, outcome, _ in first_failing(seeds, LOAD):
        assert outcome is not None, name
        # A broken guarantee of another kind would prove nothing.
        assert "canary retry" in outcome.violations[0], name
