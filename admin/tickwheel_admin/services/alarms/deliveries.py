"""Messages of the outbox as administrators see them: what was sent, what was not, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.alarm import Alarm
from tickwheel_admin.domain.alarms.notification import (
    Notification,
    NotificationItem,
    NotificationState,
)
from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.events import ALARMS, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.lists.paging import (
    Number,
    Page,
    check_limit,
    decode_cursor,
    encode_cursor,
)
from tickwheel_admin.services.lists.scope import not_found, visible_executors
from tickwheel_admin.store.alarms import deliveries as store
from tickwheel_admin.store.alarms.alarms import alarms_by_id
from tickwheel_admin.store.alarms.channels import channel_names
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids


class _Key(NamedTuple):
    """A place in the list: behind this message."""

    written_at: Number
    id: Number


class _ItemKey(NamedTuple):
    """A place in what a message tells of: behind this."""

    alarm_id: Number
    occasion: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationView:
    """A message, and the name of its channel."""

    notification: Notification
    channel_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationDetail:
    """A message, and everything that it tells of."""

    view: NotificationView
    items: Sequence[NotificationItem]  # one page of those that the caller may see
    next: str | None  # cursor of the next page of them; None: this was the last one
    total: int  # alarms that it tells of, as far as the caller may see them
    alarms: Mapping[int, Alarm]  # those that still exist
    may_administer: bool  # and so may see what the provider said, and send it again


class Deliveries:
    """Use cases of messages. What was told is for all who see the alarms, the rest for
    administrators.
    """

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._audited = AuditedTransactions(store, ids, events)

    async def page(
        self,
        actor: Actor,
        *,
        channel_id: int | None = None,
        states: Sequence[NotificationState] = (),
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[NotificationView]:
        """Messages, newest first."""
        actor.require(Permission.ADMINISTER)
        limit = check_limit(limit)
        key = decode_cursor(cursor, _Key)

        def read(conn: sa.Connection) -> Page[NotificationView]:
            found = store.page_notifications(
                conn,
                channel_id=channel_id,
                states=states,
                before=None if key is None else (key.written_at, key.id),
                limit=limit + 1,
            )
            last = found[limit - 1] if len(found) > limit else None
            return Page(
                items=_views(conn, found[:limit]),
                next=None if last is None else encode_cursor(_Key(last.written_at, last.id)),
            )

        return await self._store.read(read)

    async def get(
        self, actor: Actor, notification_id: int, *, cursor: str | None = None, limit: int = 200
    ) -> NotificationDetail:
        """One message, with what it tells the caller of; nothing is a message that is not there."""
        actor.require(Permission.LOGGED_IN)
        limit = check_limit(limit)
        key = decode_cursor(cursor, _ItemKey)
        scope = visible_executors(actor)

        def read(conn: sa.Connection) -> NotificationDetail:
            found = store.get_notification(conn, notification_id)
            if found is None:
                raise not_found()
            items = store.items_of(
                conn, notification_id, executor_ids=scope, before=key, limit=limit + 1
            )
            total = store.count_items(conn, notification_id, executor_ids=scope)
            may_administer = actor.may(Permission.ADMINISTER)
            if not total and not may_administer:
                raise not_found()
            following = None
            if len(items) > limit:
                last = items[limit - 1]
                following = encode_cursor(_ItemKey(last.alarm_id, last.occasion.value))
            return NotificationDetail(
                view=_views(conn, [found])[0],
                items=items[:limit],
                next=following,
                total=total,
                alarms=alarms_by_id(conn, {each.alarm_id for each in items}),
                may_administer=may_administer,
            )

        return await self._store.read(read)

    async def send_again(self, actor: Actor, notification_id: int) -> None:
        """Send a message that was given up, under the same id.

        Raises:
            Conflict: notification.not_dead.
        """
        actor.require(Permission.ADMINISTER)

        def again(conn: sa.Connection, entry: AuditEntry) -> None:
            found = store.get_notification(conn, notification_id)
            if found is None:
                raise not_found()
            if not store.send_again(conn, notification_id, now=now_ms(conn)):
                raise Conflict(
                    "notification.not_dead", "Only a message that was given up is sent again."
                )
            name = channel_names(conn, [found.channel_id]).get(found.channel_id, "")
            entry.write("notification.sent_again", notification_id, channel=name)

        await self._audited.run(actor, again, ALARMS)


def _views(conn: sa.Connection, found: Sequence[Notification]) -> list[NotificationView]:
    names = channel_names(conn, {each.channel_id for each in found})
    return [
        NotificationView(notification=each, channel_name=names.get(each.channel_id, ""))
        for each in found
    ]
