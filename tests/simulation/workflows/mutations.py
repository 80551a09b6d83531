"""Promises of workflows switched off one by one; only worlds with workflows can notice these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from tests.simulation.scheduler import current_process
from tickwheel_admin.domain.runs.run import Run
from tickwheel_admin.domain.workflows.book import WorkflowBook
from tickwheel_admin.domain.workflows.graph import MAX_ITEMS
from tickwheel_admin.domain.workflows.states import StepRunKind, StepState, StepStatus, kind_of
from tickwheel_admin.engine.recorder import loop as recorder
from tickwheel_admin.engine.recorder import transaction
from tickwheel_admin.services.workflows import answers
from tickwheel_admin.store.database.tables import run
from tickwheel_admin.store.runs import follow_ups, inserts
from tickwheel_admin.store.runs.workflows import advance, books, people
from tickwheel_admin.store.runs.workflows.step_starts import StepStarts
from tickwheel_admin.store.workflows.steps import ItemRun
from tickwheel_shared.workflows import decide


def steps_begin_after_the_commit() -> None:
    """G4: the runs of steps are written by a transaction of its own, a moment later."""
    pending: list[tuple[Any, Any]] = []
    record_once = recorder.Recorder.run_once

    def insert_later(_conn: Any, runs: Any) -> None:
        if runs:
            pending.append((current_process(), runs))

    async def run_once(self: Any) -> bool:
        mine = [each for each in pending if each[0] is current_process()]
        for each in mine:
            await self._store.run(inserts.insert_requested_runs, each[1])
            pending.remove(each)
        return await record_once(self)

    advance.insert_requested_runs = insert_later
    recorder.Recorder.run_once = run_once  # type: ignore[method-assign]


def skips_are_not_passed_on() -> None:
    """G4: what needs a step that is skipped goes on waiting, or begins as if nothing were."""
    original = decide._need_holds

    def need_holds(need: Any, state: Any) -> bool | None:
        return True if state == "skipped" else original(need, state)

    decide._need_holds = need_holds


def workflows_do_not_go_on() -> None:
    """G4: the end of a step's run is not passed on to its workflow."""
    original = follow_ups.workflows_concerned

    def concerned(moves: Any) -> Any:
        ended, begun = original(moves)
        return [each for each in ended if each.after.id % 7], begun

    follow_ups.workflows_concerned = concerned


def steps_are_remembered() -> None:
    """G4: what is ready is decided from what this admin knew last, not from the locked rows."""
    read, insert, update = books.steps_from, advance.insert_steps, advance.update_steps
    known: dict[tuple[Any, int], dict[int, StepStatus]] = {}

    def steps_from(rows: Any) -> list[StepStatus]:
        found = read(rows)
        if not found:
            return found
        there = {step.step_index: step for step in found}
        mine = known.setdefault((current_process(), found[0].workflow_run_id), there)
        return list(mine.values())

    def note(steps: Iterable[StepStatus]) -> None:
        for step in steps:
            mine = known.get((current_process(), step.workflow_run_id))
            if mine is not None:
                mine[step.step_index] = step

    def insert_steps(conn: sa.Connection, steps: Sequence[StepStatus]) -> None:
        note(steps)
        insert(conn, steps)

    def update_steps(conn: sa.Connection, changes: Sequence[tuple[StepStatus, StepStatus]]) -> None:
        note(after for _, after in changes)
        update(conn, changes)

    books.steps_from = steps_from
    advance.insert_steps = insert_steps
    advance.update_steps = update_steps


def items_begin_all_at_once() -> None:
    """G4: `max_parallel` of a `for_each` holds for nobody."""

    def room(self: Any, index: int) -> int:
        status = self.steps[index]
        return 0 if status.items is None else status.items - status.next_item

    WorkflowBook.room = room  # type: ignore[method-assign]


def tolerance_is_one_too_many() -> None:
    """G4: a `for_each` succeeds with one failed item more than it tolerates."""
    original = WorkflowBook.count_item

    def count_item(self: Any, index: int, state: StepState) -> None:
        failed = self.steps[index].items_failed
        seen = StepState.SUCCEEDED if state is StepState.FAILED and failed == 0 else state
        original(self, index, seen)

    WorkflowBook.count_item = count_item  # type: ignore[method-assign]


def answers_count_twice() -> None:
    """G4: whoever answers last decides, also when somebody has answered already."""

    def answer_step(conn: Any, book: Any, index: int, **rest: Any) -> Any:
        status = book.steps[index]
        asked = status.decided_by is not None
        if asked:
            book.note(index, state=StepState.READY, reason=people.APPROVAL)
        return original(conn, book, index, **rest)

    original = people.answer_step
    answers.answer_step = answer_step


def silence_is_for_ever() -> None:
    """G3: an approval that nobody answers waits on, whatever its deadline."""
    original = WorkflowBook._if_due

    def if_due(self: Any, index: int, status: StepStatus) -> None:
        if status.reason != people.APPROVAL:
            original(self, index, status)

    WorkflowBook._if_due = if_due  # type: ignore[method-assign]


def waits_end_when_anything_happens() -> None:
    """A wait ends when its workflow is looked at, whenever that is."""
    original = WorkflowBook._if_due

    def if_due(self: Any, index: int, status: StepStatus) -> None:
        original(self, index, StepStatus(**{**_fields(status), "due_at": 0}))

    WorkflowBook._if_due = if_due  # type: ignore[method-assign]


def cancelled_workflows_go_on() -> None:
    """A workflow that is to end begins its next steps all the same."""
    WorkflowBook.is_stopping = False  # type: ignore[assignment, method-assign]


def spawned_items_begin_twice() -> None:
    """G4: each item that a run has spawned begins once more under another key."""
    new_run = StepStarts._new_run

    def twice(self: Any, book: Any, index: int, job: Any, parameters: Any, **rest: Any) -> Run:
        if rest.get("kind") is StepRunKind.SPAWNED:
            new_run(self, book, index, job, parameters, **rest | {"item": rest["item"] + MAX_ITEMS})
        return new_run(self, book, index, job, parameters, **rest)

    StepStarts._new_run = twice  # type: ignore[method-assign]


def spawned_items_are_lost() -> None:
    """G4: a result is recorded without the items that came with it."""
    transaction.insert_spawned = lambda conn, spawned: None


def spawned_items_are_not_linked() -> None:
    """G4: the runs of items that a run has spawned are written, and no rows of the items."""
    insert = advance.insert_items

    def insert_items(conn: sa.Connection, items: Sequence[ItemRun]) -> None:
        kinds = {
            row.id: kind_of(row.request_key)
            for row in conn.execute(
                sa.select(run.c.id, run.c.request_key).where(
                    run.c.id.in_([each.run_id for each in items])
                )
            )
        }
        insert(conn, [each for each in items if kinds[each.run_id] is not StepRunKind.SPAWNED])

    advance.insert_items = insert_items


def _fields(status: StepStatus) -> dict[str, Any]:
    return {name: getattr(status, name) for name in StepStatus.__struct_fields__}


WORKFLOW_MUTATIONS = (
    steps_begin_after_the_commit,
    skips_are_not_passed_on,
    workflows_do_not_go_on,
    steps_are_remembered,
    items_begin_all_at_once,
    tolerance_is_one_too_many,
    answers_count_twice,
    silence_is_for_ever,
    waits_end_when_anything_happens,
    cancelled_workflows_go_on,
    spawned_items_begin_twice,
    spawned_items_are_lost,
    spawned_items_are_not_linked,
)
