"""Scenarios of nodes: leases, sessions and hellos of several admins."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from tests.admin.kit.engine import FakeSession
from tests.interleavings.props import EXECUTOR, HANDLER, is_live
from tests.interleavings.stage import Stage
from tickwheel_admin.domain.executors.node import CLOSED_LEASE_MS
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.executors.nodes import Arrival


def renewals_meet_expiry(stage: Stage) -> Iterator[None]:
    """A lease is renewed, found over, and claimed upon, all at once."""
    hearing, expiring, other, claiming = [stage.admin() for _ in range(4)]
    node_id = stage.node(
        heard_by=[hearing, claiming],
        lease_expires_at=stage.began_at - 10,
        full_lease_at=stage.began_at - 10,
    )
    stage.node(heard_by=[hearing, claiming], slots=1)
    job = stage.job()
    stage.running(job, node_id)
    for _ in range(3):
        stage.queued(job)
    stage.acts(hearing, "renews", hearing.renews)
    stage.acts(expiring, "sweeps", expiring.sweeps)
    stage.acts(other, "sweeps", other.sweeps)
    stage.acts(claiming, "claims", claiming.claims)
    yield
    stage.afterwards(expiring.sweeps)
    node = stage.node_row(node_id)
    sessions = stage.rows(sa.select(tables.node_session).filter_by(node_id=node_id))
    if node.state == "dead":
        live = [run.id for run in stage.runs() if is_live(run) and run.node_id == node_id]
        stage.expect(not live, f"runs {live} are live on a dead node")
        stage.expect(not sessions, "a dead node has sessions")
    else:
        stage.expect(node.lease_expires_at > stage.now, "a live node's lease is over")


def arrival(node_key: str) -> Arrival:
    """What the process of this name says in its hello."""
    return Arrival(
        executor_id=EXECUTOR,
        node_key=node_key,
        name="node",
        sdk="test/1",
        slots=3,
        handlers=[HANDLER],
        unstoppable=[],
        labels={},
        weight=1,
        address="192.0.2.9",
    )


def hellos_meet_expiry(stage: Stage) -> Iterator[None]:
    """A node says hello to two or three admins while others take it for dead."""
    greeted = [stage.admin() for _ in range(stage.random.randint(2, 3))]
    sweeper = stage.admin()
    known = stage.random.random() < 0.5
    if known:
        stage.node(
            node_key="k" * 32,
            lease_expires_at=stage.began_at - 10,
            full_lease_at=stage.began_at - 10,
        )
    hellos = [
        stage.acts(admin, "admits", admin.engine.membership.admit, arrival("k" * 32))
        for admin in greeted
    ]
    stage.acts(sweeper, "sweeps", sweeper.sweeps)
    yield
    nodes = stage.rows(sa.select(tables.node))
    stage.expect(len(nodes) == 1, f"{len(nodes)} nodes have one key")
    admitted = {actor.result.node_id for actor in hellos if actor.error is None}
    stage.expect(admitted <= {nodes[0].id}, f"admitted as {admitted}, stored as {nodes[0].id}")
    if admitted:
        stage.expect(nodes[0].state == "live", f"said hello and is {nodes[0].state}")
    sessions = {row.admin_id for row in stage.rows(sa.select(tables.node_session))}
    said = {admin.admin_id for admin, a in zip(greeted, hellos, strict=True) if a.error is None}
    stage.expect(sessions == said, f"sessions at admins {sessions}, hellos at {said}")


def sockets_close_at_once(stage: Stage) -> Iterator[None]:
    """A node is killed: all its sockets close, and its lease must not be left long."""
    admins = [stage.admin() for _ in range(stage.random.randint(2, 3))]
    node_id = stage.node()
    for admin in admins:
        session_id = stage.hears(admin, node_id)
        disconnected = admin.engine.membership.disconnected
        stage.acts(admin, "parts", disconnected, node_id=node_id, session_id=session_id)
    yield
    if stage.rows(sa.select(tables.node_session)):
        return  # the database refused for too long
    left = stage.node_row(node_id).lease_expires_at - stage.now
    stage.expect(left <= CLOSED_LEASE_MS, f"nobody hears the node, and {left} ms of lease are left")


def a_close_meets_renewals(stage: Stage) -> Iterator[None]:
    """A socket closes while its own admin and another one renew."""
    parting, other = stage.admin(), stage.admin()
    node_id = stage.node()
    session_id = stage.hears(parting, node_id)
    still_heard = stage.random.random() < 0.5
    if still_heard:
        stage.hears(other, node_id)
    disconnected = parting.engine.membership.disconnected
    stage.acts(parting, "parts", disconnected, node_id=node_id, session_id=session_id)
    # What the parting admin's other loop has begun before the socket closed.
    stage.acts(parting, "renews", stage.twin(parting).renews)
    stage.acts(other, "renews", other.renews)
    yield
    sessions = stage.rows(sa.select(tables.node_session))
    left = stage.node_row(node_id).lease_expires_at - stage.now
    if not sessions:
        stage.expect(
            left <= CLOSED_LEASE_MS, f"nobody hears the node, and {left} ms of lease are left"
        )
    elif still_heard:
        stage.expect(left > CLOSED_LEASE_MS, f"the other admin hears it, and {left} ms are left")


def a_return_meets_its_loss(stage: Stage) -> Iterator[None]:
    """A dead node is back and is given a run, while others still settle its death."""
    greeting, *sweepers = [stage.admin() for _ in range(3)]
    at = stage.began_at - 10
    node_id = stage.node(
        node_key="k" * 32, state="dead", lease_expires_at=at, full_lease_at=at, ended_at=at
    )
    job = stage.job()
    before = stage.running(job, node_id)
    fresh = stage.queued(job)

    async def return_and_claim() -> None:
        await greeting.engine.membership.admit(arrival("k" * 32))
        greeting.links.sessions[node_id] = FakeSession(node_id, EXECUTOR)
        await greeting.claims()

    stage.acts(greeting, "admits, claims", return_and_claim)
    for admin in sweepers:
        stage.acts(admin, "settles deaths", admin.settles_deaths)
    yield
    lost = stage.run(fresh.id)
    stage.expect(
        lost.state is not RunState.LOST and lost.tries == 0,
        f"run {fresh.id} was claimed by a node that is back, and is {lost.state.value}",
    )
    stage.expect(stage.run(before.id).tries == 1, "the run before was not settled")


def an_admin_is_evicted(stage: Stage) -> Iterator[None]:
    """An admin that was frozen wakes and renews while two others take it off the books."""
    frozen, *sweepers = [stage.admin() for _ in range(3)]
    node_id = stage.node(heard_by=[frozen])
    stage.change(tables.admin, frozen.admin_id, lease_expires_at=stage.began_at - 10)
    stage.acts(frozen, "renews", frozen.renews)
    for admin in sweepers:
        stage.acts(admin, "sweeps", admin.sweeps)
    yield
    known = {row.id for row in stage.rows(sa.select(tables.admin))}
    heard = {row.admin_id for row in stage.rows(sa.select(tables.node_session))}
    stage.expect(heard <= known, f"sessions at admins {heard}, of which {known} are there")
    if frozen.admin_id not in heard:
        stage.expect(
            node_id in frozen.links.disconnected or stage.play.gave_up,
            "its session is gone, and it keeps the node's socket",
        )


SCENARIOS = (
    renewals_meet_expiry,
    hellos_meet_expiry,
    sockets_close_at_once,
    a_close_meets_renewals,
    a_return_meets_its_loss,
    an_admin_is_evicted,
)
