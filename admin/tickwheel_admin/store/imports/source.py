"""What can go wrong with the database of another scheduler."""

from __future__ import annotations


class SourceError(Exception):
    """Why it cannot be read, in one sentence without a password."""
