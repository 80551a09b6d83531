"""What follows from a page full of numbers, which its reader should know first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequence:
    """One of them: what a change would bring, what a sum says."""

    text: str
    look: str  # "bad", "ok", or "" for what is neither
