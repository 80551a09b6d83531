"""Ages and sizes as people write them: 7d, 12h, 100MB."""

from __future__ import annotations

AGE_PATTERN = r"^([0-9]{1,6}[smhdw])?$"
SIZE_PATTERN = r"^([0-9]{1,12}(B|KB|MB|GB|TB)?)?$"
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_BYTES = {"TB": 1024**4, "GB": 1024**3, "MB": 1024**2, "KB": 1024, "B": 1}


def age_seconds(text: str) -> int | None:
    """Seconds of an age that matches AGE_PATTERN; None: no age."""
    return int(text[:-1]) * _SECONDS[text[-1]] if text else None


def size_bytes(text: str) -> int | None:
    """Bytes of a size that matches SIZE_PATTERN (KB is 1,024 bytes); None: no size."""
    for unit, factor in _BYTES.items():
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * factor
    return int(text) if text else None
