"""What cron expressions say, and what is said about those that are refused."""

from __future__ import annotations

import pytest

from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.cron import MACROS, CronExpression, FieldKind, parse_cron
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.cron.tokens import (
    All,
    From,
    LastDay,
    LastWeekday,
    LastWorkday,
    NearestWorkday,
    NthWeekday,
    Range,
    Token,
    Value,
)

Q, S, U = Dialect.QUARTZ, Dialect.SPRING, Dialect.UNIX


def _bits(*numbers: int) -> int:
    return sum(1 << number for number in numbers)


def _weekdays(expression: CronExpression) -> tuple[int, ...]:
    return expression.fields[FieldKind.DAY_OF_WEEK].values


@pytest.mark.parametrize(
    ("kind", "text", "tokens", "mask"),
    [
        (FieldKind.SECOND, "0", (Value(0),), _bits(0)),
        (FieldKind.SECOND, "00,5", (Value(0), Value(5)), _bits(0, 5)),
        (FieldKind.MINUTE, "*/20", (All(20),), _bits(0, 20, 40)),
        (FieldKind.MINUTE, "/20", (All(20),), _bits(0, 20, 40)),
        (FieldKind.MINUTE, "5/20", (From(5, 20),), _bits(5, 25, 45)),
        (FieldKind.MINUTE, "58-2", (Range(58, 2),), _bits(58, 59, 0, 1, 2)),
        (FieldKind.MINUTE, "50-20/15", (Range(50, 20, 15),), _bits(50, 5, 20)),
        (FieldKind.HOUR, "22-2", (Range(22, 2),), _bits(22, 23, 0, 1, 2)),
        (FieldKind.HOUR, "5-5", (Range(5, 5),), _bits(5)),
        (FieldKind.DAY_OF_MONTH, "30-2", (Range(30, 2),), _bits(30, 31, 1, 2)),
        (FieldKind.DAY_OF_MONTH, "29/1", (From(29, 1),), _bits(29, 30, 31)),
        (FieldKind.DAY_OF_MONTH, "1,15,l", (Value(1), Value(15), LastDay()), _bits(1, 15)),
        (FieldKind.DAY_OF_MONTH, "10W,20w", (NearestWorkday(10), NearestWorkday(20)), 0),
        (FieldKind.DAY_OF_MONTH, "L-3", (LastDay(3),), 0),
        (FieldKind.DAY_OF_MONTH, "lw", (LastWorkday(),), 0),
        (FieldKind.DAY_OF_MONTH, "L-30W", (LastWorkday(30),), 0),
        (FieldKind.MONTH, "nov-FEB", (Range(11, 2),), _bits(11, 12, 1, 2)),
        (FieldKind.MONTH, "1/3", (From(1, 3),), _bits(1, 4, 7, 10)),
        (FieldKind.DAY_OF_WEEK, "fri-MON", (Range(5, 1),), _bits(5, 6, 0, 1)),
        (FieldKind.DAY_OF_WEEK, "6L", (LastWeekday(5),), 0),
        (FieldKind.DAY_OF_WEEK, "SATL", (LastWeekday(6),), 0),
        (FieldKind.DAY_OF_WEEK, "L", (Value(6),), _bits(6)),
        (FieldKind.DAY_OF_WEEK, "2#5", (NthWeekday(1, 5),), 0),
        (FieldKind.DAY_OF_WEEK, "SUN#1,3", (NthWeekday(0, 1), Value(2)), _bits(2)),
        (FieldKind.YEAR, "2030,2032-2034/2", (Value(2030), Range(2032, 2034, 2)),
         _bits(60, 62, 64)),
        (FieldKind.YEAR, "2198/1", (From(2198, 1),), _bits(228, 229)),
    ],
)  # fmt: skip
def test_fields_of_quartz(kind: FieldKind, text: str, tokens: tuple[Token, ...], mask: int) -> None:
    texts = ["0", "0", "0", "*", "*", "?", "*"]
    if kind is FieldKind.DAY_OF_WEEK:
        texts[FieldKind.DAY_OF_MONTH] = "?"
    texts[kind] = text
    field = parse_cron(" ".join(texts), Q).fields[kind]
    assert (field.kind, field.text) == (kind, text.upper())
    assert field.tokens == tokens
    assert field.mask == mask
    assert field.specials == tuple(
        token for token in tokens if not isinstance(token, All | Value | Range | From)
    )


@pytest.mark.parametrize(
    ("dialect", "expression", "weekdays"),
    [
        (Q, "0 0 9 ? * 2", (1,)),  # the same text is Monday in Quartz …
        (S, "0 0 9 ? * 2", (2,)),  # … and Tuesday in Spring
        (U, "0 9 * * 2", (2,)),
        (U, "0 9 * * 7", (0,)),
        (U, "0 9 * * 0", (0,)),
        (U, "0 9 * * 0-7", (0, 1, 2, 3, 4, 5, 6)),
        (U, "0 9 * * SUN-SAT", (0, 1, 2, 3, 4, 5, 6)),
        (U, "0 9 * * 5-7", (0, 5, 6)),
        (S, "0 0 9 ? * 7-2", (0, 1, 2)),
        (S, "0 0 9 ? * sun-fri", (0, 1, 2, 3, 4, 5)),
        (S, "0 0 9 ? * SAT-SUN", (0, 6)),
        (Q, "0 0 9 ? * 7-2", (0, 1, 6)),
        (Q, "0 0 9 ? * SUN-SAT", (0, 1, 2, 3, 4, 5, 6)),
        (U, "0 9 * * */2", (0, 2, 4, 6)),
        (Q, "0 0 9 ? * */2", (0, 2, 4, 6)),
        (S, "0 0 9 ? * */2", (0, 1, 3, 5)),  # a week of Spring's begins on Monday
        (S, "0 0 9 ? * 5/2", (0, 5)),
        (U, "0 9 * * 1/2", (1, 3, 5)),
        (Q, "0 0 9 ? * FRI/1", (5, 6)),
        (U, "0 9 * * 7/2", (0,)),
    ],
)
def test_weekdays_are_counted_as_the_dialect_does(
    dialect: Dialect, expression: str, weekdays: tuple[int, ...]
) -> None:
    assert _weekdays(parse_cron(expression, dialect)) == weekdays


def test_the_form_is_normal() -> None:
    parsed = parse_cron("  0\t0 9  ?  * mon-Fri ", Q)
    assert parsed.text == "0 0 9 ? * MON-FRI"
    assert [field.text for field in parsed.fields] == ["0", "0", "9", "?", "*", "MON-FRI", "*"]
    assert parse_cron("0 9 * * *", U).fields[FieldKind.SECOND].text == "0"


@pytest.mark.parametrize("macro", MACROS)
def test_macros_are_those_of_unix_and_spring(macro: str) -> None:
    unix, spring = parse_cron(macro.upper(), U), parse_cron(f" {macro} ", S)
    written = parse_cron(MACROS[macro], U)
    assert unix.text == spring.text == macro
    assert unix.fields == written.fields
    assert [f.values for f in spring.fields] == [f.values for f in written.fields]
    with pytest.raises(ScheduleError, match="the quartz dialect has no macros"):
        parse_cron(macro, Q)


@pytest.mark.parametrize(
    ("expression", "either"),
    [
        ("0 0 1 * WED", True),
        ("0 0 */2 * WED", False),  # restricts nothing for cron: it begins with a star
        ("0 0 1 * */2", False),
        ("0 0 ? * WED", False),
        ("0 0 1 * *", False),
        ("0 0 1-31 * WED", True),
    ],
)
def test_unix_takes_either_day_when_both_are_restricted(expression: str, either: bool) -> None:
    assert parse_cron(expression, U).either_day is either


@pytest.mark.parametrize(
    ("expression", "is_interval", "covers_all_hours"),
    [
        ("0 30 2 * * *", False, False),
        ("0 0,30 2,3 * 1/2 *", False, False),
        ("0 30 2-3 * * *", True, False),
        ("0/30 30 2 * * *", True, False),
        ("0 */30 2 * * *", True, False),
        ("0 30 * * * *", True, True),
        ("0 30 0-23 * * *", True, True),
        ("0 30 */2 * * *", True, False),
    ],
)
def test_what_decides_at_transitions(
    expression: str, is_interval: bool, covers_all_hours: bool
) -> None:
    parsed = parse_cron(expression, S)
    assert parsed.is_interval is is_interval
    assert parsed.covers_all_hours is covers_all_hours


@pytest.mark.parametrize(
    ("dialect", "expression", "position", "message"),
    [
        (Q, "0 0 9 ? * 8", 11,
         "day-of-week is 1-7 or SUN-SAT in the quartz dialect; did you mean 7 (Saturday)?"),
        (Q, "0 0 9 ? * 0", 11, "did you mean 1 (Sunday)?"),
        (S, "0 0 9 ? * 8", 11,
         "day-of-week is 0-7 or SUN-SAT in the spring dialect; did you mean 7 (Sunday)?"),
        (U, "60 * * * *", 1, "minute is 0-59 in the unix dialect; did you mean 0?"),
        (U, "0 24 * * *", 3, "hour is 0-23 in the unix dialect; did you mean 0?"),
        (U, "0  9-25 * * *", 6, "“25” at character 6: hour is 0-23"),
        (U, "0 0 32 * *", 5, "day-of-month is 1-31 in the unix dialect; did you mean 31?"),
        (U, "0 0 0 * *", 5, "did you mean 1?"),
        (U, "0 0 0/5 * *", 5, "did you mean 1?"),
        (U, "0 0 1 13 *", 7,
         "month is 1-12 or JAN-DEC in the unix dialect; did you mean 12 (December)?"),
        (U, "0 0 * * Monday", 9,
         ("“Monday” at character 9: day-of-week is 0-7 or SUN-SAT in the unix dialect; did"
         " you mean MON (Monday)?")),
        (U, "0 0 * juni *", 7, "did you mean JUN (June)?"),
        (U, "0 0 * * 1,SAN", 11, "did you mean SUN (Sunday)?"),
        (U, "0 0 * * XYZ", 9,
         ("day-of-week is 0-7 or SUN-SAT in the unix dialect, with the signs * , - / ? L #"
         " only.")),
        (U, "0 noon * * *", 3,
         ("“noon” at character 3: hour is 0-23 in the unix dialect, with the signs * , - /"
         " only.")),
        (Q, "0 0 0 1 1 ? 1969", 13, "year is 1970-2199 in the quartz dialect; did you mean 1970?"),
        (Q, "0 0 0 1 1 ? 1950-1960", 13, "did you mean 1970?"),
        (Q, "0 0 0 1 1 ? 2200", 13, "did you mean 2199?"),
        (Q, "0 0 0 1 1 ? 26", 13, "did you mean 2026?"),
        (Q, "0 0 0 1 1 ? 2030-2025", 13, "did you mean 2025-2030?"),
        (U, "1,,2 * * * *", 2, "A comma in minute has no value beside it at character 2"),
        (U, "1, * * * *", 2, "A comma in minute has no value beside it"),
        (U, ", * * * *", 1, "A comma in minute has no value beside it"),
        (U, "0 1- * * *", 3, "a range of hour has a value on both sides of the -, such as 0-23."),
        (U, "0 -1 * * *", 3, "a range of hour has a value on both sides"),
        (U, "*/0 * * * *", 1, "a step of minute is 1-59"),
        (U, "*/ * * * *", 1, "a step of minute is 1-59"),
        (U, "*/60 * * * *", 1, "a step of minute is 1-59"),
        (U, "0 0 */32 * *", 5, "a step of day-of-month is 1-31"),
        (U, "/5 * * * *", 1, "did you mean */5?"),
        (S, "/5 * * * * *", 1, "did you mean */5?"),
        (U, "5/x * * * *", 1, "with the signs * , - / only."),
        (U, "** * * * *", 1, "minute is 0-59"),
        (U, "*5 * * * *", 1, "minute is 0-59"),
        (U, "1-2-3 * * * *", 1, "minute is 0-59"),
        (U, "1.5 * * * *", 1, "minute is 0-59"),
        (U, "٣ * * * *", 1, "“٣” at character 1 is U+0663, which only looks like “3”; write “3”."),
        (U, "0 0 * * ſun", 9, "“ſ” at character 9 is U+017F, which only looks like “s”"),
        (U, "0 9 * * 1–5", 10, "“–” at character 10 is U+2013, which only looks like “-”"),
        (U, "0  ９ * * *", 4, "“９” at character 4 is U+FF19, which only looks like “9”"),
        (U, "0 9 1，15 * *", 6, "is U+FF0C, which only looks like “,”"),
        (U, "0 9 1、15 * *", 6, "is U+3001, which only looks like “,”"),
        (Q, "0 0 9 ＊ * ?", 7, "is U+FF0A, which only looks like “*”"),
        (U, "0 9 * * 1\u200b", 10, "at character 10 is U+200B; an expression has only the digits"),
        (U, "0 9 * * 一", 9, "is U+4E00; an expression has only"),
        (U, "? * * * *", 1,
         "? stands alone, for day-of-month or day-of-week; did you mean * for minute?"),
        (Q, "0 0 0 ?,1 * ?", 7, "? stands alone"),
        (Q, "0 0 0 ?/2 * ?", 7, "? stands alone"),
        (U, "0 0 * L *", 7, "L is for day-of-month and day-of-week, not for month."),
        (U, "LW * * * *", 1, "W is for day-of-month, not for minute."),
        (U, "0 0 * * 15W", 9, "W is for day-of-month, not for day-of-week."),
        (U, "0 0 2#1 * *", 5, "# is for day-of-week, not for day-of-month."),
        (U, "0 0 W * *", 5, "day-of-month is 1-31"),
        (U, "0 0 W15 * *", 5, "did you mean 15W?"),
        (U, "0 0 WL * *", 5, "did you mean LW?"),
        (U, "0 0 3L * *", 5, "did you mean L-3?"),
        (U, "0 0 LW-3 * *", 5, "“LW-3” at character 5 cannot be read as day-of-month; did you"),
        (Q, "0 0 0 1,LW-3 * ?", 9, "did you mean L-3W?"),
        (U, "0 0 * * FRI-L", 9, "did you mean FRIL?"),
        (U, "0 0 1-5W * *", 5, "day-of-month is 1-31"),
        (U, "0 0 32W * *", 5, "did you mean 31?"),
        (U, "0 0 L-31 * *", 5, "L counts back 0-30 days"),
        (U, "0 0 * * L5", 9, "did you mean 5L?"),
        (U, "0 0 * * L", 9, "did you mean 6L (the last Saturday of the month)?"),
        (S, "0 0 0 * * L", 11, "did you mean 6L (the last Saturday of the month)?"),
        (U, "0 0 * * 2#6", 9, "did you mean 2L?"),
        (U, "0 0 * * 2#0", 9, "did you mean 2#1?"),
        (U, "0 0 * * 8L", 9, "did you mean 7 (Sunday)?"),
        (Q, "0 0 9 1 * MON", 11,
         ("day-of-month is 1 already, and the quartz dialect takes only one of the two"
         " days; did you mean ? for day-of-week?")),
        (Q, "0 0 9 ? * ?", 11,
         ("day-of-month is ? already, and the quartz dialect takes only one; did you mean"
         " * for day-of-week?")),
        (U, "@dayly", 1, "“@dayly” is not a macro; did you mean @daily?"),
        (U, "@soon", 1, "“@soon” is not a macro; use one of @yearly,"),
        (U, "@reboot", 1, "start it through the API, or choose a trigger of another kind: once."),
        (Q, "@every 5m", 1, "choose fixed rate, every 300 seconds."),
        (U, "@every 1h30m", 1, "choose fixed rate, every 5400 seconds."),
        (U, "@every 1.5s", 1, "choose fixed rate, every 1.5 seconds."),
        (U, "@every day", 1, "choose fixed rate, and how long"),
        (U, "*/90 * * * *", 1,
         "For “every 90 minutes” choose a trigger of another kind: fixed rate."),
        (Q, "0 0 0/36 * * ?", 5,
         "For “every 36 hours” choose a trigger of another kind: fixed rate."),
        (U, "0 0 */45 * *", 5,
         "For “every 45 days” choose a trigger of another kind: calendar interval."),
        (U, "0 0 1 */18 *", 7, "For “every 18 months” choose"),
        (U, "CRON_TZ=Europe/Berlin 0 9 * * *", 1,
         "choose Europe/Berlin there, and leave only 0 9 * * * here."),
        (Q, "TZ=UTC 0 0 9 * * ?", 1, "choose UTC there, and leave only 0 0 9 * * ? here."),
        (U, "0 9 * * 1-5 /usr/bin/backup --all", None,
         "“/usr/bin/backup --all” is no field: of a line of a crontab only the schedule belongs"),
        (U, "0 9 * * 1-5 root backup", None, "did you mean 0 9 * * 1-5?"),
        (U, "0 9 * * 1 # Mondays", None,
         "“# Mondays” is a comment, which belongs into the description of the job; did you mean"),
        (Q, "0 0 9 * * ? 2026 # once", None, "did you mean 0 0 9 * * ? 2026?"),
        (U, "# 0 9 * * *", 1, "This is a comment; an expression begins with its fields"),
        (U, "@daily 5", 1, "“@daily 5” is not a macro; did you mean @daily?"),
        (U, "", None, "A cron trigger needs an expression"),
        (U, " \t ", None, "A cron trigger needs an expression"),
        (U, "* " * 251, None, "A cron expression has at most 500 characters."),
        (U, "* * * *", None,
         "has 5 fields (minute, hour, day of month, month, day of week); this one has 4."),
        (U, "0 0 9 * * 1", None, "this one has 6; did you mean the quartz dialect?"),
        (Q, "0 9 * * 1", None, "this one has 5; did you mean the unix dialect, or 0 0 9 * * 1?"),
        (Q, "0 0 9 * * ? * *", None, "has 6 or 7 fields"),
        (S, "0 0 9 * * ? *", None,
         "has 7; did you mean the quartz dialect, whose last field is the year?"),
        (S, "0 0 9 * * ? * *", None, "this one has 8."),
        (S, "0 9 * * 1", None, "did you mean the unix dialect"),
        (Q, "0 0 0 30 2 ?", None, "“0 0 0 30 2 ?” never fires: February has no day 30."),
        (U, "0 0 31 4 *", None, "never fires: April has no day 31."),
        (S, "0 0 0 31 4,6 *", None, "never fires: none of its months has a day 31."),
        (Q, "0 0 0 31W 2 ?", None, "never fires: February has no day 31W."),
        (Q, "0 0 0 29W 2 ? 2025", None, "its months have no day 29W in the years 2025."),
        (Q, "0 0 0 L-28 2 ? 2025", None, "its months have no day L-28 in the years 2025."),
        (Q, "0 0 0 L-29 2 ?", None, "never fires: February has no day L-29."),
        (Q, "0 0 0 29 2 ? 2025-2027", None, "its months have no day 29 in the years 2025-2027."),
        (Q, "0 0 0 ? 2 MON#5 2025", None, "its months have no weekday MON#5 in the years 2025."),
        (S, "0 0 0 1-7 * MON#3", None,
         "no day is 1-7 by day-of-month and also MON#3 by day-of-week."),
    ],
)  # fmt: skip
def test_refusals_name_field_position_rule_and_suggestion(
    dialect: Dialect, expression: str, position: int | None, message: str
) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse_cron(expression, dialect)
    assert message in str(caught.value)
    assert caught.value.field == "expression"
    assert caught.value.params.get("position") == position


@pytest.mark.parametrize(
    ("dialect", "expression"),
    [
        (Q, "0 0 0 29 2 ?"),
        (Q, "0 0 0 29W 2 ?"),
        (Q, "0 0 0 L-28 2 ?"),
        (Q, "0 0 0 ? 2 SUN#5"),
        (U, "0 0 31 2 0"),  # on Sundays
        (S, "0 0 0 29 2 WED"),
        (Q, "0 0 0 29 2 ? 2025-2028"),
        (Q, "59 59 23 31 12 ? 2199"),
    ],
)
def test_what_fires_rarely_is_not_refused(dialect: Dialect, expression: str) -> None:
    assert parse_cron(expression, dialect).text == expression
