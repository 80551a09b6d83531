"""Retries of workflows' runs: what they do anew, and what they take over."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin, FakeSession, admin_with_node
from tests.admin.kit.rows import ask, get_run, states
from tests.admin.kit.services import ADMIN
from tests.admin.kit.workflows import Player, add_workflow, step, steps_of, told
from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.workflows.graph import ForEach, SubWorkflow, Tolerance
from tickwheel_admin.services.runs.service import RetryRevision, Runs, StepsAgain, choice_of
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.runs.lists import get_run as get_item
from tickwheel_admin.store.runs.purge import purge_runs
from tickwheel_admin.store.runs.retention import delete_runs, remove_old_runs

FAILED = choice_of(again=StepsAgain.FAILED)


class Story:
    """One workflow, its runs and the node that plays them."""

    def __init__(self, admin: Admin, node: FakeSession, job_id: int) -> None:
        self.admin, self.database = admin, admin.database
        self.job_id = job_id
        self.player = Player(admin, node)
        self.runs = Runs(admin.database, Ids(admin.database), admin.events)

    async def first(self, *, fail: tuple[str, ...], **values: object) -> int:
        """A run that has ended."""
        run_id = await ask(self.database, self.job_id)
        await self.player.play(fail=fail, **values)
        return run_id

    async def retry(self, run_id: int, **wish: Any) -> int:
        return await self.runs.retry(ADMIN, run_id, **({"steps": FAILED} | wish))

    def given(self, key: str) -> object:
        """The parameters of the run of a step."""
        return json.loads(bytes(self.player.requests[key].parameters))

    async def made_good(self, run_id: int) -> bool:
        item = await self.database.read(get_item, run_id)
        assert item is not None
        return item.is_made_good

    async def is_there(self, run_id: int) -> bool:
        return await self.database.read(get_item, run_id) is not None


async def story(database: Database, *steps: Any, **config: Any) -> Story:
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(database, *steps, executor_id=node.executor_id, **config)
    return Story(admin, node, job_id)


@pytest.mark.every_database
async def test_a_retry_from_the_failed_steps_takes_the_others_over(database: Database) -> None:
    it = await story(
        database,
        step("extract"),
        step("load", "extract", parameters='{"rows":"${steps.extract.result.rows}"}'),
        step("report", "load", parameters='{"n":"${steps.extract.result.rows}"}'),
        step("tell", "load:failed"),
        output="extract",
    )
    old = await it.first(fail=("load", "tell"), extract={"rows": 3})
    failed_load = (await steps_of(database, old))[1].run_id or 0
    assert await states(database, old) == ["failed steps"]

    new = await it.retry(old)
    with pytest.raises(Conflict, match="has not ended yet"):  # somebody else at the same moment
        await it.retry(old)
    with pytest.raises(Conflict, match="not retried"):
        await it.retry(new)
    assert not await it.made_good(old)
    # Nothing of it is deleted while the new run may read it.
    old_steps = [s.run_id for s in await steps_of(database, old) if s.run_id is not None]
    assert await database.run(purge_runs, [old, *old_steps]) == 0
    assert await database.run(lambda c: remove_old_runs(c, older_than_ms=-(10**9), limit=99)) == 0

    assert await it.player.claim() == ["load"]
    assert it.given("load") == {"rows": 3}
    await it.player.end("load")
    assert await it.player.claim() == ["report"]
    assert it.given("report") == {"n": 3}
    await it.player.end("report")

    assert await told(database, new) == (
        "extract succeeded, load succeeded, report succeeded, tell skipped needs"
    )
    assert [s.taken_from for s in await steps_of(database, new)] == [old, None, None, None]
    assert (await get_run(database, new)).result == '{"rows":3}'
    assert await it.made_good(old)
    assert await it.made_good(failed_load)
    assert await database.run(purge_runs, [old]) == 1
    with pytest.raises(Conflict, match="No step"):
        await it.retry(new)


@pytest.mark.every_database
async def test_retries_of_retries_read_the_first_run(database: Database) -> None:
    each = ForEach(items='"${steps.list.result}"', tolerance=Tolerance(count=1))
    it = await story(
        database,
        step("list"),
        step("each", "list", for_each=each),
        step("mid", "each"),
        step("sum", "mid", parameters='{"all":"${steps.each.result}"}'),
    )
    first = await it.first(fail=("each[1]", "mid"), list=[1, 2, 3], each=7)
    second = await it.retry(first)
    assert await it.player.play(fail=("sum",)) == [["mid"], ["sum"]]
    third = await it.retry(second)

    assert await it.player.claim() == ["sum"]
    assert it.given("sum") == {"all": [7, None, 7]}
    await it.player.end("sum")

    assert [s.taken_from for s in await steps_of(database, third)] == [first, first, second, None]
    assert await states(database, third) == ["succeeded"]
    assert await it.made_good(first)
    assert await it.made_good(second)
    # The first run is deleted: its results may go at any time, so nothing takes them over.
    await database.run(delete_runs, [first])
    choice = choice_of(again=StepsAgain.ONLY, step="sum")
    with pytest.raises(Conflict, match="deleted: each"):
        await it.retry(third, steps=choice)


@pytest.mark.every_database
async def test_only_the_items_that_failed_are_done_again(database: Database) -> None:
    it = await story(
        database,
        step("each", for_each=ForEach(items="[0,1,2,3,4]", max_parallel=2)),
        step("sum", "each", parameters='{"all":"${steps.each.result}"}'),
    )
    old = await ask(database, it.job_id)
    assert await it.player.claim() == ["each", "each[1]"]
    await it.player.end("each", "each[1]:failed", each="old")  # the last three never begin
    assert await told(database, old) == "each failed items_failed, sum skipped needs"

    new = await it.retry(old)
    assert await it.player.claim() == ["each[1]", "each[2]"]
    await it.player.end("each[1]", "each[2]", each="new")
    assert await it.player.claim() == ["each[3]", "each[4]"]
    await it.player.end("each[3]", "each[4]", each="new")
    assert await it.player.claim() == ["sum"]
    assert it.given("sum") == {"all": ["old", "new", "new", "new", "new"]}
    await it.player.end("sum")

    row = (await steps_of(database, new))[0]
    assert (row.items, row.items_started, row.items_succeeded, row.items_failed) == (5, 5, 5, 0)
    assert await states(database, new) == ["succeeded"]


async def test_a_step_alone_and_from_a_step(database: Database) -> None:
    it = await story(database, step("a"), step("b", "a"), step("c", "b"), step("d"))
    old = await it.first(fail=())

    only = await it.retry(old, steps=choice_of(again=StepsAgain.ONLY, step="b"))
    assert await it.player.play() == [["b"]]
    again = await it.retry(old, steps=choice_of(again=StepsAgain.FROM, step="b"))
    assert await it.player.play() == [["b"], ["c"]]
    whole = await it.retry(old, steps=choice_of())
    assert await it.player.play() == [["a", "d"], ["b"], ["c"]]

    assert await states(database, only, again, whole) == ["succeeded"] * 3
    with pytest.raises(InvalidInput):
        await it.retry(old, steps=choice_of(again=StepsAgain.FROM, step="nobody"))
    with pytest.raises(InvalidInput):
        choice_of(again=StepsAgain.FROM)


async def test_a_step_is_skipped_at_a_retry(database: Database) -> None:
    values = '{"x":"${steps.b.result}","how":"${steps.b.state}"}'
    it = await story(database, step("a"), step("b", "a"), step("c", "b", parameters=values))
    old = await it.first(fail=("b",))

    skipping = choice_of(again=StepsAgain.FAILED, skip=["b"], reason="done by hand")
    new = await it.retry(old, steps=skipping)

    assert await it.player.claim() == ["c"]
    assert it.given("c") == {"how": "succeeded", "x": None}
    await it.player.end("c")
    assert await told(database, new) == "a succeeded, b succeeded passed_by_hand, c succeeded"


async def test_a_retry_keeps_revision_and_parameters(database: Database) -> None:
    it = await story(database, step("a"), step("b", "a"), parameters='{"day":1}')
    old = await it.first(fail=("b",))
    await _new_revision(it)

    kept = await it.retry(old)
    assert (await get_run(database, kept)).job_revision == 1
    await it.player.play(fail=("b",))
    with pytest.raises(Conflict, match="over: a"):
        await it.retry(old, revision=RetryRevision.CURRENT)
    choice = choice_of(again=StepsAgain.FROM, step="a")
    changed = await it.retry(old, steps=choice, revision=RetryRevision.CURRENT)
    assert (await get_run(database, changed)).job_revision == 2


async def _new_revision(it: Story) -> None:
    """The same with other parameters of its first step."""

    def change(conn: sa.Connection) -> None:
        table = tables.job_revision
        row = conn.execute(sa.select(table).where(table.c.job_id == it.job_id)).mappings().one()
        config = row["config"].replace('"parameters":"{}"', '"parameters":"{\\"n\\":1}"', 1)
        assert config != row["config"]
        conn.execute(table.insert().values({**row, "revision": 2, "config": config}))
        conn.execute(tables.job.update().where(tables.job.c.id == it.job_id).values(revision=2))

    await it.database.run(change)


async def test_failures_within_a_sub_workflow_are_made_good(database: Database) -> None:
    admin, node = await admin_with_node(database)
    inner = await add_workflow(database, step("x"), executor_id=node.executor_id)
    job_id = await add_workflow(
        database, step("sub", body=SubWorkflow(job_id=inner)), executor_id=node.executor_id
    )
    it = Story(admin, node, job_id)
    old = await it.first(fail=("x",))
    sub = (await steps_of(database, old))[0].run_id or 0
    x = (await steps_of(database, sub))[0].run_id or 0

    await it.retry(old)
    await it.player.play()

    assert [await it.made_good(run_id) for run_id in (old, sub, x)] == [True] * 3


@pytest.mark.every_database
async def test_two_people_retry_at_the_same_moment(database: Database) -> None:
    it = await story(database, step("a"))
    old = await it.first(fail=("a",))

    done = await asyncio.gather(it.retry(old), it.retry(old), return_exceptions=True)

    assert sorted(type(each).__name__ for each in done) == ["Conflict", "int"]
    assert await it.player.play() == [["a"]]


async def test_a_step_is_not_retried_twice_at_once_after_one_that_succeeded(
    database: Database,
) -> None:
    it = await story(database, step("a"), step("b"))
    run_id = await it.first(fail=())
    only = choice_of(again=StepsAgain.ONLY, step="a")
    await it.retry(run_id, steps=only)
    assert await it.player.play() == [["a"]]
    await it.retry(run_id, steps=only)
    with pytest.raises(Conflict) as refused:
        await it.retry(run_id, steps=only)
    assert refused.value.code == "run.retry_goes_on"


async def test_a_request_that_is_repeated_is_one_retry(database: Database) -> None:
    it = await story(database, step("a"), step("b", "a"))
    old = await it.first(fail=("b",))

    same = [await it.retry(old, request_key="once") for _ in range(2)]

    assert same[0] == same[1]
    assert await it.player.play() == [["b"]]
