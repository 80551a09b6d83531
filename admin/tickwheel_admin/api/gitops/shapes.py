"""The shape of documents and plans."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required, TypedDict

from msgspec import Meta

from tickwheel_admin.api.answers import ProblemJson, doc
from tickwheel_admin.api.jobs.config_types import JobConfigJson
from tickwheel_admin.api.jobs.shapes import ChangeJson
from tickwheel_admin.api.rule_types import AlarmRuleDocumentJson
from tickwheel_admin.domain.alarms import channel
from tickwheel_admin.domain.calendars.calendar import CalendarSense
from tickwheel_admin.domain.executors.executor import MAX_DESCRIPTION_CHARS
from tickwheel_admin.domain.input import calendar
from tickwheel_admin.domain.input.grants import MAX_GRANTS
from tickwheel_admin.domain.input.job import MAX_NAME_CHARS
from tickwheel_admin.domain.jobs.declared_job import CodeJobs
from tickwheel_admin.domain.pools import pool
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.gitops.objects import ChangeAction, ObjectType

_Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]


class ObjectChangeJson(TypedDict):
    """What becomes of one object."""

    action: ChangeAction
    type: ObjectType
    executor: str | None
    name: str
    id: Annotated[int | None, doc("Null: it is new.")]
    document: Annotated[int | None, doc("Its place in the request; null: it is deleted.")]
    owner: Annotated[str | None, doc("The label that it has until now.")]
    drift: Annotated[bool, doc("Somebody edited it since it was applied.")]
    allowed: Annotated[bool, doc("The caller may do this.")]
    differences: list[ChangeJson]


class ObjectPlanJson(TypedDict):
    """What would become of all objects of a request, or what became of them."""

    owner: str | None
    changes: Annotated[list[ObjectChangeJson], doc("Without what stays as it is.")]
    counts: Annotated[dict[str, int], doc("Objects by action.")]
    checked: Annotated[bool, doc("A transaction tried the changes, and was rolled back.")]
    allowed: Annotated[bool, doc("The caller may make all of the changes.")]
    problems: list[ProblemJson]
    fingerprint: Annotated[str | None, doc("Of documents and state; null: there are problems.")]


# --- documents, as editors check them ------------------------------------------------------------


class JobDocumentJson(JobConfigJson, total=False):
    """A job: what to run, and when. A document without `type` is one."""

    type: Literal["job"]
    executor: Annotated[_Name, doc("Left out where tickwheel.yaml names one.")]


class ExecutorDocumentJson(TypedDict, total=False):
    """A service whose nodes run jobs."""

    type: Required[Literal["executor"]]
    name: Required[Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9._-]{0,99}$")]]
    description: Annotated[str, Meta(max_length=MAX_DESCRIPTION_CHARS)] | None
    scripts: Annotated[bool | None, doc("Whether its jobs may have scripts.")]
    code_jobs: Annotated[CodeJobs | None, doc("What becomes of jobs declared in code.")]


class PoolDocumentJson(TypedDict, total=False):
    """Slots that the runs of several jobs share."""

    type: Required[Literal["pool"]]
    executor: Annotated[_Name | None, doc("Whose jobs may name it; left out: those of all.")]
    name: Required[Annotated[str, Meta(min_length=1, max_length=pool.MAX_NAME_CHARS)]]
    description: Annotated[str, Meta(max_length=pool.MAX_DESCRIPTION_CHARS)] | None
    slots: Required[Annotated[int, Meta(ge=0, le=pool.MAX_SLOTS)]]


_Day = Annotated[str, doc("Such as `2026-12-24`.")]
_DayOfYear = Annotated[str, doc("Such as `12-25`.")]
_Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


class WindowDocumentJson(TypedDict):
    """A part of each day."""

    from_time: Annotated[str, doc("Such as `08:30`.")]
    to_time: Annotated[str, doc("Such as `17:00`.")]


class ExclusionDocumentJson(TypedDict, total=False):
    """Times that a cron expression names."""

    expression: Required[Annotated[str, Meta(max_length=calendar.MAX_EXPRESSION_CHARS)]]
    dialect: Dialect | None


class CalendarDocumentJson(TypedDict, total=False):
    """Days and times that fires are taken away from, or left to."""

    type: Required[Literal["calendar"]]
    name: Required[Annotated[str, Meta(min_length=1, max_length=calendar.MAX_CALENDAR_NAME_CHARS)]]
    description: Annotated[str, Meta(max_length=calendar.MAX_DESCRIPTION_CHARS)] | None
    sense: CalendarSense | None
    dates: Annotated[list[_Day], Meta(max_length=calendar.MAX_DATES)] | None
    yearly: list[_DayOfYear] | None
    month_days: list[Annotated[int, Meta(ge=1, le=31)]] | None
    weekdays: list[_Weekday] | None
    windows: Annotated[list[WindowDocumentJson], Meta(max_length=calendar.MAX_WINDOWS)] | None
    cron: Annotated[list[ExclusionDocumentJson], Meta(max_length=calendar.MAX_EXCLUSIONS)] | None
    base: Annotated[str | None, doc("Name of the calendar that it adds to.")]


class UserRoleJson(TypedDict, total=False):
    """What a user may do with one executor, or with all."""

    executor: Annotated[_Name | None, doc("Left out: all executors.")]
    role: Required[Role]
    scripts: Annotated[bool | None, doc("May also edit scripts; with developer and admin.")]


class UserRolesDocumentJson(TypedDict):
    """All roles of a user who is there; an empty list takes them away."""

    type: Literal["user_roles"]
    name: Annotated[_Name, doc("How the user logs in.")]
    roles: Annotated[list[UserRoleJson], Meta(max_length=MAX_GRANTS)]


class SecretReferenceJson(TypedDict):
    """A secret of an executor, whose value is copied when the document is applied."""

    executor: _Name
    secret: Annotated[str, Meta(pattern="^[A-Za-z_][A-Za-z0-9_]{0,63}$")]


class AlarmChannelDocumentJson(TypedDict, total=False):
    """How people are told of alarms. Secrets that are left out stay as they are stored."""

    type: Required[Literal["alarm_channel"]]
    name: Required[Annotated[str, Meta(min_length=1, max_length=channel.MAX_NAME_CHARS)]]
    kind: Required[channel.ChannelKind]
    language: Annotated[str | None, doc("Of its messages, such as `en`.")]
    time_zone: Annotated[str | None, doc("IANA name.")]
    per_minute: Annotated[int, Meta(ge=1, le=channel.MAX_PER_MINUTE)] | None
    enabled: Annotated[bool | None, doc("Whether it sends.")]
    settings: Annotated[dict[str, str | None] | None, doc("As its kind has them.")]
    secrets: Annotated[dict[str, SecretReferenceJson | None] | None, doc("Null forgets one.")]


DOCUMENTS: dict[ObjectType, Any] = {
    ObjectType.JOB: JobDocumentJson,
    ObjectType.EXECUTOR: ExecutorDocumentJson,
    ObjectType.USER_ROLES: UserRolesDocumentJson,
    ObjectType.CALENDAR: CalendarDocumentJson,
    ObjectType.POOL: PoolDocumentJson,
    ObjectType.CHANNEL: AlarmChannelDocumentJson,
    ObjectType.RULE: AlarmRuleDocumentJson,
}
