"""Why a cron expression is refused: field, position, rule, and what was probably meant.

`position` is the 1-based character of the token at fault, within the field; the parser of the whole
expression moves it.
"""

from __future__ import annotations

import re
import unicodedata
from difflib import get_close_matches
from typing import Any

from tickwheel_admin.domain.errors import Word
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
# What a step counts in each field, and the kind of trigger that counts on without an end.
_INTERVALS = {
    FieldKind.SECOND: (Word("seconds"), Word("fixed rate")),
    FieldKind.MINUTE: (Word("minutes"), Word("fixed rate")),
    FieldKind.HOUR: (Word("hours"), Word("fixed rate")),
    FieldKind.DAY_OF_MONTH: (Word("days"), Word("calendar interval")),
    FieldKind.MONTH: (Word("months"), Word("calendar interval")),
    FieldKind.YEAR: (Word("years"), Word("calendar interval")),
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


def meant(rules: FieldRules, token: str) -> str | None:
    """What a token says whose parts are in another order than ours."""
    for form, rewritten in _REORDERED.get(rules.kind, ()):
        if form.fullmatch(token):
            return form.sub(rewritten, token)
    return None


def odd_character(rules: FieldRules, text: str) -> ScheduleError:
    """A field with a character that no expression has; many look like one that it may have."""
    at, found = next((at, each) for at, each in enumerate(text) if not each.isascii())
    code = f"U+{ord(found):04X}"
    suggestion = _look_alike(found)
    if suggestion is not None:
        return refuse(
            rules,
            at,
            "“%(token)s” at character %(position)s is %(code)s, which only looks like"
            " “%(suggestion)s”; write “%(suggestion)s”.",
            found,
            code=code,
            suggestion=suggestion,
        )
    return refuse(
        rules,
        at,
        "“%(token)s” at character %(position)s is %(code)s; an expression has only the digits 0-9,"
        " the letters A-Z and the signs * , - / ? # @.",
        found,
        code=code,
    )


def _look_alike(character: str) -> str | None:
    """The ASCII character that one of another script or width stands for."""
    if unicodedata.category(character) == "Pd" or character == "\u2212":  # dashes, the minus sign
        return "-"
    if character in "\u2217\u00d7\u22c6\u204e":  # asterisks of formulas, and the times sign
        return "*"
    if character in "\u3001\u060c":  # commas of Chinese lists and of Arabic
        return ","
    if (digit := unicodedata.digit(character, None)) is not None:
        return str(digit)
    plain = unicodedata.normalize("NFKC", character)
    is_one = len(plain) == 1 and plain.isascii() and plain.isprintable() and plain != " "
    return plain if is_one else None


def unreadable(rules: FieldRules, token: str, at: int) -> ScheduleError:
    """A token that is no form of anything; the forms are named, or the one that is meant."""
    suggestion = meant(rules, token)
    if suggestion is not None:
        return refuse(
            rules,
            at,
            "“%(token)s” at character %(position)s cannot be read as %(field)s;"
            " did you mean %(suggestion)s?",
            token,
            suggestion=suggestion,
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


def bad_step(rules: FieldRules, token: str, at: int, step: int) -> ScheduleError:
    interval = _INTERVALS.get(rules.kind)
    if step > rules.max_step and interval is not None:
        unit, kind = interval
        return refuse(
            rules,
            at,
            "“%(token)s” at character %(position)s: a step of %(field)s is 1-%(most)s, for it"
            " starts anew after the last value. For “every %(step)s %(unit)s” choose a trigger of"
            " another kind: %(kind)s.",
            token,
            most=rules.max_step,
            step=str(step)[:_MOST_SHOWN],
            unit=unit,
            kind=kind,
        )
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
