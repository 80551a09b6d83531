"""Reads one field of a cron expression."""

from __future__ import annotations

import re
from functools import lru_cache

from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.cron import refusals
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.cron.fields import FieldKind, FieldRules
from tickwheel_admin.domain.schedule.cron.tokens import (
    All,
    Field,
    From,
    LastDay,
    LastWeekday,
    LastWorkday,
    NearestWorkday,
    NthWeekday,
    Range,
    Special,
    Token,
    Value,
)

_CACHED = 8_192  # fields; a few hundred texts are most of what people write
_ITEM = re.compile(
    r"(?P<star>\*)?(?P<first>[0-9]+|[A-Z]+)?(?P<dash>-)?(?P<last>[0-9]+|[A-Z]+)?"
    r"(?P<slash>/)?(?P<step>[0-9]+)?"
)
_DAYS = (FieldKind.DAY_OF_MONTH, FieldKind.DAY_OF_WEEK)
_MOST_DAYS_BEFORE = 30
_SATURDAY = 6
_ALL = All()
_DAYS_1_TO_28 = (1 << 29) - 2
_NTH = ("1", "2", "3", "4", "5")
_FROM_END = re.compile(r"L(?:-(?P<before>[0-9]+))?(?P<workday>W)?")
_NEAREST = re.compile(r"(?P<day>[0-9]+)W")
_LAST_WEEKDAY = re.compile(r"(?P<weekday>[0-9]+|[A-Z]{2,})L")
_NTH_WEEKDAY = re.compile(r"(?P<weekday>[0-9]+|[A-Z]+)#(?P<nth>[0-9]+)")


@lru_cache(maxsize=_CACHED)
def parse_field(rules: FieldRules, text: str) -> Field:
    """A field without white space around it.

    Raises:
        ScheduleError: the text means nothing here; `position` counts from the field's start.
    """
    if not text.isascii():  # letters and digits of other scripts look like ours
        raise refusals.odd_character(rules, text)
    written = text.upper()
    is_any = written in ("*", "?")
    if "?" in written and not (is_any and rules.kind in _DAYS):
        raise refusals.question_mark(rules, written, written.index("?"))
    tokens: list[Token] = []
    specials: list[Special] = []
    mask = 0
    at = 0
    for item in written.split(","):
        special = _special(rules, item, at) if rules.kind in _DAYS else None
        if special is not None:
            tokens.append(special)
            specials.append(special)
        else:
            token, bits = _plain(rules, item, at)
            tokens.append(token)
            mask |= bits
        at += len(item) + 1
    return Field(
        kind=rules.kind,
        text=written,
        tokens=tuple(tokens),
        mask=mask,
        specials=tuple(specials),
        is_any=is_any,
        is_starred=written[0] in "*?",
        is_interval="*" in written or "-" in written or "/" in written,
        is_in_every_month=_is_in_every_month(rules, mask, specials),
    )


def _is_in_every_month(rules: FieldRules, mask: int, specials: list[Special]) -> bool:
    if rules.kind is FieldKind.DAY_OF_MONTH and mask & _DAYS_1_TO_28:
        return True
    if rules.kind is FieldKind.DAY_OF_WEEK and mask:
        return True
    for special in specials:
        match special:
            case LastDay(before) | LastWorkday(before) if before < 28:
                return True
            case NearestWorkday(day) if day <= 28:
                return True
            case LastWeekday():
                return True
            case NthWeekday(_, nth) if nth < 5:
                return True
    return False


def _plain(rules: FieldRules, item: str, at: int) -> tuple[Token, int]:
    """A token that is the same in every month, and its bits."""
    if item.isdecimal():
        number = _number(rules, item, at)
        return Value(rules.value(number)), 1 << rules.bit(number)
    if item in ("*", "?"):
        return _ALL, _bits(rules, rules.all_from, rules.all_to, 1)
    if item == "L" and rules.kind is FieldKind.DAY_OF_WEEK and rules.dialect is Dialect.QUARTZ:
        return Value(_SATURDAY), 1 << _SATURDAY  # the last day of Quartz's week
    if not item:
        raise refusals.empty_item(rules, max(0, at - 1))
    match = _ITEM.fullmatch(item)
    if match is None:
        raise _not_plain(rules, item, at)
    star, first_text, dash, last_text, slash, step_text = match.groups()
    if last_text and not dash:  # such as 15W where it does not belong
        raise _not_plain(rules, item, at)
    step = 1
    if slash:
        step = int(step_text) if step_text else 0
        if not 1 <= step <= rules.max_step:
            raise refusals.bad_step(rules, item, at, step)
    if star or not (first_text or dash or last_text):  # `*/5`, or `/5`, which is the same in Quartz
        if first_text or dash or last_text or not slash:
            raise refusals.unreadable(rules, item, at)
        if not star and rules.dialect is not Dialect.QUARTZ:
            raise refusals.step_without_start(rules, item, at)
        return All(step), _bits(rules, rules.all_from, rules.all_to, step)
    if dash and not (first_text and last_text):
        raise refusals.unfinished_range(rules, item, at)
    first = _number(rules, first_text, at)
    if dash:
        last = _number(rules, last_text, at + len(first_text) + 1)
        return _range(rules, item, at, first, last, step)
    if slash:
        last = max(first, rules.all_to)
        return From(rules.value(first), step), _bits(rules, first, last, step)
    return Value(rules.value(first)), 1 << rules.bit(first)


def _range(
    rules: FieldRules, item: str, at: int, first: int, last: int, step: int
) -> tuple[Token, int]:
    token = Range(rules.value(first), rules.value(last), step)
    if last < first:
        if rules.kind is FieldKind.YEAR:
            raise refusals.years_backwards(rules, item, at, f"{last}-{first}")
        last += rules.size
    return token, _bits(rules, first, last, step)


def _bits(rules: FieldRules, first: int, last: int, step: int) -> int:
    lowest, highest = rules.bit(first), rules.bit(last)
    if step == 1 and highest - lowest == last - first:  # a run that does not wrap around
        return (2 << highest) - (1 << lowest)
    mask = 0
    for number in range(first, last + 1, step):
        mask |= 1 << rules.bit(number)
    return mask


def _number(rules: FieldRules, text: str, at: int) -> int:
    """A number or a name as a number of the dialect."""
    if text[0] > "9":
        named = rules.names.get(text)
        if named is None:
            raise _not_a_name(rules, text, at)
        return named
    number = int(text)
    if not rules.low <= number <= rules.high:
        raise refusals.out_of_range(rules, text, number, at)
    return number


def _special(rules: FieldRules, item: str, at: int) -> Special | None:
    """A day that depends on the month; None when the item is none."""
    if not ("L" in item or "W" in item or "#" in item):
        return None
    if rules.kind is FieldKind.DAY_OF_MONTH:
        if match := _FROM_END.fullmatch(item):
            before = int(match["before"] or 0)
            if before > _MOST_DAYS_BEFORE:
                raise refusals.bad_days_before(rules, item, at)
            return LastWorkday(before) if match["workday"] else LastDay(before)
        if match := _NEAREST.fullmatch(item):
            return NearestWorkday(_number(rules, match["day"], at))
    elif rules.kind is FieldKind.DAY_OF_WEEK:
        if match := _LAST_WEEKDAY.fullmatch(item):
            return LastWeekday(rules.value(_number(rules, match["weekday"], at)))
        if match := _NTH_WEEKDAY.fullmatch(item):
            weekday = rules.value(_number(rules, match["weekday"], at))
            if match["nth"] not in _NTH:
                raise refusals.bad_nth(rules, item, at)
            return NthWeekday(weekday, int(match["nth"]))
    if refusals.meant(rules, item) is not None:
        raise refusals.unreadable(rules, item, at)
    return None


def _not_plain(rules: FieldRules, item: str, at: int) -> ScheduleError:
    """Why an item is refused that is no number, range or step."""
    if "#" in item and rules.kind is not FieldKind.DAY_OF_WEEK:
        return refusals.sign_elsewhere(rules, item, "#", at)
    if rules.kind is not FieldKind.DAY_OF_MONTH and (
        _NEAREST.fullmatch(item) or (item != "L" and _FROM_END.fullmatch(item))
    ):
        return refusals.sign_elsewhere(rules, item, "W" if item.endswith("W") else "L", at)
    return refusals.unreadable(rules, item, at)


def _not_a_name(rules: FieldRules, text: str, at: int) -> ScheduleError:
    if text == "L" and rules.kind is FieldKind.DAY_OF_WEEK:
        return refusals.last_of_nothing(rules, text, at)
    if rules.kind not in _DAYS and text == "L":
        return refusals.sign_elsewhere(rules, text, "L", at)
    if rules.kind is not FieldKind.DAY_OF_MONTH and text in ("W", "LW"):
        return refusals.sign_elsewhere(rules, text, "W", at)
    return refusals.unknown_name(rules, text, at)
