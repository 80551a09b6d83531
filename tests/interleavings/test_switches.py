"""The plays notice a mechanism that is switched off, each on the databases where it is needed."""

from __future__ import annotations

import pytest

from tests.interleavings import blocking, claiming, membership, planning, recording, requests
from tests.interleavings import switches as off
from tests.interleavings.clusters import Cluster, cluster_kinds
from tests.interleavings.explore import Scenario, explore

SEEDS = 150  # within these each is noticed; most within ten
ALL = ("mariadb", "postgresql", "galera")
GALERA = ("galera",)

NOTICED = (
    (off.compare_and_set, recording.timed_out_twice, ALL),
    (off.slot_condition, claiming.the_last_slot, ALL),
    (off.plan_check, planning.pauses_meet_planners, ALL),
    (off.unique_fire, planning.planners_share_a_bucket, ALL),
    (off.unique_request, requests.one_key_twice, GALERA),
    (off.unique_node, membership.hellos_meet_expiry, ALL),
    (off.job_lock_write, blocking.lines_at_two_servers, GALERA),
    # MariaDB's DELETE waits for the other one's row in the same range of the primary key.
    (off.session_lock, membership.sockets_close_at_once, ("postgresql", "galera")),
    (off.second_look_at_deaths, membership.a_return_meets_its_loss, ALL),
)


@pytest.mark.parametrize(
    ("kind", "switch", "scenario"),
    [
        pytest.param(kind, switch, scenario, id=f"{kind}-{switch.__name__}")
        for kind in cluster_kinds()
        for switch, scenario, kinds in NOTICED
        if kind in kinds
    ],
)
def test_what_is_switched_off_is_noticed(
    kind: str, switch: off.Switch, scenario: Scenario, request: pytest.FixtureRequest
) -> None:
    cluster: Cluster = request.getfixturevalue(f"{kind}_cluster")
    with switch(cluster):
        explored = explore(cluster, scenario, range(1, SEEDS + 1), stop_at_first=True)
    print(f"{kind} {switch.__name__}: {explored.figures}")
    assert explored.failures, f"nothing was noticed in {explored.figures.plays} plays"
