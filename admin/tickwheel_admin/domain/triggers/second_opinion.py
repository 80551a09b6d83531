"""What croniter makes of an expression that it can express too, to notice a mistake of either.

Compared are wall times, on clocks that never change: what clocks do to them differs by design
(schedules.md). What croniter cannot say, or is known to say wrongly, is not compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from croniter import CroniterBadDateError, CroniterError, croniter

from tickwheel_admin.domain.errors import Word
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.schedule.cron import Cron, CronExpression, Field, FieldKind
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.cron.tokens import (
    From,
    LastDay,
    LastWeekday,
    LastWorkday,
    NearestWorkday,
    NthWeekday,
    Range,
)
from tickwheel_admin.domain.schedule.zones import zone_of
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.spec import TriggerSpec

COMPARED = 50
_LATEST = datetime(2099, 1, 1, tzinfo=UTC)  # the year field of croniter 7.0.0 ends there
_LATEST_MS = int(_LATEST.timestamp()) * 1000
_DIFFERS = Word(
    "croniter, another cron library, computes another fire than Tickwheel does;"
    " check that the expression says what you mean."
)
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """The first fire that differs."""

    ours: int | None  # wall time as UTC epoch ms; None: no further fire
    theirs: int | None
    why: Word  # English message id


def second_opinion(spec: TriggerSpec, *, after: int, n: int = COMPARED) -> Disagreement | None:
    """Where our next fires and croniter's differ; None: nowhere, or it cannot say.

    Args:
        after: UTC epoch ms, taken as a wall time.
        n: how many fires are compared.

    Raises:
        ScheduleError: the expression is refused.
    """
    found = compared(spec, after=after, n=n)
    return found if isinstance(found, Disagreement) else None


def compared(spec: TriggerSpec, *, after: int, n: int = COMPARED) -> Disagreement | bool:
    """As `second_opinion`; True: croniter computes the same, False: it cannot say."""
    if not isinstance(spec, CronSpec):
        return False
    expression = spec.read_expression()
    text = _their_text(expression)
    if text is None:
        return False
    ours = Cron(expression, zone_of("UTC"), gap=Gap.FIRE, overlap=Overlap.FIRST)
    try:
        theirs = croniter(
            text,
            datetime.fromtimestamp(after // 1000, UTC),
            day_or=expression.either_day,
            second_at_beginning=True,
        )
        at = after
        for _ in range(n):
            found = ours.next_after(at)
            try:
                moment = theirs.get_next(datetime)
            except CroniterBadDateError:  # it looks no further than 50 years ahead
                return found is None
            if moment >= _LATEST or (found is not None and found >= _LATEST_MS):
                return True
            their_at = int(moment.timestamp()) * 1000
            if found != their_at:
                return Disagreement(ours=found, theirs=their_at, why=_DIFFERS)
            at = their_at
    except (CroniterError, ValueError, KeyError, OverflowError):
        return False  # it knows fewer forms than we do
    return True


def _their_text(expression: CronExpression) -> str | None:
    """The expression as croniter writes it; None when it cannot, or is known to misread it."""
    fields = expression.fields
    if not all(_is_safe(field) for field in fields):
        return None
    in_month, in_week = fields[FieldKind.DAY_OF_MONTH], fields[FieldKind.DAY_OF_WEEK]
    if (in_month.specials or in_week.specials) and not (in_month.is_any or in_week.is_any):
        return None  # it forgets one of the two days then
    texts = [field.text for field in fields]
    texts[FieldKind.DAY_OF_MONTH] = texts[FieldKind.DAY_OF_MONTH].replace("?", "*")
    texts[FieldKind.DAY_OF_WEEK] = _their_weekdays(
        fields[FieldKind.DAY_OF_WEEK], expression.dialect
    )
    if texts[FieldKind.YEAR] == "*":
        texts.pop()
    return " ".join(texts)


def _is_safe(field: Field) -> bool:
    """Whether croniter reads a field as all dialects do."""
    for token in field.tokens:
        match token:
            case LastWorkday():
                return False
            case LastDay(before) if before > 0:
                return False
            case NearestWorkday(day) if day > 28 or len(field.tokens) > 1:
                return False
            case LastWeekday() | NthWeekday() if len(field.tokens) > 1:
                return False
            case Range(first, last, step) if first == last or (last < first and step > 1):
                return False
            case _:
                pass
    return True


def _their_weekdays(field: Field, dialect: Dialect) -> str:
    """By names, because each dialect has its own numbers and steps; `6L` is `L6` there."""
    if any(isinstance(token, From) or getattr(token, "step", 1) > 1 for token in field.tokens):
        return ",".join(_DAYS[day] for day in field.values)
    text = field.text.lower().replace("?", "*")
    if text == "l":
        return "sat"
    if dialect is Dialect.QUARTZ:
        text = re.sub(r"(?<![/#0-9])[1-7](?![0-9])", lambda m: _DAYS[int(m[0]) - 1], text)
    last = re.fullmatch(r"([a-z]{3}|[0-7])l", text)
    return f"l{_DAYS.index(last[1]) if last[1] in _DAYS else int(last[1]) % 7}" if last else text
