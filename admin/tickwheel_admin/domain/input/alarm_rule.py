"""Rules of alarms as people and programs write them: field names, limits, defaults, and back.

`parse_alarm_rule` notes every problem before it refuses; `alarm_rule_to_raw` is its exact inverse.
That executor, job, channels and calendars exist is checked where a rule is saved.
"""

from __future__ import annotations

from typing import Any

from tickwheel_admin.domain.alarms.deadlines import deadline_schedule
from tickwheel_admin.domain.alarms.job_alarm import JobAlarm
from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.domain.alarms.own_text import MAX_SOURCE_CHARS, OwnTextError, check_own_text
from tickwheel_admin.domain.alarms.rule import (
    GROUP_WINDOW_S,
    LIMITS,
    RULE_KINDS,
    AlarmRule,
    QuietHours,
    RuleLimits,
    RuleScope,
    scopes_of,
)
from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.wall_clock_fields import read_list, read_time
from tickwheel_admin.domain.schedule.zones import zone_of

MAX_NAME_CHARS = 100
MAX_TAG_CHARS = 50
MAX_CHANNELS = 20
MAX_ID = 2**53 - 1
MAX_ZONE_CHARS = 100
MAX_CALENDAR_NAME_CHARS = 100
DAY_S = 86_400
MIN_REPEAT_S, MAX_REPEAT_S = 60, 30 * DAY_S
MAX_WINDOW_S = 3_600
MAX_STREAK = 24
MAX_FACTOR = 1_000.0

RULE_FIELDS = (
    "name", "kind", "scope", "executor_id", "job_id", "tag", "additional", "severity", "channels",
    "limits", "own_text", "quiet", "repeat_every_seconds", "escalate_after_seconds", "escalate_to",
    "tell_recovery", "group_window_seconds", "enabled",
)  # fmt: skip
_LIMIT_FIELDS = ("count", "seconds", "factor", "by", "timezone", "calendar")
_QUIET_FIELDS = ("from_time", "to_time", "calendar", "timezone", "pierced_by_errors")
_ID_RULE = "This must be the id of a channel, a whole number."
# A rule of this scope needs this field, and no other scope has it.
_FIELD_OF_SCOPE = {RuleScope.JOB: "job_id", RuleScope.TAG: "tag"}


def parse_alarm_rule(raw: object, *, rule_id: int = 0, version: int = 1) -> AlarmRule:
    """One rule from a request.

    Raises:
        InvalidInput: with every problem found.
    """
    problems: list[Problem] = []
    fields = Fields(raw, "", problems)
    fields.only(RULE_FIELDS)
    if fields.is_object:
        fields.require("kind")
    kind = AlarmKind(
        fields.choice("kind", [each.value for each in RULE_KINDS], default=AlarmKind.FAILED.value)
    )
    scope = fields.member("scope", RuleScope, default=RuleScope.INSTALLATION)
    rule = AlarmRule(
        id=rule_id,
        version=version,
        name=fields.text("name", max_chars=MAX_NAME_CHARS, required=fields.is_object, is_name=True),
        kind=kind,
        scope=scope,
        executor_id=_read_id(fields, "executor_id"),
        job_id=_read_id(fields, "job_id"),
        tag=fields.text("tag", max_chars=MAX_TAG_CHARS) or None,
        channels=_read_channels(fields, "channels"),
        escalate_to=_read_channels(fields, "escalate_to"),
        **read_rule_body(fields, kind),
    )
    _check_scope(fields, rule)
    check_escalation(fields, rule)
    raise_if_any(problems)
    return rule


def alarm_rule_to_raw(rule: AlarmRule) -> dict[str, Any]:
    """What `parse_alarm_rule` reads as this rule; every field of its kind is named."""
    return {
        "name": rule.name,
        "kind": rule.kind.value,
        "scope": rule.scope.value,
        "executor_id": rule.executor_id,
        "job_id": rule.job_id,
        "tag": rule.tag,
        **rule_body_to_raw(rule),
        "channels": list(rule.channels),
        "escalate_to": list(rule.escalate_to),
    }


def read_rule_body(fields: Fields, kind: AlarmKind) -> dict[str, Any]:
    """What every rule says beside its name, kind, place and channels."""
    return {
        "additional": fields.boolean("additional", default=False),
        "severity": fields.member("severity", Severity, default=Severity.ERROR),
        "limits": _read_limits(fields, kind),
        "own_text": _read_own_text(fields),
        "quiet": _read_quiet(fields),
        "repeat_every_s": _read_seconds(
            fields, "repeat_every_seconds", low=MIN_REPEAT_S, high=MAX_REPEAT_S
        ),
        "escalate_after_s": _read_seconds(
            fields, "escalate_after_seconds", low=MIN_REPEAT_S, high=MAX_REPEAT_S
        ),
        "tell_recovery": fields.boolean("tell_recovery", default=True),
        "group_window_s": fields.integer(
            "group_window_seconds", low=0, high=MAX_WINDOW_S, default=GROUP_WINDOW_S
        ),
        "enabled": fields.boolean("enabled", default=True),
    }


def rule_body_to_raw(rule: AlarmRule | JobAlarm) -> dict[str, Any]:
    """What `read_rule_body` reads as this."""
    needed, possible = LIMITS[rule.kind]
    quiet = rule.quiet
    return {
        "additional": rule.additional,
        "severity": rule.severity.value,
        "limits": {name: getattr(rule.limits, name) for name in (*needed, *possible)},
        "own_text": rule.own_text,
        "quiet": None if quiet is None else {name: getattr(quiet, name) for name in _QUIET_FIELDS},
        "repeat_every_seconds": rule.repeat_every_s,
        "escalate_after_seconds": rule.escalate_after_s,
        "tell_recovery": rule.tell_recovery,
        "group_window_seconds": rule.group_window_s,
        "enabled": rule.enabled,
    }


# --- parts ---------------------------------------------------------------------------------------


def _read_id(fields: Fields, name: str) -> int | None:
    if not fields.has(name):
        return None
    return fields.integer(name, low=1, high=MAX_ID, default=1)


def _read_seconds(fields: Fields, name: str, *, low: int, high: int) -> int | None:
    if not fields.has(name):
        return None
    return fields.integer(name, low=low, high=high, default=low)


def _read_channels(fields: Fields, name: str) -> tuple[int, ...]:
    def number(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_ID:
            raise ValueError(value)
        return value

    found = read_list(fields, name, number, limit=MAX_CHANNELS, template=_ID_RULE)
    return tuple(dict.fromkeys(found))


def _read_zone(fields: Fields) -> str | None:
    zone = fields.text("timezone", max_chars=MAX_ZONE_CHARS) or None
    try:
        zone_of(zone)
    except ScheduleError as error:
        fields.refuse("timezone", "timezone.unknown", error.template, **error.params)
        return None
    return zone


def _read_limits(fields: Fields, kind: AlarmKind) -> RuleLimits:
    raw = fields.raw.get("limits")
    limits = Fields({} if raw is None else raw, fields.where("limits"), fields.problems)
    limits.only(_LIMIT_FIELDS)
    needed, possible = LIMITS[kind]
    for name in _LIMIT_FIELDS:
        if name in needed:
            limits.require(name)
        elif name not in possible and limits.has(name):
            limits.refuse(
                name, "does_not_apply", "A rule of kind %(kind)s has no such limit.", kind=kind
            )
    if kind is AlarmKind.SLOW and not limits.has("seconds") and not limits.has("factor"):
        limits.refuse("seconds", "required", "Give “seconds”, “factor”, or both.")
    by = read_time(limits, "by", default="") or None
    found = RuleLimits(
        count=limits.integer("count", low=2, high=MAX_STREAK, default=2)
        if limits.has("count")
        else None,
        seconds=_read_seconds(limits, "seconds", low=1, high=7 * DAY_S),
        factor=limits.number("factor", low=1.1, high=MAX_FACTOR, default=1.1)
        if limits.has("factor")
        else None,
        by=by,
        timezone=_read_zone(limits),
        calendar=limits.text("calendar", max_chars=MAX_CALENDAR_NAME_CHARS) or None,
    )
    if by is not None and kind is AlarmKind.DEADLINE_MISSED:
        deadline_schedule(found)  # its zone is known by now, so it can be computed
    return found


def _read_own_text(fields: Fields) -> str:
    source = fields.text("own_text", max_chars=MAX_SOURCE_CHARS, lines=True)
    try:
        check_own_text(source)
    except OwnTextError as error:
        fields.refuse("own_text", "own_text.invalid", error.template, **error.params)
        return ""
    return source


def _read_quiet(fields: Fields) -> QuietHours | None:
    if not fields.has("quiet"):
        return None
    quiet = Fields(fields.raw["quiet"], fields.where("quiet"), fields.problems)
    quiet.only(_QUIET_FIELDS)
    found = QuietHours(
        from_time=read_time(quiet, "from_time", default="") or None,
        to_time=read_time(quiet, "to_time", default="") or None,
        calendar=quiet.text("calendar", max_chars=MAX_CALENDAR_NAME_CHARS) or None,
        timezone=_read_zone(quiet),
        pierced_by_errors=quiet.boolean("pierced_by_errors", default=False),
    )
    if quiet.is_object:
        if quiet.has("from_time") != quiet.has("to_time"):
            missing = "to_time" if quiet.has("from_time") else "from_time"
            quiet.refuse(missing, "required", "Quiet hours of a day need both ends.")
        elif found.from_time is not None and found.from_time == found.to_time:
            quiet.refuse("to_time", "quiet.all_day", "This would be quiet all day; disable it.")
        elif found.from_time is None and found.calendar is None and not quiet.has("from_time"):
            quiet.refuse(
                "from_time", "required", "Quiet hours need from_time and to_time, or a calendar."
            )
    return found


# --- what must fit together ----------------------------------------------------------------------


def _check_scope(fields: Fields, rule: AlarmRule) -> None:
    allowed = scopes_of(rule.kind)
    if rule.scope not in allowed:
        fields.refuse(
            "scope",
            "does_not_apply",
            "A rule of kind %(kind)s can only be about %(scopes)s.",
            kind=rule.kind.value,
            scopes=", ".join(each.value for each in allowed),
        )
    if rule.scope is RuleScope.EXECUTOR:
        fields.require("executor_id")
    elif rule.scope is not RuleScope.TAG and rule.executor_id is not None:
        _refuse_field(fields, "executor_id", rule.scope)
    for scope, name in _FIELD_OF_SCOPE.items():
        if rule.scope is scope:
            fields.require(name)
        elif fields.has(name):
            _refuse_field(fields, name, rule.scope)
    if rule.tag is not None and "," in rule.tag:
        fields.refuse("tag", "tag.invalid", "A tag has no comma.")


def _refuse_field(fields: Fields, name: str, scope: RuleScope) -> None:
    fields.refuse(
        name,
        "does_not_apply",
        "A rule of scope %(scope)s has no field “%(name)s”.",
        scope=scope.value,
        name=name,
    )


def check_escalation(fields: Fields, rule: AlarmRule | JobAlarm) -> None:
    """Note when a rule says to whom it escalates and not when, or the other way round."""
    if rule.escalate_after_s is not None and not rule.escalate_to:
        fields.refuse("escalate_to", "required", "Say by which channels it is escalated.")
    elif rule.escalate_after_s is None and rule.escalate_to:
        fields.refuse("escalate_after_seconds", "required", "Say after how many seconds.")
