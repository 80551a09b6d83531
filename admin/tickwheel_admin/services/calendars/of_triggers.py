"""What a job's triggers ask of calendars, checked when the job is saved."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.triggers.schedule import parse
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.store.calendars.calendars import read_calendars
from tickwheel_admin.store.calendars.edits import hold_calendars
from tickwheel_admin.store.database.clock import now_ms


def held_calendars(conn: sa.Connection, config: JobConfig) -> dict[str, Calendar]:
    """The calendars that the triggers of a job name; they stay as they are until the commit.

    Raises:
        InvalidInput: calendar.unknown, or trigger.never_fires when one takes away all that a
            trigger would still fire.
    """
    names = {spec.calendar for spec in config.triggers if spec.calendar is not None}
    if not names:
        return {}
    hold_calendars(conn, names)
    found = read_calendars(conn, names)
    check_calendars(config, found, now=now_ms(conn))
    return found


def look_at_calendars(conn: sa.Connection, config: JobConfig) -> None:
    """The same for a look only, for they may change at once; raises likewise."""
    names = {spec.calendar for spec in config.triggers if spec.calendar is not None}
    check_calendars(config, read_calendars(conn, names) if names else {}, now=now_ms(conn))


def check_calendars(config: JobConfig, found: Mapping[str, Calendar], *, now: int) -> None:
    """The same, of calendars that are held already."""
    problems = [
        problem
        for index, spec in enumerate(config.triggers)
        if (problem := _problem_of(spec, f"triggers[{index}].calendar", found, now=now))
    ]
    if problems:
        raise InvalidInput(problems)


def _problem_of(
    spec: TriggerSpec, field: str, known: Mapping[str, Calendar], *, now: int
) -> Problem | None:
    if spec.calendar is None:
        return None
    calendar = known.get(spec.calendar)
    if calendar is None:
        return Problem(
            field=field,
            code="calendar.unknown",
            template="There is no calendar named “%(name)s”.",
            params={"name": spec.calendar},
        )
    try:
        fires = parse(spec, saved_at=now, calendar=calendar).next_after(now - 1)
        would_fire = parse(spec, saved_at=now).next_after(now - 1)
    except ScheduleError as error:
        return Problem(
            field=field, code="calendar.invalid", template=error.template, params=error.params
        )
    if fires is not None or would_fire is None:
        return None
    return Problem(
        field=field,
        code="trigger.never_fires",
        template="This never fires: the calendar “%(name)s” excludes every one of its fires.",
        params={"name": spec.calendar},
    )
