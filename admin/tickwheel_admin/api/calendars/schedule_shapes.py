"""The shape of what the API tells of schedules."""

from __future__ import annotations

from typing import Annotated, TypedDict

from tickwheel_admin.api.answers import Instant, doc
from tickwheel_admin.domain.triggers.preview import Mark


class LocalFireJson(TypedDict):
    """A fire on the clocks of the trigger's zone."""

    at: Annotated[Instant, doc("With the offset of the zone.")]
    mark: Annotated[Mark | None, doc("What the clocks do then.")]


class RemovedDayJson(TypedDict):
    """A day without fires, and the calendar that takes them away."""

    date: str
    calendar: str


class SecondOpinionJson(TypedDict):
    """Where another reader of cron expressions sees other instants."""

    message: str
    ours: str | None
    theirs: str | None


class SchedulePreviewJson(TypedDict):
    """A trigger in words, and its next fires."""

    description: str
    details: list[str]
    fires: list[Instant]
    local_fires: list[LocalFireJson]
    removed: list[RemovedDayJson]
    second_opinion: SecondOpinionJson | None


class ScheduleInWordsJson(TypedDict):
    """A trigger in words."""

    description: str
    details: list[str]


class ReasonJson(TypedDict):
    """Why a trigger does not fire on a date."""

    code: str
    message: str


class ExplanationJson(TypedDict):
    """What a trigger does on a date."""

    fires: list[Instant]
    reasons: list[ReasonJson]


class HeatRowJson(TypedDict):
    """The fires of an executor."""

    executor_id: int
    executor_name: str
    count: int
    cells: list[int]


class HeatOfJobJson(HeatRowJson):
    """The fires of a job."""

    job_id: int | None
    job_name: str | None


class JobInMinuteJson(TypedDict):
    """A job that fires in a minute."""

    job_id: int
    job_name: str
    count: int


class BusyMinuteJson(TypedDict):
    """A minute with many fires."""

    at: Instant | None
    count: int
    jobs: list[JobInMinuteJson]


class UpcomingJson(TypedDict):
    """How many fires come."""

    start: Instant | None
    end: Instant | None
    zone: str
    cell_minutes: int
    cells: list[int]
    total: int
    executors: list[HeatRowJson]
    jobs: Annotated[list[HeatOfJobJson], doc("The 50 fullest.")]
    busiest: list[BusyMinuteJson]
    approximate: Annotated[bool, doc("Fires of very dense triggers were sampled.")]
    truncated: Annotated[bool, doc("There were too many triggers to count them all.")]
    all_paused: bool
