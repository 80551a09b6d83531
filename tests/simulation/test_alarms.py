"""No alarm is lost or told twice by our fault, whoever dies and whatever the provider answers."""

from __future__ import annotations

from tests.simulation.search import first_failing, simulate_all
from tests.simulation.world import Options

LOAD = Options(load_seconds=12, alarms=True, xxl_job=False, siege=False)
SEEDS = range(1, 7)
# Each with a seed that notices it.
TESTED_ALARM_MUTATIONS = {
    "alarms_are_marked_before_they_are_sent": 2,
    "alarm_messages_change_their_id": 2,
    "failures_are_not_counted_alike": 2,
    "failures_count_only_the_last_run_of_a_batch": 2,
}
LAST_SEED = 30


def test_every_alarm_is_told() -> None:
    told = [
        f"seed {each.seed}: {each.violations[0]}"
        for each in simulate_all(SEEDS, LOAD)
        if each.violations
    ]
    assert not told, "\n".join(told)


def test_broken_guarantees_of_alarms_are_noticed() -> None:
    seeds = {
        name: [*range(first, LAST_SEED), *range(1, first)]
        for name, first in TESTED_ALARM_MUTATIONS.items()
    }
    found = {name: outcome for name, outcome, _ in first_failing(seeds, LOAD)}
    unseen = [name for name, outcome in found.items() if outcome is None]
    assert not unseen
    # A broken guarantee of another kind would prove nothing.
    for name, outcome in found.items():
        assert outcome is not None
        assert "G4" in outcome.violations[0], name
