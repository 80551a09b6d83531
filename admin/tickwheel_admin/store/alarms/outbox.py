"""The outbox as the evaluator writes it: messages, and what each tells of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.notification import (
    Notification,
    NotificationItem,
    NotificationState,
)
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.tables import notification, notification_item

_COLUMNS = [column.name for column in notification.columns]
_ITEM_COLUMNS = [column.name for column in notification_item.columns]
_ITEM_KEY = ("channel_id", "alarm_id", "occasion", "number")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedNotification:
    """As much of a notification as says when its group is told again."""

    id: int
    channel_id: int
    executor_id: int
    due_at: int


def recent_of_groups(
    conn: sa.Connection,
    *,
    channel_ids: Collection[int],
    executor_ids: Collection[int],
    since: int,
) -> list[GroupedNotification]:
    """Notifications of these groups that were or are due since then, ascending."""
    rows = conn.execute(
        sa.select(
            notification.c.id,
            notification.c.channel_id,
            notification.c.executor_id,
            notification.c.due_at,
        )
        .where(
            notification.c.channel_id.in_(sorted(channel_ids)),
            notification.c.executor_id.in_(sorted(executor_ids)),
            notification.c.due_at > since,
        )
        .order_by(notification.c.due_at, notification.c.id)
    )
    return [GroupedNotification(**row._mapping) for row in rows]


def add_notifications(conn: sa.Connection, notifications: Sequence[Notification]) -> None:
    """Write messages that wait."""
    rows = [
        {name: getattr(each, name, None) for name in _COLUMNS} | {"state": each.state.value}
        for each in notifications
    ]
    insert_rows(conn, notification, rows, columns=_COLUMNS)


def add_to_notification(conn: sa.Connection, notification_id: int, *, items: int) -> bool:
    """Let a message tell of more; False: an admin has claimed it, so it takes nothing more.

    Its row is locked from here on, so that no claim comes between this and the items.
    """
    grown = conn.execute(
        sa.update(notification)
        .where(
            notification.c.id == notification_id,
            notification.c.state == NotificationState.WAITING.value,
            notification.c.attempts == 0,
        )
        .values({"items": notification.c["items"] + items})
    )
    return grown.rowcount == 1


def add_items(conn: sa.Connection, items: Sequence[NotificationItem]) -> None:
    """Write what messages tell of; what a channel was told of already is left out."""
    rows = [
        {name: getattr(each, name) for name in _ITEM_COLUMNS} | {"occasion": each.occasion.value}
        for each in items
    ]
    insert_rows(
        conn, notification_item, rows, columns=_ITEM_COLUMNS, ignore_duplicates_of=_ITEM_KEY
    )


def channels_told(conn: sa.Connection, alarm_ids: Iterable[int]) -> dict[int, set[int]]:
    """By alarm, the channels that were told of it, or will be."""
    found: dict[int, set[int]] = {}
    rows = conn.execute(
        sa.select(notification_item.c.alarm_id, notification_item.c.channel_id).where(
            notification_item.c.alarm_id.in_(sorted(set(alarm_ids)))
        )
    )
    for row in rows:
        found.setdefault(row.alarm_id, set()).add(row.channel_id)
    return found
