"""Figures as JSON: of one measurement, and the medians of several."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

Figures = dict[str, Any]


def as_figures(measured: Any) -> Figures:
    """What a measurement gave, as JSON takes it: a dataclass or a dict of such."""
    if is_dataclass(measured) and not isinstance(measured, type):
        return asdict(measured)
    return {
        str(name): as_figures(part) if is_dataclass(part) or isinstance(part, dict) else part
        for name, part in measured.items()
    }


def medians(repeats: Sequence[Figures]) -> Figures:
    """The median of every number, in `all` the repeats themselves when there are several.

    Numbers that are whole in every repeat stay whole. What is no number is taken from the last.
    """
    found = {name: _median([each.get(name) for each in repeats]) for name in repeats[-1]}
    return found if len(repeats) == 1 else found | {"all": list(repeats)}


def _median(values: Sequence[Any]) -> Any:
    last = values[-1]
    if isinstance(last, dict):
        parts = [value for value in values if isinstance(value, dict)]
        return {name: _median([part.get(name) for part in parts]) for name in last}
    numbers = [value for value in values if _is_number(value)]
    if not _is_number(last):
        return last
    median = statistics.median(numbers)
    return round(median) if all(isinstance(number, int) for number in numbers) else median


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def flattened(figures: Any, prefix: str = "") -> dict[str, float]:
    """Every number by its path, `databases.mariadb.flood.runs_per_second`; single repeats not."""
    if _is_number(figures):
        return {prefix: figures}
    if not isinstance(figures, dict):
        return {}
    found: dict[str, float] = {}
    for name, part in figures.items():
        if name != "all" and not name.endswith("_all"):
            found |= flattened(part, f"{prefix}.{name}" if prefix else str(name))
    return found
