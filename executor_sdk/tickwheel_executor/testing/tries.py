"""Whether a run under test is tried again, and after what time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .handler_end import HandlerEnd

_LONGEST_DELAY_SECONDS = 3_600.0


class Tries:
    """The tries of one run.

    Args:
        rules: `retries` and what belongs to them, as in the API.
    """

    def __init__(self, rules: Mapping[str, Any]) -> None:
        self.number = 1
        self.most = 1 + int(rules.get("retries", 0))
        self._outcomes = rules.get("retry_on", ("failed", "timed_out"))
        self._delay = float(rules.get("retry_delay_seconds", 10))
        self._factor = 1.0 if rules.get("retry_backoff") == "fixed" else 2.0
        self._longest = float(rules.get("retry_max_delay_seconds", _LONGEST_DELAY_SECONDS))

    def delay_after(self, end: HandlerEnd) -> int | None:
        """Milliseconds until the next try, which it counts; None: that was the last."""
        asks_for_one = end.retry_after is not None
        if end.outcome in ("succeeded", "skipped") or end.final or self.number >= self.most:
            return None
        if not asks_for_one and end.outcome not in self._outcomes:
            return None
        delay = min(self._delay * self._factor ** (self.number - 1), self._longest)
        self.number += 1
        return round((delay if end.retry_after is None else end.retry_after) * 1000)
