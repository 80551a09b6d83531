"""Triggers in words: right for the common shapes, the expression itself for all others."""

from __future__ import annotations

import pytest

from tickwheel_admin.domain.schedule.describe import describe
from tickwheel_admin.domain.trigger import TriggerKind, TriggerSpec


def english(text: str) -> str:
    return text


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("* * * * *", "Every minute"),
        ("*/1 * * * *", "Every minute"),
        ("*/5 * * * *", "Every 5 minutes"),
        ("0,15,30,45 * * * *", "Every 15 minutes"),
        ("0 * * * *", "Every hour, on the hour"),
        ("@hourly", "Every hour, on the hour"),
        ("7 * * * *", "Every hour at minute 7"),
        ("5,35 * * * *", "Every hour at minutes 5, 35"),
        ("0 */2 * * *", "Every 2 hours from 00:00"),
        ("0 */5 * * *", "Every day at 00:00, 05:00, 10:00, 15:00, 20:00"),
        ("15 */3 * * *", "Every 3 hours from 00:15"),
        ("0 9 * * *", "Every day at 09:00"),
        ("30 8,20 * * *", "Every day at 08:30, 20:30"),
        ("@daily", "Every day at 00:00"),
        ("@Midnight", "Every day at 00:00"),
        ("0 9 * * 1-5", "At 09:00 on weekdays"),
        ("0 9 * * mon-fri", "At 09:00 on weekdays"),
        ("0 9 * * 6,7", "At 09:00 on weekends"),
        ("0 9 * * SUN,WED", "At 09:00 on Wednesday, Sunday"),
        ("@weekly", "At 00:00 on Sunday"),
        ("0 9 * * 0-7", "Every day at 09:00"),
        ("*/10 9-17 * * 1-5", "Every 10 minutes from 09:00 to 17:50, on weekdays"),
        ("0 8-18 * * *", "Every hour from 08:00 to 18:00"),
        ("* 9 * * *", "Every minute from 09:00 to 09:59"),
        ("0 6 1 * *", "At 06:00 on day 1 of every month"),
        ("0 6 1,15 * *", "At 06:00 on day 1, 15 of every month"),
        ("@yearly", "At 00:00 on day 1 of January"),
        ("0 0 * mar,jun *", "At 00:00 every day in March, June"),
        ("0 12 * 12 1", "At 12:00 on Monday in December"),
        ("*/5 * * * 6", "Every 5 minutes, on Saturday"),
        ("  0   9  * * * ", "Every day at 09:00"),
    ],
)
def test_common_shapes_have_words(expression: str, words: str) -> None:
    assert _cron(expression) == words


@pytest.mark.parametrize(
    "expression",
    [
        "*/7 * * * *",  # 0, 7 … 56, 0: not every 7 minutes
        "0 1-23/2 * * *",
        "0 9 13 * 5",  # the 13th or any Friday
        "0 9 */2 * 1",
        "0 9 L * *",
        "0 9 * * 5#2",
        "1-8 * * * *",
        "0,10 9,11,13,15,17 * * *",
        "0 9 * * 5-1",
        "0 9 * *",
        "x y z a b",
        "0 ٩ * * *",
        "*/0 * * * *",
        "",
        "@reboot",
    ],
)
def test_what_has_no_short_words_stands_for_itself(expression: str) -> None:
    assert _cron(expression) == expression


@pytest.mark.parametrize(
    ("every_ms", "words"),
    [
        (100, "Every 0.1 seconds"),
        (1_000, "Every second"),
        (5_000, "Every 5 seconds"),
        (60_000, "Every minute"),
        (90_000, "Every 90 seconds"),
        (7_200_000, "Every 2 hours"),
        (86_400_000, "Every day"),
        (172_800_000, "Every 2 days"),
    ],
)
def test_fixed_rates_use_the_largest_fitting_unit(every_ms: int, words: str) -> None:
    assert describe(TriggerSpec(kind=TriggerKind.FIXED_RATE, every_ms=every_ms), english) == words


def test_once_names_its_instant() -> None:
    spec = TriggerSpec(kind=TriggerKind.ONCE, at=1_772_355_600_000)
    assert describe(spec, english) == "Once at 2026-03-01 09:00:00 UTC"


def test_every_word_goes_through_the_translator() -> None:
    marked = describe(
        TriggerSpec(kind=TriggerKind.CRON, expression="0 9 * * 1", dialect="unix"),
        lambda text: (
            {
                "At %(times)s %(days)s": "%(days)s %(times)s",
                "on %(weekdays)s": "每%(weekdays)s",
                "Monday": "周一",
            }[text]
            if text in ("At %(times)s %(days)s", "on %(weekdays)s", "Monday")
            else text
        ),
    )
    assert marked == "每周一 09:00"


def _cron(expression: str) -> str:
    return describe(TriggerSpec(kind=TriggerKind.CRON, expression=expression), english)
