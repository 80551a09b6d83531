"""Secrets of an executor: named values that its jobs use and nobody reads back."""

from __future__ import annotations

import re

from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.jobs.secret_references import NAME

MAX_VALUE_BYTES = 4 * 1024  # UTF-8
# Shorter ones would be hidden in half of what a run writes, and are guessed soon.
MIN_VALUE_CHARS = 4
MAX_SECRETS_OF_EXECUTOR = 500
_NAME = re.compile(NAME)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")  # all but tab and line ends
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def is_secret_name(text: str) -> bool:
    """Whether a secret may be called so."""
    return _NAME.fullmatch(text) is not None


def check_secret(name: str, value: str) -> None:
    """Refuse a secret that cannot be kept, used or hidden.

    Raises:
        InvalidInput: on "name" or "value"; never with anything of the value in it.
    """
    problems = []
    if not is_secret_name(name):
        problems.append(_bad_name())
    if (problem := _problem_of(value)) is not None:
        problems.append(problem)
    raise_if_any(problems)


def check_secret_name(name: str) -> None:
    """Raises InvalidInput on "name"."""
    if not is_secret_name(name):
        raise InvalidInput([_bad_name()])


def _bad_name() -> Problem:
    return Problem(
        field="name",
        code="secret.name_invalid",
        template="1 to 64 letters, digits and underscores, of ASCII; the first is no digit.",
    )


def _problem_of(value: str) -> Problem | None:
    if len(value.strip()) < MIN_VALUE_CHARS:
        return Problem(
            field="value",
            code="secret.too_short",
            template="At least %(low)d characters besides spaces: a shorter value would be hidden"
            " in half of what runs write. Put what is not secret into the parameters.",
            params={"low": MIN_VALUE_CHARS},
        )
    if _SURROGATE.search(value) or _CONTROL.search(value):
        return Problem(
            field="value",
            code="control_characters",
            template="Control characters are not allowed here, except tabs and line ends. Encode"
            " the value, for example in base64.",
        )
    if len(value.encode()) > MAX_VALUE_BYTES:
        return Problem(
            field="value",
            code="too_long",
            template="At most %(limit)d bytes of UTF-8, please.",
            params={"limit": MAX_VALUE_BYTES},
        )
    return None
