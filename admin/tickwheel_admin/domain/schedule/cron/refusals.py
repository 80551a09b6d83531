"""Why a cron expression is refused: field, position, rule, and what was probably meant.

`position` is the 1-based character of the token at fault, within the field; the parser of the whole
expression moves it.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.cron.fields import FIELD_NAMES, FieldKind, FieldRules

_MOST_SHOWN = 40  # characters of a token
# Tokens whose parts are in another order than ours: what they are called elsewhere, or slips.
_REORDERED = {
    FieldKind.DAY_OF_MONTH: (
        (re.compile(r"W([0-9]{1,2})"), r"\1W"),
        (re.compile(r"WL"), "LW"),
        (re.compile(r"LW?-([0-9]{1,2})W?"), r"L-\1W"),
        (re.compile(r"([0-9]{1,2})L"), r"L-\1"),
    ),
    FieldKind.DAY_OF_WEEK: (
        (re.compile(r"L([0-9]|[A-Z]{3})"), r"\1L"),
        (re.compile(r"([0-9]|[A-Z]{3})-L"), r"\1L"),
        (re.compile(r"#([1-5])([0-9]|[A-Z]{3})"), r"\2#\1"),
    ),
}
_SIGNS = {FieldKind.DAY_OF_MONTH: "* , - / ? L W", FieldKind.DAY_OF_WEEK: "* , - / ? L #"}


def out_of_range(rules: FieldRules, token: str, number: int, at: int) -> ScheduleError:
    meant = _nearest(rules, number)
    if rules.names:
        return ScheduleError(
            "expression",
            "“%(token)s” at character %(position)s: %(field)s is %(range)s or %(names)s in the"
            " %(dialect)s dialect; did you mean %(suggestion)s (%(meaning)s)?",
            token=_shown(token), position=at + 1, field=rules.name, range=_range(rules),
            names=_names(rules), dialect=rules.dialect.value, suggestion=str(meant),
            meaning=rules.meaning(meant),
        )  # fmt: skip
    return ScheduleError(
        "expression",
        "“%(token)s” at character %(position)s: %(field)s is %(range)s in the %(dialect)s dialect;"
        " did you mean %(suggestion)s?",
        token=_shown(token), position=at + 1, field=rules.name, range=_range(rules),
        dialect=rules.dialect.value, suggestion=str(meant),
    )  # fmt: skip


def unknown_name(rules: FieldRules, token: str, at: int) -> ScheduleError:
    close = [name for name in rules.names if token.startswith(name)]
    close = close or get_close_matches(token[:9], rules.names, n=1)
    if not close:
        return unreadable(rules, token, at)
    return ScheduleError(
        "expression",
        "“%(token)s” at character %(position)s: %(field)s is %(range)s or %(names)s in the"
        " %(dialect)s dialect; did you mean %(suggestion)s (%(meaning)s)?",
        token=_shown(token), position=at + 1, field=rules.name, range=_range(rules),
        names=_names(rules), dialect=rules.dialect.value, suggestion=close[0],
        meaning=rules.meaning(rules.names[close[0]]),
    )  # fmt: skip


def unreadable(rules: FieldRules, token: str, at: int) -> ScheduleError:
    """A token that is no form of anything; the forms are named, or the one that is meant."""
    for form, rewritten in _REORDERED.get(rules.kind, ()):
        if form.fullmatch(token):
            return ScheduleError(
                "expression",
                "“%(token)s” at character %(position)s cannot be read as %(field)s;"
                " did you mean %(suggestion)s?",
                token=_shown(token), position=at + 1, field=rules.name,
                suggestion=form.sub(rewritten, token),
            )  # fmt: skip
    if rules.names:
        return ScheduleError(
            "expression",
            "“%(token)s” at character %(position)s: %(field)s is %(range)s or %(names)s in the"
            " %(dialect)s dialect, with the signs %(signs)s only.",
            token=_shown(token), position=at + 1, field=rules.name, range=_range(rules),
            names=_names(rules), dialect=rules.dialect.value,
            signs=_SIGNS.get(rules.kind, "* , - /"),
        )  # fmt: skip
    return ScheduleError(
        "expression",
        "“%(token)s” at character %(position)s: %(field)s is %(range)s in the %(dialect)s dialect,"
        " with the signs %(signs)s only.",
        token=_shown(token), position=at + 1, field=rules.name, range=_range(rules),
        dialect=rules.dialect.value, signs=_SIGNS.get(rules.kind, "* , - /"),
    )  # fmt: skip


def question_mark(rules: FieldRules, token: str, at: int) -> ScheduleError:
    return ScheduleError(
        "expression",
        "“%(token)s” at character %(position)s: ? stands alone, for day-of-month or day-of-week;"
        " did you mean * for %(field)s?",
        token=_shown(token), position=at + 1, field=rules.name,
    )  # fmt: skip


def sign_elsewhere(rules: FieldRules, token: str, sign: str, at: int) -> ScheduleError:
    """`L`, `W` and `#` are for days."""
    if sign == "L":
        return ScheduleError(
            "expression",
            "“%(token)s” at character %(position)s: L is for day-of-month and day-of-week, not for"
            " %(field)s.",
            token=_shown(token), position=at + 1, field=rules.name,
        )  # fmt: skip
    only = FieldKind.DAY_OF_MONTH if sign == "W" else FieldKind.DAY_OF_WEEK
    return ScheduleError(
        "expression",
        "“%(token)s” at character %(position)s: %(sign)s is for %(only)s, not for %(field)s.",
        token=_shown(token), position=at + 1, sign=sign, only=FIELD_NAMES[only], field=rules.name,
    )  # fmt: skip


def empty_item(rules: FieldRules, at: int) -> ScheduleError:
    return ScheduleError(
        "expression",
        "A comma in %(field)s has no value beside it at character %(position)s; values are"
        " separated by single commas, such as 1,2.",
        field=rules.name, position=at + 1,
    )  # fmt: skip


def bad_step(rules: FieldRules, token: str, at: int) -> ScheduleError:
    return ScheduleError(
        "expression",
        "“%(token)s” at character %(position)s: a step of %(field)s is 1-%(most)s, such as"
        " %(suggestion)s.",
        token=_shown(token), position=at + 1, field=rules.name, most=rules.max_step,
        suggestion="*/2",
    )  # fmt: skip


def step_without_start(rules: FieldRules, token: str, at: int) -> ScheduleError:
    return ScheduleError(
        "expression",
        "“%(token)s” at character %(position)s: a step of %(field)s needs a value before the /;"
        " did you mean *%(token)s?",
        token=_shown(token), position=at + 1, field=rules.name,
    )  # fmt: skip


def unfinished_range(rules: FieldRules, token: str, at: int) -> ScheduleError:
    return ScheduleError(
        "expression",
        "“%(token)s” at character %(position)s: a range of %(field)s has a value on both sides of"
        " the -, such as %(suggestion)s.",
        token=_shown(token), position=at + 1, field=rules.name,
        suggestion=f"{rules.all_from}-{rules.all_to}",
    )  # fmt: skip


def years_backwards(token: str, at: int, first: int, last: int) -> ScheduleError:
    return ScheduleError(
        "expression",
        "“%(token)s” at character %(position)s: years do not start again;"
        " did you mean %(suggestion)s?",
        token=_shown(token), position=at + 1, suggestion=f"{last}-{first}",
    )  # fmt: skip


def last_of_nothing(rules: FieldRules, at: int) -> ScheduleError:
    saturday = rules.names["SAT"]
    return ScheduleError(
        "expression",
        "“L” at character %(position)s: L in %(field)s follows a weekday in the %(dialect)s"
        " dialect; did you mean %(suggestion)s (the last Saturday of the month)?",
        position=at + 1, field=rules.name, dialect=rules.dialect.value, suggestion=f"{saturday}L",
    )  # fmt: skip


def bad_days_before(token: str, at: int) -> ScheduleError:
    return ScheduleError(
        "expression",
        "“%(token)s” at character %(position)s: L counts back 0-30 days from the last day of the"
        " month, such as L-3.",
        token=_shown(token), position=at + 1,
    )  # fmt: skip


def bad_nth(token: str, at: int) -> ScheduleError:
    weekday, _, nth = token.partition("#")
    last = nth.isdecimal() and len(nth) < 3 and int(nth) > 5
    return ScheduleError(
        "expression",
        "“%(token)s” at character %(position)s: # is followed by 1-5, which of these weekdays of the"
        " month; did you mean %(suggestion)s?",
        token=_shown(token), position=at + 1, suggestion=f"{weekday}L" if last else f"{weekday}#1",
    )  # fmt: skip


def _nearest(rules: FieldRules, number: int) -> int:
    if rules.kind <= FieldKind.HOUR and number == rules.high + 1:
        return 0  # 24:00 is the next day's 0:00
    if rules.kind is FieldKind.YEAR and number < 100:
        return 2000 + number
    return min(max(number, rules.low), rules.high)


def _range(rules: FieldRules) -> str:
    return f"{rules.low}-{rules.high}"


def _names(rules: FieldRules) -> str:
    names = tuple(rules.names)
    return f"{names[0]}-{names[-1]}"


def _shown(token: str) -> str:
    return token if len(token) <= _MOST_SHOWN else token[: _MOST_SHOWN - 1] + "…"
