"""The job form's cards give back every trigger exactly as it was stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from multidict import MultiDict

from tickwheel_admin.console.triggers.form import (
    TriggerCard,
    card_of_trigger,
    cards_as_sent,
    cards_with,
    changed_cards,
    new_card,
    read_cards,
    rules_by_kind,
)
from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import instant_from_iso
from tickwheel_admin.domain.input.trigger import parse_trigger, trigger_to_raw
from tickwheel_admin.domain.triggers.kinds import KINDS
from tickwheel_admin.domain.triggers.own_fields import Input

# 02:30 comes twice on this night; this is the second pass.
TWICE = "2026-10-25T02:30:00+01:00"
EVERY_KIND: tuple[dict[str, Any], ...] = (
    {"kind": "cron", "expression": "*/5 * * * *"},
    {
        "kind": "cron", "expression": "0 0 9 ? * 2", "dialect": "spring",
        "timezone": "Europe/Berlin", "gap": "skip", "overlap": "both", "calendar": "holidays",
        "start_at": TWICE, "end_at": "2030-01-01T00:00:00.250Z", "jitter_seconds": 0.5,
        "priority": 2, "parameters": {"big": 9007199254740993, "text": "“x”\n"},
        "misfire": "fire_all", "catch_up_limit": 7, "misfire_threshold_seconds": 90,
    },
    {"kind": "fixed_rate", "every_seconds": 0.25},
    {
        "kind": "fixed_rate", "every_seconds": 7200, "anchor_at": "2026-01-01T00:00:00.001Z",
        "timezone": "Asia/Shanghai",
    },
    {"kind": "fixed_delay", "every_seconds": 90},
    {"kind": "fixed_delay", "every_seconds": 90, "initial_delay_seconds": 0, "repeat_count": 3},
    {"kind": "once", "at": TWICE, "timezone": "Europe/Berlin", "misfire": "skip"},
    {"kind": "once", "at": "2026-12-24T18:00:00Z"},
    {
        "kind": "calendar_interval", "every": 2, "unit": "month", "start_date": "2026-01-31",
        "at_time": "23:59:30", "timezone": "America/New_York",
    },
    {
        "kind": "daily_window", "every_seconds": 900, "from_time": "08:00", "to_time": "17:30",
        "weekdays": ["mon", "sun"], "timezone": "Europe/Berlin",
    },
    {"kind": "daily_window", "every_seconds": 86400, "from_time": "00:00", "to_time": "23:59:59"},
)  # fmt: skip

TYPED = {
    Input.EXPRESSION: "*/5 * * * *",
    Input.DIALECT: "unix",
    Input.LENGTH: "7",
    Input.COUNT: "3",
    Input.WHOLE: "3",
    Input.INSTANT: "2027-01-01T09:30:15",
    Input.DATE: "2027-01-01",
    Input.TIME: "10:30",
    Input.WEEKDAYS: "mon,sun",
}


@pytest.mark.parametrize("raw", EVERY_KIND)
def test_a_stored_trigger_comes_back_unchanged(raw: dict[str, Any]) -> None:
    spec = parse_trigger(raw)
    (card,) = cards_as_sent(_sent(card_of_trigger("4", spec)))
    problems: list[Problem] = []
    (read,) = read_cards([card], problems)

    assert problems == []
    assert parse_trigger(read) == spec


def test_what_is_typed_for_another_kind_is_kept_and_does_not_count() -> None:
    card = card_of_trigger("0", parse_trigger(EVERY_KIND[1]))
    sent = _sent(card)
    sent["trigger0.kind"] = "fixed_delay"
    (changed,) = cards_as_sent(sent)
    (read,) = read_cards([changed], [])

    assert changed["expression"] == "0 0 9 ? * 2"
    assert "expression" not in read
    assert "misfire" not in read


def test_a_time_that_was_changed_is_read_in_the_zone_of_its_trigger() -> None:
    sent = _sent(card_of_trigger("0", parse_trigger(EVERY_KIND[6])))
    sent["trigger0.at"] = "2026-07-01T12:00"
    (read,) = read_cards(cards_as_sent(sent), [])

    assert instant_from_iso(read["at"]) == instant_from_iso("2026-07-01T10:00:00Z")


def test_problems_lie_at_the_card_and_the_field_of_the_form() -> None:
    cards = [
        new_card(key, kind, timezone="UTC", today="2026-01-01")
        for key, kind in (("0", "cron"), ("3", "fixed_delay"), ("5", "calendar_interval"))
    ]
    fields = (
        "triggers[0].expression", "triggers[1].every_seconds", "triggers[2].every",
        "triggers[2].weekdays[1]", "triggers[1]", "name",
    )  # fmt: skip
    first, second, third = cards_with(
        cards, [Problem(field=field, code="wrong", template=field) for field in fields]
    )

    assert first.problem("expression") is not None
    assert second.problem("pause") is not None
    assert [p.template for p in second.unplaced] == ["triggers[1]"]
    assert third.problem("count") is not None
    assert third.problem("weekdays") is not None
    assert first.unplaced == third.unplaced == []


def test_keys_of_cards_stay_while_others_come_and_go() -> None:
    cards: tuple[TriggerCard, ...] = ()
    for action in ("add:cron", "add:once", "duplicate:0", "remove:1", "add:nonsense", "remove:9"):
        cards = changed_cards(cards, action, timezone="UTC", today="2026-01-01")

    assert [(card.key, card["kind"]) for card in cards] == [
        ("0", "cron"),
        ("2", "cron"),
        ("3", "cron"),
    ]


def test_there_is_no_end_of_cards_but_the_limit_of_triggers() -> None:
    cards: tuple[TriggerCard, ...] = ()
    for _ in range(60):
        cards = changed_cards(cards, "add:once", timezone="UTC", today="2026-01-01")

    assert len(cards) == 50


@pytest.mark.parametrize("kind", KINDS)
def test_the_own_fields_of_every_kind_are_read_and_shown(kind: str) -> None:
    """Without naming a kind: a new one is tested by its records."""
    own = KINDS[kind].own_fields(str)
    new = new_card("0", kind, timezone="Europe/Berlin", today="2026-01-01")
    typed = {field.form_name: TYPED[field.input] for field in own if not field.default}
    problems: list[Problem] = []
    (raw,) = read_cards([replace(new, values={**new.values, **typed})], problems)
    spec = parse_trigger(raw)
    (again,) = read_cards([card_of_trigger("0", spec)], problems)

    assert problems == []
    assert {name for field in own for name in field.names} <= raw.keys()
    assert parse_trigger(again) == spec


@pytest.mark.parametrize("raw", EVERY_KIND)
def test_what_the_api_writes_it_reads(raw: dict[str, Any]) -> None:
    spec = parse_trigger(raw)
    assert parse_trigger(trigger_to_raw(spec)) == spec


def test_no_two_kinds_share_a_field_of_the_form() -> None:
    """What is typed for one would be shown for the other, and ids would stand twice."""
    names = [field.form_name for kind in KINDS.values() for field in kind.own_fields(str)]
    assert sorted(set(names)) == sorted(names)


def test_rules_without_script_name_every_kind() -> None:
    for kind in KINDS:
        assert f'[value="{kind}"]:checked) .only:not(.for-{kind})' in rules_by_kind()


def _sent(card: TriggerCard) -> MultiDict[str]:
    """What a browser sends of a card."""
    sent = MultiDict({"trigger": card.key})
    for name, value in card.values.items():
        values = value.split(",") if name == "weekdays" else [value]
        for each in filter(None, values) if name == "weekdays" else values:
            # Browsers end lines like this.
            sent.add(card.name_of(name), each.replace("\n", "\r\n"))
    return sent
