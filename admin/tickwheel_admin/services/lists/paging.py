"""Pages of lists: keyset cursors, so that page 1,000 costs what page 1 does."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

import msgspec

from tickwheel_admin.domain.errors import InvalidInput

T = TypeVar("T")
C = TypeVar("C")

# Ids and instants that somebody sent: beyond these, databases answer with errors.
Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]

MAX_LIMIT = 500
MAX_CURSOR_CHARS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """Some items of a list, and where it goes on."""

    items: list[T]
    next: str | None  # cursor of the next page; None: this was the last one
    previous: str | None = None  # cursor of the page before; None: this was the first one


def check_limit(limit: int) -> int:
    """The limit, when it is one.

    Raises:
        InvalidInput: not 1 to 500.
    """
    if 1 <= limit <= MAX_LIMIT:
        return limit
    raise InvalidInput.one(
        "limit",
        "out_of_range",
        "This must lie between %(low)s and %(high)s.",
        low=1,
        high=MAX_LIMIT,
    )


def encode_cursor(position: object) -> str:
    """Text for an address from the last item's sort key; opaque, and no secret."""
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def decode_cursor(cursor: str | None, kind: type[C]) -> C | None:
    """The sort key that `encode_cursor` was given.

    Raises:
        InvalidInput: no cursor of this list.
    """
    if cursor is None:
        return None
    if len(cursor) <= MAX_CURSOR_CHARS:
        try:
            padded = cursor + "=" * (-len(cursor) % 4)
            text = base64.b64decode(padded.encode(), altchars=b"-_", validate=True)
            return msgspec.json.decode(text, type=kind)
        except (binascii.Error, UnicodeError, msgspec.DecodeError, RecursionError):
            pass
    raise bad_cursor()


def bad_cursor() -> InvalidInput:
    """A cursor was made up, or belongs to another list."""
    return InvalidInput.one(
        "cursor", "cursor.invalid", "This is not a place in this list; start from its beginning."
    )
