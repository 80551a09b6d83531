"""Triggers as people and programs write them: field names, limits, defaults, and back.

`parse_trigger` notes every problem before it refuses; `trigger_to_raw` is its exact inverse.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import Fields, as_seconds, closest, optional_iso, raise_if_any
from tickwheel_admin.domain.input.json_text import BadJson, text_of_object
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.schedule.zones import zone_of
from tickwheel_admin.domain.triggers.bounds import check_bounds
from tickwheel_admin.domain.triggers.kinds import KINDS, AnySpec
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.schedule import by_plain_clocks, parse
from tickwheel_admin.domain.triggers.spec import (
    MAX_CATCH_UP,
    MAX_JITTER_MS,
    MAX_REPEAT_COUNT,
    MISFIRE_THRESHOLD_MS,
    MisfirePolicy,
    TriggerSpec,
    WallTimeSpec,
)

_CLOCKS = ("gap", "overlap")
_MISSED = ("misfire", "misfire_threshold_seconds", "catch_up_limit")
_EVERY_KIND = (
    "timezone",
    "start_at",
    "end_at",
    "repeat_count",
    "calendar",
    "jitter_seconds",
    "priority",
    "parameters",
)
TRIGGER_FIELDS: dict[str, tuple[str, ...]] = {
    name: (
        "kind",
        *(name for field in kind.own_fields(str) for name in field.names),
        *(_CLOCKS if kind.has_wall_times else ()),
        # The next fire follows from the end of the run before, so none can be missed.
        *(() if kind.follows_runs else _MISSED),
        *_EVERY_KIND,
    )
    for name, kind in KINDS.items()
}
_OF_ANY_KIND = {name for names in TRIGGER_FIELDS.values() for name in names}

MAX_ZONE_CHARS = 100
MAX_CALENDAR_NAME_CHARS = 100
MIN_MISFIRE_THRESHOLD_MS = 1_000
MAX_MISFIRE_THRESHOLD_MS = 86_400_000


def parse_trigger(raw: object, path: str = "") -> AnySpec:
    """One trigger from a request, its schedule proven to be computable.

    That its calendar exists is checked where it is saved.

    Raises:
        InvalidInput: with every problem found.
    """
    problems: list[Problem] = []
    spec = read_trigger(Fields(raw, path, problems))
    raise_if_any(problems)
    assert spec is not None  # noqa: S101 - nothing is refused without a problem
    return spec


# --- back to what people write -----------------------------------------------------------------


def trigger_to_raw(spec: TriggerSpec) -> dict[str, Any]:
    """What `parse_trigger` reads as this specification; every field of its kind is named."""
    every = {
        "kind": spec.kind,
        **spec.own_to_raw(),
        "timezone": spec.timezone,
        "start_at": optional_iso(spec.start_at),
        "end_at": optional_iso(spec.end_at),
        "repeat_count": spec.repeat_count,
        "calendar": spec.calendar,
        "jitter_seconds": as_seconds(spec.jitter_ms),
        "priority": spec.priority,
        "parameters": None if spec.parameters is None else json.loads(spec.parameters),
        "misfire": spec.misfire.value,
        "misfire_threshold_seconds": as_seconds(spec.misfire_threshold_ms),
        "catch_up_limit": (spec.catch_up_limit if spec.misfire is MisfirePolicy.FIRE_ALL else None),
    }
    if isinstance(spec, WallTimeSpec):
        every |= {"gap": spec.gap.value, "overlap": spec.overlap.value}
    return {name: every[name] for name in TRIGGER_FIELDS[spec.kind]}


# --- reading -----------------------------------------------------------------------------------


def read_trigger(fields: Fields) -> AnySpec | None:
    """The trigger, or None when a problem was noted."""
    before = len(fields.problems)
    if not fields.has("kind"):
        if not fields.is_object:
            return None
        fields.refuse("kind", "required", "This is required.")
        return None
    kind = KINDS[fields.choice("kind", list(KINDS), default=CronSpec.kind)]
    if len(fields.problems) > before:
        return None  # which fields there may be is not known
    _refuse_others(fields, kind.kind)
    found = _read_for_every_kind(fields)
    before_own = len(fields.problems)
    found |= kind.read_own(fields)
    is_own_read = len(fields.problems) == before_own
    if kind.has_wall_times:
        found["timezone"] = found["timezone"] or "UTC"
        found["gap"] = fields.member("gap", Gap, default=Gap.FIRE)
        found["overlap"] = fields.member("overlap", Overlap, default=Overlap.AUTO)
    if not kind.follows_runs:
        found |= _read_missed(fields)
    spec = kind(**found)
    if len(fields.problems) == before and _is_computable(spec, fields):
        return spec
    _refuse_each_part(spec, fields, is_own_read=is_own_read)
    return None


def _refuse_others(fields: Fields, kind: str) -> None:
    """Refuse what no trigger has, and what this kind does not have; null counts as not given."""
    known = TRIGGER_FIELDS[kind]
    fields.only(known, elsewhere=_OF_ANY_KIND)
    for name in fields.raw:
        if name in known or name not in _OF_ANY_KIND or not fields.has(name):
            continue
        params = {"kind": kind, "name": name, "known": ", ".join(known)}
        if meant := closest(name, known):
            fields.refuse(
                name,
                "does_not_apply",
                "A trigger of kind %(kind)s has no field “%(name)s”; did you mean “%(meant)s”?",
                **params,
                meant=meant,
            )
        else:
            fields.refuse(
                name,
                "does_not_apply",
                "A trigger of kind %(kind)s has no field “%(name)s”; it has %(known)s.",
                **params,
            )


def _read_for_every_kind(fields: Fields) -> dict[str, Any]:
    found: dict[str, Any] = {
        "timezone": fields.text("timezone", max_chars=MAX_ZONE_CHARS) or None,
        "start_at": fields.instant("start_at"),
        "end_at": fields.instant("end_at"),
        "calendar": fields.text("calendar", max_chars=MAX_CALENDAR_NAME_CHARS) or None,
        "jitter_ms": fields.seconds_as_ms("jitter_seconds", low_ms=0, high_ms=MAX_JITTER_MS) or 0,
        "parameters": _read_parameters(fields),
    }
    if fields.has("repeat_count"):
        found["repeat_count"] = fields.integer(
            "repeat_count", low=1, high=MAX_REPEAT_COUNT, default=1
        )
    if fields.has("priority"):
        found["priority"] = fields.integer("priority", low=1, high=9, default=5)
    return found


def _read_parameters(fields: Fields) -> str | None:
    """JSON of an object; None when it is empty, which changes nothing."""
    if not fields.has("parameters"):
        return None
    try:
        text = text_of_object(fields.raw["parameters"])
    except BadJson as error:
        fields.refuse("parameters", error.code, error.template, **error.params)
        return None
    return None if text == "{}" else text


def _read_missed(fields: Fields) -> dict[str, Any]:
    """What becomes of fires that were missed."""
    misfire = fields.member("misfire", MisfirePolicy, default=MisfirePolicy.FIRE_ONCE)
    threshold_ms = fields.seconds_as_ms(
        "misfire_threshold_seconds",
        low_ms=MIN_MISFIRE_THRESHOLD_MS,
        high_ms=MAX_MISFIRE_THRESHOLD_MS,
    )
    limit = fields.integer("catch_up_limit", low=1, high=MAX_CATCH_UP, default=MAX_CATCH_UP)
    if misfire is not MisfirePolicy.FIRE_ALL and fields.has("catch_up_limit"):
        fields.refuse(
            "catch_up_limit",
            "does_not_apply",
            "This limits how many missed fires run, so it needs misfire “fire_all”.",
        )
    return {
        "misfire": misfire,
        "misfire_threshold_ms": MISFIRE_THRESHOLD_MS if threshold_ms is None else threshold_ms,
        "catch_up_limit": limit,
    }


def _is_computable(spec: TriggerSpec, fields: Fields) -> bool:
    try:
        parse(spec, saved_at=0)
    except ScheduleError as error:
        _refuse_schedule(spec, error, fields)
        return False
    return True


def _refuse_each_part(spec: TriggerSpec, fields: Fields, *, is_own_read: bool) -> None:
    """Note what is wrong with its bounds, its zone and its own fields, each without the others.

    Its own fields only if all of them were read: what one means may depend on another.
    """
    parts: list[Callable[[], object]] = [
        partial(check_bounds, spec),
        partial(zone_of, spec.timezone),
    ]
    if is_own_read:
        parts.append(partial(parse, by_plain_clocks(spec), saved_at=0))
    for check in parts:
        try:
            check()
        except ScheduleError as error:
            _refuse_schedule(spec, error, fields)


def _refuse_schedule(spec: TriggerSpec, error: ScheduleError, fields: Fields) -> None:
    """Note it, unless its field is refused already."""
    where = fields.where(error.field)
    if all(problem.field != where for problem in fields.problems):
        fields.refuse(error.field, f"{spec.kind}.invalid", error.template, **error.params)
