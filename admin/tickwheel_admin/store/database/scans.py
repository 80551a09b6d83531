"""Pages of a list that is read from several ranges of indexes at once.

Each range is scanned until enough was found, or until it has looked at as much as one request may.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa


class ScanPlace(Protocol):
    """A place in the order of a list."""

    def __lt__(self, other: Any, /) -> bool: ...


P = TypeVar("P", bound=ScanPlace)


def merge_scans(
    scans: Sequence[tuple[Iterable[P], P | None]], *, limit: int, newer: bool
) -> tuple[list[P], P | None]:
    """The places of a page, newest first, and where the next one begins; None: there is none.

    Args:
        scans: what was found in each range, and where its reading stopped; None: at its end.
        newer: the scans read from the oldest place on, and the page is their beginning.
    """
    # Each scan knows everything up to where it stopped; beyond the first stop, one is blind.
    stops = [stop for _, stop in scans if stop is not None]
    horizon = (min if newer else max)(stops, default=None)
    found = sorted(
        (
            place
            for places, _ in scans
            for place in places
            if horizon is None or not (horizon < place if newer else place < horizon)
        ),
        reverse=not newer,
    )
    more_at = horizon
    if len(found) > limit:
        found = found[:limit]
        more_at = found[-1]
    return found[::-1] if newer else found, more_at


def beyond(
    at: int, row_id: int, *, of: sa.Column[Any], newer: bool
) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    """The rows that are older than a place, or newer: by the column `of`, and then by their id."""
    ids = of.table.c.id
    # The first half alone bounds the index range; MariaDB cannot use a row comparison for it.
    if newer:
        return of >= at, sa.or_(of > at, ids > row_id)
    return of <= at, sa.or_(of < at, ids < row_id)
