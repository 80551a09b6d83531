"""The shape of calendars in requests and answers."""

from __future__ import annotations

from typing import Annotated, Required, TypedDict

from msgspec import Meta

from tickwheel_admin.api.answers import Instant, doc
from tickwheel_admin.domain.calendars.calendar import CalendarSense
from tickwheel_admin.domain.input.calendar import (
    MAX_CALENDAR_NAME_CHARS,
    MAX_DATES,
    MAX_DESCRIPTION_CHARS,
    MAX_EXCLUSIONS,
    MAX_WINDOWS,
)
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.web.input_fields import MAX_ID

_Id = Annotated[int, Meta(ge=1, le=MAX_ID)]


class TimeWindowJson(TypedDict, total=False):
    """A part of each day."""

    from_time: Required[str]
    to_time: Required[str]


class CronExclusionJson(TypedDict, total=False):
    """Instants that a cron expression takes away."""

    expression: Required[str]
    dialect: Dialect | None


class CalendarConfigJson(TypedDict, total=False):
    """Dates and times that a calendar takes away, or leaves."""

    name: Required[Annotated[str, Meta(max_length=MAX_CALENDAR_NAME_CHARS)]]
    description: Annotated[str, Meta(max_length=MAX_DESCRIPTION_CHARS)] | None
    sense: CalendarSense | None
    dates: Annotated[list[str], Meta(max_length=MAX_DATES)] | None
    yearly: Annotated[list[str] | None, doc("Such as `12-25`.")]
    month_days: list[Annotated[int, Meta(ge=1, le=31)]] | None
    weekdays: Annotated[list[str] | None, doc("Such as `mon`.")]
    windows: Annotated[list[TimeWindowJson], Meta(max_length=MAX_WINDOWS)] | None
    cron: Annotated[list[CronExclusionJson], Meta(max_length=MAX_EXCLUSIONS)] | None
    base: Annotated[str | None, doc("The name of the calendar that it is based on.")]


class CalendarChangeJson(CalendarConfigJson, total=False):
    """What a calendar shall be."""

    id: Annotated[_Id | None, doc("As in the address.")]
    version: Required[Annotated[_Id, doc("The version that the change is based on.")]]


class CalendarJson(TypedDict):
    """A calendar."""

    id: int
    version: int
    changed_at: Instant | None
    created_at: Instant | None
    used_by_triggers: int
    config: CalendarConfigJson


class CalendarUserJson(TypedDict):
    """A job whose triggers use the calendar."""

    job_id: int
    job_name: str
    executor_id: int
    executor_name: str
    triggers: int


class CalendarNameJson(TypedDict):
    """A calendar by name."""

    id: int
    name: str


class CalendarDetailJson(CalendarJson):
    """A calendar with what uses it."""

    used_by: list[CalendarUserJson]
    based_on_it: list[CalendarNameJson]


class ImportProblemJson(TypedDict):
    """A line that cannot be read."""

    line: int
    message: str


class ImportedDaysJson(TypedDict):
    """The days in a file."""

    dates: list[str]
    yearly: list[str]
    names: Annotated[dict[str, str], doc("What the days are called.")]
    problems: list[ImportProblemJson]
    more_problems: int
