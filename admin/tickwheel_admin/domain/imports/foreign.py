"""A job or calendar of another scheduler, in the form that the API takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.imports.notes import ImportNote, note

_ID_BITS = 62


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignJob:
    """A job that is to be imported, whatever it comes from."""

    source: str  # names what it comes from; 1..200 characters
    key: str  # what makes it the same job in the next import of the same source
    place: str  # where it stands there, for people: "deploy:12"
    name: str  # wished for; another one if that is taken
    raw: Mapping[str, Any] = field(default_factory=dict)  # as `POST …/jobs` takes it
    paused: tuple[int, ...] = ()  # which of its triggers are paused there
    notes: tuple[ImportNote, ...] = ()  # what is different here
    reasons: tuple[ImportNote, ...] = ()  # why it cannot be had; then `raw` is not to be used

    @property
    def their_id(self) -> int:
        return id_of_key(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignCalendar:
    """A calendar that jobs name; those that it is based on come before it."""

    name: str
    raw: Mapping[str, Any] = field(default_factory=dict)  # as `POST /calendars` takes it
    notes: tuple[ImportNote, ...] = ()
    reasons: tuple[ImportNote, ...] = ()

    @property
    def their_id(self) -> int:
        return id_of_key(self.name)


def id_of_key(key: str) -> int:
    """A text as the number by which the table of imports knows it: 0..2^62-1."""
    digest = blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) >> (64 - _ID_BITS)


def note_of_problem(problem: Problem) -> ImportNote:
    """A broken rule as a reason."""
    field_name = problem.field.removeprefix("triggers[0].")
    return note(problem.code, f"{field_name}: {problem.message}".rstrip("."))
