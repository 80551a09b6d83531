"""What a dataclass says beyond its defaults: the form in which specs are stored."""

from __future__ import annotations

import dataclasses
from typing import Any


def without_defaults(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults, in the order of the class."""
    return {
        field.name: _plain(found)
        for field in dataclasses.fields(value)
        if (found := getattr(value, field.name)) != field.default
    }


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return without_defaults(value) if dataclasses.is_dataclass(value) else value
