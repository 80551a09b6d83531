"""The outbox as it is delivered: claims under a lease, marks, and lists for people."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.alarms import pace
from tickwheel_admin.domain.alarms.message import Occasion
from tickwheel_admin.domain.alarms.notification import (
    GIVE_UP_MS,
    LEASE_MS,
    Notification,
    NotificationItem,
    NotificationState,
    pause_ms,
)
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import (
    ALIVE,
    alarm,
    alarm_channel,
    notification,
    notification_item,
)

DUE_READ = 500  # messages of a channel that are looked at in one claim
MAX_CHANNELS = 50  # in one claim
UNUSABLE = "The channel was deleted or disabled."

_WAITING, _SENDING = NotificationState.WAITING.value, NotificationState.SENDING.value
_SELECTED = sa.select(*(notification.c[name] for name in Notification.__dataclass_fields__))


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who claims, and when."""

    admin_id: int
    token: str
    now: int
    most: int  # messages


# --- claims and marks ----------------------------------------------------------------------------


def next_delivery_at(conn: sa.Connection) -> int | None:
    """When the first message is due, or the first lease over; None: nothing is to be delivered."""
    due = sa.select(sa.func.min(notification.c.due_at)).where(notification.c.state == _WAITING)
    leased = sa.select(sa.func.min(notification.c.lease_until)).where(
        notification.c.state == _SENDING
    )
    found = [conn.execute(each).scalar() for each in (due, leased)]
    return min((at for at in found if at is not None), default=None)


def claim_notifications(conn: sa.Connection, claim: Claim) -> tuple[list[Notification], int | None]:
    """(the messages that the caller has to send, when a channel may take the next one).

    Of each channel no more than its rate allows: of what is beyond, messages that were never tried
    become one.
    """
    claimed: list[Notification] = []
    next_at: list[int] = []
    for channel_id in _channels_with_due(conn, claim.now):
        if len(claimed) >= claim.most:
            break
        row = _lock_channel(conn, channel_id)
        if row is None:
            continue  # another admin claims of it right now
        due = _lock_due(conn, channel_id, claim.now)
        if not due:
            continue
        if row.deleted_at != ALIVE or not row.enabled:
            _end(conn, [each.id for each in due], claim.now, error=UNUSABLE)
            continue
        room = pace.allowed(row.per_minute, paced_to=row.paced_to, now=claim.now)
        if row.held_until > claim.now:
            room = 0
        taken = due[: min(room, claim.most - len(claimed))]
        left = len(due) - len(taken)
        paced_to = row.paced_to
        if taken:
            left -= _merge_rest(conn, due, taken)
            paced_to = pace.paced(
                row.per_minute, paced_to=paced_to, now=claim.now, messages=len(taken)
            )
            conn.execute(
                sa.update(alarm_channel)
                .where(alarm_channel.c.id == channel_id)
                .values(paced_to=paced_to)
            )
            _mark_claimed(conn, [each.id for each in taken], claim)
            claimed += taken
        if left:
            at = pace.next_at(row.per_minute, paced_to=paced_to, now=claim.now)
            next_at.append(max(at, row.held_until))
    return claimed, min(next_at, default=None)


def mark_delivered(
    conn: sa.Connection, notification_id: int, *, token: str, answer: str, now: int
) -> bool:
    """The provider took it; False: the lease was over, and another admin has claimed it."""
    return _mark(
        conn,
        notification_id,
        token,
        state=NotificationState.DELIVERED.value,
        ended_at=now,
        answer=answer,
        error=None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """An attempt that did not succeed, as far as anybody knows."""

    why: str
    retry_after_seconds: float | None = None
    permanent: bool = False


def mark_failed(
    conn: sa.Connection, sent: Notification, *, token: str, failure: FailedAttempt, now: int
) -> bool:
    """It is tried again later, or given up; False: as `mark_delivered`."""
    attempts = sent.attempts + 1
    first_at = now if sent.first_at is None else sent.first_at
    is_over = failure.permanent or now - first_at >= GIVE_UP_MS
    asked = failure.retry_after_seconds
    again_at = now + pause_ms(attempts, asked_seconds=asked)
    if asked is not None and not is_over:
        conn.execute(
            sa.update(alarm_channel)
            .where(alarm_channel.c.id == sent.channel_id, alarm_channel.c.held_until < again_at)
            .values(held_until=again_at)
        )
    return _mark(
        conn,
        sent.id,
        token,
        state=NotificationState.DEAD.value if is_over else _WAITING,
        ended_at=now if is_over else None,
        due_at=again_at if not is_over else now,
        error=failure.why,
    )


def _mark(conn: sa.Connection, notification_id: int, token: str, **values: Any) -> bool:
    marked = conn.execute(
        sa.update(notification)
        .where(
            notification.c.id == notification_id,
            notification.c.state == _SENDING,
            notification.c.claim_token == token,
        )
        .values(lease_until=None, claimed_by=None, claim_token=None, **values)
    )
    return marked.rowcount == 1


def _channels_with_due(conn: sa.Connection, now: int) -> list[int]:
    due = reading(
        sa.select(notification.c.channel_id)
        .where(notification.c.state == _WAITING, notification.c.due_at <= now)
        .order_by(notification.c.due_at)
        .limit(DUE_READ),
        notification,
        "ix_notification_due",
    )
    over = reading(
        sa.select(notification.c.channel_id)
        .where(notification.c.state == _SENDING, notification.c.lease_until <= now)
        .order_by(notification.c.lease_until)
        .limit(DUE_READ),
        notification,
        "ix_notification_leased",
    )
    found = [row.channel_id for part in (over, due) for row in conn.execute(part)]
    # In this order everywhere, so that two claims do not wait for each other.
    return sorted(dict.fromkeys(found))[:MAX_CHANNELS]


def _lock_channel(conn: sa.Connection, channel_id: int) -> Any:
    return conn.execute(
        sa.select(
            alarm_channel.c.per_minute,
            alarm_channel.c.paced_to,
            alarm_channel.c.held_until,
            alarm_channel.c.enabled,
            alarm_channel.c.deleted_at,
        )
        .where(alarm_channel.c.id == channel_id)
        .with_for_update(skip_locked=True)
    ).one_or_none()


def _lock_due(conn: sa.Connection, channel_id: int, now: int) -> list[Notification]:
    """Messages that may be sent: those that were tried before come first, then by their time."""
    of_channel = notification.c.channel_id == channel_id
    parts = (
        _SELECTED.where(
            of_channel, notification.c.state == _SENDING, notification.c.lease_until <= now
        ),
        _SELECTED.where(of_channel, notification.c.state == _WAITING, notification.c.due_at <= now),
    )
    found: list[Notification] = []
    for part in parts:
        rows = conn.execute(
            reading(
                part.order_by(notification.c.due_at, notification.c.id).limit(DUE_READ),
                notification,
                "ix_notification_of_channel",
            ).with_for_update(skip_locked=True)
        )
        found += [_notification(row) for row in rows]
    return sorted(found, key=lambda each: (each.attempts == 0, each.due_at, each.id))


def _merge_rest(
    conn: sa.Connection, due: Sequence[Notification], taken: Sequence[Notification]
) -> int:
    """Merge what is beyond the rate into the last message that may be sent; returns how many.

    A message that was tried may have arrived, so it stays as it is.
    """
    last = taken[-1]
    rest = [each.id for each in due[len(taken) :] if each.attempts == 0]
    if last.attempts or not rest:
        return 0
    conn.execute(
        sa.update(notification_item)
        .where(notification_item.c.notification_id.in_(rest))
        .values(notification_id=last.id)
    )
    conn.execute(sa.delete(notification).where(notification.c.id.in_(rest)))
    items = sa.select(sa.func.count()).where(notification_item.c.notification_id == last.id)
    conn.execute(
        sa.update(notification)
        .where(notification.c.id == last.id)
        .values(items=conn.execute(items).scalar_one())
    )
    return len(rest)


def _mark_claimed(conn: sa.Connection, ids: Collection[int], claim: Claim) -> None:
    conn.execute(
        sa.update(notification)
        .where(notification.c.id.in_(sorted(ids)))
        .values(
            state=_SENDING,
            attempts=notification.c.attempts + 1,
            lease_until=claim.now + LEASE_MS,
            claimed_by=claim.admin_id,
            claim_token=claim.token,
            first_at=sa.func.coalesce(notification.c.first_at, claim.now),
        )
    )


def _end(conn: sa.Connection, ids: Collection[int], now: int, *, error: str) -> None:
    conn.execute(
        sa.update(notification)
        .where(notification.c.id.in_(sorted(ids)))
        .values(
            state=NotificationState.DEAD.value,
            ended_at=now,
            error=error,
            lease_until=None,
            claim_token=None,
        )
    )


# --- what they tell of, and lists ----------------------------------------------------------------


def items_of(
    conn: sa.Connection,
    notification_id: int,
    *,
    executor_ids: Collection[int] | None = None,
    before: tuple[int, str] | None = None,
    limit: int,
) -> list[NotificationItem]:
    """What a message tells of, newest alarms first.

    Args:
        executor_ids: only alarms of these executors; None: all.
        before: (alarm, occasion) of the last one of the page before.
    """
    items = notification_item.c
    wanted = sa.select(notification_item).where(items.notification_id == notification_id)
    wanted = _of_executors(wanted, executor_ids)
    if before is not None:
        alarm_id, occasion = before
        wanted = wanted.where(
            items.alarm_id <= alarm_id,
            sa.or_(items.alarm_id < alarm_id, items.occasion > occasion),
        )
    rows = conn.execute(wanted.order_by(items.alarm_id.desc(), items.occasion).limit(limit))
    return [
        NotificationItem(**row._asdict() | {"occasion": Occasion(row.occasion)}) for row in rows
    ]


def count_items(
    conn: sa.Connection, notification_id: int, *, executor_ids: Collection[int] | None = None
) -> int:
    """How many alarms a message tells of; `executor_ids` as of `items_of`."""
    of_it = notification_item.c.notification_id == notification_id
    counted = sa.select(sa.func.count(sa.distinct(notification_item.c.alarm_id))).where(of_it)
    return int(conn.execute(_of_executors(counted, executor_ids)).scalar_one())


def _of_executors(wanted: sa.Select[Any], executor_ids: Collection[int] | None) -> sa.Select[Any]:
    if executor_ids is None:
        return wanted
    of_item = alarm.c.id == notification_item.c.alarm_id
    return wanted.join(alarm, of_item).where(alarm.c.executor_id.in_(sorted(executor_ids)))


def page_notifications(
    conn: sa.Connection,
    *,
    channel_id: int | None = None,
    states: Iterable[NotificationState] = (),
    before: tuple[int, int] | None = None,
    limit: int,
) -> list[Notification]:
    """Messages, newest first.

    Args:
        before: (written_at, id) of the last one of the page before.
    """
    wanted = _SELECTED.order_by(notification.c.written_at.desc(), notification.c.id.desc())
    if channel_id is not None:
        wanted = wanted.where(notification.c.channel_id == channel_id)
    if shown := sorted(each.value for each in states):
        wanted = wanted.where(notification.c.state.in_(shown))
    if before is not None:
        at, notification_id = before
        wanted = wanted.where(
            notification.c.written_at <= at,
            sa.or_(notification.c.written_at < at, notification.c.id < notification_id),
        )
    rows = conn.execute(reading(wanted.limit(limit), notification, "ix_notification_recent"))
    return [_notification(row) for row in rows]


def notifications_of_alarm(conn: sa.Connection, alarm_id: int) -> list[Notification]:
    """Messages that told of an alarm, newest first; at most 100."""
    ids = list(
        conn.execute(
            sa.select(notification_item.c.notification_id)
            .where(notification_item.c.alarm_id == alarm_id)
            .limit(1_000)
        ).scalars()
    )
    rows = conn.execute(
        _SELECTED.where(notification.c.id.in_(sorted(set(ids))))
        .order_by(notification.c.written_at.desc(), notification.c.id.desc())
        .limit(100)
    )
    return [_notification(row) for row in rows]


def get_notification(conn: sa.Connection, notification_id: int) -> Notification | None:
    """One message."""
    row = conn.execute(_SELECTED.where(notification.c.id == notification_id)).one_or_none()
    return None if row is None else _notification(row)


def send_again(conn: sa.Connection, notification_id: int, *, now: int) -> bool:
    """Let a message that was given up be sent again, under the same id; False: it was not."""
    again = conn.execute(
        sa.update(notification)
        .where(
            notification.c.id == notification_id,
            notification.c.state == NotificationState.DEAD.value,
        )
        .values(state=_WAITING, due_at=now, first_at=None, ended_at=None, attempts=1)
    )
    return again.rowcount == 1


def remove_old_notifications(conn: sa.Connection, *, before: int, limit: int) -> int:
    """Delete messages that were written before then and have ended, with their items; how many."""
    old = reading(
        sa.select(notification.c.id, notification.c.state)
        .where(notification.c.written_at < before)
        .order_by(notification.c.written_at, notification.c.id)
        .limit(limit),
        notification,
        "ix_notification_recent",
    )
    over = {NotificationState.DELIVERED.value, NotificationState.DEAD.value}
    ids = [row.id for row in conn.execute(old) if row.state in over]
    if ids:
        conn.execute(
            sa.delete(notification_item).where(notification_item.c.notification_id.in_(ids))
        )
        conn.execute(sa.delete(notification).where(notification.c.id.in_(ids)))
    return len(ids)


def _notification(row: Any) -> Notification:
    return Notification(**row._asdict() | {"state": NotificationState(row.state)})
