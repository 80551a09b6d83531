"""The length between two fires, of the kinds that have one."""

from __future__ import annotations

from tickwheel_admin.domain.fields import Fields, as_seconds

MIN_EVERY_MS = 100
MAX_EVERY_MS = 366 * 86_400_000


def read_every(
    fields: Fields, *, low_ms: int = MIN_EVERY_MS, high_ms: int = MAX_EVERY_MS
) -> int | None:
    """The field `every_seconds`, which is required."""
    fields.require("every_seconds")
    return fields.seconds_as_ms("every_seconds", low_ms=low_ms, high_ms=high_ms)


def is_length(every_ms: int | None) -> bool:
    """Whether a stored length is one."""
    return every_ms is not None and MIN_EVERY_MS <= every_ms <= MAX_EVERY_MS


def seconds_to_raw(ms: int | None) -> int | float | None:
    """A length as requests say it."""
    return None if ms is None else as_seconds(ms)
