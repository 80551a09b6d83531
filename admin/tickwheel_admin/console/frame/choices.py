"""What people choose from: values with their names."""

from __future__ import annotations

Choices = list[tuple[str, str, str]]  # value, name, what it does


def name_of(choices: Choices, value: str) -> str:
    """The name of one of the choices."""
    return next(name for each, name, _what in choices if each == value)
