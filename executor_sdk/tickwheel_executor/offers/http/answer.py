"""What an answer means for the run: succeeded, failed, or to be tried again, and its result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from tickwheel_executor.errors import Failed, Retry
from tickwheel_executor.text import clean
from tickwheel_shared.portable_json import why_not_portable

from .exchange import HttpAnswer
from .json_paths import PathError, same, value_at
from .request import shown
from .status_ranges import in_ranges, in_words, status_ranges

MAX_KEPT_BYTES = 60 * 1024  # of a body in the result; a result has 64 KiB at most
_MAX_SHOWN = 200  # characters of a value in a message
NOTHING, AS_TEXT, AS_JSON = "nothing", "text", "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """What the answer has to be like."""

    statuses: list[int | str]
    retry_statuses: list[int | str]
    json_values: Mapping[str, Any]  # by path
    text: str = ""  # that the body contains; "": any
    unwanted_text: str = ""  # that it does not contain; "": any

    def check(self, answer: HttpAnswer, *, now: datetime, max_retry_seconds: float) -> None:
        """Return if the answer is as expected.

        Args:
            max_retry_seconds: the longest delay that a server can ask for.

        Raises:
            Retry: its status is one that another try is for.
            Failed: it is not as expected.
        """
        where = f"{shown(answer.url)} answers {answer.status}"
        if in_ranges(answer.status, status_ranges(self.retry_statuses)):
            after = retry_after(answer.headers.get("Retry-After"), now=now)
            limited = None if after is None else min(after, max_retry_seconds)
            raise Retry(f"{where}; another try may help", after=limited)
        if not in_ranges(answer.status, status_ranges(self.statuses)):
            raise Failed(f"{where}; expected: {in_words(self.statuses)}")
        if answer.body is None:
            raise Failed(answer.problem)
        if self.text or self.unwanted_text:
            self._check_text(answer.body.text(answer.charset))
        if self.json_values:
            self._check_json(answer.body.json())

    def _check_text(self, text: str) -> None:
        if self.text and self.text not in text:
            raise Failed(f"the response does not contain {self.text[:_MAX_SHOWN]!r}")
        if self.unwanted_text and self.unwanted_text in text:
            raise Failed(f"the response contains {self.unwanted_text[:_MAX_SHOWN]!r}")

    def _check_json(self, value: Any) -> None:
        for path, wanted in self.json_values.items():
            try:
                found = value_at(value, path)
            except PathError as error:
                raise Failed(f"expected_json: {error}") from None
            if not same(found, wanted):
                raise Failed(
                    f"expected_json: {path} is {_short(found)}; expected: {_short(wanted)}"
                )


def result_of(answer: HttpAnswer, *, keep: str, path: str, seconds: float) -> dict[str, Any]:
    """The run's result: status, size, duration, and the body if it is to be kept.

    Args:
        keep: NOTHING, AS_TEXT or AS_JSON.
        path: part of the JSON to keep; "": all of it.

    Raises:
        Failed: it should be kept as JSON and is none, or there is nothing at that path.
    """
    assert answer.body is not None  # noqa: S101 (checked by Expectations)
    result: dict[str, Any] = {
        "status": answer.status,
        "bytes": len(answer.body.data),
        "seconds": round(seconds, 3),
    }
    if answer.body.is_cut:
        result["is_cut"] = True
    if keep == AS_TEXT:
        text = clean(answer.body.text(answer.charset))
        kept = _fitting_text(text)
        result["body"] = kept
        if len(kept) < len(text):
            result["is_cut"] = True
    elif keep == AS_JSON:
        try:
            value = value_at(answer.body.json(), path)
        except PathError as error:
            raise Failed(f"result_path: {error}") from None
        encoded = msgspec.json.encode(value)
        if len(encoded) > MAX_KEPT_BYTES:
            result["is_cut"] = True  # half of a JSON text is of no use
        elif why := why_not_portable(encoded):
            raise Failed(f"the response cannot be kept as JSON: {why}")
        else:
            result["body"] = value
    return result


def retry_after(header: str | None, *, now: datetime) -> float | None:
    """Seconds that a server asks to wait, by number or date; None: it does not say."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    seconds = (at - now).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _fitting_text(text: str) -> str:
    """As much of a text as a result has room for, measured as JSON."""
    limit = len(text)
    while len(msgspec.json.encode(text[:limit])) > MAX_KEPT_BYTES:
        limit = min(limit, MAX_KEPT_BYTES) * 3 // 4
    return text[:limit]


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
