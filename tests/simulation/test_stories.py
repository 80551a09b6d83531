"""Stories with one kind of fault each, over and over: what is well stays alive, and goes on."""

from __future__ import annotations

import pytest

from tests.simulation.search import simulate_all
from tests.simulation.world import Options
from tests.support.nightly import often

SEEDS = range(1, often(1, by_night=40) + 1)


@pytest.mark.parametrize(
    ("admins", "fault"),
    [
        (1, "freeze all admins"),
        (1, "database away"),
        (1, "database clock set"),
        (3, "database clock set"),
        (3, "flapping socket"),
        (3, "freeze admin after claim"),
        (3, "stalled connection"),
    ],
)
def test_a_story_of(admins: int, fault: str) -> None:
    options = Options(load_seconds=25, admins=admins, faults=(fault,), siege=True)
    outcomes = list(simulate_all(SEEDS, options))
    told = [f"seed {each.seed}: {each.violations[0]}" for each in outcomes if each.violations]
    replay = f"--siege --load 25 --admins {admins} --faults '{fault}' --seed N"
    assert not told, f"replay with python -m tests.simulation {replay}\n" + "\n".join(told)
    assert sum(outcome.faults[fault] for outcome in outcomes) > len(SEEDS)
