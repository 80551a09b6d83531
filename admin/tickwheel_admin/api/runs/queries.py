"""How requests say which runs they mean: the same fields for lists, counts and bulk changes."""

from __future__ import annotations

from typing import Any

from tickwheel_admin.api.inputs import MAX_TEXT_CHARS, tags
from tickwheel_admin.domain.fields import MAX_REMARK_CHARS, Fields, raise_if_any
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.workflows.graph import MAX_KEY_CHARS
from tickwheel_admin.domain.workflows.retries import StepChoice
from tickwheel_admin.services.runs.service import (
    ORIGINS,
    RetryRevision,
    RunGroup,
    RunQuery,
    StepsAgain,
    choice_of,
)
from tickwheel_admin.web.input_fields import (
    InputField,
    choice,
    given,
    instant,
    member,
    optional_id,
    optional_member,
    text,
)

STATES = (*(state.value for state in RunState), *(group.value for group in RunGroup))
MAX_NAME_CHARS = 100
_MAX_CHARS = 1_000
_YES_NO = {"yes": True, "no": False}

_STATE = choice(
    "state",
    "A state; `active` for all open ones, `failed_any` for `failed`, `timed_out` and `lost`, of"
    " these `unresolved` and `resolved`: whether a retry has succeeded since.",
    of=STATES,
    default="",
)
_RETRIED = choice("retried", "Whether there is a retry of it.", of=tuple(_YES_NO), default="")
_JOB = optional_id("job_id", "Runs of this job.")
_TEXT = text("text", "A part of the job's name, in any case.", max_chars=_MAX_CHARS)
_OWNER = text("owner", "The whole name of the job's owner.", max_chars=_MAX_CHARS)
_ERROR = text("error", "A part of the first line of the error, in any case.", max_chars=_MAX_CHARS)
_EXECUTOR = optional_id("executor_id", "Runs of this executor's jobs.")
_TRIGGER = optional_id("trigger_id", "Runs for which this trigger fired.")
_NODE = optional_id("node_id", "Runs whose last attempt was on this node.")
_ORIGIN = choice(
    "origin",
    "Why the run exists; `no_step` for all but the steps of workflows.",
    of=ORIGINS,
    default="",
)
_REQUESTED_BY = text("requested_by", "The whole name of a user.", max_chars=MAX_NAME_CHARS)
_PARENT = optional_id("parent_run_id", "The run whose end requested it.")
_FROM = instant("from_at", "Runs scheduled for this instant or later.")
_TO = instant("to_at", "Runs scheduled before this instant.")


def _filter(*, in_body: bool) -> tuple[InputField[Any], ...]:
    return (
        _STATE,
        _RETRIED,
        _JOB,
        _TEXT,
        _OWNER,
        tags(in_body=in_body),
        _ERROR,
        _EXECUTOR,
        _TRIGGER,
        _NODE,
        _ORIGIN,
        _REQUESTED_BY,
        _PARENT,
        _FROM,
        _TO,
    )


FILTER = _filter(in_body=False)
FILTER_IN_BODY = _filter(in_body=True)
_TAGS = tags(in_body=True)

REVISION = optional_member(
    "revision",
    "The revision of the job whose settings count; without it, a workflow keeps its own, and any"
    " other job has the current one.",
    RetryRevision,
)
_STEPS = member(
    "steps",
    "The steps of a workflow that run again: those that failed or never ran and all that depend on"
    " them (`failed`), `step` and all that depend on it (`from`), or `step` alone (`only`).",
    StepsAgain,
    default=StepsAgain.ALL,
)
_STEP = text("step", "The key of a step, for `from` and `only`.", max_chars=MAX_KEY_CHARS)
_SKIP = given("skip", "Keys of steps that count as passed instead.", list[str])
_REASON = text("reason", "Why they are skipped.", max_chars=MAX_REMARK_CHARS, lines=True)
STEP_CHOICE = (_STEPS, _STEP, _SKIP, _REASON)


def run_query_of(fields: Fields) -> RunQuery:
    """The filter that the fields make up; problems are noted in them."""
    return RunQuery(
        state=_STATE.of(fields) or None,
        retried=_YES_NO.get(_RETRIED.of(fields)),
        job_id=_JOB.of(fields),
        text=_TEXT.of(fields)[:MAX_TEXT_CHARS],
        owner=_OWNER.of(fields) or None,
        tags=_TAGS.of(fields),
        error=_ERROR.of(fields)[:MAX_TEXT_CHARS].strip() or None,
        executor_id=_EXECUTOR.of(fields),
        trigger_id=_TRIGGER.of(fields),
        node_id=_NODE.of(fields),
        origin=_ORIGIN.of(fields) or None,
        requested_by=_REQUESTED_BY.of(fields) or None,
        parent_run_id=_PARENT.of(fields),
        from_at=_FROM.of(fields),
        to_at=_TO.of(fields),
    )


def step_choice_of(fields: Fields) -> StepChoice:
    """Which steps of a workflow a retry does anew; raises InvalidInput with all problems."""
    again = _STEPS.of(fields)
    step = _STEP.of(fields) or None
    reason = _REASON.of(fields)
    skip = fields.raw.get("skip", [])
    if not isinstance(skip, list) or not all(isinstance(each, str) for each in skip):
        fields.refuse("skip", "wrong_type", "This must be a list of texts.")
        skip = []
    raise_if_any(fields.problems)
    return choice_of(again=again, step=step, skip=skip, reason=reason)
