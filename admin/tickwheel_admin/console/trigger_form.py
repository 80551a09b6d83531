"""The part of the job form that says when it fires: one card for each trigger.

A card has the fields of every kind at once, so that nothing typed is lost when the kind is changed;
only those of the chosen kind are shown and count. A card's key names its fields ("trigger0.kind")
and stays with it while others come and go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from multidict import MultiMapping

from tickwheel_admin.console.reader import time_zones
from tickwheel_admin.console.typed import Typed, in_units, pretty
from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import as_seconds, instant_from_iso, instant_to_iso
from tickwheel_admin.domain.trigger import Dialect, MisfirePolicy, TriggerKind, TriggerSpec
from tickwheel_admin.domain.trigger_input import TRIGGER_FIELDS
from tickwheel_admin.domain.wall_clock import WEEKDAYS, seconds_of_time, short_time

MAX_CARDS = 50  # as many as a job may have triggers

_INSTANTS = ("at", "anchor_at", "start_at", "end_at")
# How a raw length is called in the form, which keeps what was typed for each kind apart.
_LENGTH_OF_KIND: Mapping[str, str] = {
    TriggerKind.FIXED_RATE.value: "rate",
    TriggerKind.FIXED_DELAY.value: "pause",
    TriggerKind.DAILY_WINDOW.value: "step",
}
_PLACES = {
    "every": "count",
    "initial_delay_seconds": "initial_delay",
    "jitter_seconds": "jitter",
    "misfire_threshold_seconds": "misfire_threshold",
}
_IN_MORE = (
    "gap", "overlap", "initial_delay", "anchor_at", "start_at", "end_at", "repeat_count",
    "calendar", "jitter", "priority", "parameters", "misfire", "misfire_threshold",
    "catch_up_limit",
)  # fmt: skip
_DEFAULTS: dict[str, str] = {
    "kind": TriggerKind.CRON.value,
    "expression": "",
    "dialect": Dialect.UNIX.value,
    "timezone": "",
    "gap": "fire",
    "overlap": "auto",
    "rate": "5",
    "rate_unit": "m",
    "anchor_at": "",
    "pause": "5",
    "pause_unit": "m",
    "initial_delay": "",
    "initial_delay_unit": "m",
    "at": "",
    "count": "1",
    "unit": "week",
    "start_date": "",
    "at_time": "09:00",
    "step": "15",
    "step_unit": "m",
    "from_time": "09:00",
    "to_time": "18:00",
    "weekdays": "",
    "start_at": "",
    "end_at": "",
    "repeat_count": "",
    "calendar": "",
    "jitter": "",
    "jitter_unit": "s",
    "priority": "",
    "parameters": "",
    "misfire": MisfirePolicy.FIRE_ONCE.value,
    "misfire_threshold": "5",
    "catch_up_limit": "1000",
    # Instants as they are stored: a local time alone would lose the pass of a repeated hour.
    **{f"{name}_kept": "" for name in _INSTANTS},
}
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

    def problem(self, name: str) -> Problem | None:
        """What is wrong with one field."""
        return next((p for p in self.problems if self._place(p) == name), None)

    @property
    def unplaced(self) -> list[Problem]:
        """What is wrong with the whole, or with a field that the card does not have."""
        return [p for p in self.problems if self._place(p) not in self.values]

    @property
    def opens_more(self) -> bool:
        """Whether the section of things seldom needed has something to show."""
        return any(self[name] != _DEFAULTS[name] or self.problem(name) for name in _IN_MORE)

    def _place(self, problem: Problem) -> str:
        field = problem.field.partition("[")[0].partition(".")[0]
        if field == "every_seconds":
            return _LENGTH_OF_KIND.get(self["kind"], field)
        return _PLACES.get(field, field)


def shown_for(field: str) -> str:
    """Classes that show a field of the form for the kinds that have it, without script."""
    kinds = [
        f"for-{kind}" for kind, names in TRIGGER_FIELDS.items() if _raw_of(field, kind) in names
    ]
    return " ".join(("only", *kinds))


def _raw_of(field: str, kind: str) -> str | None:
    """What a field of the form is called in a raw trigger of this kind."""
    if field in _LENGTH_OF_KIND.values():
        return "every_seconds" if _LENGTH_OF_KIND.get(kind) == field else None
    return next((raw for raw, place in _PLACES.items() if place == field), field)


def new_card(key: str, kind: str, *, timezone: str, today: str) -> TriggerCard:
    """The card of a trigger that somebody adds; `today` is a date of that zone."""
    known = kind if kind in frozenset(TriggerKind) else TriggerKind.CRON.value
    values = _DEFAULTS | {"kind": known, "timezone": timezone, "start_date": today}
    return TriggerCard(key=key, values=values, is_new=True)


def card_of_trigger(key: str, spec: TriggerSpec) -> TriggerCard:
    """The card of a stored trigger."""
    zone = spec.timezone or "UTC"
    values = _DEFAULTS | {
        "kind": spec.kind.value,
        "timezone": spec.timezone or "",
        "gap": spec.gap.value,
        "overlap": spec.overlap.value,
        "weekdays": ",".join(WEEKDAYS[day - 1] for day in spec.weekdays),
        "repeat_count": _text(spec.repeat_count),
        "calendar": spec.calendar or "",
        "priority": _text(spec.priority),
        "parameters": pretty(spec.parameters) if spec.parameters else "",
        "misfire": spec.misfire.value,
        "misfire_threshold": str(as_seconds(spec.misfire_threshold_ms)),
        "catch_up_limit": str(spec.catch_up_limit),
    }
    optional = {
        "expression": spec.expression,
        "dialect": spec.dialect,
        "count": spec.every,
        "unit": spec.unit,
        "start_date": spec.start_date,
    }
    values |= {name: str(value) for name, value in optional.items() if value is not None}
    times = {"at_time": spec.at_time, "from_time": spec.from_time, "to_time": spec.to_time}
    values |= {name: short_time(seconds_of_time(time)) for name, time in times.items() if time}
    lengths = {"initial_delay": spec.initial_delay_ms, "jitter": spec.jitter_ms or None}
    if spec.kind in _LENGTH_OF_KIND:
        lengths[_LENGTH_OF_KIND[spec.kind]] = spec.every_ms
    for name, ms in lengths.items():
        if ms is not None:
            values[name], values[f"{name}_unit"] = in_units(ms)
    for name in _INSTANTS:
        at: int | None = getattr(spec, name)
        if at is not None:
            values |= {name: _local(at, zone), f"{name}_kept": instant_to_iso(at)}
    return TriggerCard(key=key, values=values)


def cards_as_sent(sent: MultiMapping[str]) -> tuple[TriggerCard, ...]:
    """The cards as somebody filled them in."""
    keys = dict.fromkeys(key for key in sent.getall("trigger", []) if _KEY.fullmatch(key))
    return tuple(_card_as_sent(key, sent) for key in list(keys)[: MAX_CARDS + 1])


def _card_as_sent(key: str, sent: MultiMapping[str]) -> TriggerCard:
    values = dict(_DEFAULTS)
    for name in values:
        typed = sent.getall(f"trigger{key}.{name}", [])
        if name == "weekdays":
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
    if doing == "add" and len(cards) < MAX_CARDS:
        zone = cards[-1]["timezone"] if cards else timezone
        changed.append(new_card(next_key, what, timezone=zone, today=today))
    elif doing == "duplicate" and place is not None and len(cards) < MAX_CARDS:
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
        typed = Typed(values=card.values, problems=[])
        found.append(read_card(typed))
        problems += [replace(p, field=f"triggers[{index}].{p.field}") for p in typed.problems]
    return found


def read_card(typed: Typed) -> dict[str, Any]:
    """The raw trigger that the fields of one card say."""
    kind = typed.text("kind")
    if kind not in frozenset(TriggerKind):
        return {"kind": kind}
    known = TRIGGER_FIELDS[TriggerKind(kind)]
    raw = {"kind": kind} | {name: _read(typed, name, TriggerKind(kind)) for name in known[1:]}
    if raw.get("misfire") != MisfirePolicy.FIRE_ALL:
        raw.pop("catch_up_limit", None)
    return {name: value for name, value in raw.items() if value not in (None, "")}


def _read(typed: Typed, name: str, kind: TriggerKind) -> Any:
    if name in _INSTANTS:
        return _read_instant(typed, name)
    match name:
        case "every_seconds":
            field = _LENGTH_OF_KIND[kind]
            return typed.length(field, typed.text(f"{field}_unit"))
        case "initial_delay_seconds":
            return typed.length("initial_delay", typed.text("initial_delay_unit"))
        case "jitter_seconds":
            return typed.length("jitter", typed.text("jitter_unit"))
        case "misfire_threshold_seconds":
            return typed.length("misfire_threshold")
        case "every":
            return typed.whole("count")
        case "repeat_count" | "priority" | "catch_up_limit":
            return typed.whole(name)
        case "weekdays":
            return [day for day in typed.text(name).split(",") if day] or None
        case "parameters":
            return typed.parameters(name) if typed.text(name) else None
    return typed.text(name)


def _read_instant(typed: Typed, name: str) -> str | None:
    zone = typed.text("timezone") or "UTC"
    kept = typed.text(f"{name}_kept")
    try:
        if kept and _local(instant_from_iso(kept), zone) == typed.text(name):
            return kept
    except (ValueError, OverflowError):
        pass  # no instant of ours: what is typed counts
    return typed.local_instant(name, zone=zone)


def _local(at: int, zone: str) -> str:
    """For the value of a `datetime-local` field, to the millisecond."""
    moment = datetime.fromtimestamp(at // 1000, ZoneInfo(zone) if zone in time_zones() else UTC)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S" if at % 60_000 else "%Y-%m-%dT%H:%M")
    return f"{text}.{at % 1000:03}" if at % 1000 else text


def _text(number: int | None) -> str:
    return "" if number is None else str(number)
