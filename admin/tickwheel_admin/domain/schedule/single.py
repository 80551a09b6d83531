"""Schedules of one instant, and of none."""

from __future__ import annotations


class Single:
    """A single instant."""

    def __init__(self, at: int) -> None:
        self._at = at

    def next_after(self, instant: int) -> int | None:
        return self._at if instant < self._at else None

    def last_before(self, instant: int) -> int | None:
        return self._at if instant > self._at else None


class Never:
    """No instant at all."""

    def next_after(self, instant: int) -> int | None:
        return None

    def last_before(self, instant: int) -> int | None:
        return None
