"""What was imported before, and what of it a further import may change.

A field is changed here only if it changed in the other scheduler since the last import, and not
here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ImportKind(StrEnum):
    """What the row of an import is about."""

    EXECUTOR = "executor"  # a group of an XXL-JOB
    JOB = "job"
    CALENDAR = "calendar"
    USER = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreeWayMerge:
    """Fields of something that was imported before."""

    values: Mapping[str, Any]  # as they shall be here
    base: Mapping[str, Any]  # what counts as imported from now on
    changed: tuple[str, ...]  # here, by this import
    kept: tuple[str, ...]  # changed on both sides, so they stay as they are here


def merge_fields(
    base: Mapping[str, Any], theirs: Mapping[str, Any], ours: Mapping[str, Any]
) -> ThreeWayMerge:
    """Bring what changed there since the last import.

    Args:
        base: what was imported last.
        theirs: the same fields as the other scheduler has them now.
        ours: all fields as they are here now.
    """
    values, new_base = dict(ours), dict(base)
    changed: list[str] = []
    kept: list[str] = []
    for name, value in theirs.items():
        if name in base and base[name] == value:
            continue
        if name not in base or ours.get(name) == value:
            new_base[name] = value
        elif ours.get(name) == base[name]:
            values[name] = new_base[name] = value
            changed.append(name)
        else:
            kept.append(name)
    return ThreeWayMerge(values=values, base=new_base, changed=tuple(changed), kept=tuple(kept))
