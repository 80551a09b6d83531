"""Why a cron expression is refused: field, position, rule, and what was probably meant.

`position` is the 1-based character of the token at fault, within the field; the parser of the whole
expression moves it.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.cron.fields import FIELD_NAMES, FieldKind, FieldRules

_MOST_SHOWN = 40  # characters of a token
# Tokens whose parts are in another order than ours: what they are called elsewhere, or slips.
_REORDERED = {
    FieldKind.DAY_OF_MONTH: (
        (re.compile(r"W([0-9]{1,2})"), r"\1W"),
        (re.compile(r"WL"), "LW"),
        (re.compile(r"LW?-([0-9]{1,2})W?"), r"L-\1W"),
        (re.compile(r"([0-9]{1,2})L|L([0-9]{1,2})"), r"L-\1\2"),
    ),
    FieldKind.DAY_OF_WEEK: (
        (re.compile(r"L([0-9]|[A-Z]{3})"), r"\1L"),
        (re.compile(r"([0-9]|[A-Z]{3})-L"), r"\1L"),
        (re.compile(r"#([1-5])([0-9]|[A-Z]{3})"), r"\2#\1"),
    ),
}
_SIGNS = {FieldKind.DAY_OF_MONTH: "* , - / ? L W", FieldKind.DAY_OF_WEEK: "* , - / ? L #"}


def refuse(
    rules: FieldRules, at: int, template: str, token: str = "", **more: Any
) -> ScheduleError:
    """The error for a token that begins at a place of its field, counted from 0."""
    names = tuple(rules.names)
    return ScheduleError(
        "expression",
        template,
        position=at + 1,
        token=token if len(token) <= _MOST_SHOWN else token[: _MOST_SHOWN - 1] + "…",
        field=rules.name,
        dialect=rules.dialect.value,
        range=f"{rules.low}-{rules.high}",
        names=f"{names[0]}-{names[-1]}" if names else "",
        signs=_SIGNS.get(rules.kind, "* , - /"),
        **more,
    )


def out_of_range(rules: FieldRules, token: str, number: int, at: int) -> ScheduleError:
    meant = _nearest(rules, number)
    if rules.names:
        return _meant(rules, token, str(meant), meant, at)
    return refuse(
        rules,
        at,
        "“%(token)s” at character %(position)s: %(field)s is %(range)s in the %(dialect)s dialect;"
        " did you mean %(suggestion)s?",
        token,
        suggestion=str(meant),
    )


def unknown_name(rules: FieldRules, token: str, at: int) -> ScheduleError:
    close = [name for name in rules.names if token.startswith(name)]
    close = close or get_close_matches(token[:9], rules.names, n=1)
    if not close:
        return unreadable(rules, token, at)
    return _meant(rules, token, close[0], rules.names[close[0]], at)


def _meant(rules: FieldRules, token: str, suggestion: str, number: int, at: int) -> ScheduleError:
    return refuse(
        rules,
        at,
        "“%(token)s” at character %(position)s: %(field)s is %(range)s or %(names)s in the"
        " %(dialect)s dialect; did you mean %(suggestion)s (%(meaning)s)?",
        token,
        suggestion=suggestion,
        meaning=rules.meaning(number),
    )


def unreadable(rules: FieldRules, token: str, at: int) -> ScheduleError:
    """A token that is no form of anything; the forms are named, or the one that is meant."""
    for form, rewritten in _REORDERED.get(rules.kind, ()):
        if form.fullmatch(token):
            return refuse(
                rules,
                at,
                "“%(token)s” at character %(position)s cannot be read as %(field)s;"
                " did you mean %(suggestion)s?",
                token,
                suggestion=form.sub(rewritten, token),
            )
    if rules.names:
        return refuse(
            rules,
            at,
            "“%(token)s” at character %(position)s: %(field)s is %(range)s or %(names)s in the"
            " %(dialect)s dialect, with the signs %(signs)s only.",
            token,
        )
    return refuse(
        rules,
        at,
        "“%(token)s” at character %(position)s: %(field)s is %(range)s in the %(dialect)s dialect,"
        " with the signs %(signs)s only.",
        token,
    )


def question_mark(rules: FieldRules, token: str, at: int) -> ScheduleError:
    return refuse(
        rules,
        at,
        "“%(token)s” at character %(position)s: ? stands alone, for day-of-month or day-of-week;"
        " did you mean * for %(field)s?",
        token,
    )


def sign_elsewhere(rules: FieldRules, token: str, sign: str, at: int) -> ScheduleError:
    """`L`, `W` and `#` are for days."""
    if sign == "L":
        return refuse(
            rules,
            at,
            "“%(token)s” at character %(position)s: L is for day-of-month and day-of-week, not for"
            " %(field)s.",
            token,
        )
    only = FieldKind.DAY_OF_MONTH if sign == "W" else FieldKind.DAY_OF_WEEK
    return refuse(
        rules,
        at,
        "“%(token)s” at character %(position)s: %(sign)s is for %(only)s, not for %(field)s.",
        token,
        sign=sign,
        only=FIELD_NAMES[only],
    )


def empty_item(rules: FieldRules, at: int) -> ScheduleError:
    return refuse(
        rules,
        at,
        "A comma in %(field)s has no value beside it at character %(position)s; values are"
        " separated by single commas, such as 1,2.",
    )


def bad_step(rules: FieldRules, token: str, at: int) -> ScheduleError:
    return refuse(
        rules,
        at,
        "“%(token)s” at character %(position)s: a step of %(field)s is 1-%(most)s, such as"
        " %(suggestion)s.",
        token,
        most=rules.max_step,
        suggestion="*/2",
    )


def step_without_start(rules: FieldRules, token: str, at: int) -> ScheduleError:
    return refuse(
        rules,
        at,
        "“%(token)s” at character %(position)s: a step of %(field)s needs a value before the /;"
        " did you mean *%(token)s?",
        token,
    )


def unfinished_range(rules: FieldRules, token: str, at: int) -> ScheduleError:
    return refuse(
        rules,
        at,
        "“%(token)s” at character %(position)s: a range of %(field)s has a value on both sides of"
        " the -, such as %(suggestion)s.",
        token,
        suggestion=f"{rules.all_from}-{rules.all_to}",
    )


def years_backwards(rules: FieldRules, token: str, at: int, suggestion: str) -> ScheduleError:
    return refuse(
        rules,
        at,
        "“%(token)s” at character %(position)s: years do not start again;"
        " did you mean %(suggestion)s?",
        token,
        suggestion=suggestion,
    )


def last_of_nothing(rules: FieldRules, token: str, at: int) -> ScheduleError:
    return refuse(
        rules,
        at,
        "“%(token)s” at character %(position)s: L in %(field)s follows a weekday in the"
        " %(dialect)s dialect; did you mean %(suggestion)s (the last Saturday of the month)?",
        token,
        suggestion=f"{rules.names['SAT']}L",
    )


def bad_days_before(rules: FieldRules, token: str, at: int) -> ScheduleError:
    return refuse(
        rules,
        at,
        "“%(token)s” at character %(position)s: L counts back 0-30 days from the last day of the"
        " month, such as L-3.",
        token,
    )


def bad_nth(rules: FieldRules, token: str, at: int) -> ScheduleError:
    weekday, _, nth = token.partition("#")
    return refuse(
        rules,
        at,
        "“%(token)s” at character %(position)s: # is followed by 1-5, which of these weekdays of"
        " the month; did you mean %(suggestion)s?",
        token,
        suggestion=f"{weekday}L" if nth.strip("0") else f"{weekday}#1",
    )


def _nearest(rules: FieldRules, number: int) -> int:
    if rules.kind <= FieldKind.HOUR and number == rules.high + 1:
        return 0  # 24:00 is the next day's 0:00
    if rules.kind is FieldKind.YEAR and number < 100:
        return 2000 + number
    return min(max(number, rules.low), rules.high)
