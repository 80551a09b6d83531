"""Which jobs people ask for, and where in the list of them."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypeVar

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.fields import CONTROL_CHARACTERS, is_clean
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.jobs.lists import (
    BEGINNING,
    JobCursor,
    JobItem,
    JobQuery,
    JobsRead,
    JobView,
)
from tickwheel_admin.services.lists.paging import Page, bad_cursor, decode_cursor, encode_cursor
from tickwheel_admin.services.lists.scope import visible_executors
from tickwheel_admin.store.jobs.filters import JobFilter, JobSort

E = TypeVar("E", bound=StrEnum)

MAX_TEXT_CHARS = 200

_PAUSED = {JobView.PAUSED: True, JobView.ACTIVE: False}


class MatchingJobs(NamedTuple):
    """How many jobs match, for questions such as “Pause 214 jobs?”."""

    jobs: int
    capped: bool  # there may be more: nobody looked further


def filter_of(actor: Actor, query: JobQuery) -> JobFilter:
    """What the query means to this caller; of failing jobs, those that have to be looked at.

    Raises:
        InvalidInput: a word that means nothing, or control characters.
    """
    text = query.text.strip()[:MAX_TEXT_CHARS]
    for field, value in (("text", text), ("owner", query.owner), ("handler", query.handler)):
        if value and not is_clean(value):
            raise InvalidInput.one(field, "control_characters", CONTROL_CHARACTERS)
    if not all(is_clean(tag) for tag in query.tags):
        raise InvalidInput.one("tag", "control_characters", CONTROL_CHARACTERS)
    view = _one_of("view", query.view, JobView)
    _one_of("sort", query.sort, JobSort)
    return JobFilter(
        text=text,
        executors=visible_executors(actor, query.executor_id),
        owner=query.owner,
        tags=query.tags,
        handler=query.handler,
        paused=_PAUSED.get(view),
        running=view is JobView.RUNNING,
    )


def _one_of(field: str, word: str, words: type[E]) -> E:
    if word in set(words):
        return words(word)
    raise InvalidInput.one(
        field, "not_one_of", "This must be one of %(choices)s.", choices=", ".join(words)
    )


def place_in(query: JobQuery, cursor: str | None) -> JobCursor:
    """Where the cursor points to; without one, the beginning.

    Raises:
        InvalidInput: no cursor of this list.
    """
    sort = JobSort(query.sort)
    place = decode_cursor(cursor, JobCursor)
    if place is None:
        return JobCursor(sort=sort, value="", id=BEGINNING)
    is_name = isinstance(place.value, str)
    if (
        place.sort is not sort
        or place.id == BEGINNING
        or (
            sort is not JobSort.NEXT_FIRE and is_name != (sort in (JobSort.NAME, JobSort.NAME_DOWN))
        )
        # No name of a job; databases may refuse it.
        or (isinstance(place.value, str) and not is_clean(place.value))
    ):
        raise bad_cursor()
    return place


def page_at(read: JobsRead, at: JobCursor) -> Page[JobItem]:
    """The page, with where the list goes on in both directions.

    Args:
        at: where reading began, and its direction.
    """
    items, more_at, began_at = read
    ahead = None if more_at is None else encode_cursor(more_at)
    behind = None
    if began_at is not None and at.id != BEGINNING:
        behind = encode_cursor(began_at._replace(back=not at.back))
    return Page(
        items=items,
        next=behind if at.back else ahead,
        previous=ahead if at.back else behind,
    )
