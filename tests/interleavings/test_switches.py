"""The plays notice a mechanism that is switched off, each on the databases where it is needed."""

from __future__ import annotations

import pytest

from tests.interleavings import (
    alarms,
    blocking,
    claiming,
    declaring,
    handoff,
    membership,
    planning,
    recording,
    requests,
)
from tests.interleavings import switches as off
from tests.interleavings.backfills import slices as backfills
from tests.interleavings.clusters import Cluster, cluster_kinds
from tests.interleavings.explore import Scenario, explore
from tests.interleavings.failures import canaries
from tests.interleavings.gitops import scenarios as gitops
from tests.interleavings.pools import scenarios as pools
from tests.interleavings.workflows import by_hand
from tests.interleavings.workflows import scenarios as workflows

SEEDS = 150  # within these each is noticed; most within ten
ALL = ("mariadb", "postgresql", "galera")
GALERA = ("galera",)

# Switch, scenario, databases, and from which seed on (those before are known to notice nothing).
NOTICED = (
    (off.compare_and_set, recording.timed_out_twice, ALL, 1),
    (off.slot_condition, claiming.the_last_slot, ALL, 10),
    (off.put_back_keys, claiming.the_last_slot, ALL, 1),
    (off.state_holder, handoff.a_late_result_meets_the_next_claim, ALL, 1),
    (off.plan_check, planning.pauses_meet_planners, ALL, 10),
    (off.unique_fire, planning.planners_share_a_bucket, ALL, 1),
    (off.unique_request, requests.one_key_twice, ALL, 1),
    (off.request_lock_write, requests.a_request_meets_a_deletion, GALERA, 1),
    (off.unique_node, membership.hellos_meet_expiry, ALL, 5),
    (off.job_lock_write, blocking.lines_at_two_servers, GALERA, 1),
    # MariaDB's claims meet so seldom beside their other locks that hundreds of plays pass by.
    (off.job_lock, claiming.routing_remembers, ("postgresql",), 50),
    # MariaDB's DELETE waits for the other one's row in the same range of the primary key.
    (off.session_lock, membership.sockets_close_at_once, ("postgresql", "galera"), 1),
    (off.executor_lock, declaring.versions_start_at_once, ("postgresql",), 35),
    (off.held_job, declaring.people_decide_meanwhile, ("postgresql",), 20),
    (off.evaluator_lock, alarms.evaluators_share_signals, ALL, 1),
    (off.message_lock, alarms.messages_grow_as_they_are_claimed, ALL, 1),
    (off.backfill_compare, backfills.backfillers_share_a_slice, ("mariadb", "postgresql"), 1),
    (off.canary_compare, canaries.admins_share_a_wave, ALL, 1),
    (off.pool_lock, pools.the_last_slots_of_a_pool, ALL, 1),
    (off.workflow_lock, by_hand.a_pause_meets_the_start, ("postgresql",), 1),
    (off.workflow_lock, by_hand.a_skip_meets_the_start, ("mariadb",), 1),
    (off.workflow_lock, by_hand.a_skip_meets_the_end_of_its_run, ALL, 30),
    (off.results_lock, by_hand.a_retry_meets_the_retention, ("mariadb", "postgresql"), 1),
    (off.pool_lock, pools.slots_change_as_runs_end, ("mariadb", "postgresql"), 1),
    (off.workflow_lock, workflows.an_answer_meets_its_deadline, ("mariadb",), 1),
    # MariaDB reads a table as small as that of a play whole, and waits for the other one's runs.
    (off.workflow_lock, workflows.last_steps_end_at_once, ("postgresql", "galera"), 1),
    (off.applied_compare, gitops.two_directories_are_applied, ALL, 1),
    (off.applied_compare, gitops.an_edit_meets_an_application, ALL, 1),
    (off.second_look_at_deaths, membership.a_return_meets_its_loss, ALL, 50),
)


MISTAKES = ("AttributeError", "ImportError", "NameError", "TypeError")  # of the play itself


@pytest.mark.parametrize(
    ("kind", "switch", "scenario", "first"),
    [
        pytest.param(
            kind, switch, scenario, first, id=f"{kind}-{switch.__name__}-{scenario.__name__}"
        )
        for kind in cluster_kinds()
        for switch, scenario, kinds, first in NOTICED
        if kind in kinds
    ],
)
def test_what_is_switched_off_is_noticed(
    kind: str, switch: off.Switch, scenario: Scenario, first: int, request: pytest.FixtureRequest
) -> None:
    cluster: Cluster = request.getfixturevalue(f"{kind}_cluster")
    with switch(cluster):
        explored = explore(cluster, scenario, range(first, first + SEEDS), stop_at_first=True)
    print(f"{kind} {switch.__name__}: {explored.figures}")
    assert explored.failures, f"nothing was noticed in {explored.figures.plays} plays"
    # A play that cannot go on at all would notice nothing.
    violations = explored.failures[0].violations
    assert not [each for each in violations if any(name in each for name in MISTAKES)]
