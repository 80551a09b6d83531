"""The part of the job form that says when it fires: one card for each trigger.

A card has the fields of every kind at once, so that nothing typed is lost when the kind is changed;
only those of the chosen kind are shown and count. A card's key names its fields ("trigger0.kind")
and stays with it while others come and go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from multidict import MultiMapping

from tickwheel_admin.console.frame.units import FormFields
from tickwheel_admin.console.triggers.values import (
    DEFAULTS,
    INSTANTS,
    SELDOM,
    WEEKDAY_FIELDS,
    place_of,
    read_card,
    values_of_trigger,
)
from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.input.job import MAX_TRIGGERS
from tickwheel_admin.domain.input.trigger import TRIGGER_FIELDS
from tickwheel_admin.domain.schedule.wall_clock import WEEKDAYS
from tickwheel_admin.domain.triggers.kinds import KINDS
from tickwheel_admin.domain.triggers.spec import TriggerSpec

_IN_MORE = (
    *SELDOM, "gap", "overlap", "start_at", "end_at", "repeat_count", "calendar", "jitter",
    "priority", "parameters", "misfire", "misfire_threshold", "catch_up_limit",
)  # fmt: skip
_KEY = re.compile(r"[0-9]{1,4}")
_PROBLEM = re.compile(r"triggers\[([0-9]+)\](?:\.(.+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerCard:
    """One trigger as it was typed."""

    key: str
    values: Mapping[str, str]
    problems: tuple[Problem, ...] = ()  # fields named from the trigger on
    is_new: bool = False  # it has just been added, and nothing was typed yet

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    def name_of(self, name: str) -> str:
        """Name of a field in the form."""
        return f"trigger{self.key}.{name}"

    def id_of(self, name: str) -> str:
        """Id of a field in the page."""
        return f"trigger{self.key}-{name.replace('_', '-')}"

    @property
    def kept(self) -> dict[str, str]:
        """Instants as they are stored, by the names of their hidden fields."""
        return {self.name_of(f"{name}_kept"): self[f"{name}_kept"] for name in INSTANTS}

    def problem(self, name: str) -> Problem | None:
        """What is wrong with one field."""
        return next(iter(self.problems_of(name)), None)

    def problems_of(self, name: str) -> list[Problem]:
        """All that is wrong with one field, or with parts of what it holds."""
        return [p for p in self.problems if self._place(p) == name]

    @property
    def unplaced(self) -> list[Problem]:
        """What is wrong with the whole, or with a field that the card does not have."""
        return [p for p in self.problems if self._place(p) not in self.values]

    @property
    def opens_more(self) -> bool:
        """Whether the section of things seldom needed has something to show."""
        return any(self[name] != DEFAULTS[name] or self.problem(name) for name in _IN_MORE)

    def _place(self, problem: Problem) -> str:
        field = problem.field.partition("[")[0].partition(".")[0]
        return place_of(field, self["kind"])


def shown_for(field: str) -> str:
    """Classes that show a field of the form for the kinds that have it, without script."""
    kinds = [
        f"for-{kind}"
        for kind, names in TRIGGER_FIELDS.items()
        if any(place_of(name, kind) == field for name in names)
    ]
    return " ".join(("only", *kinds))


def rules_by_kind() -> str:
    """The style sheet that hides the fields of kinds that are not chosen, without script."""
    hidden = (
        f'.trigger-card:has([name$=".kind"][value="{kind}"]:checked) .only:not(.for-{kind})'
        for kind in KINDS
    )
    return f"@layer forms {{ {', '.join(hidden)} {{ display: none; }} }}"


def new_card(key: str, kind: str, *, timezone: str, today: str) -> TriggerCard:
    """The card of a trigger that somebody adds; `today` is a date of that zone."""
    known = kind if kind in KINDS else "cron"
    values = {**DEFAULTS, "kind": known, "timezone": timezone, "start_date": today}
    return TriggerCard(key=key, values=values, is_new=True)


def card_of_trigger(key: str, spec: TriggerSpec) -> TriggerCard:
    """The card of a stored trigger."""
    return TriggerCard(key=key, values=values_of_trigger(spec))


def cards_as_sent(sent: MultiMapping[str]) -> tuple[TriggerCard, ...]:
    """The cards as somebody filled them in."""
    keys = dict.fromkeys(key for key in sent.getall("trigger", []) if _KEY.fullmatch(key))
    return tuple(_card_as_sent(key, sent) for key in list(keys)[: MAX_TRIGGERS + 1])


def _card_as_sent(key: str, sent: MultiMapping[str]) -> TriggerCard:
    values = dict(DEFAULTS)
    for name in values:
        typed = sent.getall(f"trigger{key}.{name}", [])
        if name in WEEKDAY_FIELDS:
            values[name] = ",".join(day for day in WEEKDAYS if day in typed)
        elif typed:
            values[name] = typed[0].replace("\r\n", "\n")
    return TriggerCard(key=key, values=values)


def changed_cards(
    cards: Sequence[TriggerCard], action: str, *, timezone: str, today: str
) -> tuple[TriggerCard, ...]:
    """The cards after "add:cron", "duplicate:3" or "remove:3"; others change nothing."""
    doing, _, what = action.partition(":")
    next_key = str(max((int(card.key) for card in cards), default=-1) + 1)
    changed = list(cards)
    place = next((i for i, card in enumerate(cards) if card.key == what), None)
    if doing == "add" and len(cards) < MAX_TRIGGERS:
        zone = cards[-1]["timezone"] if cards else timezone
        changed.append(new_card(next_key, what, timezone=zone, today=today))
    elif doing == "duplicate" and place is not None and len(cards) < MAX_TRIGGERS:
        changed.insert(place + 1, replace(cards[place], key=next_key, is_new=True))
    elif doing == "remove" and place is not None:
        del changed[place]
    return tuple(changed)


def cards_with(cards: Sequence[TriggerCard], problems: Sequence[Problem]) -> list[TriggerCard]:
    """The cards, each with what is wrong with it."""
    found: dict[int, list[Problem]] = {}
    for problem in problems:
        if match := _PROBLEM.fullmatch(problem.field):
            found.setdefault(int(match[1]), []).append(replace(problem, field=match[2] or ""))
    return [replace(card, problems=tuple(found.get(index, ()))) for index, card in enumerate(cards)]


def is_of_a_card(problem: Problem, cards: Sequence[TriggerCard]) -> bool:
    """Whether a card shows this problem."""
    match = _PROBLEM.fullmatch(problem.field)
    return match is not None and int(match[1]) < len(cards)


def read_cards(cards: Sequence[TriggerCard], problems: list[Problem]) -> list[dict[str, Any]]:
    """The raw triggers that the cards say; what cannot be read is noted."""
    found = []
    for index, card in enumerate(cards):
        typed = FormFields(values=card.values, problems=[])
        found.append(read_card(typed))
        problems += [replace(p, field=f"triggers[{index}].{p.field}") for p in typed.problems]
    return found
