"""Time zones to choose from, by the part of the world."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tickwheel_admin.console.frame.locale import time_zones

_PARTS = (
    "Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe",
    "Indian", "Pacific",
)  # fmt: skip


def zone_choices(chosen: str | None) -> list[tuple[str, Sequence[str]]]:
    """(part of the world, its zones); what is chosen is among them, also an old or odd name."""
    groups = list(_groups())
    if chosen and not any(chosen in zones for _part, zones in groups):
        groups.insert(0, ("", [chosen]))
    return groups


@lru_cache(maxsize=1)
def _groups() -> tuple[tuple[str, Sequence[str]], ...]:
    by_part: dict[str, list[str]] = {part: [] for part in _PARTS}
    for zone in sorted(time_zones()):
        part = zone.partition("/")[0]
        if part in by_part and part != zone:
            by_part[part].append(zone)
    return (("", ["UTC"]), *by_part.items())
