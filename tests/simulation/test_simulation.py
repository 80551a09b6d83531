"""The simulated cluster keeps its promises, replays, and notices promises that are switched off."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.simulation.search import first_failing, simulate_all, simulate_one
from tests.simulation.world import Options

_FIRST, _, _LAST = os.environ.get("TICKWHEEL_SIMULATION_SEEDS", "1-20").partition("-")
SEEDS = range(int(_FIRST), int(_LAST) + 1)
SEEDS_PER_TEST = 10
LOAD = Options(load_seconds=8)  # some 1.2 s of one core a seed
MUTATION_LOAD = Options(load_seconds=12)
MUTATION_SEEDS = range(1, 41)  # within these each of the mutations below is found
# Those that a seed notices soon, with that seed; `python -m tests.simulation --mutations`
# tries them all.
TESTED_MUTATIONS = {
    "fires_are_not_unique": 5,
    "node_forgets_what_it_has_met": 2,
    "nobody_sweeps": 1,
    "admins_trust_their_view_at_once": 4,
    "blocking_is_not_decided": 2,
    "results_bring_no_checkpoint": 5,
    "names_and_labels_are_not_looked_at": 1,
}
# The same, of the bridge to XXL-JOB: within the first seeds, in worlds that have its executors.
TESTED_XXL_MUTATIONS = {
    "xxl_unanswered_calls_are_queued_again": 12,
    "xxl_idle_runs_are_not_noticed": 7,
}
XXL_MUTATION_SEEDS = range(1, 31)
XXL_LOAD = Options(load_seconds=8, xxl_job=True)
# Those that need one fault over and over to be noticed: it, and the seed.
STORIES_OF_XXL_MUTATIONS = {"xxl_kills_may_hit_the_next_run": ("late kills", 1)}


def from_those(known: Mapping[str, int], seeds: range) -> dict[str, list[int]]:
    """All of the seeds for each mutation, beginning with the known one."""
    return {
        name: [*range(first, seeds.stop), *range(seeds.start, first)]
        for name, first in known.items()
    }


@pytest.mark.parametrize("first", SEEDS[::SEEDS_PER_TEST])
def test_no_promise_is_broken(first: int) -> None:
    outcomes = list(simulate_all(range(first, first + SEEDS_PER_TEST), LOAD))
    told = [f"seed {each.seed}: {each.violations[0]}" for each in outcomes if each.violations]
    replay = f"replay with python -m tests.simulation --load {LOAD.load_seconds} --seed N --verbose"
    assert not told, replay + "\n" + "\n".join(told)
    # A simulation in which nothing happens would pass as well.
    assert sum(outcome.fires for outcome in outcomes) > 10 * SEEDS_PER_TEST
    assert sum(outcome.starts for outcome in outcomes) > 15 * SEEDS_PER_TEST
    assert sum(sum(outcome.faults.values()) for outcome in outcomes) > 5 * SEEDS_PER_TEST


def test_a_seed_replays() -> None:
    options = Options(load_seconds=12)
    first = simulate_one(7, options)
    here = simulate_one(7, options)
    (elsewhere,) = simulate_all([7], options, processes=1)  # with other hashes of strings
    assert first.faults
    assert first.fires
    assert first.history == here.history
    assert first.digest == here.digest == elsewhere.digest
    assert simulate_one(8, options).digest != first.digest


def test_broken_guarantees_are_noticed() -> None:
    unseen = [
        name
        for name, outcome, _ in first_failing(
            from_those(TESTED_MUTATIONS, MUTATION_SEEDS), MUTATION_LOAD
        )
        if outcome is None
    ]
    assert not unseen


def test_broken_guarantees_of_xxl_job_are_noticed() -> None:
    unseen = [
        name
        for name, outcome, _ in first_failing(
            from_those(TESTED_XXL_MUTATIONS, XXL_MUTATION_SEEDS), XXL_LOAD
        )
        if outcome is None
    ]
    assert not unseen


@pytest.mark.parametrize("name", STORIES_OF_XXL_MUTATIONS)
def test_a_broken_guarantee_of_xxl_job_is_noticed_in_its_story(name: str) -> None:
    fault, seed = STORIES_OF_XXL_MUTATIONS[name]
    options = replace(XXL_LOAD, load_seconds=24, faults=(fault,))
    intact = simulate_one(seed, options)
    assert intact.faults[fault] > 2
    assert not intact.violations
    ((_, outcome, _),) = first_failing({name: [seed]}, options, processes=1)
    assert outcome is not None
