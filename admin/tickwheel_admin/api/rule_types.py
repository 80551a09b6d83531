"""The types of alarm rules as requests and answers write them, of jobs and of all else.

Fields without meaning are null, which counts as left out.
"""

from __future__ import annotations

from typing import Annotated, Literal, Required, TypedDict

from msgspec import Meta

from tickwheel_admin.api.answers import doc
from tickwheel_admin.domain.alarms.kind import Severity
from tickwheel_admin.domain.alarms.own_text import MAX_SOURCE_CHARS
from tickwheel_admin.domain.alarms.rule import RULE_KINDS, RuleScope, scopes_of
from tickwheel_admin.domain.input.alarm_rule import (
    DAY_S,
    MAX_CALENDAR_NAME_CHARS,
    MAX_CHANNELS,
    MAX_FACTOR,
    MAX_NAME_CHARS,
    MAX_REPEAT_S,
    MAX_STREAK,
    MAX_TAG_CHARS,
    MAX_WINDOW_S,
    MAX_ZONE_CHARS,
    MIN_REPEAT_S,
)
from tickwheel_admin.web.input_fields import MAX_ID

_Kind = Annotated[str, Meta(extra_json_schema={"enum": [kind.value for kind in RULE_KINDS]})]
_KindOfJob = Annotated[
    str,
    Meta(
        extra_json_schema={
            "enum": [kind.value for kind in RULE_KINDS if RuleScope.JOB in scopes_of(kind)]
        }
    ),
]
_Name = Annotated[str, Meta(max_length=MAX_NAME_CHARS)]
_Zone = Annotated[str, Meta(max_length=MAX_ZONE_CHARS)]
_Calendar = Annotated[str, Meta(max_length=MAX_CALENDAR_NAME_CHARS)]
_Time = Annotated[str, doc("Of the day, such as `08:30`.")]
_Repeat = Annotated[int, Meta(ge=MIN_REPEAT_S, le=MAX_REPEAT_S)]
_ChannelIds = Annotated[list[Annotated[int, Meta(ge=1, le=MAX_ID)]], Meta(max_length=MAX_CHANNELS)]
_ChannelNames = Annotated[list[_Name], Meta(max_length=MAX_CHANNELS)]


class RuleLimitsJson(TypedDict, total=False):
    """From what on an alarm is raised, as its kind has it."""

    count: Annotated[int, Meta(ge=2, le=MAX_STREAK)] | None
    seconds: Annotated[int, Meta(ge=1, le=7 * DAY_S)] | None
    factor: Annotated[float, Meta(ge=1.1, le=MAX_FACTOR)] | None
    by: _Time | None
    timezone: _Zone | None
    calendar: _Calendar | None


class QuietHoursJson(TypedDict, total=False):
    """When nobody is told."""

    from_time: _Time | None
    to_time: _Time | None
    calendar: _Calendar | None
    timezone: _Zone | None
    pierced_by_errors: bool | None


class _RuleBody(TypedDict, total=False):
    additional: Annotated[bool | None, doc("It holds beside those that are closer to a job.")]
    severity: Severity | None
    limits: RuleLimitsJson | None
    own_text: Annotated[str, Meta(max_length=MAX_SOURCE_CHARS)] | None
    quiet: QuietHoursJson | None
    repeat_every_seconds: _Repeat | None
    escalate_after_seconds: _Repeat | None
    tell_recovery: bool | None
    group_window_seconds: Annotated[int, Meta(ge=0, le=MAX_WINDOW_S)] | None
    enabled: bool | None


class JobAlarmJson(_RuleBody, total=False):
    """A rule about one job, as part of its configuration; channels are named."""

    kind: Required[_KindOfJob]
    name: Annotated[_Name | None, doc("Its kind, if it is left out.")]
    channels: _ChannelNames | None
    escalate_to: _ChannelNames | None


class AlarmRuleConfigJson(_RuleBody, total=False):
    """A rule: who is told of what."""

    name: Required[_Name]
    kind: Required[_Kind]
    scope: RuleScope | None
    executor_id: Annotated[int, Meta(ge=1, le=MAX_ID)] | None
    job_id: Annotated[int, Meta(ge=1, le=MAX_ID)] | None
    tag: Annotated[str, Meta(max_length=MAX_TAG_CHARS)] | None
    channels: _ChannelIds | None
    escalate_to: _ChannelIds | None


class AlarmRuleDocumentJson(_RuleBody, total=False):
    """A rule about a tag, an executor or the installation; those of a job are part of the job."""

    type: Required[Literal["alarm_rule"]]
    name: Required[_Name]
    kind: Required[_Kind]
    scope: Literal["installation", "executor", "tag"] | None
    executor: Annotated[str | None, doc("Its name; of scope `executor`, and `tag`.")]
    tag: Annotated[str, Meta(max_length=MAX_TAG_CHARS)] | None
    channels: _ChannelNames | None
    escalate_to: _ChannelNames | None
