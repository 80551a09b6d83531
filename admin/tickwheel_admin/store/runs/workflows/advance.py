"""What becomes of workflows when runs of their steps end, or when they begin (G4).

The transaction that ends a step's run locks the run of its workflow, decides which steps begin or
are skipped, and writes their rows and runs. Each workflow's run is locked once in a transaction,
however many of its steps have ended in it. Rows of all workflows are written together; what is read
for one alone are the results of a `for_each` that others name, and how deep a sub-workflow lies.

A defect that shows with one workflow does not stop the others: nothing is written of it, and the
sweeper looks at it next. If that fails as well it ends the run with a reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import sqlalchemy as sa

from tickwheel_admin.domain.runs.moves import SPAWNED
from tickwheel_admin.domain.runs.run import CHECK_MS, FINAL, Move, Origin, Run, RunState
from tickwheel_admin.domain.workflows.answering import signals_of_questions
from tickwheel_admin.domain.workflows.book import WorkflowBook
from tickwheel_admin.domain.workflows.moves import given_up, stuck, workflow_ended
from tickwheel_admin.store.alarms.signals import add_signals
from tickwheel_admin.store.database.ids import TooFewIds
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs.deadlines import set_deadlines
from tickwheel_admin.store.runs.inserts import insert_requested_runs, unused_run_ids
from tickwheel_admin.store.runs.runs import set_progress
from tickwheel_admin.store.runs.workflows.books import lock_books
from tickwheel_admin.store.runs.workflows.defects import Defects
from tickwheel_admin.store.runs.workflows.step_inputs import StepInputs
from tickwheel_admin.store.runs.workflows.step_runs import mend as mend_steps
from tickwheel_admin.store.runs.workflows.step_starts import StepRunIds, StepStarts
from tickwheel_admin.store.workflows.steps import (
    insert_items,
    insert_spawned,
    insert_steps,
    spawned_counts,
    update_steps,
)
from tickwheel_shared.protocol import MAX_RESULT_BYTES
from tickwheel_shared.workflows.values import BadValue


@dataclass(slots=True)
class Advanced:
    """What became of workflows."""

    moves: list[Move] = field(default_factory=list)  # of their runs, to be written by the caller
    queued: int = 0  # runs of steps that may be claimed now


def workflows_concerned(moves: Iterable[Move]) -> tuple[list[Move], list[Run]]:
    """(ends of runs of steps, runs of workflows that begin) among written moves."""
    ended: list[Move] = []
    begun: list[Run] = []
    for move in moves:
        after = move.after
        if after.state in FINAL:
            if (
                after.origin is Origin.STEP
                and after.fire_id is None
                and after.state is not move.before.state
            ):
                ended.append(move)
        elif (
            after.is_workflow
            and after.state is RunState.RUNNING
            and move.before.state is RunState.QUEUED
        ):
            begun.append(after)
    return ended, begun


def advance_workflows(
    conn: sa.Connection,
    *,
    ended: Sequence[Move] = (),
    begun: Sequence[Run] = (),
    looked_at: Iterable[int] = (),
    mend: bool = False,
    configs: JobConfigs,
    now: int,
    run_ids: Sequence[int],
) -> Advanced:
    """Let workflows go on.

    Args:
        ended: of runs of steps, also late ones of lost runs; they are written already.
        begun: runs of workflows that the claim has just moved to running.
        looked_at: runs of workflows to look at in any case; an instant may have come.
        mend: look for ends of their steps' runs that nobody has passed on; what a defect keeps
            from going on is given up.

    Raises:
        TooFewIds: more runs begin than there are ids.
    """
    by_workflow: defaultdict[int, list[Move]] = defaultdict(list)
    for each in ended:
        by_workflow[each.after.parent_run_id or 0].append(each)
    defects = Defects()
    concerned = {*by_workflow, *looked_at, *(run.id for run in begun)}
    books = lock_books(conn, concerned, configs, now=now, defects=defects)
    spawned = spawned_counts(
        conn,
        {m.after.id: m.after.parent_run_id or 0 for m in ended if m.after.reason == SPAWNED},
    )
    for run_id, book in books.items():
        for each in by_workflow[run_id]:
            defects.guard(book.run, book.run_ended, each, spawned.get(each.after.id))
        if mend:
            defects.guard(book.run, mend_steps, conn, book)
    return go_on(conn, books, configs, now=now, run_ids=run_ids, defects=defects, give_up=mend)


def go_on(
    conn: sa.Connection,
    books: Mapping[int, WorkflowBook],
    configs: JobConfigs,
    *,
    now: int,
    run_ids: Sequence[int],
    defects: Defects | None = None,
    give_up: bool = False,
) -> Advanced:
    """Decide until nothing follows any more, and write it; raises as `advance_workflows`.

    Args:
        defects: of these workflows, so far.
        give_up: end workflows that a defect keeps from going on; else they are left as they were.
    """
    defects = Defects() if defects is None else defects
    if not books and not defects.raised:
        return Advanced()
    inputs = StepInputs(conn, configs)
    # Ids that stand in the ledger may have been used by this very transaction.
    unused = unused_run_ids(conn, run_ids)
    ids = StepRunIds(unused)
    starts = StepStarts(inputs, ids, now=now)

    def steps_to_begin(book: WorkflowBook) -> list[int]:
        found = book.go_on()
        for index in found:
            inputs.want(book, index)
        return found

    looking = list(books.values())
    while looking:
        places = [
            (book, index)
            for book in looking
            for index in defects.guard(book.run, steps_to_begin, book) or ()
        ]
        inputs.read()
        for book, index in places:
            defects.guard(book.run, starts.begin, book, index)
        # A step whose run has just begun lets nothing follow before that ends.
        looking = list({id(b): b for b, index in places if not b.has_own_run(index)}.values())
    if ids.missing:
        raise TooFewIds(len(run_ids) + ids.missing)
    ends = {
        run_id: defects.guard(book.run, _end, book, inputs, now=now)
        for run_id, book in books.items()
    }
    starts.leave_out(defects.raised)
    insert_requested_runs(conn, starts.runs)
    insert_items(conn, starts.items)
    insert_spawned(conn, starts.lists_to_keep())
    sound = [book for run_id, book in sorted(books.items()) if run_id not in defects.raised]
    insert_steps(conn, [step for book in sound for step in book.first_rows()])
    update_steps(conn, [step for book in sound for step in book.changed_rows()])
    asked = (signals_of_questions(book.run, book.changes(), now=now) for book in sound)
    add_signals(conn, list(chain.from_iterable(asked)))
    advanced = Advanced(queued=len(starts.runs))
    advanced.moves = [move for _, move in sorted(ends.items()) if move is not None]
    going_on = [book for book in sound if ends[book.run.id] is None]
    set_progress(conn, [(book.run.id, *book.progress) for book in going_on])
    deadlines = _next_looks(conn, going_on, configs, now=now)
    for run_id, error in sorted(defects.raised.items()):
        if give_up:
            advanced.moves.append(given_up(defects.runs[run_id], error, now=now))
        else:
            deadlines.append((run_id, now))
    set_deadlines(conn, deadlines)
    return advanced


def _next_looks(
    conn: sa.Connection, books: Sequence[WorkflowBook], configs: JobConfigs, *, now: int
) -> list[tuple[int, int]]:
    """When the sweeper looks at each run, where that is another instant than before."""
    found: list[tuple[int, int]] = []
    known = configs.get_many(conn, {(book.run.job_id, book.run.job_revision) for book in books})
    for book in books:
        timeout_ms = known[book.run.job_id, book.run.job_revision].timeout_ms
        next_at = _next_look(book, timeout_ms, now=now)
        if next_at != book.run.deadline_at:
            found.append((book.run.id, next_at))
    return found


def _next_look(book: WorkflowBook, timeout_ms: int | None, *, now: int) -> int:
    run = book.run
    at = run.deadline_at if run.deadline_at is not None else now
    if run.cancel_requested_at is not None:
        return at  # the sweeper is stopping its steps
    if at <= now:
        at = now + CHECK_MS
    if timeout_ms is not None and run.started_at is not None:
        at = min(at, run.started_at + timeout_ms)
    return at if book.next_due_at is None else min(at, book.next_due_at)


def _end(book: WorkflowBook, inputs: StepInputs, *, now: int) -> Move | None:
    """How a run ends that is over; None: it goes on."""
    state = book.end()
    if state is None:
        return stuck(book.run, now=now) if book.is_stuck else None  # by SQL from outside
    output = book.graph.output
    result = problem = None
    if output is not None:
        try:
            result = inputs.result_of(book, output, most=MAX_RESULT_BYTES)
        except BadValue as error:
            problem = str(error).rstrip(".")
    return workflow_ended(
        book.run, state, failed=book.failed, result=result, problem=problem, now=now
    )
