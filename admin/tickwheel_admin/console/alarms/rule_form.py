"""The form of a rule: what its fields mean as the raw input of a rule, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from multidict import MultiMapping

from tickwheel_admin.console.frame.units import FormFields, in_units, whole_number
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.rule import LIMITS, AlarmRule, RuleScope, scopes_of
from tickwheel_admin.domain.errors import InvalidInput, Problem

_DEFAULTS: dict[str, str] = {
    "version": "",
    "name": "",
    "kind": AlarmKind.FAILED.value,
    "scope": RuleScope.INSTALLATION.value,
    "executor_id": "",
    "job_id": "",
    "tag": "",
    "severity": "error",
    "count": "",
    "seconds": "",
    "seconds_unit": "m",
    "factor": "",
    "by": "",
    "timezone": "",
    "calendar": "",
    "quiet_from": "",
    "quiet_to": "",
    "quiet_calendar": "",
    "quiet_timezone": "",
    "quiet_pierced": "",
    "repeat": "",
    "repeat_unit": "h",
    "escalate": "",
    "escalate_unit": "m",
    "own_text": "",
    "tell_recovery": "on",
    "additional": "",
    "enabled": "on",
}
_QUIET = ("quiet_from", "quiet_to", "quiet_calendar")
_PLACES = {
    "limits.count": "count",
    "limits.seconds": "seconds",
    "limits.factor": "factor",
    "limits.by": "by",
    "limits.timezone": "timezone",
    "limits.calendar": "calendar",
    "quiet.from_time": "quiet_from",
    "quiet.to_time": "quiet_to",
    "quiet.calendar": "quiet_calendar",
    "quiet.timezone": "quiet_timezone",
    "repeat_every_seconds": "repeat",
    "escalate_after_seconds": "escalate",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRuleForm:
    """The values of all fields, as text, and what is wrong with them."""

    values: Mapping[str, str]
    channels: tuple[int, ...] = ()
    escalate_to: tuple[int, ...] = ()
    problems: tuple[Problem, ...] = ()

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    def name_of(self, name: str) -> str:
        """Name of a field in the form."""
        return name

    def id_of(self, name: str) -> str:
        """Id of a field in the page."""
        return f"r-{name.replace('_', '-')}"

    def problem(self, name: str) -> Problem | None:
        """What is wrong with one field."""
        return next((p for p in self.problems if _place(p) == name), None)

    @property
    def unplaced(self) -> list[Problem]:
        """Problems that belong to no field of the form."""
        known = {*self.values, "channels", "escalate_to"}
        return [p for p in self.problems if _place(p) not in known]

    @property
    def kind(self) -> AlarmKind:
        """What the rule is about."""
        return AlarmKind(self.values["kind"])

    @property
    def limits(self) -> tuple[str, ...]:
        """Names of the limits that a rule of this kind has."""
        needed, possible = LIMITS[self.kind]
        return (*needed, *possible)

    @property
    def scopes(self) -> tuple[RuleScope, ...]:
        """What a rule of this kind may be about."""
        return scopes_of(self.kind)

    @property
    def opens_more(self) -> bool:
        """Whether what is seldom needed has something to show."""
        names = (*_QUIET, "repeat", "escalate", "own_text", "additional")
        return any(self[name] or self.problem(name) for name in names) or bool(self.escalate_to)

    def refused(self, problems: Sequence[Problem]) -> AlarmRuleForm:
        """The same, with what is wrong."""
        return replace(self, problems=tuple(problems))


def new_rule_form(query: Mapping[str, str]) -> AlarmRuleForm:
    """The form of a new rule about what an address names; what means nothing is left out."""
    values = dict(_DEFAULTS)
    if query.get("kind") in {kind.value for kind in LIMITS}:
        values["kind"] = query["kind"]
    for name in ("executor_id", "job_id"):
        values[name] = str(whole_number(query.get(name)) or "")
    values["tag"] = query.get("tag", "")[:50]
    wanted = query.get("scope", "")
    if not wanted:
        wanted = "job" if values["job_id"] else "executor" if values["executor_id"] else ""
    scopes = [each.value for each in scopes_of(AlarmKind(values["kind"]))]
    values["scope"] = wanted if wanted in scopes else scopes[0]
    return AlarmRuleForm(values=values)


def rule_form_as_sent(sent: MultiMapping[str]) -> AlarmRuleForm:
    """What came from the browser, as it was typed."""
    values = {name: sent.get(name, "") for name in _DEFAULTS}
    if values["kind"] not in {kind.value for kind in LIMITS}:
        values["kind"] = _DEFAULTS["kind"]
    return AlarmRuleForm(
        values=values,
        channels=_ids(sent.getall("channels", [])),
        escalate_to=_ids(sent.getall("escalate_to", [])),
    )


def form_of_rule(rule: AlarmRule) -> AlarmRuleForm:
    """The form of a stored rule."""
    limits, quiet = rule.limits, rule.quiet
    seconds = _length(limits.seconds, "m")
    repeat, escalate = _length(rule.repeat_every_s, "h"), _length(rule.escalate_after_s, "m")
    values = {
        "version": str(rule.version),
        "name": rule.name,
        "kind": rule.kind.value,
        "scope": rule.scope.value,
        "executor_id": str(rule.executor_id or ""),
        "job_id": str(rule.job_id or ""),
        "tag": rule.tag or "",
        "severity": rule.severity.value,
        "count": "" if limits.count is None else str(limits.count),
        "seconds": seconds[0],
        "seconds_unit": seconds[1],
        "factor": "" if limits.factor is None else f"{limits.factor:g}",
        "by": limits.by or "",
        "timezone": limits.timezone or "",
        "calendar": limits.calendar or "",
        "repeat": repeat[0],
        "repeat_unit": repeat[1],
        "escalate": escalate[0],
        "escalate_unit": escalate[1],
        "own_text": rule.own_text,
        "tell_recovery": "on" if rule.tell_recovery else "",
        "additional": "on" if rule.additional else "",
        "enabled": "on" if rule.enabled else "",
        "quiet_from": "" if quiet is None else quiet.from_time or "",
        "quiet_to": "" if quiet is None else quiet.to_time or "",
        "quiet_calendar": "" if quiet is None else quiet.calendar or "",
        "quiet_timezone": "" if quiet is None else quiet.timezone or "",
        "quiet_pierced": "on" if quiet is not None and quiet.pierced_by_errors else "",
    }
    return AlarmRuleForm(values=values, channels=rule.channels, escalate_to=rule.escalate_to)


def rule_of_form(form: AlarmRuleForm) -> dict[str, Any]:
    """What was typed, as programs send it.

    Raises:
        InvalidInput: a number cannot be read as one.
    """
    fields = FormFields(values=form.values, problems=[])
    scope = RuleScope(form["scope"]) if form["scope"] in set(RuleScope) else None
    limits: dict[str, Any] = {}
    for name in form.limits:
        match name:
            case "count":
                limits[name] = fields.whole(name)
            case "seconds":
                limits[name] = _whole(fields.length(name, form["seconds_unit"]))
            case "factor":
                limits[name] = fields.number(name)
            case _:
                limits[name] = fields.text(name) or None
    raw: dict[str, Any] = {
        "name": fields.text("name"),
        "kind": form["kind"],
        "scope": form["scope"],
        "severity": form["severity"],
        "channels": list(form.channels),
        "limits": {name: value for name, value in limits.items() if value is not None},
        "own_text": form["own_text"].replace("\r\n", "\n"),
        "repeat_every_seconds": _whole(fields.length("repeat", form["repeat_unit"])),
        "escalate_after_seconds": _whole(fields.length("escalate", form["escalate_unit"])),
        "escalate_to": list(form.escalate_to),
        "tell_recovery": bool(form["tell_recovery"]),
        "additional": bool(form["additional"]),
        "enabled": bool(form["enabled"]),
    }
    if scope in (RuleScope.EXECUTOR, RuleScope.TAG):
        raw["executor_id"] = fields.whole("executor_id")
    if scope is RuleScope.JOB:
        raw["job_id"] = fields.whole("job_id")
    if scope is RuleScope.TAG:
        raw["tag"] = fields.text("tag")
    if any(fields.text(name) for name in _QUIET):
        raw["quiet"] = {
            "from_time": fields.text("quiet_from") or None,
            "to_time": fields.text("quiet_to") or None,
            "calendar": fields.text("quiet_calendar") or None,
            "timezone": fields.text("quiet_timezone") or None,
            "pierced_by_errors": bool(form["quiet_pierced"]),
        }
    if fields.problems:
        raise InvalidInput(fields.problems)
    return raw


def _place(problem: Problem) -> str:
    return _PLACES.get(problem.field, problem.field)


def _ids(texts: Sequence[str]) -> tuple[int, ...]:
    return tuple(n for text in texts if (n := whole_number(text)) is not None)


def _length(seconds: int | None, unit: str) -> tuple[str, str]:
    return ("", unit) if seconds is None else in_units(seconds * 1000)


def _whole(seconds: float | None) -> float | int | None:
    """Seconds as programs send them; a part of a second stays, for the refusal."""
    return int(seconds) if seconds is not None and seconds == int(seconds) else seconds
