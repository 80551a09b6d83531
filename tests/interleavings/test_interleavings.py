"""Engine transactions of several admins, statement by statement in seeded orders."""

from __future__ import annotations

import pytest

from tests.interleavings import (
    alarms,
    blocking,
    claiming,
    declaring,
    handoff,
    membership,
    operating,
    planning,
    recording,
    requests,
)
from tests.interleavings.backfills import slices as backfills
from tests.interleavings.clusters import Cluster
from tests.interleavings.explore import Scenario, explore, seeds
from tests.interleavings.failures import canaries
from tests.interleavings.gitops import scenarios as gitops
from tests.interleavings.pools import scenarios as pools
from tests.interleavings.workflows import by_hand
from tests.interleavings.workflows import scenarios as workflows

# Of each scenario one on each database, each another; TICKWHEEL_INTERLEAVINGS=300 for more by hand.
SEEDS = {"mariadb": range(1, 2), "postgresql": range(2, 3)}
LAST = range(3, 4)
SCENARIOS = (
    *planning.SCENARIOS,
    *claiming.SCENARIOS,
    *pools.SCENARIOS,
    *recording.SCENARIOS,
    *membership.SCENARIOS,
    *requests.SCENARIOS,
    *blocking.SCENARIOS,
    *handoff.SCENARIOS,
    *operating.SCENARIOS,
    *declaring.SCENARIOS,
    *alarms.SCENARIOS,
    *gitops.SCENARIOS,
    *backfills.SCENARIOS,
    *canaries.SCENARIOS,
    *workflows.SCENARIOS,
    *by_hand.SCENARIOS,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_promises_hold(cluster: Cluster, scenario: Scenario) -> None:
    explored = explore(cluster, scenario, seeds(SEEDS.get(cluster.kind, LAST)))
    print(f"{cluster.kind} {scenario.__name__}: {explored.figures}")
    explored.assert_kept()
