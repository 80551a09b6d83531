"""What filter boxes understand: their keys, and what is wrong with what was typed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.input.filter_text import Term, free_text, parse_filter, write_filter

FILTER_FORM = "filter"  # the id of the form with the filter's box
MAX_NAMED = 8  # of the values that there are

Words = Sequence[tuple[str, str]]  # what is typed, and what it means


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterKey:
    """A key of a filter box, for those who have yet to learn of it."""

    key: str
    what: str  # in the reader's language
    values: Words | None = None  # all there are; None: the server is asked while one types
    example: str = ""  # of a value that nobody can suggest


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterBox:
    """A filter box as a page shows it."""

    page: str  # a ListPage
    text: str
    problems: list[Problem]
    keys: list[FilterKey]

    def for_script(self) -> list[dict[str, Any]]:
        """The keys as the page's script takes them."""
        return [
            {"key": each.key, "what": each.what, "values": each.values, "example": each.example}
            for each in self.keys
        ]


class FilterTerms:
    """The terms of a filter, each key's value taken once; notes what is wrong with them."""

    def __init__(self, text: str, older: Mapping[str, str], known: Collection[str]) -> None:
        """Read a text.

        Args:
            older: terms that an address names by themselves, used where the text has none such.
            known: the keys that there are.
        """
        terms = parse_filter(text)
        given = {term.key for term in terms}
        terms += [Term(key, value) for key, value in older.items() if value and key not in given]
        self.terms = terms
        self.problems: list[Problem] = []
        for key in dict.fromkeys(term.key for term in terms if term.key is not None):
            if key not in known:
                self.refuse(
                    key,
                    "filter.unknown_key",
                    "There is no filter “%(key)s:”. There are %(keys)s. To search for the text"
                    " itself, put it in quotes.",
                    key=key,
                    keys=_listed([f"{name}:" for name in known]),
                )

    @property
    def words(self) -> str:
        """The free words."""
        return free_text(self.terms)

    def refuse(self, key: str, code: str, template: str, /, **params: Any) -> None:
        """Note what is wrong with a term."""
        self.problems.append(Problem(field=key, code=code, template=template, params=params))

    def one(self, key: str) -> str | None:
        """The value of a key; None when it is not given, or has yet to be typed."""
        values = self.many(key)
        if len(values) > 1:
            self.refuse(key, "filter.repeated", "Give “%(key)s:” only once.", key=key)
        return values[0] if values else None

    def many(self, key: str) -> tuple[str, ...]:
        """Every value of a key that may stand more than once."""
        return tuple(dict.fromkeys(t.value for t in self.terms if t.key == key and t.value))

    def word(self, key: str, words: Iterable[str]) -> str | None:
        """One of a few words."""
        value, known = self.one(key), list(words)
        if value is None or value in known:
            return value
        self.unknown(key, value, known)
        return None

    def unknown(self, key: str, value: str, known: Collection[str]) -> None:
        """Note that a value is none of those there are."""
        if known:
            self.refuse(
                key,
                "filter.unknown_value",
                "There is no %(term)s here. There are %(values)s.",
                term=write_filter([Term(key, value)]),
                values=_listed(known),
            )
        else:
            self.refuse(
                key,
                "filter.unknown_value",
                "There is no %(term)s here.",
                term=write_filter([Term(key, value)]),
            )

    def with_term(self, key: str, value: str) -> str:
        """The filter with another value of a key, or without it."""
        kept = [term for term in self.terms if term.key != key]
        return write_filter([*kept, Term(key, value)] if value else kept)

    @property
    def text(self) -> str:
        """The filter as it is shown and as addresses hold it."""
        return write_filter(self.terms)


def with_address(request: web.Request, response: web.Response, address: str) -> web.Response:
    """Let the browser show the filter's own address, in which everything is said in full."""
    if request.headers.get("HX-Trigger") == FILTER_FORM:
        response.headers["HX-Push-Url"] = address
    return response


def _listed(values: Collection[str]) -> str:
    shown = list(values)[:MAX_NAMED]
    return ", ".join([*shown, "…"] if len(values) > MAX_NAMED else shown)
