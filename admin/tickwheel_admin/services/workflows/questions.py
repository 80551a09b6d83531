"""What a step asks that waits for somebody's answer, with what one needs to know to give it."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import Run
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.domain.workflows.answering import permission_to_answer, question_of
from tickwheel_admin.domain.workflows.graph import Approval
from tickwheel_admin.domain.workflows.states import APPROVAL
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.workflows.steps import StepView, read_workflow
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.executors.executors import executor_names
from tickwheel_admin.store.jobs.jobs import get_config
from tickwheel_admin.store.workflows.questions import beginnings_of_results

MAX_BEFORE = 20  # steps whose results are shown
RESULT_CHARS = 4_000  # of each; the page of its run has all of it


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBefore:
    """A step that the asking one needs."""

    view: StepView
    result: str | None  # JSON text; None: there is none, or it is not for the reader
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepQuestion:
    """A step that waits for somebody's answer, or did."""

    run: Run  # of the workflow
    job_name: str
    executor_name: str
    view: StepView
    asked: Approval | None  # whom it asks; None: whoever may operate the workflow
    is_breakpoint: bool  # it has not begun; an approval may come after it
    message: str | None  # what is asked, with its values
    is_waiting: bool
    may_answer: bool
    before: tuple[StepBefore, ...]  # at most `MAX_BEFORE`


class StepQuestions:
    """Use cases of whoever is asked."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, actor: Actor, run_id: int, key: str) -> StepQuestion:
        """What a step asks, also when somebody has answered, or it asks nobody.

        Raises:
            NotFound: a run that is gone or that the caller may not see, or it has no such step.
        """
        return await self._store.read(_read, actor, run_id, key)


def _read(conn: sa.Connection, actor: Actor, run_id: int, key: str) -> StepQuestion:
    whole = read_workflow(conn, actor, run_id)
    run, graph = whole.run, whole.workflow
    if key not in graph.index_of:
        raise not_found()
    view = whole.steps[graph.index_of[key]]
    body = view.step.body if isinstance(view.step.body, Approval) else None
    question = question_of(view.status)
    is_breakpoint = question is not None and question.reason != APPROVAL
    message = None if body is None else body.message or None
    if question is not None and not is_breakpoint and view.status.message:
        message = view.status.message
    needed = [whole.steps[graph.index_of[need.step]] for need in view.step.needs[:MAX_BEFORE]]
    results = beginnings_of_results(
        conn,
        [each.run.id for each in needed if each.run is not None],
        chars=RESULT_CHARS + 1,
    )
    return StepQuestion(
        run=run,
        job_name=get_config(conn, run.job_id, run.job_revision).name,
        executor_name=executor_names(conn, [run.executor_id]).get(run.executor_id, ""),
        view=view,
        asked=body,
        is_breakpoint=is_breakpoint,
        message=None if is_breakpoint else message,
        is_waiting=question is not None,
        may_answer=question is not None
        and actor.may(permission_to_answer(actor, view.step, run.executor_id), run.executor_id),
        before=tuple(
            _before(each, None if each.run is None else results.get(each.run.id)) for each in needed
        ),
    )


def _before(view: StepView, result: str | None) -> StepBefore:
    if result is None or result == "null":
        return StepBefore(view=view, result=None, is_cut=False)
    return StepBefore(view=view, result=result[:RESULT_CHARS], is_cut=len(result) > RESULT_CHARS)
