"""The words of workflows: what steps do, where they stand and why."""

from __future__ import annotations

from tickwheel_admin.console.frame.formatting import instant
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.domain.runs.run import FINAL, Origin, Run, RunState
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.domain.workflows import states
from tickwheel_admin.domain.workflows.answering import permission_to_answer
from tickwheel_admin.domain.workflows.by_hand import can_be_paused, can_be_skipped, is_paused
from tickwheel_admin.domain.workflows.graph import (
    Approval,
    HandlerStep,
    JobStep,
    NeedOutcome,
    ScriptStep,
    Silence,
    Step,
    SubWorkflow,
)
from tickwheel_admin.domain.workflows.states import StepState, place_of
from tickwheel_admin.services.workflows.steps import StepView


def kind_text(step: Step, job_name: str | None = None) -> str:
    """What a step does.

    Args:
        job_name: of the job or workflow that it runs; None: it is not for the reader, or gone.
    """
    match step.body:
        case HandlerStep(handler=handler):
            return handler
        case ScriptStep(script=script):
            return _("Script (%(language)s)") % {"language": script.language}
        case JobStep() if job_name is not None:
            return _("Job %(name)s") % {"name": job_name}
        case SubWorkflow() if job_name is not None:
            return _("Workflow %(name)s") % {"name": job_name}
        case JobStep(job_id=job_id):
            return _("Job #%(id)s") % {"id": job_id}
        case SubWorkflow(job_id=job_id):
            return _("Workflow #%(id)s") % {"id": job_id}
        case Approval():
            return _("Approval")
    return _("Wait")


def state_name(view: StepView) -> str:
    """Where a step stands; what it waits for, and its run's state, where these say more."""
    status = view.status
    if status.state is StepState.READY:
        return {
            states.APPROVAL: _("Needs approval"),
            states.BREAKPOINT: _("Paused"),
        }.get(status.reason or "", _("Waits"))
    if is_queued(view):
        return _("Retrying") if has_been_tried(view) else _("Queued")
    return {
        StepState.WAITING: _("Waiting"),
        StepState.RUNNING: _("Running"),
        StepState.SUCCEEDED: _("Succeeded"),
        StepState.FAILED: _("Failed"),
        StepState.SKIPPED: _("Skipped"),
    }[status.state]


def is_queued(view: StepView) -> bool:
    """Whether a step has begun, and its run waits: for a node, a slot of a pool, its next try."""
    is_running = view.status.state is StepState.RUNNING
    return is_running and view.run is not None and view.run.state is RunState.QUEUED


def has_been_tried(view: StepView) -> bool:
    """Whether its run had an attempt before."""
    return view.run is not None and view.run.attempt > 0


def note(view: StepView) -> str | None:
    """What people should know of how a step stands, beyond its state."""
    status = view.status
    if status.state is StepState.READY and status.due_at is not None:
        until = {"time": instant(status.due_at)}
        if status.reason == states.WAIT:
            return _("Waits until %(time)s.") % until
        if isinstance(view.step.body, Approval):
            silent = (
                _("Without an answer it is approved at %(time)s.")
                if view.step.body.silence is Silence.APPROVE
                else _("Without an answer it is declined at %(time)s.")
            )
            return " ".join(filter(None, (view.message, silent % until)))
    if is_queued(view) and not has_been_tried(view):
        return _("Has not begun; the page of its run says what it waits for.")
    decided = _decided(status.reason, status.decided_by) if status.has_ended else None
    if decided is not None:
        return " ".join(filter(None, (decided, view.message)))
    return view.message or reason_text(status.reason)


def _decided(reason: str | None, by: str | None) -> str | None:
    """Who approved, declined or skipped a step; nobody, where silence did."""
    if by is None:
        return {
            states.APPROVED: _("Nobody answered in time: it counts as approved."),
            states.DECLINED: _("Nobody answered in time: it counts as declined."),
        }.get(reason or "")
    template = {
        states.APPROVED: _("Approved by %(who)s."),
        states.DECLINED: _("Declined by %(who)s."),
        states.PASSED_BY_HAND: _("Skipped by %(who)s: it counts as passed."),
    }.get(reason or "")
    return None if template is None else template % {"who": by}


def told(view: StepView) -> str:
    """Where a step of a run stands, with its items."""
    status = view.status
    word = state_name(view)
    if status.items is not None:
        return f"{word} · {status.items_ended:,} / {status.items:,}"
    return word


def spoken(step: Step, view: StepView | None = None, *, job_name: str | None = None) -> str:
    """A step for who cannot see its picture: "step load, running, 3 of 10 items"."""
    parts = [_("step %(key)s") % {"key": step.key}]
    if view is None:
        parts.append(kind_text(step, job_name))
    else:
        status = view.status
        parts.append(state_name(view).lower())
        if status.items is not None:
            items = {"n": f"{status.items_ended:,}", "all": f"{status.items:,}"}
            parts.append(_("%(n)s of %(all)s items") % items)
    return _(", ").join(parts)


def look_of(state: str) -> str:
    """The state of a run whose colour a step has."""
    return {"waiting": "queued", "ready": "retrying"}.get(state, state)


def icon_of(view: StepView, look: str) -> str:
    """The picture beside the state of a step that has this look."""
    if view.status.state is not StepState.READY:
        return f"s-{look}"
    return "pause" if view.status.reason == states.BREAKPOINT else "clock"


def need_text(outcome: NeedOutcome) -> str:
    """How a needed step must have ended."""
    return {
        NeedOutcome.SUCCEEDED: _("has succeeded"),
        NeedOutcome.FAILED: _("has failed"),
        NeedOutcome.ENDED: _("has ended"),
        NeedOutcome.SKIPPED: _("was skipped"),
    }[outcome]


def reason_text(reason: str | None) -> str | None:
    """Why a step stands or ended so; None where its state says it."""
    if reason is None:
        return None
    known = {
        states.NEEDS: _("What it needs did not come true."),
        states.WHEN: _("Its condition did not hold."),
        states.STOPPED: _("The workflow was to end."),
        states.BY_HANDLER: _("Its handler skipped it."),
        states.ITEMS_FAILED: _("More items failed than are tolerated."),
        states.JOB_DELETED: _("Its job has been deleted."),
        states.TOO_DEEP: _("Too many workflows lie within each other."),
        states.APPROVAL: _("Waits for an approval."),
        states.WAIT: _("Waits for its instant."),
        states.BREAKPOINT: _("Waits until somebody lets it go on."),
        states.APPROVED: _("Approved."),
        states.DECLINED: _("Declined."),
        states.PASSED_BY_HAND: _("Skipped by hand: it counts as passed."),
    }
    return known.get(reason)


def step_of_run(run: Run) -> str:
    """Which step of its workflow a run is."""
    if run.request_key is None:
        return _("Step of a workflow")
    key, item = place_of(run.request_key)
    if item:
        return _("Step %(key)s, item %(item)s") % {"key": key, "item": item}
    return _("Step %(key)s") % {"key": key}


def may_answer(actor: Actor, view: StepView, executor_id: int) -> bool:
    """Whether a step waits for an answer that this person may give."""
    if view.status.state is not StepState.READY or view.status.reason == states.WAIT:
        return False
    return actor.may(permission_to_answer(actor, view.step, executor_id), executor_id)


def may_skip(actor: Actor, view: StepView, run: Run) -> bool:
    """Whether this person may say now that a step counts as passed."""
    asked = permission_to_answer(actor, view.step, run.executor_id)
    return _goes_on(run) and can_be_skipped(view.status) and actor.may(asked, run.executor_id)


def may_pause(actor: Actor, view: StepView, run: Run) -> bool:
    """Whether this person may set a pause before a step now."""
    may = actor.may(Permission.OPERATE, run.executor_id)
    return may and _goes_on(run) and can_be_paused(view.status)


def may_resume(actor: Actor, view: StepView, run: Run) -> bool:
    """Whether there is a pause before a step that this person may lift."""
    may = actor.may(Permission.OPERATE, run.executor_id)
    paused = is_paused(view.status, pause_before=view.step.pause_before)
    return may and _goes_on(run) and paused


def may_repeat(actor: Actor, run: Run) -> bool:
    """Whether this person may do steps of a workflow's run again."""
    return (
        run.state in FINAL
        and run.origin is not Origin.STEP
        and actor.may(Permission.OPERATE, run.executor_id)
    )


def _goes_on(run: Run) -> bool:
    return run.state is RunState.RUNNING and run.cancel_requested_at is None
