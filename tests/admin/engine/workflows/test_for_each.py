"""Steps over lists: their items run side by side, and their results come in order."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import admin_with_node
from tests.admin.kit.messages import result
from tests.admin.kit.rows import ask, change, get_run, states
from tests.admin.kit.workflows import Player, add_workflow, step, steps_of, told
from tickwheel_admin.domain.workflows import book
from tickwheel_admin.domain.workflows.graph import ForEach, Tolerance
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database


@pytest.mark.every_database
async def test_items_run_at_most_so_many_at_once_and_are_told_in_order(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(
        database,
        step("list"),
        step(
            "each",
            "list",
            for_each=ForEach(items='"${steps.list.result}"', max_parallel=2),
            parameters='{"name":"${item.name}","n":"${item_index}"}',
        ),
        step("sum", "each", parameters='{"all":"${steps.each.result}"}'),
        executor_id=node.executor_id,
        output="each",
    )
    run_id = await ask(database, job_id)
    player = Player(admin, node)
    await player.claim()
    await player.end("list", list=[{"name": name} for name in "abc"])

    assert await player.claim() == ["each", "each[1]"]
    assert json.loads(bytes(player.requests["each[1]"].parameters)) == {"name": "b", "n": 1}
    await player.end("each[1]", each="second")
    assert await player.claim() == ["each[2]"]
    await player.end("each[2]", each="third")
    assert await told(database, run_id) == "list succeeded, each running, sum waiting"
    await player.end("each", each="first")

    assert await player.claim() == ["sum"]
    given = json.loads(bytes(player.requests["sum"].parameters))
    assert given == {"all": ["first", "second", "third"]}
    await player.end("sum")
    assert json.loads((await get_run(database, run_id)).result or "") == given["all"]


@pytest.mark.every_database
async def test_a_list_is_made_once(database: Database) -> None:
    """Whatever becomes of the results that it was made of: to read them again would cost too."""
    admin, node = await admin_with_node(database)
    each = ForEach(items='"${steps.list.result}"', max_parallel=1)
    job_id = await add_workflow(
        database,
        step("list"),
        step("each", "list", for_each=each, parameters='{"name":"${item}"}'),
        executor_id=node.executor_id,
    )
    run_id = await ask(database, job_id)
    player = Player(admin, node)
    await player.claim()
    listed = player.requests["list"].run
    await player.end("list", list=["a", "b\u0000", "三"])
    given = []
    for number in range(3):
        name = f"each[{number}]" if number else "each"
        assert await player.claim() == [name]
        given.append(json.loads(bytes(player.requests[name].parameters))["name"])
        await change(database, tables.run, listed, result="[]")
        await player.end(name)
    assert given == ["a", "b\u0000", "三"]
    assert await states(database, run_id) == ["succeeded"]


@pytest.mark.parametrize(
    ("tolerance", "expected"),
    [
        (Tolerance(), "each failed items_failed, after skipped needs"),
        (Tolerance(count=1), "each succeeded, after succeeded"),
        (Tolerance(percent=33), "each failed items_failed, after skipped needs"),
        (Tolerance(percent=34), "each succeeded, after succeeded"),
    ],
)
async def test_so_many_items_may_fail(
    database: Database, tolerance: Tolerance, expected: str
) -> None:
    admin, node = await admin_with_node(database)
    each = ForEach(items="[1,2,3]", tolerance=tolerance)
    job_id = await add_workflow(
        database, step("each", for_each=each), step("after", "each"), executor_id=node.executor_id
    )
    run_id = await ask(database, job_id)

    await Player(admin, node).play(fail=["each[1]"])

    assert await told(database, run_id) == expected


async def test_no_more_items_begin_when_too_many_have_failed(database: Database) -> None:
    admin, node = await admin_with_node(database)
    each = ForEach(items="[1,2,3,4,5]", max_parallel=2)
    job_id = await add_workflow(database, step("each", for_each=each), executor_id=node.executor_id)
    run_id = await ask(database, job_id)

    rounds = await Player(admin, node).play(fail=["each"])

    assert rounds == [["each", "each[1]"]]
    [status] = await steps_of(database, run_id)
    assert (status.items, status.items_succeeded, status.items_failed) == (5, 1, 1)


async def test_a_list_may_be_empty_or_none_at_all(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(
        database,
        step("none", for_each=ForEach(items="[]")),
        step("text", for_each=ForEach(items='"${parameters.text}"')),
        step(
            "lacks",
            for_each=ForEach(items='[{"a":1},{}]', tolerance=Tolerance(count=1)),
            parameters='{"a":"${item.a}"}',
        ),
        executor_id=node.executor_id,
        parameters='{"text":"abc"}',
        output="none",
    )
    run_id = await ask(database, job_id)

    assert await Player(admin, node).play() == [["lacks"]]

    assert await told(database, run_id) == (
        "none succeeded, text failed for_each.no_list, lacks succeeded"
    )
    lacks = (await steps_of(database, run_id))[2]
    assert "Item 1" in (lacks.message or "")
    assert (await get_run(database, run_id)).result == "[]"


@pytest.mark.every_database
async def test_many_items_end_in_few_statements(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a batch of ends costs does not grow with the list: items begin as others end."""
    monkeypatch.setattr(book, "MOST_LIVE_ITEMS", 100)
    admin, node = await admin_with_node(database, slots=100)
    job_id = await add_workflow(
        database,
        step(
            "each",
            for_each=ForEach(items=json.dumps(list(range(1_000)))),
            parameters='{"i":"${item}"}',
        ),
        step("after", "each"),
        executor_id=node.executor_id,
    )
    run_id = await ask(database, job_id)
    requests = await admin.dispatch_all(node)
    assert len(requests) == 100

    statements: list[str] = []
    note = lambda conn, cursor, statement, *rest: statements.append(statement)  # noqa: E731
    sa.event.listen(database.engine, "before_cursor_execute", note)
    await admin.say(node, *map(result, requests))
    sa.event.remove(database.engine, "before_cursor_execute", note)
    # The transaction is begun twice, for it learns how many ids it needs; and there is one lock.
    assert len(statements) <= 30
    [status, _] = await steps_of(database, run_id)
    assert (status.items_succeeded, status.items_live) == (100, 100)

    for _ in range(9):
        await admin.say(node, *map(result, await admin.dispatch_all(node)))
    assert await told(database, run_id) == "each succeeded, after running"
    await admin.say(node, *map(result, await admin.dispatch_all(node)))
    assert await states(database, run_id) == ["succeeded"]
    rows = sa.select(sa.func.count(sa.distinct(tables.workflow_item.c.run_id))).where(
        tables.workflow_item.c.workflow_run_id == run_id
    )
    assert await database.read(lambda conn: conn.execute(rows).scalar_one()) == 1_000
