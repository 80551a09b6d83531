"""The plays themselves: they replay, they see who waits for a lock, and a lagging server lags."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial

import pytest
import sqlalchemy as sa

from tests.interleavings import planning, recording
from tests.interleavings.admins import Admin
from tests.interleavings.clusters import Cluster, GaleraCluster, cluster_kinds
from tests.interleavings.explore import FAULTY_EVERY, NO_FAULTS, Scenario, explore
from tests.interleavings.stage import Stage
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.clock import now_ms

BUCKET = tables.bucket.c.id == 0


@pytest.mark.parametrize("scenario", [planning.pauses_meet_planners, recording.opposite_orders])
@pytest.mark.parametrize("kind", [kind for kind in cluster_kinds() if kind != "galera"])
def test_a_seed_replays(kind: str, scenario: Scenario, request: pytest.FixtureRequest) -> None:
    """Not on Galera: when a server has applied a transaction is its own affair."""
    cluster: Cluster = request.getfixturevalue(f"{kind}_cluster")
    steps = _steps(cluster, scenario, 4)
    assert len(steps) > 12
    assert steps == _steps(cluster, scenario, 4)
    assert steps != _steps(cluster, scenario, 5)


def _steps(cluster: Cluster, scenario: Scenario, seed: int) -> list[tuple[str, str, bool]]:
    """Without values and how many: among them are instants, and the runs until then."""
    stage = Stage(cluster, scenario.__name__, seed, NO_FAULTS)
    try:
        next(scenario(stage))
        stage.perform()
    finally:
        stage.close()
    return [
        (step.actor, re.sub(r"\(\?(, \?)+\)", "(?)", step.what.partition(" [")[0]), step.waited)
        for step in stage.play.history
    ]


def test_who_waits_for_a_lock_is_seen(cluster: Cluster) -> None:
    explored = explore(cluster, _one_lock_for_two, range(1, 16))
    explored.assert_kept()
    assert 0 < explored.figures.lock_waits < 15  # in some orders the second comes later anyway


def _one_lock_for_two(stage: Stage) -> Iterator[None]:
    first = stage.admin()
    held = []

    def hold(conn: sa.Connection, name: str) -> None:
        conn.execute(sa.select(tables.bucket.c.id).where(BUCKET).with_for_update())
        held.append(name)
        now_ms(conn)
        now_ms(conn)
        held.append(name)

    for admin in (first, stage.twin(first)):
        stage.acts(admin, "holds", admin.seat.store.run, hold, str(id(admin)))
    yield
    stage.expect(held[0] == held[1] and held[2] == held[3], "both held one lock at once")


def test_servers_certify_each_other(galera_cluster: GaleraCluster) -> None:
    """Both write the same row; both go on until one has committed; nothing is lost."""
    without_faults = [seed for seed in range(1, 40) if seed % FAULTY_EVERY]
    explored = explore(galera_cluster, _two_count_up, without_faults)
    explored.assert_kept()
    assert explored.figures.repeats > 0
    assert explored.figures.lock_waits == 0


def _two_count_up(stage: Stage) -> Iterator[None]:
    bucket = tables.bucket

    def count_up(conn: sa.Connection) -> None:
        at = conn.execute(sa.select(bucket.c.planned_at).where(BUCKET).with_for_update())
        conn.execute(sa.update(bucket).where(BUCKET).values(planned_at=at.scalar_one() + 1))

    for admin in (stage.admin(), stage.admin()):
        stage.acts(admin, "counts", admin.seat.store.run, count_up)
    yield
    (row,) = stage.rows(sa.select(bucket.c.planned_at).where(BUCKET))
    stage.expect(row.planned_at == 2, f"counted to {row.planned_at}")


def test_a_server_falls_behind_until_it_commits(galera_cluster: GaleraCluster) -> None:
    stage = Stage(galera_cluster, "behind", 1, NO_FAULTS)
    galera_cluster.lag_share = 1.0
    writing, reading = stage.admin(), stage.admin()
    seen: list[int] = []
    stage.play.order = _InTurn()
    stage.acts(writing, "writes", writing.seat.store.run, partial(_write, at=7))
    stage.acts(reading, "reads", partial(_read_twice, reading, seen))
    try:
        stage.perform()
    finally:
        stage.close()
    assert seen == [0, 7]


def _write(conn: sa.Connection, *, at: int) -> None:
    conn.execute(sa.update(tables.bucket).where(BUCKET).values(planned_at=at))


async def _read_twice(admin: Admin, seen: list[int]) -> None:
    def read(conn: sa.Connection) -> int:
        found = conn.execute(sa.select(tables.bucket.c.planned_at).where(BUCKET))
        return int(found.scalar_one())

    def write_elsewhere(conn: sa.Connection) -> None:
        conn.execute(sa.update(tables.bucket).where(tables.bucket.c.id == 1).values(planned_at=1))

    seen.append(await admin.seat.store.read(read))
    await admin.seat.store.run(write_elsewhere)
    seen.append(await admin.seat.store.read(read))


class _InTurn:
    """One actor after the other."""

    def choose(self, ready: Sequence[int]) -> int:
        return 0
