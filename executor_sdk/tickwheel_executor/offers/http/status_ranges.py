"""HTTP statuses as a job writes them: 200, "200-299", "2xx"."""

from __future__ import annotations

from collections.abc import Iterable

Ranges = tuple[range, ...]
PATTERN = r"^[1-5](xx|[0-9][0-9](-[1-5][0-9][0-9])?)$"


def status_ranges(texts: Iterable[int | str]) -> Ranges:
    """The ranges; texts must match PATTERN."""
    found = []
    for text in texts:
        if isinstance(text, int):
            found.append(range(text, text + 1))
        elif text.endswith("xx"):
            first = int(text[0]) * 100
            found.append(range(first, first + 100))
        else:
            low, _, high = text.partition("-")
            found.append(range(int(low), int(high or low) + 1))
    return tuple(found)


def in_ranges(status: int, ranges: Ranges) -> bool:
    """Whether the status lies in one of them."""
    return any(status in each for each in ranges)


def in_words(texts: Iterable[int | str]) -> str:
    """The same as text: `200-299 or 404`."""
    return " or ".join(str(text) for text in texts)
