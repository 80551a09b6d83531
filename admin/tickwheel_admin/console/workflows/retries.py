"""The choice of steps in the form of a retry."""

from __future__ import annotations

from dataclasses import dataclass

from multidict import MultiMapping

from tickwheel_admin.domain.workflows.retries import StepChoice, failed_steps
from tickwheel_admin.domain.workflows.states import StepState
from tickwheel_admin.services.runs.service import StepsAgain, choice_of
from tickwheel_admin.services.workflows.steps import WorkflowView


@dataclass(frozen=True, slots=True, kw_only=True)
class StepForm:
    """What the form offers, and what is chosen in it."""

    keys: tuple[str, ...]  # of all steps
    failed: tuple[str, ...]  # that may be skipped
    has_failed: bool  # there is something to be done from the failed steps
    again: str
    step: str
    skip: frozenset[str]
    reason: str


def step_form(view: WorkflowView, chosen: MultiMapping[str]) -> StepForm:
    """The form for the run of a workflow.

    Args:
        chosen: what was sent, or the query that leads to the form.
    """
    statuses = [each.status for each in view.steps]
    failed = failed_steps(view.workflow, statuses)
    default = StepsAgain.FAILED if failed else StepsAgain.ALL
    again = chosen.get("steps", default.value)
    return StepForm(
        keys=tuple(each.step.key for each in view.steps),
        failed=tuple(
            view.steps[index].step.key
            for index in sorted(failed)
            if statuses[index].state is StepState.FAILED
        ),
        has_failed=bool(failed),
        again=again if again in list(StepsAgain) else default.value,
        step=chosen.get("step", ""),
        skip=frozenset(chosen.getall("skip", [])),
        reason=chosen.get("reason", ""),
    )


def step_choice(form: MultiMapping[str]) -> StepChoice:
    """What was chosen; all steps where the form has no such fields.

    Raises:
        InvalidInput: on "step", "skip" or "reason".
    """
    word = form.get("steps", "")
    again = StepsAgain(word) if word in list(StepsAgain) else StepsAgain.ALL
    one = again in (StepsAgain.FROM, StepsAgain.ONLY)
    return choice_of(
        again=again,
        step=form.get("step", "") if one else None,
        skip=form.getall("skip", []) if again is not StepsAgain.ONLY else (),
        reason=form.get("reason", ""),
    )
