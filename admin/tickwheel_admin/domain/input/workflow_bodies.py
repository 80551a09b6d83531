"""What a step of a workflow does, as people write it, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tickwheel_admin.domain.fields import Fields, as_seconds, instant_from_iso
from tickwheel_admin.domain.input.routing import ROUTING_FIELDS, read_routing, routing_to_raw
from tickwheel_admin.domain.input.run_rules import (
    MAX_ID,
    POOL_FIELDS,
    RETRY_FIELDS,
    pool_to_raw,
    read_pool,
    read_retry,
    retry_to_raw,
)
from tickwheel_admin.domain.input.script import read_script, script_to_raw
from tickwheel_admin.domain.input.workflow_items import checked_references
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.runs import script as scripts
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.domain.workflows import graph
from tickwheel_admin.domain.workflows.graph import (
    Approval,
    Body,
    HandlerStep,
    JobStep,
    ScriptStep,
    Silence,
    StepRules,
    SubWorkflow,
    Wait,
)
from tickwheel_shared.workflows.values import BadReference, references_in

KINDS = ("job", "handler", "script", "workflow", "approval", "wait")
# Of handler and script steps; the job of a job step has its own.
BODY_FIELDS = (
    "executor",
    "timeout_seconds",
    "priority",
    *POOL_FIELDS,
    *ROUTING_FIELDS,
    *RETRY_FIELDS,
)
MAX_TIMEOUT_MS = 604_800_000
MAX_WAIT_MS = 2_592_000_000  # 30 days
MAX_PEOPLE = 50
MAX_MESSAGE_CHARS = 2_000
MAX_HANDLER_CHARS = 200


def read_body(fields: Fields) -> Body | None:
    """What the step does; None when that is wrong, which is noted."""
    given = [name for name in KINDS if fields.has(name)]
    if len(given) != 1:
        fields.refuse(
            given[1] if given else "key",
            "workflow.kind",
            "A step has exactly one of %(kinds)s.",
            kinds=", ".join(KINDS),
        )
        return None
    (kind,) = given
    if kind not in ("handler", "script"):
        for name in BODY_FIELDS:
            if fields.has(name):
                fields.refuse(
                    name,
                    "does_not_apply",
                    "This belongs to steps with a handler or a script; a job has its own.",
                )
    match kind:
        case "handler":
            return _read_handler(fields)
        case "script":
            return _read_script(fields)
        case "job":
            return JobStep(job_id=fields.integer("job", low=1, high=MAX_ID, default=1))
        case "workflow":
            return SubWorkflow(job_id=fields.integer("workflow", low=1, high=MAX_ID, default=1))
    own = Fields(fields.raw[kind], fields.where(kind), fields.problems)
    if not own.is_object:
        return None
    return _read_approval(own) if kind == "approval" else _read_wait(own)


def body_to_raw(body: Body) -> dict[str, Any]:
    """What `read_body` reads as this; what says nothing is None or empty."""
    match body:
        case JobStep(job_id=job_id):
            return {"job": job_id}
        case SubWorkflow(job_id=job_id):
            return {"workflow": job_id}
        case HandlerStep():
            return {"handler": body.handler} | _rules_to_raw(body.executor_id, body.rules)
        case ScriptStep():
            script = script_to_raw(body.script) or {}
            shown = {name: value for name, value in script.items() if value}
            return {"script": shown} | _rules_to_raw(body.executor_id, body.rules)
        case Approval():
            raw = {
                "people": list(body.people),
                "roles": list(body.roles),
                "deadline_seconds": _seconds(body.deadline_ms),
                "silence": None if body.silence is Silence.DECLINE else body.silence.value,
                "message": body.message,
            }
            return {"approval": {name: value for name, value in raw.items() if value}}
        case Wait():
            if body.until is not None:
                return {"wait": {"until": body.until}}
            return {"wait": {"seconds": _seconds(body.duration_ms)}}


def _read_handler(fields: Fields) -> HandlerStep:
    handler = fields.text(
        "handler", max_chars=MAX_HANDLER_CHARS, required=True, is_name=True, exact=True
    )
    if handler in (scripts.HANDLER, graph.HANDLER):
        fields.refuse(
            "handler",
            "workflow.reserved_handler",
            "“%(handler)s” is no handler of a service: give the step a “%(handler)s” instead.",
            handler=handler,
        )
    return HandlerStep(handler=handler, executor_id=_executor(fields), rules=_read_rules(fields))


def _read_script(fields: Fields) -> ScriptStep | None:
    script = read_script(fields.raw["script"], fields.where("script"), fields.problems)
    executor_id, rules = _executor(fields), _read_rules(fields)
    if script is None:
        return None
    return ScriptStep(script=script, executor_id=executor_id, rules=rules)


def _executor(fields: Fields) -> int | None:
    number = fields.integer("executor", low=1, high=MAX_ID, default=1)
    return number if fields.has("executor") else None


def _read_rules(fields: Fields) -> StepRules:
    priority = fields.integer("priority", low=1, high=9, default=5)
    return StepRules(
        routing=read_routing(fields),
        retry=read_retry(fields),
        timeout_ms=fields.seconds_as_ms("timeout_seconds", low_ms=1_000, high_ms=MAX_TIMEOUT_MS),
        priority=priority if fields.has("priority") else None,
        pool=read_pool(fields),
    )


def _rules_to_raw(executor_id: int | None, rules: StepRules) -> dict[str, Any]:
    """Rules that differ from the default, each part with all of its fields."""
    raw: dict[str, Any] = {
        "executor": executor_id,
        "timeout_seconds": _seconds(rules.timeout_ms),
        "priority": rules.priority,
    }
    if rules.pool is not None:
        raw |= pool_to_raw(rules.pool)
    if rules.routing != RoutingPolicy():
        raw |= routing_to_raw(rules.routing)
    if rules.retry != RetryPolicy():
        raw |= retry_to_raw(rules.retry)
    return raw


def _read_approval(fields: Fields) -> Approval:
    fields.only(("people", "roles", "deadline_seconds", "silence", "message"))
    deadline_ms = fields.seconds_as_ms("deadline_seconds", low_ms=1_000, high_ms=MAX_WAIT_MS)
    if fields.has("silence") and deadline_ms is None and not fields.has("deadline_seconds"):
        fields.refuse("silence", "does_not_apply", "What silence means needs a “deadline_seconds”.")
    roles = _texts(fields, "roles")
    for index, role in enumerate(roles):
        if role not in set(Role):
            choices = ", ".join(Role)
            fields.refuse(
                f"roles[{index}]",
                "not_one_of",
                "This must be one of %(choices)s.",
                choices=choices,
            )
    message = fields.text("message", max_chars=MAX_MESSAGE_CHARS, lines=True)
    checked_references(fields, "message", json.dumps(message))
    return Approval(
        people=_texts(fields, "people"),
        roles=roles,
        deadline_ms=deadline_ms,
        silence=fields.member("silence", Silence, default=Silence.DECLINE),
        message=message,
    )


def _texts(fields: Fields, name: str) -> tuple[str, ...]:
    if not fields.has(name):
        return ()
    value = fields.raw[name]
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    if not is_list or not all(isinstance(each, str) and 0 < len(each) <= 100 for each in value):
        fields.refuse(name, "wrong_type", "This must be a list of texts.")
        return ()
    if len(value) > MAX_PEOPLE:
        fields.refuse(name, "too_many", "At most %(limit)d, please.", limit=MAX_PEOPLE)
        return ()
    return tuple(dict.fromkeys(value))


def _read_wait(fields: Fields) -> Wait | None:
    fields.only(("seconds", "until"))
    if fields.has("seconds") == fields.has("until"):
        fields.refuse(
            "seconds", "required", "Give either “seconds” or “until”, an instant in ISO 8601."
        )
        return None
    if fields.has("seconds"):
        duration_ms = fields.seconds_as_ms("seconds", low_ms=1, high_ms=MAX_WAIT_MS)
        return None if duration_ms is None else Wait(duration_ms=duration_ms)
    until = fields.text("until", max_chars=300)
    if _is_moment(until):
        return Wait(until=until)
    fields.refuse(
        "until",
        "instant.invalid",
        "This must be a date and time with its offset from UTC, such as 2026-03-01T09:00:00+01:00,"
        " or the path to one, such as ${parameters.from}.",
    )
    return None


def _is_moment(text: str) -> bool:
    if text.startswith("${") and text.endswith("}") and text.count("${") == 1:
        try:
            return bool(references_in(json.dumps(text)))
        except BadReference:
            return False
    try:
        instant_from_iso(text)
    except ValueError:
        return False
    return True


def _seconds(ms: int | None) -> int | float | None:
    return None if ms is None else as_seconds(ms)
