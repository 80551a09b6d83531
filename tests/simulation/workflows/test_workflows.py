"""Each step of a workflow runs once, and only when it may, whoever dies: graphs of many seeds."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.search import first_failing, simulate_all
from tests.simulation.world import Options

LOAD = Options(load_seconds=12, workflows=True, xxl_job=False, siege=False)
SEEDS = range(3, 7)
MUTATION_LOAD = replace(LOAD, load_seconds=6)
# Each with a seed that notices it. Tests of single steps miss the others (test_switches.py).
TESTED_WORKFLOW_MUTATIONS = {
    "steps_begin_after_the_commit": 7,
    "steps_are_remembered": 10,
    "answers_count_twice": 10,
    "spawned_items_begin_twice": 2,
}
LAST_SEED = 20


def test_steps_run_as_their_graphs_say() -> None:
    told = [
        f"seed {each.seed}: {each.violations[0]}"
        for each in simulate_all(SEEDS, LOAD)
        if each.violations
    ]
    assert not told, "\n".join(told)


def test_broken_guarantees_of_workflows_are_noticed() -> None:
    seeds = {
        name: [*range(first, LAST_SEED), *range(1, first)]
        for name, first in TESTED_WORKFLOW_MUTATIONS.items()
    }
    found = {name: outcome for name, outcome, _ in first_failing(seeds, MUTATION_LOAD)}
    unseen = [name for name, outcome in found.items() if outcome is None]
    assert not unseen
