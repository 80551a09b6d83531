"""Filters as people type them: free words and `key:value` terms.

    executor:billing owner:"Maria K." nightly report

A value or a word with spaces stands in double quotes, in which a backslash makes the next character
an ordinary one. A word that would read as a term is searched for when it stands in quotes. A quote
that is not closed ends with the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

MAX_CHARS = 500  # of a whole filter

_KEY = re.compile(r"([A-Za-z][A-Za-z_]*):")
_SPACE = re.compile(r"\s+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)(?:"|\\?\Z)', re.DOTALL)
_PLAIN = re.compile(r"\S+")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class Term(NamedTuple):
    """One part of a filter."""

    key: str | None  # in lower case; None: a free word
    value: str  # "" behind a key: its value has yet to be typed


def parse_filter(text: str) -> list[Term]:
    """The terms of a text, in its order; every text has a meaning."""
    terms: list[Term] = []
    at = 0
    while at < len(text):
        if space := _SPACE.match(text, at):
            at = space.end()
            continue
        key = _KEY.match(text, at)
        value, at = _value(text, at if key is None else key.end())
        if key is not None:
            terms.append(Term(key[1].lower(), value))
        elif value:
            terms.append(Term(None, value))
    return terms


def _value(text: str, at: int) -> tuple[str, int]:
    """The value that begins here, and where it ends."""
    if quoted := _QUOTED.match(text, at):
        return _ESCAPED.sub(r"\1", quoted[1]), quoted.end()
    plain = _PLAIN.match(text, at)
    return ("", at) if plain is None else (plain[0], plain.end())


def write_filter(terms: Iterable[Term]) -> str:
    """A text of which `parse_filter` makes these terms."""
    return " ".join(_written(term) for term in terms)


def _written(term: Term) -> str:
    value = term.value
    is_plain = (
        _PLAIN.fullmatch(value)
        and not value.startswith('"')
        and (term.key is not None or _KEY.match(value) is None)
    )
    if not is_plain:
        value = '"{}"'.format(re.sub(r'(["\\])', r"\\\1", value))
    return value if term.key is None else f"{term.key}:{value}"


def free_text(terms: Iterable[Term]) -> str:
    """The free words, with a space between them."""
    return " ".join(term.value for term in terms if term.key is None)
