"""Words for executors of XXL-JOB's protocol."""

from __future__ import annotations

_VERSIONS = {"A": "2.2 – 3.2", "B": "3.3 – 3.4", "C": "3.5"}


def versions_of(dialect: str | None) -> str:
    """The versions of XXL-JOB that speak a dialect."""
    return _VERSIONS.get(dialect or "", "–")
