"""What people do to single steps of a workflow's run: skip them, pause before them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.fields import remark_of
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.events.events import QUEUED, RUNS, Events
from tickwheel_admin.services.runs.edits import RunEdit
from tickwheel_admin.services.workflows.answers import lock_step, note_step
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs.workflows.people import NotWaiting, pause_step, skip_step


class StepInterventions:
    """Use cases of those who operate a workflow while it runs."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._ids = ids
        self._events = events
        self._configs = JobConfigs(keep=1_000)

    async def skip(self, actor: Actor, run_id: int, key: str, *, reason: str) -> None:
        """Let a step count as passed that has failed, or has not begun.

        What was skipped only because of it waits again.

        Args:
            reason: why, 1 to 2,000 characters; in the step's row and in the audit.

        Raises:
            NotFound: a run that the caller may not see, or that has no such step.
            NotAllowed: the caller may not operate the workflow; or it is an approval that is not
                for the caller to answer.
            InvalidInput: on "reason".
            Conflict: run.not_begun; run.ended; run.stopping; step.not_skippable.
        """
        told = remark_of("reason", reason)
        if not told:
            raise InvalidInput.one("reason", "required", "Say why the step is skipped.")

        def work(conn: sa.Connection, edit: RunEdit) -> None:
            _skip(conn, edit, run_id, key, told)

        await self._edited(actor, work)

    async def pause(self, actor: Actor, run_id: int, key: str, *, paused: bool) -> None:
        """Let a step that has not begun wait for a person before it begins, or no more.

        One that waits so already goes on when it is let go.

        Raises:
            NotFound, NotAllowed: likewise.
            Conflict: run.not_begun; run.ended; run.stopping; step.begun; step.not_paused.
        """

        def work(conn: sa.Connection, edit: RunEdit) -> None:
            _pause(conn, edit, run_id, key, paused=paused)

        await self._edited(actor, work)

    async def _edited(self, actor: Actor, work: Callable[[sa.Connection, RunEdit], None]) -> None:
        edit = RunEdit(actor=actor, audit_id=await self._ids.take("audit"), configs=self._configs)
        await self._ids.run_with_ids(
            "run", lambda ids: self._store.run(work, replace(edit, run_ids=ids))
        )
        self._events.publish(RUNS)
        self._events.publish(QUEUED)


def _skip(conn: sa.Connection, edit: RunEdit, run_id: int, key: str, reason: str) -> None:
    if edit.earlier(conn):
        return
    now = now_ms(conn)
    # Skipping an approval is answering it.
    book, index = lock_step(conn, edit, run_id, key, asks=True, now=now)
    _check_goes_on(book.is_stopping)
    was = book.steps[index].state.value
    try:
        skip_step(
            conn,
            book,
            index,
            by=edit.actor.name[:100],
            reason=reason,
            configs=edit.configs,
            now=now,
            run_ids=edit.run_ids,
        )
    except NotWaiting:
        raise Conflict(
            "step.not_skippable",
            "Only a step that has failed or has not begun can be skipped. Cancel one that runs.",
        ) from None
    note_step(conn, edit, "run.step_skipped", book, key, state=was, message=reason)


def _pause(conn: sa.Connection, edit: RunEdit, run_id: int, key: str, *, paused: bool) -> None:
    if edit.earlier(conn):
        return
    now = now_ms(conn)
    book, index = lock_step(conn, edit, run_id, key, asks=False, now=now)
    _check_goes_on(book.is_stopping)
    try:
        pause_step(
            conn,
            book,
            index,
            paused=paused,
            by=edit.actor.name[:100],
            configs=edit.configs,
            now=now,
            run_ids=edit.run_ids,
        )
    except NotWaiting:
        if paused:
            raise Conflict(
                "step.begun", "This step is paused already, or has begun; it cannot be paused."
            ) from None
        raise Conflict("step.not_paused", "There is no pause before this step.") from None
    action = "run.step_paused" if paused else "run.step_resumed"
    note_step(conn, edit, action, book, key)


def _check_goes_on(is_stopping: bool) -> None:
    if is_stopping:
        raise Conflict("run.stopping", "This run is about to end.")
