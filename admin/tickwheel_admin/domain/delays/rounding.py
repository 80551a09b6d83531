"""Splitting into whole parts."""

from __future__ import annotations

from collections.abc import Mapping


def whole_parts(parts: Mapping[int, float]) -> dict[int, int]:
    """Whole numbers, whose sum is the rounded sum: the largest fractions are rounded up."""
    whole = {key: int(part) for key, part in parts.items()}
    missing = round(sum(parts.values())) - sum(whole.values())
    by_fraction = sorted(parts, key=lambda key: (whole[key] - parts[key], key))
    for key in by_fraction[: max(missing, 0)]:
        whole[key] += 1
    return whole
