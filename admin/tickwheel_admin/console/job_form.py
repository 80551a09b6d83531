"""The job form: what its fields mean as the raw input of a job, and back.

Everything typed comes back as it was typed when something is wrong; the rules themselves are in
`domain.job_input`. The form edits one trigger. Further ones, which only the API makes, pass through
it unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from tickwheel_admin.console.reader import local_input, time_zones
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.job import JobConfig
from tickwheel_admin.domain.job_input import job_to_raw, trigger_to_raw
from tickwheel_admin.domain.json_text import BadJson, object_of_text
from tickwheel_admin.domain.trigger import TriggerKind

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

# Where the form shows what the rules call by another name.
_FIELD_OF_PROBLEM = {
    "timeout_seconds": "timeout",
    "retry_delay_seconds": "retry_delay",
    "retry_max_delay_seconds": "retry_max_delay",
    "triggers[0].expression": "expression",
    "triggers[0].dialect": "expression",
    "triggers[0].timezone": "timezone",
    "triggers[0].every_seconds": "every",
    "triggers[0].at": "at",
    "triggers[0].misfire": "misfire",
    "triggers[0].kind": "when",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobForm:
    """The values of all fields, as text, and what is wrong with them."""

    values: Mapping[str, str]
    problems: tuple[Problem, ...] = ()

    def __getitem__(self, name: str) -> str:
        return self.values.get(name, "")

    def problem(self, name: str) -> Problem | None:
        """What is wrong with one field."""
        return next((p for p in self.problems if _field_of(p) == name), None)

    @property
    def unplaced(self) -> list[Problem]:
        """Problems that belong to no field of the form."""
        return [p for p in self.problems if _field_of(p) not in self.values]


def empty_form(*, timezone: str, executor_id: int | None) -> JobForm:
    """The form of a new job."""
    return JobForm(
        values=_DEFAULTS
        | {
            "timezone": timezone,
            "at_timezone": timezone,
            "executor_id": str(executor_id or ""),
        }
    )


def form_of_job(config: JobConfig, *, executor_id: int, revision: int, timezone: str) -> JobForm:
    """The form of a stored job; the first trigger is the one it edits."""
    raw = job_to_raw(config)
    timeout, timeout_unit = _in_units(config.timeout_ms)
    values = _DEFAULTS | {
        "executor_id": str(executor_id),
        "revision": str(revision),
        "name": config.name,
        "handler": config.handler,
        "description": config.description,
        "owner": config.owner,
        "tags": ", ".join(config.tags),
        "parameters": _pretty(config.parameters),
        "routing": config.routing.value,
        "priority": str(config.priority),
        "timeout": timeout,
        "timeout_unit": timeout_unit,
        "retries": str(config.retry.retries),
        "retry_delay": str(raw["retry_delay_seconds"]),
        "retry_max_delay": str(raw["retry_max_delay_seconds"]),
        "retry_backoff": raw["retry_backoff"],
        "retry_on_lost": "yes" if config.retry.on_lost else "",
        "timezone": timezone,
        "at_timezone": timezone,
    }
    if config.triggers:
        spec = config.triggers[0]
        values |= {"when": spec.kind.value, "misfire": spec.misfire.value}
        match spec.kind:
            case TriggerKind.CRON:
                values |= {
                    "expression": spec.expression or "",
                    "timezone": spec.timezone or "UTC",
                }
            case TriggerKind.FIXED_RATE:
                every, unit = _in_units(spec.every_ms)
                anchor = trigger_to_raw(spec)["anchor_at"]
                values |= {"every": every, "every_unit": unit, "anchor_at": anchor or ""}
            case TriggerKind.ONCE:
                values["at"] = local_input(spec.at or 0, timezone)
        further = [trigger_to_raw(other) for other in config.triggers[1:]]
        values["further_triggers"] = json.dumps(further) if further else ""
    return JobForm(values=values)


def form_as_sent(sent: Mapping[str, str], problems: Sequence[Problem] = ()) -> JobForm:
    """The form as somebody filled it in."""
    # A checkbox that is off is not sent; its default must not turn it on again.
    values = _DEFAULTS | {"retry_on_lost": ""}
    known = {name: sent[name] for name in values if name in sent}
    return JobForm(values=values | known, problems=tuple(problems))


def job_of_form(form: JobForm) -> dict[str, Any]:
    """The raw job that the form says.

    Raises:
        InvalidInput: what is typed cannot even be read as numbers, JSON, or a local time. Rules
            that concern the meaning are checked where the raw job goes.
    """
    problems: list[Problem] = []
    raw: dict[str, Any] = {
        "name": form["name"],
        "handler": form["handler"],
        "description": form["description"],
        "owner": form["owner"],
        "tags": [tag.strip() for tag in form["tags"].split(",") if tag.strip()],
        "parameters": _parameters(form, problems),
        "routing": form["routing"],
        "priority": _whole(form, "priority", problems),
        "timeout_seconds": _length(form, "timeout", form["timeout_unit"], problems),
        "retries": _whole(form, "retries", problems),
        "retry_delay_seconds": _length(form, "retry_delay", "s", problems),
        "retry_backoff": form["retry_backoff"],
        "retry_max_delay_seconds": _length(form, "retry_max_delay", "s", problems),
        "retry_on_lost": form["retry_on_lost"] == "yes",
        "triggers": [],
    }
    if form["when"] != "none":
        raw["triggers"].append(_trigger(form, problems))
    raw["triggers"] += _further(form, problems)
    if problems:
        raise InvalidInput(problems)
    return raw


def trigger_of_form(form: JobForm) -> dict[str, Any]:
    """The raw trigger that the form says; raises InvalidInput like `job_of_form`."""
    problems: list[Problem] = []
    raw = _trigger(form, problems)
    if problems:
        raise InvalidInput(problems)
    return raw


def further_triggers(form: JobForm) -> list[dict[str, Any]]:
    """Triggers that the form keeps but does not show; none when they cannot be read."""
    return _further(form, [])


_DEFAULTS: dict[str, str] = {
    "executor_id": "",
    "revision": "",
    "name": "",
    "handler": "",
    "description": "",
    "owner": "",
    "tags": "",
    "parameters": "{}",
    "when": "none",
    "expression": "",
    "timezone": "UTC",
    "every": "5",
    "every_unit": "m",
    "anchor_at": "",
    "at": "",
    "at_timezone": "UTC",
    "misfire": "fire_once",
    "further_triggers": "",
    "routing": "round_robin",
    "timeout": "",
    "timeout_unit": "m",
    "retries": "0",
    "retry_delay": "10",
    "retry_backoff": "exponential",
    "retry_max_delay": "3600",
    "retry_on_lost": "yes",
    "priority": "5",
}


def _field_of(problem: Problem) -> str:
    field = _FIELD_OF_PROBLEM.get(problem.field, problem.field)
    return "tags" if field.startswith("tags[") else field


def _trigger(form: JobForm, problems: list[Problem]) -> dict[str, Any]:
    raw: dict[str, Any] = {"kind": form["when"], "misfire": form["misfire"]}
    match form["when"]:
        case "cron":
            raw |= {"expression": form["expression"], "timezone": form["timezone"] or "UTC"}
        case "fixed_rate":
            raw["every_seconds"] = _length(form, "every", form["every_unit"], problems)
            raw["anchor_at"] = form["anchor_at"] or None
        case "once":
            raw["at"] = _local_instant(form, problems)
    return raw


def _further(form: JobForm, problems: list[Problem]) -> list[dict[str, Any]]:
    if not form["further_triggers"]:
        return []
    try:
        found = json.loads(form["further_triggers"])
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, list):
        return found
    problems.append(
        Problem(field="triggers", code="wrong_type", template="This must be a list of triggers.")
    )
    return []


def _parameters(form: JobForm, problems: list[Problem]) -> dict[str, Any]:
    try:
        return object_of_text(form["parameters"].strip() or "{}")
    except BadJson as error:
        problems.append(
            Problem(
                field="parameters", code=error.code, template=error.template, params=error.params
            )
        )
        return {}


def _whole(form: JobForm, name: str, problems: list[Problem]) -> int | None:
    text = form[name].strip()
    if not text:
        return None
    if re.fullmatch(r"-?[0-9]{1,9}", text):
        return int(text)
    problems.append(Problem(field=name, code="wrong_type", template="This must be a whole number."))
    return None


def _length(form: JobForm, name: str, unit: str, problems: list[Problem]) -> float | None:
    """Seconds, from a number in a unit."""
    text = form[name].strip().replace(",", ".")
    if not text:
        return None
    if re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{1,6})?", text):
        seconds = float(text) * UNITS.get(unit, 1)
        return int(seconds) if seconds.is_integer() else round(seconds, 6)
    problems.append(Problem(field=name, code="wrong_type", template="This must be a number."))
    return None


def _local_instant(form: JobForm, problems: list[Problem]) -> str | None:
    """ISO 8601 with offset, of a local date and time in a named zone."""
    text = form["at"].strip()
    if not text:
        return None
    zone = ZoneInfo(form["at_timezone"]) if form["at_timezone"] in time_zones() else UTC
    try:
        return datetime.fromisoformat(text).replace(tzinfo=zone).isoformat()
    except ValueError:
        problems.append(
            Problem(field="at", code="wrong_type", template="This must be a date and a time.")
        )
        return None


def _in_units(ms: int | None) -> tuple[str, str]:
    """A length as a number and the largest unit that keeps it whole."""
    if ms is None:
        return "", "m"
    for unit, seconds in reversed(UNITS.items()):
        if ms % (seconds * 1000) == 0:
            return str(ms // (seconds * 1000)), unit
    return f"{ms / 1000:g}", "s"


def _pretty(parameters: str) -> str:
    return msgspec.json.format(parameters, indent=2)
