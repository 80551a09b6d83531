"""Begins steps of workflows: their runs are made here, and written by `advance`."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from tickwheel_admin.domain.fields import instant_from_iso
from tickwheel_admin.domain.planning.fires import LAST_PRIORITY, merged_parameters, new_run
from tickwheel_admin.domain.runs.run import Origin, Run
from tickwheel_admin.domain.runs.trace import trace_of_follower
from tickwheel_admin.domain.workflows.book import WorkflowBook
from tickwheel_admin.domain.workflows.by_hand import is_paused
from tickwheel_admin.domain.workflows.graph import MAX_DEPTH, MAX_ITEMS, Approval, Wait
from tickwheel_admin.domain.workflows.states import (
    APPROVAL,
    BREAKPOINT,
    JOB_DELETED,
    SPAWNED_ITEM,
    TOO_DEEP,
    TOO_LARGE,
    WAIT,
    WHEN,
    StepRunKind,
    StepState,
    request_key_of,
)
from tickwheel_admin.store.runs.workflows.step_inputs import StepInputs, StepJob
from tickwheel_admin.store.workflows.steps import ItemRun, SpawnedItems, kept_list
from tickwheel_shared.protocol import MAX_PARAMETERS_BYTES
from tickwheel_shared.workflows.conditions import compile_condition
from tickwheel_shared.workflows.paths import Scope
from tickwheel_shared.workflows.values import BadValue, filled, items_of, names_values

MAX_QUESTION_CHARS = 10_000
NO_INSTANT = "wait.no_instant"  # failed: what it waits for is no instant


class StepRunIds:
    """Ids for new runs; counts how many more are needed when there are too few."""

    def __init__(self, ids: Sequence[int]) -> None:
        self._ids = iter(ids)
        self.missing = 0

    def take(self) -> int:
        """An id; one that must not be written when some are missing."""
        found = next(self._ids, None)
        if found is None:
            self.missing += 1
            return -self.missing
        return found


class StepStarts:
    """The runs that begin in one transaction."""

    def __init__(self, inputs: StepInputs, ids: StepRunIds, *, now: int) -> None:
        self._inputs = inputs
        self._ids = ids
        self._now = now
        self.runs: list[Run] = []
        self.items: list[ItemRun] = []
        self._lists: dict[tuple[int, int], tuple[WorkflowBook, list[Any]]] = {}  # begun here

    def begin(self, book: WorkflowBook, index: int) -> None:
        """Begin a step that waits, or more items of one that runs."""
        try:
            if book.steps[index].state is StepState.RUNNING:
                self._begin_items(book, index)
            elif not self._is_wanted(book, index):
                book.set(index, StepState.SKIPPED, WHEN)
            elif is_paused(book.steps[index], pause_before=book.step(index).pause_before):
                book.set(index, StepState.READY, BREAKPOINT)
            else:
                self._begin_body(book, index)
        except BadValue as error:
            book.fail(index, error.code, str(error))

    def leave_out(self, run_ids: Collection[int]) -> None:
        """Begin nothing of these workflow runs."""
        if run_ids:
            self.runs = [each for each in self.runs if each.parent_run_id not in run_ids]
            self.items = [each for each in self.items if each.workflow_run_id not in run_ids]
            self._lists = {key: e for key, e in self._lists.items() if key[0] not in run_ids}

    def lists_to_keep(self) -> list[SpawnedItems]:
        """The lists that were made of other steps' results, of which more items are to begin.

        They are not computed again when there is room: that would read all these results.
        """
        return [
            kept_list(run_id, index, listed)
            for (run_id, index), (book, listed) in sorted(self._lists.items())
            if book.steps[index].state is StepState.RUNNING
            and book.steps[index].next_item < len(listed)
        ]

    def _is_wanted(self, book: WorkflowBook, index: int) -> bool:
        when = book.step(index).when
        return when is None or compile_condition(when).holds(self._inputs.scope(book, index))

    def _begin_body(self, book: WorkflowBook, index: int) -> None:
        step = book.step(index)
        match step.body:
            case Approval(deadline_ms=deadline_ms, message=message):
                due_at = None if deadline_ms is None else self._now + deadline_ms
                asked = self._question(book, index, message)
                book.set(index, StepState.READY, APPROVAL, due_at=due_at, message=asked)
            case Wait():
                due_at = self._until(book, index, step.body)
                if due_at <= self._now:
                    book.set(index, StepState.SUCCEEDED)
                else:
                    book.set(index, StepState.READY, WAIT, due_at=due_at)
            case _:
                job = self._job(book, index)
                if step.for_each is None:
                    self._begin_run(book, index, job)
                else:
                    self._begin_for_each(book, index, step.for_each.items)

    def _question(self, book: WorkflowBook, index: int, message: str) -> str | None:
        if not names_values(message):
            return message or None
        value = json.loads(filled(json.dumps(message), self._inputs.scope(book, index)))
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return text[:MAX_QUESTION_CHARS]

    def _until(self, book: WorkflowBook, index: int, body: Wait) -> int:
        if body.until is None:
            return self._now + (body.duration_ms or 0)
        value = json.loads(filled(json.dumps(body.until), self._inputs.scope(book, index)))
        if isinstance(value, str):
            try:
                return instant_from_iso(value)
            except ValueError:
                pass
        raise BadValue(NO_INSTANT, f"This is no instant: {json.dumps(value)[:200]}")

    def _job(self, book: WorkflowBook, index: int) -> StepJob:
        job = self._inputs.job_of(book, index)
        if job is None:
            raise BadValue(JOB_DELETED, "The job of this step has been deleted.")
        if job.config.workflow is not None and self._inputs.depth_of(book.run) >= MAX_DEPTH:
            raise BadValue(TOO_DEEP, f"More than {MAX_DEPTH} workflows within each other.")
        return job

    def _begin_run(self, book: WorkflowBook, index: int, job: StepJob) -> None:
        # Most steps name no value, and a scope costs as much as all else of their start.
        is_named = names_values(book.step(index).parameters)
        scope = self._inputs.scope(book, index) if is_named else {}
        made = self._new_run(book, index, job, self._parameters(book, index, job, scope))
        book.set(index, StepState.RUNNING, run_id=made.id)

    # --- for_each --------------------------------------------------------------------------------

    def _begin_for_each(self, book: WorkflowBook, index: int, items: str) -> None:
        listed = items_of(items, self._inputs.scope(book, index), most=MAX_ITEMS)
        if names_values(items):
            self._lists[book.run.id, index] = book, listed
        book.set(index, StepState.RUNNING, items=len(listed))
        self._begin_items(book, index)

    def _begin_items(self, book: WorkflowBook, index: int) -> None:
        each = book.step(index).for_each
        job = self._inputs.job_of(book, index)
        scope = self._inputs.scope(book, index)
        items: Sequence[Any]
        if each is None:
            items = self._inputs.spawned_items(book, index)
        elif not names_values(each.items):
            items = items_of(each.items, scope, most=MAX_ITEMS)
        elif (book.run.id, index) in self._lists:
            _, items = self._lists[book.run.id, index]
        else:
            items = self._inputs.kept_items(book, index)
        taken = self._inputs.items_taken(book, index)
        # Items without a run, whose values are missing, take no room.
        while book.room(index) > 0:
            place = book.steps[index].next_item
            if place in taken:
                book.note(index, next_item=place + 1)
                continue
            self._begin_item(book, index, job, place, items[place], scope)

    def _begin_item(
        self,
        book: WorkflowBook,
        index: int,
        job: StepJob | None,
        place: int,
        item: Any,
        scope: Scope,
    ) -> None:
        status = book.steps[index]
        book.note(index, next_item=place + 1, items_started=status.items_started + 1)
        try:
            if job is None:
                raise BadValue(JOB_DELETED, "The job of this step has been deleted.")
            is_spawned = book.step(index).for_each is None
            own = scope if is_spawned else {**scope, "item": item, "item_index": place}
            parameters = self._parameters(book, index, job, own)
            if is_spawned:
                parameters = _with_item(job, parameters, item)
        except BadValue as error:
            # It has failed without a run; the first of them is told.
            if book.steps[index].message is None:
                book.note(index, message=f"Item {place}: {error}")
            book.count_item(index, StepState.FAILED)
            return
        kind = StepRunKind.SPAWNED if is_spawned else StepRunKind.ITEM
        made = self._new_run(book, index, job, parameters, item=place, kind=kind)
        self.items.append(ItemRun(book.run.id, index, place, made.id))

    # --- runs ------------------------------------------------------------------------------------

    def _parameters(self, book: WorkflowBook, index: int, job: StepJob, scope: Scope) -> str | None:
        """What a run is given; None: the job's own."""
        given = filled(book.step(index).parameters, scope)
        if given == "{}":
            return None
        return _bounded(merged_parameters(job.config.parameters, given))

    def _new_run(
        self,
        book: WorkflowBook,
        index: int,
        job: StepJob,
        parameters: str | None,
        *,
        item: int = 0,
        kind: StepRunKind = StepRunKind.STEP,
    ) -> Run:
        made = new_run(
            job.config,
            id=self._ids.take(),
            executor_id=job.executor_id,
            job_id=job.job_id,
            revision=job.revision,
            origin=Origin.STEP,
            scheduled_at=self._now,
            now=self._now,
            # What a backfill begins stays behind everything else, down to the last step.
            priority=LAST_PRIORITY if book.run.priority == LAST_PRIORITY else None,
            parameters=parameters,
            interval_start=book.run.interval_start,
        )
        made = replace(
            made,
            request_key=request_key_of(book.run.id, book.step(index).key, item, kind),
            parent_run_id=book.run.id,
            nominal_at=book.run.works_for_at,
            trace=trace_of_follower(book.run),
        )
        self.runs.append(made)
        return made


def _with_item(job: StepJob, parameters: str | None, item: msgspec.Raw) -> str:
    """The parameters with a spawned item, which its node is given beside them."""
    own = job.config.parameters if parameters is None else parameters
    return _bounded(merged_parameters(own, f'{{"{SPAWNED_ITEM}":{bytes(item).decode()}}}'))


def _bounded(parameters: str) -> str:
    if len(parameters.encode()) > MAX_PARAMETERS_BYTES:
        limit = MAX_PARAMETERS_BYTES // 1024
        raise BadValue(TOO_LARGE, f"Its parameters are larger than {limit} KiB.")
    return parameters
