"""The type of a trigger as requests and answers write it: made of the records of its kind."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, defstruct

from tickwheel_admin.domain.input.trigger import (
    MAX_CALENDAR_NAME_CHARS,
    MAX_MISFIRE_THRESHOLD_MS,
    MAX_ZONE_CHARS,
    MIN_MISFIRE_THRESHOLD_MS,
    TRIGGER_FIELDS,
)
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.triggers.kinds import KINDS
from tickwheel_admin.domain.triggers.own_fields import Input, OwnField
from tickwheel_admin.domain.triggers.spec import (
    MAX_CATCH_UP,
    MAX_JITTER_MS,
    MAX_REPEAT_COUNT,
    MisfirePolicy,
)
from tickwheel_admin.web.input_fields import AnyInstant

_OF_ALL: dict[str, Any] = {
    "timezone": Annotated[
        str, Meta(max_length=MAX_ZONE_CHARS, description="IANA name; `UTC` if it is left out.")
    ],
    "start_at": AnyInstant,
    "end_at": AnyInstant,
    "repeat_count": Annotated[
        int, Meta(ge=1, le=MAX_REPEAT_COUNT, description="Runs, then it is complete.")
    ],
    "calendar": Annotated[
        str, Meta(max_length=MAX_CALENDAR_NAME_CHARS, description="The name of a calendar.")
    ],
    "jitter_seconds": Annotated[float, Meta(ge=0, le=MAX_JITTER_MS // 1000)],
    "priority": Annotated[int, Meta(ge=1, le=9, description="Instead of the job's.")],
    "parameters": Annotated[
        dict[str, Any], Meta(description="Over the job's, one top-level key at a time.")
    ],
    "misfire": MisfirePolicy,
    "misfire_threshold_seconds": Annotated[
        float, Meta(ge=MIN_MISFIRE_THRESHOLD_MS // 1000, le=MAX_MISFIRE_THRESHOLD_MS // 1000)
    ],
    "catch_up_limit": Annotated[int, Meta(ge=1, le=MAX_CATCH_UP)],
    "gap": Gap,
    "overlap": Overlap,
}
_OF_INPUT: dict[Input, Any] = {
    Input.EXPRESSION: str,
    Input.DIALECT: Dialect,
    Input.LENGTH: float,
    Input.COUNT: int,
    Input.WHOLE: int,
    Input.INSTANT: AnyInstant,
    Input.DATE: Annotated[str, Meta(extra_json_schema={"format": "date"})],
    Input.TIME: Annotated[str, Meta(description="Of the day, such as `08:30`.")],
    Input.WEEKDAYS: list[str],
}


def _type_of(kind: str) -> Any:
    types = dict(_OF_ALL)
    required = set()
    for own in KINDS[kind].own_fields(str):
        types |= _own_types(own)
        if own.is_required:
            required.add(own.unit if own.input is Input.COUNT else own.name)
    fields = [
        (name, types[name]) if name in required else (name, types[name] | None | UnsetType, UNSET)
        for name in TRIGGER_FIELDS[kind]
        if name != "kind"
    ]
    return defstruct(
        "".join(word.title() for word in kind.split("_")) + "Trigger",
        fields,
        namespace={"__doc__": KINDS[kind].name_and_hint(str)[1]},
        tag_field="kind",
        tag=kind,
        kw_only=True,
    )


def _own_types(own: OwnField) -> dict[str, Any]:
    told = Meta(description=f"{own.label}. {own.hint}".strip())
    types = {own.name: Annotated[_OF_INPUT[own.input], told]}
    if own.input is Input.COUNT:
        types[own.unit] = Literal[tuple(value for value, _ in own.choices)]
    return types


Trigger: Any = reduce(or_, (_type_of(kind) for kind in KINDS))
"""When a job runs; fields without meaning are null, which counts as left out."""
