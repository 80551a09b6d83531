"""Hides the values of a run's secrets in whatever is written about the run.

Nodes use it, and admins for executors of other protocols, whose nodes cannot.

Values are found as they are and as programs usually write them: escaped in JSON, Python and HTML,
percent-encoded, quoted for a shell. Of a value with several lines each line is hidden by itself.
What is encoded otherwise (base64, say) or written in pieces is not found.
"""

from __future__ import annotations

import html
import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from .protocol import RunRequest

HIDDEN = "•••"
_NULL = b"null"
MIN_LINE_CHARS = 4  # shorter lines of a value stand in every log
_PERCENT = re.compile(r"%[0-9A-F]{2}")
_UNICODE = re.compile(r"\\u[0-9a-f]{4}")
_FOR_SHELL = re.compile(r"([^\w@%+=:,./-])", re.ASCII)


class SecretMask:
    """The values of one run. Safe to use from any thread."""

    __slots__ = ("_forms", "_longest")

    def __init__(self, values: Iterable[str]) -> None:
        forms = {form for value in values for part in _parts(value) for form in _forms_of(part)}
        # The longest first: a value may be a part of another.
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        self._longest = max(map(len, self._forms), default=0)

    def __repr__(self) -> str:
        return f"<SecretMask of {len(self._forms)} forms>"

    def hide(self, text: str) -> str:
        """The text with every value replaced; also where values overlap."""
        spans = [
            (start, start + len(form))
            for form in self._forms
            if form in text
            for start in _places(form, text)
        ]
        if not spans:  # nearly always
            return text
        spans.sort()
        shown: list[str] = []
        at, end = 0, -1
        for start, stop in spans:
            if start > end:
                shown += (text[at:start], HIDDEN)
            at = end = max(end, stop)
        return "".join((*shown, text[at:]))

    def hide_json(self, data: msgspec.Raw, *, limit: int) -> msgspec.Raw:
        """The same for JSON, which stays JSON; null when it does not fit any more.

        Args:
            data: as the SDK encodes it.
            limit: of its size in bytes; what hides a short value is longer than it.
        """
        text = bytes(data).decode()
        if not any(form in text for form in self._forms):
            return data
        hidden = json.dumps(
            self._hide_value(json.loads(text)), ensure_ascii=False, separators=(",", ":")
        ).encode()
        return msgspec.Raw(hidden) if len(hidden) <= limit else msgspec.Raw(_NULL)

    def begun_at(self, text: str) -> int:
        """Where the end of a text may be the beginning of a value; its length if it is not."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            end = text[start:]
            if any(form.startswith(end) for form in self._forms):
                return start
        return len(text)

    def _hide_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, list):
            return [self._hide_value(each) for each in value]
        if isinstance(value, dict):
            return {self.hide(key): self._hide_value(each) for key, each in value.items()}
        if isinstance(value, bool) or value is None:
            return value
        text = json.dumps(value)
        return value if self.hide(text) == text else HIDDEN


def mask_of(request: RunRequest) -> SecretMask | None:
    """What hides the secrets of a run; None: it has none."""
    secrets = request.secrets
    return SecretMask(secrets) if isinstance(secrets, list) and secrets else None


def hidden(mask: SecretMask | None, text: str) -> str:
    """The text without the values of secrets."""
    return text if mask is None else mask.hide(text)


def _parts(value: str) -> Iterator[str]:
    """The value and its lines."""
    if value.strip():
        yield value
    lines = value.splitlines()
    if len(lines) > 1 or (lines and lines[0] != value):
        for line in lines:
            for form in {line, line.strip()}:
                if len(form) >= MIN_LINE_CHARS:
                    yield form


def _forms_of(value: str) -> Iterator[str]:
    """How a value is usually written."""
    yield value
    if value.isascii() and value.isalnum():  # all the same
        return
    yield from _in_both_cases(json.dumps(value)[1:-1], _UNICODE, str.upper)
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield json.dumps(value)[1:-1].replace("/", "\\/")
    for encoded in (quote(value), quote(value, safe=""), quote_plus(value)):
        yield from _in_both_cases(encoded, _PERCENT, str.lower)
    yield shlex.quote(value).removeprefix("'").removesuffix("'")
    yield value.replace("'", "'\\''")
    yield _FOR_SHELL.sub(r"\\\1", value)
    yield repr(value)[1:-1]
    yield repr(value.encode())[2:-1]
    yield html.escape(value)
    yield html.escape(value, quote=False)


def _in_both_cases(
    text: str, escape: re.Pattern[str], other: Callable[[str], str]
) -> tuple[str, str]:
    """With the hexadecimal digits of its escapes in either case."""
    return text, escape.sub(lambda found: _other_case(found[0], other), text)


def _other_case(escape: str, other: Callable[[str], str]) -> str:
    digits = 1 if escape.startswith("%") else 2
    return escape[:digits] + other(escape[digits:])


def _places(form: str, text: str) -> Iterator[int]:
    start = text.find(form)
    while start >= 0:
        yield start
        start = text.find(form, start + 1)
