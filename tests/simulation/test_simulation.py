"""The simulated cluster keeps its promises, replays, and notices promises that are switched off."""

from __future__ import annotations

import pytest

from tests.simulation.mutations import MUTATIONS
from tests.simulation.search import simulate_all, simulate_one
from tests.simulation.world import Options, Outcome

SEEDS = 100
LOAD = Options(load_seconds=30)  # a second of one core a seed
MUTATION_SEEDS = range(1, 41)  # within these each of the mutations below is found
# One for each layer; `python -m tests.simulation --mutations` tries them all.
TESTED_MUTATIONS = (
    "node_forgets_what_it_has_met",
    "fires_are_not_unique",
    "unconfirmed_runs_are_queued_again",
    "spool_is_cleared_before_the_receipt",
)


def test_no_promise_is_broken() -> None:
    outcomes = list(simulate_all(range(1, SEEDS + 1), LOAD))
    told = [f"seed {each.seed}: {each.violations[0]}" for each in outcomes if each.violations]
    assert not told, "replay with python -m tests.simulation --seed N --verbose\n" + "\n".join(told)
    # A simulation in which nothing happens would pass as well.
    assert sum(outcome.fires for outcome in outcomes) > 20 * SEEDS
    assert sum(outcome.starts for outcome in outcomes) > 30 * SEEDS
    assert sum(sum(outcome.faults.values()) for outcome in outcomes) > 10 * SEEDS


def test_a_seed_replays() -> None:
    options = Options(load_seconds=20)
    first = simulate_one(7, options)
    here = simulate_one(7, options)
    (elsewhere,) = simulate_all([7], options, processes=1)  # with other hashes of strings
    assert first.faults
    assert first.fires
    assert first.history == here.history == elsewhere.history
    assert first.digest == here.digest == elsewhere.digest
    assert simulate_one(8, options).digest != first.digest


@pytest.mark.parametrize("name", TESTED_MUTATIONS)
def test_a_broken_guarantee_is_noticed(name: str) -> None:
    assert _first_failing(name) is not None


def _first_failing(name: str) -> Outcome | None:
    for outcome in simulate_all(MUTATION_SEEDS, Options(), prepare=MUTATIONS[name]):
        if outcome.violations:
            return outcome
    return None
