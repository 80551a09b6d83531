"""What people bring from a crontab or from other schedulers that is no part of an expression.

Comments and commands behind the fields, time zones before them, and macros that are other kinds of
trigger here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tickwheel_admin.domain.errors import Word
from tickwheel_admin.domain.fields import as_seconds
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.cron.dialect import Dialect

_MOST_SHOWN = 80  # characters of an expression
_ZONE = re.compile(r"(?:CRON_)?TZ=(.*)", re.IGNORECASE)
_LENGTH = re.compile(r"(?:[0-9]{1,6}(?:\.[0-9]{1,3})?(?:h|m|s|ms))+")
_PART = re.compile(r"([0-9.]+)(h|ms|m|s)")
_UNIT_MS = {"h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_FIELD = re.compile(
    r"(?:[0-9*?LW#,/-]|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC|SUN|MON|TUE|WED|THU|FRI|SAT)+",
    re.IGNORECASE,
)


def check_foreign_parts(texts: Sequence[str], dialect: Dialect) -> None:
    """Refuse what no dialect has, and say where it belongs.

    Raises:
        ScheduleError: `params` hold the 1-based `position` where it is not the first character.
    """
    first = texts[0].lower()
    if zone := _ZONE.fullmatch(texts[0]):
        raise _time_zone(texts, zone[1].strip("\"'"))
    if first == "@reboot":
        raise ScheduleError(
            "expression",
            "“@reboot” is no instant of a schedule: nothing here starts with a machine. Leave the"
            " job without a trigger and let the machine start it through the API, or choose a"
            " trigger of another kind: %(kind)s.",
            kind=Word("once"),
            position=1,
        )
    if first == "@every":
        raise _every(" ".join(texts[1:]))
    if texts[0][0] == "#":
        raise ScheduleError(
            "expression",
            "This is a comment; an expression begins with its fields, such as %(example)s.",
            example="0 9 * * 1-5" if dialect is Dialect.UNIX else "0 0 9 * * ?",
            position=1,
        )


def check_line(texts: Sequence[str], dialect: Dialect, most: int) -> None:
    """Refuse a command or a comment behind the fields of a line of a crontab.

    Args:
        most: so many fields an expression may have.

    Raises:
        ScheduleError: with the fields alone as a suggestion.
    """
    least = 5 if dialect is Dialect.UNIX else 6
    count = next((n for n, text in enumerate(texts) if not _is_field(text)), len(texts))
    if not least <= count < len(texts) or count > most:
        return
    rest = " ".join(texts[count:])
    suggestion = " ".join(texts[:count])
    if rest[0] == "#":
        raise ScheduleError(
            "expression",
            "“%(rest)s” is a comment, which belongs into the description of the job; did you mean"
            " %(suggestion)s?",
            rest=_shown(rest),
            suggestion=suggestion,
        )
    raise ScheduleError(
        "expression",
        "“%(rest)s” is no field: of a line of a crontab only the schedule belongs here, and what"
        " runs is the job's handler; did you mean %(suggestion)s?",
        rest=_shown(rest),
        suggestion=suggestion,
    )


def _is_field(text: str) -> bool:
    return _FIELD.fullmatch(text) is not None and text[0] != "#"


def _time_zone(texts: Sequence[str], zone: str) -> ScheduleError:
    return ScheduleError(
        "expression",
        "The time zone is a field of its own: choose %(timezone)s there, and leave only"
        " %(suggestion)s here.",
        timezone=_shown(zone) or "UTC",
        suggestion=_shown(" ".join(texts[1:])) or "0 9 * * 1-5",
        position=1,
    )


def _every(length: str) -> ScheduleError:
    plain = length.replace(" ", "").lower()
    if not _LENGTH.fullmatch(plain):
        return ScheduleError(
            "expression",
            "“@every” is another kind of trigger here: choose %(kind)s, and how long from one fire"
            " to the next.",
            kind=Word("fixed rate"),
            position=1,
        )
    ms = sum(float(number) * _UNIT_MS[unit] for number, unit in _PART.findall(plain))
    return ScheduleError(
        "expression",
        "“@every %(length)s” is another kind of trigger here: choose %(kind)s, every %(seconds)s"
        " seconds.",
        length=length,
        kind=Word("fixed rate"),
        seconds=as_seconds(round(ms)),
        position=1,
    )


def _shown(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 1] + "…"
