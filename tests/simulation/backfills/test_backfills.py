"""Each instant of a backfill is run once, whoever dies, pauses and cancels meanwhile."""

from __future__ import annotations

from tests.simulation.search import first_failing, simulate_all
from tests.simulation.world import Options

LOAD = Options(load_seconds=12, backfills=True, xxl_job=False, siege=False)
SEEDS = range(1, 4)
# With a seed that notices it.
TESTED_BACKFILL_MUTATIONS = {"backfills_run_what_exists": 5}
LAST_SEED = 30


def test_every_instant_is_run_once() -> None:
    told = [
        f"seed {each.seed}: {each.violations[0]}"
        for each in simulate_all(SEEDS, LOAD)
        if each.violations
    ]
    assert not told, "\n".join(told)


def test_broken_guarantees_of_backfills_are_noticed() -> None:
    seeds = {
        name: [*range(first, LAST_SEED), *range(1, first)]
        for name, first in TESTED_BACKFILL_MUTATIONS.items()
    }
    for name, outcome, _ in first_failing(seeds, LOAD):
        assert outcome is not None, name
        assert "G2: instant" in outcome.violations[0], name
