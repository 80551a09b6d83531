"""What people answer to a step that waits for them: it goes on, or it is declined."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.fields import remark_of
from tickwheel_admin.domain.runs.run import FINAL
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.domain.workflows.answering import permission_to_answer
from tickwheel_admin.domain.workflows.book import WorkflowBook
from tickwheel_admin.services.events.events import QUEUED, RUNS, Events
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.runs.edits import RunEdit
from tickwheel_admin.services.workflows.steps import workflow_of
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs.workflows.books import lock_books
from tickwheel_admin.store.runs.workflows.defects import Defects
from tickwheel_admin.store.runs.workflows.people import NotWaiting, answer_step


class StepAnswers:
    """Use cases of those whom steps wait for."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._ids = ids
        self._events = events
        self._configs = JobConfigs(keep=1_000)

    async def answer(
        self, actor: Actor, run_id: int, key: str, *, approved: bool, message: str | None = None
    ) -> None:
        """Let a step go on, or decline it, which fails it.

        Args:
            message: why; in the step's row and in the audit, at most 2,000 characters.

        Raises:
            NotFound: a run that the caller may not see, or that has no such step.
            NotAllowed: it is not for the caller to answer.
            InvalidInput: on "message".
            Conflict: run.ended; step.not_waiting.
        """
        told = remark_of("message", message or "") or None
        edit = RunEdit(actor=actor, audit_id=await self._ids.take("audit"), configs=self._configs)
        await self._ids.run_with_ids(
            "run",
            lambda ids: self._store.run(
                _answer, replace(edit, run_ids=ids), run_id, key, approved, told
            ),
        )
        self._events.publish(RUNS)
        self._events.publish(QUEUED)


def _answer(
    conn: sa.Connection, edit: RunEdit, run_id: int, key: str, approved: bool, message: str | None
) -> None:
    if edit.earlier(conn):
        return
    now = now_ms(conn)
    book, index = lock_step(conn, edit, run_id, key, asks=True, now=now)
    try:
        answer_step(
            conn,
            book,
            index,
            approved=approved,
            by=edit.actor.name[:100],
            message=message,
            configs=edit.configs,
            now=now,
            run_ids=edit.run_ids,
        )
    except NotWaiting:
        raise Conflict("step.not_waiting", "This step does not wait for an answer.") from None
    note_step(conn, edit, "run.step_answered", book, key, approved=approved, message=message)


def lock_step(
    conn: sa.Connection, edit: RunEdit, run_id: int, key: str, *, asks: bool, now: int
) -> tuple[WorkflowBook, int]:
    """A step of a workflow's run, which is locked; by its index.

    Args:
        asks: whoever an approval asks may do it, and nobody else; otherwise whoever may operate
            the workflow.

    Raises:
        NotFound, NotAllowed; Conflict: run.ended.
    """
    # Before the run is locked: whoever may not do it must not hold up its nodes. What is asked
    # here cannot change, as a run keeps its revision.
    run, graph = workflow_of(conn, edit.actor, run_id)
    if key not in graph.index_of:
        raise not_found()
    index, executor_id = graph.index_of[key], run.executor_id
    permission = Permission.OPERATE
    if asks:
        permission = permission_to_answer(edit.actor, graph.steps[index], executor_id)
    edit.actor.require(permission, executor_id)
    defects = Defects()
    book = lock_books(conn, [run_id], edit.configs, now=now, defects=defects).get(run_id)
    if defects.raised:
        raise defects.raised[run_id]
    if book is None and run.state not in FINAL:
        raise Conflict("run.not_begun", "This run has not begun; wait until it does.")
    if book is None:
        raise Conflict("run.ended", "This run has already ended.")
    return book, index


def note_step(
    conn: sa.Connection,
    edit: RunEdit,
    action: str,
    book: WorkflowBook,
    key: str,
    **detail: object,
) -> None:
    """Write the audit entry of what was done with a step."""
    run = book.run
    told = {"job": run.job_id, "step": key} | detail
    edit.note(conn, action, run.id, executor_id=run.executor_id, **told)
