"""What is to be told, put together into messages: few of them, and none is left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.message import Occasion
from tickwheel_admin.domain.alarms.notification import (
    Notification,
    NotificationItem,
    NotificationState,
)
from tickwheel_admin.store.alarms.outbox import (
    add_items,
    add_notifications,
    add_to_notification,
    recent_of_groups,
)
from tickwheel_admin.store.database.ids import TooFewIds

NO_EXECUTOR = 0  # `executor_id` of messages about none
SPARE_IDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """One alarm that one channel is to tell of."""

    channel_id: int
    executor_id: int  # `NO_EXECUTOR`: about none
    alarm_id: int
    occasion: Occasion
    number: int = 0
    window_s: int  # more of this executor within so many seconds is told together
    held_until: int | None = None  # UTC ms: the end of quiet hours


class NewIds:
    """The ids that a transaction was given, which learns on its way how many it needs."""

    def __init__(self, ids: Sequence[int]) -> None:
        self._ids = ids
        self._used = 0

    def take(self, count: int) -> Sequence[int]:
        """So many of them.

        Raises:
            TooFewIds: there are not so many; what is asked for leaves room for what follows.
        """
        end = self._used + count
        if end > len(self._ids):
            raise TooFewIds(end + SPARE_IDS)
        taken = self._ids[self._used : end]
        self._used = end
        return taken


@dataclass(frozen=True, slots=True)
class MessageNames:
    """Where messages get their ids from."""

    ids: NewIds
    new_token: Callable[[], str]


def tell(conn: sa.Connection, tellings: Sequence[Telling], names: MessageNames, *, now: int) -> int:
    """Write messages to the outbox, or add to those that wait; returns how many are new.

    Of a group (channel, executor) the first message is due at once. What comes within the window
    after it becomes one message that is due at the window's end, and so on.
    """
    if not tellings:
        return 0
    told_at, waiting = _known(conn, tellings, now)
    by_message: defaultdict[tuple[int, int, int], list[Telling]] = defaultdict(list)
    for each in tellings:
        due_at = _due_at(each, told_at.get((each.channel_id, each.executor_id)), now)
        by_message[each.channel_id, each.executor_id, due_at].append(each)
    new: list[Notification] = []
    items: list[NotificationItem] = []
    for (channel_id, executor_id, due_at), some in sorted(by_message.items()):
        notification_id = waiting.get((channel_id, executor_id, due_at))
        if notification_id is None or not add_to_notification(
            conn, notification_id, items=len(some)
        ):
            [notification_id] = names.ids.take(1)
            new.append(
                Notification(
                    id=notification_id,
                    channel_id=channel_id,
                    executor_id=executor_id,
                    message_id=f"{notification_id}-{names.new_token()}",
                    state=NotificationState.WAITING,
                    items=len(some),
                    due_at=due_at,
                    attempts=0,
                    written_at=now,
                )
            )
        items += [
            NotificationItem(
                channel_id=channel_id,
                alarm_id=each.alarm_id,
                occasion=each.occasion,
                number=each.number,
                notification_id=notification_id,
            )
            for each in some
        ]
    add_notifications(conn, new)
    add_items(conn, items)
    return len(new)


def _known(
    conn: sa.Connection, tellings: Sequence[Telling], now: int
) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int, int], int]]:
    """(by group, when it was told last; by group and time, the message that waits)."""
    longest = max(each.window_s for each in tellings) * 1000
    told_at: dict[tuple[int, int], int] = {}
    waiting: dict[tuple[int, int, int], int] = {}
    for each in recent_of_groups(
        conn,
        channel_ids={each.channel_id for each in tellings},
        executor_ids={each.executor_id for each in tellings},
        since=now - longest,
    ):
        if each.due_at <= now:
            told_at[each.channel_id, each.executor_id] = each.due_at
        else:
            waiting[each.channel_id, each.executor_id, each.due_at] = each.id
    return told_at, waiting


def _due_at(each: Telling, told_at: int | None, now: int) -> int:
    if each.held_until is not None:
        return each.held_until
    window_ends = now if told_at is None else told_at + each.window_s * 1000
    return max(now, window_ends)
