"""Sends the messages of alarms: claimed under a lease, sent outside of any transaction, marked.

An admin that dies between the two leaves a lease that ends: another one sends the message again,
under the same id. Channels that nobody answers for do not hold up others: each message is sent by a
task of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.alarms.channel import Channel
from tickwheel_admin.domain.alarms.message import AlarmMessage
from tickwheel_admin.domain.alarms.notification import Notification
from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.engine.alarms.messages import Pages, build_message
from tickwheel_admin.engine.alarms.ports import ChannelSender, Delivered, Undelivered
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.services.events.events import ALARMS, Events
from tickwheel_admin.services.secrets.channels import open_channel
from tickwheel_admin.services.secrets.cipher import Cipher, SecretUnreadable
from tickwheel_admin.store.alarms.channels import get_channel
from tickwheel_admin.store.alarms.deliveries import (
    Claim,
    FailedAttempt,
    claim_notifications,
    mark_delivered,
    mark_failed,
    next_delivery_at,
)
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import DatabaseUnavailable, Store

log = structlog.get_logger(__name__)

AT_ONCE = 10  # messages that one admin sends at the same time
SEND_SECONDS = 60.0  # a sender that takes longer is broken; its lease lasts twice as long
END_SECONDS = 5.0  # messages under way get so long when the admin stops
MAX_TEXT_CHARS = 500


class AlarmDelivery(Loop):
    """Every admin delivers."""

    interval_seconds = 2.0

    def __init__(
        self,
        store: Store,
        events: Events,
        sender: ChannelSender | None,
        *,
        admin_id: int,
        console_url: str,
        cipher: Cipher,
        new_token: Callable[[], str],
    ) -> None:
        """
        Args:
            sender: None: this admin sends nothing, and leaves it to others.
            console_url: where people reach the console, for links; without a slash at its end.
        """
        super().__init__()
        self._store = store
        self._events = events
        self._sender = sender
        self._admin_id = admin_id
        self._pages = Pages(console_url)
        self._cipher = cipher
        self._new_token = new_token
        self._under_way: dict[asyncio.Task[None], None] = {}  # in the order of their start
        events.listen(ALARMS, self.wake)

    async def run_once(self) -> bool:
        room = AT_ONCE - len(self._under_way)
        if self._sender is None or not room:
            return False
        due_at, now = await self._store.read(_next)
        if due_at is None:
            return False
        if due_at > now:
            self._look_again_in(due_at - now)
            return False
        token = self._new_token()
        claimed, next_at = await self._store.run(self._claim, token, room)
        for notification in claimed:
            task = asyncio.create_task(self._deliver(self._sender, notification, token))
            self._under_way[task] = None
            task.add_done_callback(self._under_way.pop)
        if next_at is not None:
            self._look_again_in(next_at - now)
        return bool(claimed) and len(claimed) < room

    async def settle(self) -> None:
        """After the loop has ended: wait a moment for what is under way, and leave the rest."""
        if self._under_way:
            await asyncio.wait(list(self._under_way), timeout=END_SECONDS)
            hanging = list(self._under_way)
            for task in hanging:
                task.cancel()
            await asyncio.gather(*hanging, return_exceptions=True)

    def _look_again_in(self, ms: int) -> None:
        self.aim_at(asyncio.get_running_loop().time() + ms / 1000)

    def _claim(
        self, conn: sa.Connection, token: str, most: int
    ) -> tuple[list[Notification], int | None]:
        claim = Claim(admin_id=self._admin_id, token=token, now=now_ms(conn), most=most)
        return claim_notifications(conn, claim)

    async def _deliver(self, sender: ChannelSender, notification: Notification, token: str) -> None:
        """Send one message and mark it; what fails here is tried again when the lease is over."""
        try:
            outcome = await self._outcome(sender, notification)
            marked = await self._store.run(_mark, notification, token, outcome)
        except DatabaseUnavailable as error:
            log.warning("alarm.delivery_unmarked", message=notification.id, cause=str(error))
            return
        if isinstance(outcome, Undelivered):
            log.warning(
                "alarm.undelivered",
                message=notification.id,
                channel_id=notification.channel_id,
                reason=outcome.why[:MAX_TEXT_CHARS],
                permanent=outcome.permanent,
            )
        elif not marked:
            log.warning("alarm.delivered_late", message=notification.id)
        self._events.publish(ALARMS)

    async def _outcome(
        self, sender: ChannelSender, notification: Notification
    ) -> Delivered | Undelivered:
        try:
            return await self._send(sender, notification)
        except DatabaseUnavailable:
            raise
        except Exception as error:
            # A bug in a sender or a message is told as any failure: people see it, and it ends.
            log.exception("alarm.delivery_failed", message=notification.id)
            return Undelivered(why=f"This admin could not send it: {type(error).__name__}.")

    async def _send(
        self, sender: ChannelSender, notification: Notification
    ) -> Delivered | Undelivered:
        channel, message = await self._store.read(self._prepare, notification)
        if message is None:
            return Delivered(answer="")  # its alarms were deleted
        if isinstance(channel, str):
            return Undelivered(why=channel)
        try:
            async with asyncio.timeout(SEND_SECONDS):
                return await sender.send(channel, message)
        except TimeoutError:
            return Undelivered(why="The provider did not answer in time.")

    def _prepare(
        self, conn: sa.Connection, notification: Notification
    ) -> tuple[Channel | str, AlarmMessage | None]:
        """(the channel, or why it cannot be used; the message, if there is anything to tell)."""
        message = build_message(conn, notification, self._pages, now=now_ms(conn))
        stored = get_channel(conn, notification.channel_id)
        if stored is None:
            return "The channel was deleted.", message
        try:
            return open_channel(self._cipher, stored), message
        # Another admin may have the key, so it is tried again.
        except (SecretUnreadable, Conflict):
            return "This admin cannot decrypt the channel's secrets.", message


def _next(conn: sa.Connection) -> tuple[int | None, int]:
    return next_delivery_at(conn), now_ms(conn)


def _mark(
    conn: sa.Connection,
    notification: Notification,
    token: str,
    outcome: Delivered | Undelivered,
) -> bool:
    now = now_ms(conn)
    if isinstance(outcome, Delivered):
        answer = _short(outcome.answer)
        return mark_delivered(conn, notification.id, token=token, answer=answer, now=now)
    failed = FailedAttempt(
        why=_short(outcome.why),
        retry_after_seconds=outcome.retry_after_seconds,
        permanent=outcome.permanent,
    )
    return mark_failed(conn, notification, token=token, failure=failed, now=now)


def _short(text: str) -> str:
    return text.replace("\0", "")[:MAX_TEXT_CHARS]
