"""The feed of events: who wants it, the numbers of what has committed, and what is kept.

Ids are given within transactions, so a reader by id would pass over what commits late. Here readers
number the rows that they see, one at a time under the lock of one row: a number that is visible has
all smaller ones before it. A transaction that moves a run has seen the one before it committed, and
so has the larger id: the events of a run are in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.runs.events import (
    KEPT_MS,
    LAPSE_MS,
    MAX_KEPT,
    READY_MS,
    WANTED_MS,
    RunEvent,
    events_from_json,
)
from tickwheel_admin.store.database.batch import update_values
from tickwheel_admin.store.database.clock import database_now, now_ms
from tickwheel_admin.store.database.event_interest import interest_of
from tickwheel_admin.store.database.tables import run_event_batch as batch
from tickwheel_admin.store.database.tables import run_event_feed as feed

_ONE = 1  # the id of the row
# Numbers begin at the time in microseconds: above those of the database that a backup is from.
_PER_MS = 1_000

_STATE = sa.select(feed).where(feed.c.id == _ONE)
_LOCKED = _STATE.with_for_update()
_WANTED = sa.select(feed.c.wanted_until > database_now()).where(feed.c.id == _ONE)
_UNNUMBERED = (
    sa.select(batch.c.id, batch.c.events)
    .where(batch.c.last_seq.is_(None))
    .order_by(batch.c.last_seq, batch.c.id)
    .limit(sa.bindparam("limit"))
)
_AFTER = (
    sa.select(batch.c.last_seq, batch.c.at, batch.c.data)
    .where(batch.c.last_seq > sa.bindparam("after"))
    .order_by(batch.c.last_seq, batch.c.id)
    .limit(sa.bindparam("limit"))
)
_OLDEST = (
    sa.select(batch.c.id, batch.c.last_seq, batch.c.at)
    .where(batch.c.last_seq.is_not(None))
    .order_by(batch.c.last_seq, batch.c.id)
    .limit(sa.bindparam("limit"))
)
_OLDEST_UNNUMBERED = (
    sa.select(batch.c.id, batch.c.at)
    .where(batch.c.last_seq.is_(None))
    .order_by(batch.c.last_seq, batch.c.id)
    .limit(sa.bindparam("limit"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedState:
    """How far the feed is."""

    last_seq: int  # of the newest event that has a number
    complete_after: int | None  # every later event is there; None: not every admin writes yet
    ready_at: int
    wanted_until: int

    def has_all_after(self, seq: int) -> bool:
        """Whether a reader that has everything up to this number misses nothing."""
        return self.complete_after is not None and self.complete_after <= seq <= self.last_seq


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBatch:
    """What one transaction did to runs."""

    last_seq: int
    at: int
    events: tuple[RunEvent, ...]

    @property
    def first_seq(self) -> int:
        return self.last_seq - len(self.events) + 1


def renew_interest(conn: sa.Connection) -> None:
    """Let this process know whether events are wanted; one look-up."""
    interest = interest_of(conn)
    if interest is not None:
        asked_at = interest.now()
        wanted = conn.execute(_WANTED).scalar_one_or_none()
        interest.learn(wanted=bool(wanted), asked_at=asked_at)


def want_events(conn: sa.Connection, *, ready_ms: int = READY_MS) -> FeedState:
    """A reader is here: events are wanted for a day from now.

    Args:
        ready_ms: how long it takes until every admin knows it, if nobody wanted them before.
    """
    state, now = _locked(conn), now_ms(conn)
    until = now + WANTED_MS
    if state is not None and now <= state.wanted_until - LAPSE_MS:
        _save(conn, wanted_until=max(until, state.wanted_until))
        return _state(conn.execute(_STATE).one())
    # A gap that no reader with an older number may overlook.
    first = max(0 if state is None else state.last_seq + 1, now * _PER_MS)
    values = {
        "last_seq": first,
        "complete_after": None,
        "ready_at": now + ready_ms,
        "wanted_until": until,
    }
    if state is None:  # of two first ones at once, one insert fails and is repeated
        conn.execute(sa.insert(feed).values(id=_ONE, **values))
    else:
        _save(conn, **values)
    return _state(conn.execute(_STATE).one())


def number_events(conn: sa.Connection, *, limit: int) -> bool:
    """Number rows that have committed; True: there may be more."""
    state = _locked(conn)
    if state is None:
        return False
    found = conn.execute(_UNNUMBERED, {"limit": limit}).all()
    seq, numbered = state.last_seq, []
    for row in found:
        seq += row.events
        numbered.append((row.id, seq))
    update_values(conn, batch, numbered, match=("id",), values=("last_seq",))
    values: dict[str, Any] = {} if seq == state.last_seq else {"last_seq": seq}
    more = len(found) == limit
    if state.complete_after is None and not more and now_ms(conn) >= state.ready_at:
        # Whatever commits from now on is written by all, and gets a larger number.
        values["complete_after"] = seq
    if values:
        _save(conn, **values)
    return more


def read_state(conn: sa.Connection) -> FeedState | None:
    """None: nobody has ever wanted events."""
    row = conn.execute(_STATE).one_or_none()
    return None if row is None else _state(row)


def has_unnumbered(conn: sa.Connection) -> bool:
    """Whether something has committed that has no number yet."""
    return conn.execute(_UNNUMBERED, {"limit": 1}).first() is not None


def read_events(conn: sa.Connection, *, after: int, limit: int) -> list[EventBatch]:
    """Rows with events after this number, in order; the first may begin before it."""
    return [
        EventBatch(last_seq=row.last_seq, at=row.at, events=events_from_json(row.data))
        for row in conn.execute(_AFTER, {"after": after, "limit": limit})
    ]


def remove_old_events(
    conn: sa.Connection, *, limit: int, kept_ms: int = KEPT_MS, most: int = MAX_KEPT
) -> int:
    """Delete the oldest rows: those older than `kept_ms`, and what is more than `most` events.

    Returns how many.
    """
    state = _locked(conn)
    before = now_ms(conn) - kept_ms
    first = None if state is None else state.last_seq - most
    old: list[int] = []
    gone_to = None
    for row in conn.execute(_OLDEST, {"limit": limit}):
        if row.at >= before and (first is None or row.last_seq > first):
            break
        old.append(row.id)
        gone_to = row.last_seq
    # Nobody has read for so long that nobody can go on from before them.
    unread = conn.execute(_OLDEST_UNNUMBERED, {"limit": limit - len(old)})
    old += [each.id for each in unread if each.at < before]
    if old:
        conn.execute(sa.delete(batch).where(batch.c.id.in_(old)))
    if (
        gone_to is not None
        and state is not None
        and state.complete_after is not None
        and gone_to > state.complete_after
    ):
        _save(conn, complete_after=gone_to)
    return len(old)


def _locked(conn: sa.Connection) -> FeedState | None:
    row = conn.execute(_LOCKED).one_or_none()
    return None if row is None else _state(row)


def _save(conn: sa.Connection, **values: Any) -> None:
    conn.execute(sa.update(feed).where(feed.c.id == _ONE).values(**values))


def _state(row: Any) -> FeedState:
    return FeedState(
        last_seq=row.last_seq,
        complete_after=row.complete_after,
        ready_at=row.ready_at,
        wanted_until=row.wanted_until,
    )
