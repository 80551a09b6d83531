"""What happens leaves its signal in the transaction that makes it true, and costs little."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin, FakeSession, admin_with_node
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import add_job, ask, change, now
from tests.admin.kit.work_counter import counted
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.spec import MisfirePolicy
from tickwheel_admin.store.alarms.signals import oldest_signals
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.executors.admins import remove_dead_admins
from tickwheel_admin.store.executors.node_leases import expire_nodes
from tickwheel_shared.protocol import Outcome

pytestmark = pytest.mark.every_database


async def signals(database: Database) -> Counter[tuple[str, int]]:
    """Taken away: how many there were of each kind and subject."""

    def take(conn: sa.Connection) -> Counter[tuple[str, int]]:
        found = Counter(
            (each.kind.value, each.subject_id) for each in oldest_signals(conn, limit=999)
        )
        conn.execute(sa.delete(tables.alarm_signal))
        return found

    return await database.run(take)


async def end(admin: Admin, node: FakeSession, outcome: Outcome) -> int:
    """The next attempt that is due ends so; returns its run."""
    [request] = await admin.dispatch_all(node)
    await admin.say(node, accepted(request))
    await admin.say(node, result(request, outcome))
    return request.run


async def test_ends_of_runs(database: Database) -> None:
    admin, node = await admin_with_node(database)
    of = {"executor_id": node.executor_id}
    plain = await add_job(database, **of)
    again = await add_job(database, retry=RetryPolicy(retries=1, delay_ms=0), **of)
    for outcome, kind in (
        (Outcome.SUCCEEDED, None),
        (Outcome.SKIPPED, None),  # by its handler, on purpose
        (Outcome.FAILED, "failed"),
        (Outcome.TIMED_OUT, "timed_out"),
    ):
        await ask(database, plain)
        run = await end(admin, node, outcome)
        assert await signals(database) == ({(kind, run): 1} if kind else {})
    await ask(database, plain, origin=Origin.TRY)
    await end(admin, node, Outcome.FAILED)
    assert await signals(database) == {}
    await ask(database, again)
    run = await end(admin, node, Outcome.FAILED)
    assert await signals(database) == {("try_failed", run): 1}
    await end(admin, node, Outcome.FAILED)
    assert await signals(database) == {("failed", run): 1}


async def test_ends_that_no_node_told(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job = await add_job(database, executor_id=node.executor_id)
    at = await now(database)
    late = await ask(database, job, deadline_at=at - 1)
    await admin.engine.sweeper.run_once()
    assert await signals(database) == {("skipped", late): 1}
    lost = await ask(database, job)
    [request] = await admin.dispatch_all(node)
    await admin.say(node, accepted(request))
    over = {"lease_expires_at": at - 60_000, "full_lease_at": at - 60_000}
    await change(database, tables.node, node.node_id, **over)
    admin.trust_own_view()
    assert await database.run(expire_nodes) == [node.node_id]
    assert await signals(database) == {("nodes_lost", node.node_id): 1}
    await admin.engine.sweeper.run_once()
    assert await signals(database) == {("lost", lost): 1}
    await admin.say(node, result(request, Outcome.FAILED))  # late: its end was told
    assert await signals(database) == {}


async def test_an_admin_that_is_gone(database: Database) -> None:
    admin = Admin(database)
    await admin.engine.membership.enter()
    await change(database, tables.admin, admin.admin_id, lease_expires_at=1)
    assert await database.run(remove_dead_admins) == [admin.admin_id]
    assert await database.run(remove_dead_admins) == []
    assert await signals(database) == {("admin_gone", admin.admin_id): 1}


async def test_a_whole_fire_counts_and_not_its_shards(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job = await add_job(
        database,
        executor_id=node.executor_id,
        routing=RoutingPolicy(strategy=Routing.SHARDS, shards=3),
    )
    fire = await ask(database, job, shard_index=-1)
    requests = await admin.dispatch_all(node)
    await admin.say(node, *map(accepted, requests))
    await admin.say(node, *(result(each, Outcome.FAILED) for each in requests))
    assert len(requests) == 3
    assert await signals(database) == {("failed", fire): 1}


async def test_triggers(database: Database) -> None:
    admin = Admin(database)
    await admin.engine.membership.enter()
    at = await now(database)
    broken = CronSpec(expression="0 0 * * *", calendar="gone")
    await add_job(database, triggers=[(broken, at - 1_000)])
    await admin.engine.planner.run_once()
    [(kind, _)] = await signals(database)
    assert kind == "trigger_error"
    for misfire, kinds in ((MisfirePolicy.SKIP, ["skipped"]), (MisfirePolicy.FIRE_ONCE, [])):
        rate = FixedRateSpec(every_ms=60_000, anchor_at=at - 3_600_000, misfire=misfire)
        await add_job(database, triggers=[(rate, at - 3_600_000)])
        await admin.engine.planner.run_once()
        assert [kind for kind, _ in await signals(database)] == kinds


async def test_signals_cost_nothing_for_successes_and_one_statement_for_a_batch_of_failures(
    database: Database,
) -> None:
    admin, node = await admin_with_node(database, slots=100)
    job = await add_job(database, executor_id=node.executor_id)
    costs: dict[Any, int] = {}
    # The first ones pay for what is read once.
    for name, outcome in (
        ("first", Outcome.SUCCEEDED),
        ("succeeded", Outcome.SUCCEEDED),
        ("first", Outcome.FAILED),
        ("failed", Outcome.FAILED),
    ):
        for _ in range(100):
            await ask(database, job)
        # On a busy machine all this takes longer than a lease, 15 s.
        await admin.engine.leases.run_once()
        requests = await admin.dispatch_all(node)
        assert len(requests) == 100
        await admin.say(node, *map(accepted, requests))
        written: list[str] = []

        def note(_c: Any, _u: Any, statement: str, *_: Any, into: list[str] = written) -> None:
            into.append(statement)

        sa.event.listen(sa.Engine, "before_cursor_execute", note)
        try:
            async with counted(database) as work:
                await admin.say(node, *(result(each, outcome) for each in requests))
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", note)
        costs[name] = sum("alarm_signal" in each for each in written)
        assert work.statements < 30
    assert costs["succeeded"] == 0
    assert costs["failed"] == 1
    assert sum((await signals(database)).values()) == 200
