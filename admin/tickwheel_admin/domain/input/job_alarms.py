"""The alarm rules of a job as people and programs write them, in the fields of a rule of the API.

What scope says is left out, and channels are named. That channels and calendars exist is checked
where the job is saved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tickwheel_admin.domain.alarms.job_alarm import JobAlarm
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.rule import RULE_KINDS, RuleScope, scopes_of
from tickwheel_admin.domain.fields import Fields, is_clean
from tickwheel_admin.domain.input.alarm_rule import (
    MAX_CHANNELS,
    MAX_NAME_CHARS,
    RULE_FIELDS,
    check_escalation,
    read_rule_body,
    rule_body_to_raw,
)
from tickwheel_admin.domain.names import normal_name
from tickwheel_admin.domain.schedule.wall_clock_fields import read_list

MAX_ALARMS = 20
_OF_SCOPE = frozenset({"scope", "executor_id", "job_id", "tag"})
JOB_ALARM_FIELDS = tuple(name for name in RULE_FIELDS if name not in _OF_SCOPE)
_KINDS = tuple(kind for kind in RULE_KINDS if RuleScope.JOB in scopes_of(kind))
_NAME_RULE = "This must be the name of a channel, a text of 1 to 100 characters."


def read_job_alarms(fields: Fields) -> tuple[JobAlarm, ...]:
    """The field "alarms" of a job; what breaks a rule is noted and left out."""
    if not fields.has("alarms"):
        return ()
    value = fields.raw["alarms"]
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        fields.refuse("alarms", "wrong_type", "This must be a list of alarm rules.")
        return ()
    if len(value) > MAX_ALARMS:
        fields.refuse("alarms", "too_many", "At most %(limit)d, please.", limit=MAX_ALARMS)
        return ()
    found: dict[str, JobAlarm] = {}
    for index, raw in enumerate(value):
        each = Fields(raw, fields.where(f"alarms[{index}]"), fields.problems)
        alarm = _read_alarm(each)
        if alarm.name in found:
            each.refuse(
                "name",
                "duplicate",
                "Another alarm of this job is named “%(name)s”. Give one of them another name.",
                name=alarm.name,
            )
        found.setdefault(alarm.name, alarm)
    return tuple(found.values())


def job_alarm_to_raw(alarm: JobAlarm) -> dict[str, Any]:
    """What `read_job_alarms` reads as this; every field of its kind is named."""
    return {
        "name": alarm.name,
        "kind": alarm.kind.value,
        **rule_body_to_raw(alarm),
        "channels": list(alarm.channels),
        "escalate_to": list(alarm.escalate_to),
    }


def without_nothing(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A raw alarm without what says nothing, for texts that people read."""
    shown = {}
    for name, value in raw.items():
        kept = without_nothing(value) if isinstance(value, Mapping) else value
        if kept is not None and kept != "" and kept != [] and kept != {}:
            shown[name] = kept
    return shown


def _read_alarm(fields: Fields) -> JobAlarm:
    fields.only(JOB_ALARM_FIELDS)
    if fields.is_object:
        fields.require("kind")
    kind = AlarmKind(
        fields.choice("kind", [each.value for each in _KINDS], default=AlarmKind.FAILED.value)
    )
    alarm = JobAlarm(
        name=fields.text("name", max_chars=MAX_NAME_CHARS, is_name=True) or kind.value,
        kind=kind,
        channels=_read_names(fields, "channels"),
        escalate_to=_read_names(fields, "escalate_to"),
        **read_rule_body(fields, kind),
    )
    check_escalation(fields, alarm)
    return alarm


def _read_names(fields: Fields, name: str) -> tuple[str, ...]:
    def channel(value: object) -> str:
        text = normal_name(value) if isinstance(value, str) else ""
        if not 0 < len(text) <= MAX_NAME_CHARS or not is_clean(text):
            raise ValueError(value)
        return text

    found = read_list(fields, name, channel, limit=MAX_CHANNELS, template=_NAME_RULE)
    return tuple(dict.fromkeys(found))
