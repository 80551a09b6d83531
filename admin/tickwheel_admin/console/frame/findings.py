"""What a reader should know first of a page full of numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One sentence of it."""

    text: str
    look: str  # "bad", "ok", or "" for what is neither
