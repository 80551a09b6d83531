"""The lock on links between jobs comes before those on jobs, on every way that saves a workflow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.declared_code import Code
from tests.admin.kit.services import ADMIN, World
from tickwheel_admin.services.alarms.job_rules import JobRuleEdits
from tickwheel_admin.services.jobs.declared.service import DeclaredJobs
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.jobs.child_links import CHANGES

STEPS = [{"key": "extract", "handler": "send-invoices"}]
FLOW: dict[str, Any] = {"name": "month-end", "workflow": {"steps": STEPS}}

Act = Callable[[], Awaitable[object]]
Way = Callable[[World, int], Awaitable[Act]]


async def by_editing(world: World, executor_id: int) -> Act:
    job_id = await world.jobs.create(ADMIN, executor_id, FLOW)
    return lambda: world.jobs.update(ADMIN, job_id, FLOW | {"description": "more"}, revision=1)


async def by_alarm_rules(world: World, executor_id: int) -> Act:
    job_id = await world.jobs.create(ADMIN, executor_id, FLOW)
    edits = JobRuleEdits(world.database, Ids(world.database), world.events)
    return lambda: edits.change(ADMIN, job_id, lambda conn, alarms: alarms)


async def by_accepting(world: World, executor_id: int) -> Act:
    declared = DeclaredJobs(world.database, Ids(world.database), world.events)
    await declared.set_policy(ADMIN, executor_id, "ask")
    await Code(world).start(executor_id, FLOW)
    return lambda: declared.accept(ADMIN, executor_id, "month-end")


async def by_declaring(world: World, executor_id: int) -> Act:
    return lambda: Code(world).start(executor_id, FLOW)


@pytest.mark.parametrize("way", [by_editing, by_alarm_rules, by_accepting, by_declaring])
async def test_links_are_locked_first(way: Way, world: World, executor_id: int) -> None:
    act = await way(world, executor_id)
    transactions: list[list[str]] = []  # which locks each took

    def begin(conn: sa.Connection) -> None:
        transactions.append([])

    def note(conn: sa.Connection, clause: Any, *rest: Any) -> None:
        text = str(clause)
        if CHANGES in clause.compile().params.values():
            transactions[-1].append("links")
        elif "FOR UPDATE" in text or text.startswith("UPDATE job "):
            transactions[-1].append("job or executor")

    sa.event.listen(world.database.engine, "begin", begin)
    sa.event.listen(world.database.engine, "before_execute", note)
    await act()
    saves = [each for each in transactions if "links" in each]
    assert saves
    assert {each[0] for each in saves} == {"links"}
