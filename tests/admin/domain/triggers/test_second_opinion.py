"""croniter's opinion: the same on whatever it can express, silent on what it cannot."""

from __future__ import annotations

from random import Random

import pytest

from tests.admin.domain.schedule.clocks import ms
from tests.admin.domain.schedule.cron_by_definition import random_expression
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.cron import Cron
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.triggers import second_opinion
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.second_opinion import Disagreement, compared
from tickwheel_admin.domain.triggers.spec import TriggerSpec

START = ms("2026-01-01T00:00:00Z")


def cron(expression: str, dialect: Dialect) -> TriggerSpec:
    return CronSpec(
        expression=expression,
        dialect=dialect.value,
        timezone="Europe/Berlin",
    )


@pytest.mark.parametrize("dialect", Dialect)
def test_both_agree_on_random_expressions(dialect: Dialect) -> None:
    random = Random(dialect.value)
    agreed = 0
    for _ in range(400):
        spec = cron(random_expression(random, dialect), dialect)
        try:
            found = compared(spec, after=START, n=12)
        except ScheduleError:
            continue
        assert not isinstance(found, Disagreement), (spec, found)
        agreed += found
    assert agreed > 60


@pytest.mark.parametrize(
    ("expression", "dialect"),
    [
        ("0 9 * * 1-5", Dialect.UNIX),
        ("0 9 13 * 5", Dialect.UNIX),
        ("0 9 */2 * 1", Dialect.UNIX),
        ("@weekly", Dialect.UNIX),
        ("0 0 9 ? * 2#3", Dialect.QUARTZ),
        ("0 0 9 ? * 6L", Dialect.QUARTZ),
        ("0 0 9 ? * L", Dialect.QUARTZ),
        ("0 0 9 L * ?", Dialect.QUARTZ),
        ("0 0 9 15W * ? 2027-2030", Dialect.QUARTZ),
        ("0 0 9 13 * FRI", Dialect.SPRING),
        ("0 0 9 * * 2", Dialect.SPRING),
    ],
)
def test_what_both_can_say_is_the_same(expression: str, dialect: Dialect) -> None:
    assert compared(cron(expression, dialect), after=START) is True


@pytest.mark.parametrize(
    "expression",
    [
        "0 0 9 LW * ?",
        "0 0 9 L-3 * ?",
        "0 0 9 L-3W * ?",
        "0 0 9 1W,15W * ?",
        "0 0 9 31W * ?",
        "0 0 9 5-5 * ?",
        "0 0 22-4/2 * * ?",
        "0 0 9 ? * MON,6#3",
    ],
)
def test_what_croniter_cannot_say_is_no_disagreement(expression: str) -> None:
    spec = cron(expression, Dialect.QUARTZ)
    assert compared(spec, after=START) is False
    assert second_opinion.second_opinion(spec, after=START) is None


def test_other_kinds_have_no_second_opinion() -> None:
    spec = FixedRateSpec(every_ms=1_000)
    assert second_opinion.second_opinion(spec, after=START) is None


def test_a_mistake_of_ours_would_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(Cron):
        def next_after(self, instant: int) -> int | None:
            found = super().next_after(instant)
            return None if found is None else found + 60_000

    monkeypatch.setattr(second_opinion, "Cron", Late)
    found = second_opinion.second_opinion(cron("0 9 * * *", Dialect.UNIX), after=START)
    assert found is not None
    assert found.ours == ms("2026-01-01T09:01:00Z")
    assert found.theirs == ms("2026-01-01T09:00:00Z")
