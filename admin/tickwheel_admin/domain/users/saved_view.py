"""Saved views: filters of lists that people keep under a name."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import parse_qsl, urlencode

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.fields import CONTROL_CHARACTERS, checked_name, is_clean

MAX_NAME_CHARS = 60
MAX_QUERY_CHARS = 2_000
MAX_VIEWS = 50  # of one person


class ListPage(StrEnum):
    """The lists that have views."""

    JOBS = "jobs"
    RUNS = "runs"


# What of a list's address says which rows it shows and in which order, and not where one is in it.
_KEPT = {
    ListPage.JOBS: frozenset({"q", "sort"}),
    ListPage.RUNS: frozenset({"q"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedView:
    """A view as lists show it."""

    id: int
    page: ListPage
    name: str
    query: str  # of the list's address: "q=owner%3Amaria&sort=-name"
    shared: bool  # everybody sees it
    owner_id: int
    owner_name: str


def parse_page(text: str) -> ListPage:
    """The list that a word means.

    Raises:
        InvalidInput: none.
    """
    if text in set(ListPage):
        return ListPage(text)
    raise InvalidInput.one(
        "page", "not_one_of", "This must be one of %(choices)s.", choices=", ".join(ListPage)
    )


def parse_name(text: str) -> str:
    """A view's name, trimmed and in its one form.

    Raises:
        InvalidInput: empty, longer than 60 characters, or with line ends, control or
            invisible characters.
    """
    name = checked_name("name", text)
    if not name:
        raise InvalidInput.one("name", "required", "This is required.")
    if len(name) > MAX_NAME_CHARS:
        raise InvalidInput.one(
            "name", "too_long", "At most %(limit)d characters, please.", limit=MAX_NAME_CHARS
        )
    if not is_clean(name):
        raise InvalidInput.one("name", "control_characters", CONTROL_CHARACTERS)
    return name


def parse_query(page: ListPage, text: str) -> str:
    """What a view keeps of a list's address.

    Raises:
        InvalidInput: longer than 2,000 characters.
    """
    kept = [
        (name, value)
        for name, value in parse_qsl(text.removeprefix("?")[: 2 * MAX_QUERY_CHARS])
        if name in _KEPT[page]
    ]
    query = urlencode(dict(kept))
    if len(text) > 2 * MAX_QUERY_CHARS or len(query) > MAX_QUERY_CHARS:
        raise InvalidInput.one(
            "query", "too_long", "At most %(limit)d characters, please.", limit=MAX_QUERY_CHARS
        )
    return query
