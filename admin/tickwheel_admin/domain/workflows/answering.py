"""Who may answer a step that waits for people, and how people learn of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.signal import AlarmSignal
from tickwheel_admin.domain.runs.run import Run
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.domain.workflows.graph import Approval, Step
from tickwheel_admin.domain.workflows.states import APPROVAL, BREAKPOINT, StepState, StepStatus

_REASONS = (APPROVAL, BREAKPOINT)  # a step with both waits twice


class Question(NamedTuple):
    """That a step of a run waits for somebody's answer."""

    run_id: int  # of the workflow
    step_index: int
    reason: str  # APPROVAL or BREAKPOINT

    @property
    def subject(self) -> str:
        """As alarms name it."""
        return f"step:{self.run_id}:{self.step_index}:{self.reason}"


def question_of(status: StepStatus) -> Question | None:
    """What a step asks; None: it waits for nobody."""
    if status.state is not StepState.READY or status.reason not in _REASONS:
        return None
    return Question(status.workflow_run_id, status.step_index, status.reason)


def question_of_subject(subject: str) -> Question:
    """What an alarm with such a subject is about."""
    _, run_id, step_index, reason = subject.split(":")
    return Question(int(run_id), int(step_index), reason)


def signals_of_questions(run: Run, changed: Iterable[StepStatus], *, now: int) -> list[AlarmSignal]:
    """One for each of these steps, which have just changed, that waits for an answer now."""
    asked = (question_of(status) for status in changed)
    return [
        AlarmSignal(
            kind=AlarmKind.APPROVAL_WAITS,
            subject_id=run.id,
            number=each.step_index * len(_REASONS) + _REASONS.index(each.reason),
            at=now,
            executor_id=run.executor_id,
            job_id=run.job_id,
        )
        for each in asked
        if each is not None
    ]


def question_of_signal(signal: AlarmSignal) -> Question:
    """What such a signal tells of."""
    step_index, reason = divmod(signal.number, len(_REASONS))
    return Question(signal.subject_id, step_index, _REASONS[reason])


def permission_to_answer(actor: Actor, step: Step, executor_id: int) -> Permission:
    """What this person needs on the workflow's executor to answer a step.

    Whoever an approval names only has to see the run, and admins may answer in their place. Where
    nobody is named, whoever may operate the workflow answers.
    """
    body = step.body
    if not isinstance(body, Approval) or not (body.people or body.roles):
        return Permission.OPERATE
    role = actor.role_on(executor_id)
    if actor.name in body.people or (role is not None and role.value in body.roles):
        return Permission.VIEW
    return Permission.ADMINISTER
