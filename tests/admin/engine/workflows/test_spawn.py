"""Steps whose own run spawns items: they begin with its result, and end the step."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from tests.admin.engine.workflows.test_ends import sweep
from tests.admin.engine.workflows.test_retries import story
from tests.admin.kit.engine import admin_with_node
from tests.admin.kit.messages import result
from tests.admin.kit.rows import ask, change, get_run
from tests.admin.kit.workflows import Player, add_workflow, step, steps_of, told
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.workflows.graph import ForEach, Spawn, Tolerance
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_shared.protocol import MAX_SPAWNED_ITEMS, ReceiptCode, ResultReceipt, RunRequest


def item_of(request: RunRequest) -> Any:
    return None if request.item is msgspec.UNSET else msgspec.json.decode(request.item)


async def start(database: Database, *steps: Any, **more: Any) -> tuple[Player, int]:
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(database, *steps, executor_id=node.executor_id, **more)
    run_id = await ask(database, job_id)
    return Player(admin, node), run_id


@pytest.mark.every_database
async def test_items_follow_their_root_and_their_results_are_those_of_the_step(
    database: Database,
) -> None:
    player, run_id = await start(
        database,
        step(
            "crawl",
            parameters='{"site":"${parameters.site}"}',
            spawn=Spawn(max_parallel=2, tolerance=Tolerance(count=1)),
        ),
        step("sum", "crawl", parameters='{"all":"${steps.crawl.result}"}'),
        parameters='{"site":"x"}',
        output="crawl",
    )
    assert await player.claim() == ["crawl"]
    root = player.requests["crawl"]
    assert (root.may_spawn, item_of(root)) == (True, None)
    await player.spawn("crawl", {"page": 1}, "two", [3], value="of the root")
    assert await told(database, run_id) == "crawl running, sum waiting"

    assert await player.claim() == ["crawl+0", "crawl+1"]
    first, second = player.requests["crawl+0"], player.requests["crawl+1"]
    assert (item_of(first), item_of(second)) == ({"page": 1}, "two")
    assert first.may_spawn is msgspec.UNSET
    assert json.loads(bytes(second.parameters)) == {"site": "x"}
    await player.end("crawl+1:failed")
    assert await player.claim() == ["crawl+2"]
    await player.end("crawl+0", "crawl+2", **{"crawl+0": "one", "crawl+2": "three"})

    assert await player.play() == [["sum"]]
    assert await told(database, run_id) == "crawl succeeded, sum succeeded"
    ended = await get_run(database, run_id)
    assert json.loads(ended.result or "") == ["one", None, "three"]
    (root_run,) = [each.run_id for each in await steps_of(database, run_id) if each.items]
    kept = await get_run(database, root_run or 0)
    assert (kept.reason, kept.message, kept.result) == (
        "spawned",
        "Items spawned: 3.",
        '"of the root"',
    )


async def test_no_item_at_all_is_an_empty_list(database: Database) -> None:
    player, run_id = await start(database, step("crawl"), output="crawl")
    await player.claim()
    await player.spawn("crawl")
    assert await player.claim() == []
    assert (await get_run(database, run_id)).result == "[]"


async def test_a_root_that_fails_spawns_nothing_and_its_next_try_anew(database: Database) -> None:
    player, run_id = await start(
        database, step("crawl"), retry=RetryPolicy(retries=1, delay_ms=0), output="crawl"
    )
    await player.claim()
    await player.end("crawl:failed")
    assert await player.claim() == ["crawl"]
    await player.spawn("crawl", "a")
    assert await player.claim() == ["crawl+0"]
    await player.end("crawl+0", **{"crawl+0": 1})
    assert (await get_run(database, run_id)).result == "[1]"


async def test_a_result_that_comes_twice_spawns_once(database: Database) -> None:
    player, run_id = await start(database, step("crawl"))
    await player.claim()
    request = player.requests["crawl"]
    said = msgspec.structs.replace(result(request), spawn=msgspec.Raw(b'["a","b"]'))
    await player.admin.say(player.session, said, said)
    await player.admin.say(player.session, said)
    assert await player.claim() == ["crawl+0", "crawl+1"]
    await player.end("crawl+0", "crawl+1")
    assert await told(database, run_id) == "crawl succeeded"


async def test_more_failures_than_are_tolerated_begin_no_others(database: Database) -> None:
    player, run_id = await start(
        database, step("crawl", spawn=Spawn(max_parallel=1)), step("after", "crawl")
    )
    await player.claim()
    await player.spawn("crawl", *range(3))
    await player.claim()
    await player.end("crawl+0:failed")
    assert await player.claim() == []
    assert await told(database, run_id) == "crawl failed items_failed, after skipped needs"


@pytest.mark.parametrize("spawned", ["{}", "[", json.dumps([1] * (MAX_SPAWNED_ITEMS + 1))])
async def test_what_is_no_list_of_items_fails_the_run(database: Database, spawned: str) -> None:
    player, run_id = await start(database, step("crawl"))
    await player.claim()
    said = result(player.requests["crawl"])
    said = msgspec.structs.replace(said, spawn=msgspec.Raw(spawned.encode()))
    await player.admin.say(player.session, said)
    receipts = [m for m in player.session.sent if isinstance(m, ResultReceipt)]
    assert receipts[-1].receipt is ReceiptCode.RECORDED
    assert await told(database, run_id) == "crawl failed failed"


async def test_items_of_a_list_and_spawned_ones_may_not_spawn(database: Database) -> None:
    player, run_id = await start(
        database, step("each", for_each=ForEach(items="[1]")), step("crawl", "each:ended")
    )
    await player.claim()
    assert player.requests["each"].may_spawn is msgspec.UNSET
    await player.spawn("each", "x")
    await player.claim()
    await player.spawn("crawl", "a")
    await player.claim()
    await player.spawn("crawl+0", "b")
    assert await told(database, run_id) == "each failed items_failed, crawl failed items_failed"


async def test_an_end_that_nobody_passed_on_is_mended_with_its_items(database: Database) -> None:
    player, run_id = await start(database, step("crawl"), output="crawl")
    await player.claim()
    await player.spawn("crawl", "a", "b")
    step_of, item, run = tables.workflow_step, tables.workflow_item, tables.run

    def forget(conn: sa.Connection) -> None:
        """By SQL from outside: as if nothing had followed from the end of the root."""
        items = set(conn.execute(sa.select(item.c.run_id)).scalars())
        conn.execute(sa.delete(run).where(run.c.id.in_(items)))
        conn.execute(sa.delete(item))
        conn.execute(sa.update(step_of).values(items=None, next_item=0, items_started=0))

    await database.run(forget)
    await change(database, run, run_id, deadline_at=0)
    await sweep(player.admin)
    assert await player.claim() == ["crawl+0", "crawl+1"]
    await player.end("crawl+0", "crawl+1", **{"crawl+0": 1, "crawl+1": 2})
    assert (await get_run(database, run_id)).result == "[1,2]"


async def test_a_retry_takes_over_what_was_spawned_or_spawns_anew(database: Database) -> None:
    it = await story(
        database, step("crawl"), step("sum", "crawl", parameters='{"all":"${steps.crawl.result}"}')
    )
    first, player = await ask(database, it.job_id), it.player
    await player.claim()
    await player.spawn("crawl", "a", "b")
    await player.claim()
    await player.end("crawl+0", "crawl+1:failed", **{"crawl+0": 1})
    assert await told(database, first) == "crawl failed items_failed, sum skipped needs"

    second = await it.retry(first)
    assert await player.claim() == ["crawl"]  # its own run may spawn other items this time
    assert (player.requests["crawl"].may_spawn, item_of(player.requests["crawl"])) == (True, None)
    await player.spawn("crawl", "c")
    await player.claim()
    await player.end("crawl+0", **{"crawl+0": 3})
    await player.claim()
    await player.end("sum:failed")
    assert await told(database, second) == "crawl succeeded, sum failed failed"

    third = await it.retry(second)
    assert await player.claim() == ["sum"]
    assert it.given("sum") == {"all": [3]}
    await player.end("sum")
    assert await told(database, third) == "crawl succeeded, sum succeeded"


async def test_items_of_a_lost_run_whose_result_comes_late_begin_after_all(
    database: Database,
) -> None:
    player, run_id = await start(
        database, step("crawl"), step("slow"), step("after", "crawl:ended", "slow")
    )
    await player.claim()
    lost = result(player.requests["crawl"], value="late")
    await player.end("crawl:cut_off")
    assert await told(database, run_id) == "crawl failed lost, slow running, after waiting"
    late = msgspec.structs.replace(lost, spawn=msgspec.Raw(b'["a"]'))
    await player.admin.say(player.session, late, late)
    assert await told(database, run_id) == "crawl running, slow running, after waiting"
    assert await player.claim() == ["crawl+0"]
    await player.end("crawl+0", "slow")
    assert await player.play() == [["after"]]
    assert await told(database, run_id) == "crawl succeeded, slow succeeded, after succeeded"


async def test_what_is_spawned_when_the_workflow_is_to_end_does_not_begin(
    database: Database,
) -> None:
    player, run_id = await start(database, step("crawl"), step("after", "crawl:ended"))
    await player.claim()
    await change(database, tables.run, run_id, cancel_requested_at=1, cancel_reason="cancelled")
    await player.spawn("crawl", "a")
    assert await player.claim() == []
    assert await told(database, run_id) == "crawl failed stopped, after skipped stopped"
    assert (await get_run(database, run_id)).state is RunState.CANCELLED
