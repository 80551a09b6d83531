"""Cron expressions of the unix dialect: five fields or a macro, in a time zone; by croniter."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from threading import Lock
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from croniter import croniter
from croniter.croniter import CroniterBadDateError, CroniterError

from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.trigger import TriggerSpec

MAX_EXPRESSION_CHARS = 500
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
# Cron's own alphabet. croniter would also take hashed and random fields (`H`, `R`), which are not
# cron and would fire at other instants on every admin.
_FIELD = re.compile(
    r"(?:[0-9*,/#-]|L|SUN|MON|TUE|WED|THU|FRI|SAT"
    r"|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC)+",
    re.IGNORECASE,
)
_EARLIEST = datetime(1970, 1, 2, tzinfo=UTC)
_LATEST = datetime(2099, 1, 1, tzinfo=UTC)


class UnixCron:
    """Minute, hour, day of month, month, day of week; the two days are joined by OR."""

    def __init__(self, spec: TriggerSpec) -> None:
        self._zone = _zone(spec.timezone)
        expression = _checked(spec.expression, spec.dialect)
        try:
            self._cron = croniter(expression, datetime(2024, 1, 1, tzinfo=self._zone))
        except (CroniterError, ValueError, KeyError) as error:
            raise ScheduleError(
                "expression",
                "“%(expression)s” is not a cron expression: %(reason)s",
                expression=spec.expression,
                reason=str(error),
            ) from error
        # croniter keeps its position in the object, and planning runs in threads.
        self._lock = Lock()
        if self.next_after(0) is None:
            raise ScheduleError(
                "expression",
                "“%(expression)s” never fires: no date matches it.",
                expression=spec.expression,
            )

    def next_after(self, instant: int) -> int | None:
        start = datetime.fromtimestamp(instant // 1000, UTC)
        return self._step(max(start, _EARLIEST), forward=True)

    def last_before(self, instant: int) -> int | None:
        start = datetime.fromtimestamp(-(-instant // 1000), UTC)
        return self._step(min(start, _LATEST), forward=False)

    def _step(self, start: datetime, *, forward: bool) -> int | None:
        with self._lock:
            self._cron.set_current(start.astimezone(self._zone), force=True)
            try:
                found = self._cron.get_next(datetime) if forward else self._cron.get_prev(datetime)
            except CroniterBadDateError:
                return None
        return int(found.timestamp()) * 1000


def _checked(expression: str | None, dialect: str | None) -> str:
    text = " ".join((expression or "").split())
    if not text:
        raise ScheduleError(
            "expression", "A cron trigger needs an expression, such as 0 9 * * 1-5."
        )
    if dialect not in (None, "unix"):
        raise ScheduleError(
            "dialect", "“%(dialect)s” is not a cron dialect; use unix.", dialect=dialect
        )
    if len(text) > MAX_EXPRESSION_CHARS:
        raise ScheduleError(
            "expression",
            "A cron expression has at most %(limit)s characters.",
            limit=MAX_EXPRESSION_CHARS,
        )
    if text.startswith("@"):
        if text.lower() not in MACROS:
            raise ScheduleError(
                "expression",
                "“%(expression)s” is not a macro; use one of %(macros)s.",
                expression=text,
                macros=", ".join(MACROS),
            )
        return MACROS[text.lower()]
    fields = text.split(" ")
    if len(fields) != 5:
        raise ScheduleError(
            "expression",
            "A unix cron expression has 5 fields (minute, hour, day of month, month, day of week);"
            " this one has %(count)s.",
            count=len(fields),
        )
    for field in fields:
        if not _FIELD.fullmatch(field):
            raise ScheduleError(
                "expression",
                "“%(field)s” is not a cron field; a field holds numbers, names and * , - / only.",
                field=field,
            )
    return text


def _zone(name: str | None) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ScheduleError(
            "timezone",
            "“%(name)s” is not a time zone; use an IANA name such as Europe/Berlin.",
            name=name,
        ) from error
