"""Rules and channels for tests, and a channel that keeps what it is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from tests.admin.kit.engine import new_id
from tickwheel_admin.domain.alarms.alarm import Alarm
from tickwheel_admin.domain.alarms.channel import Channel, ChannelKind
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.message import AlarmEntry, AlarmMessage
from tickwheel_admin.domain.alarms.rule import AlarmRule
from tickwheel_admin.engine.alarms.delivery import AlarmDelivery
from tickwheel_admin.engine.alarms.evaluator import AlarmEvaluator
from tickwheel_admin.engine.alarms.ports import Delivered, Undelivered
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.secrets.channels import encrypt_channel_secrets
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.store.alarms.alarms import page_alarms
from tickwheel_admin.store.alarms.channels import StoredChannel, add_channel
from tickwheel_admin.store.alarms.rules import add_rule
from tickwheel_admin.store.alarms.run_watch import RunWatch
from tickwheel_admin.store.calendars.calendars import CalendarCache
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids

KEY = bytes(range(32))


class FakeProvider:
    """Takes every message, unless its `answer` says otherwise."""

    def __init__(self) -> None:
        self.taken: list[AlarmMessage] = []
        self.channels: list[Channel] = []
        self.answer: Callable[[AlarmMessage], Delivered | Undelivered] = lambda _: Delivered()

    async def send(self, channel: Channel, message: AlarmMessage) -> Delivered | Undelivered:
        self.taken.append(message)
        self.channels.append(channel)
        return self.answer(message)

    def told(self) -> list[list[tuple[str, str]]]:
        """Of each message since the last call, (occasion, job or executor) of its entries."""
        messages, self.taken = self.taken, []
        return [[_short(each) for each in message.entries] for message in messages]


def _short(entry: AlarmEntry) -> tuple[str, str]:
    return entry.occasion.value, entry.job_name or entry.executor_name or ""


class Alarms:
    """The loops of one admin that make and tell alarms, pass by pass."""

    def __init__(
        self,
        database: Database,
        *,
        admin_id: int = 1,
        provider: FakeProvider | None = None,
        watch: RunWatch | None = None,
    ) -> None:
        self.database = database
        self.provider = provider or FakeProvider()
        self.cipher = Cipher([KEY])
        token = new_id
        self.evaluator = AlarmEvaluator(
            database,
            Ids(database),
            Events(),
            calendars=CalendarCache(),
            new_token=lambda: f"token-{next(token)}",
            with_default_rules=False,
            watch=watch,
        )
        self.delivery = AlarmDelivery(
            database,
            Events(),
            self.provider,
            admin_id=admin_id,
            console_url="https://jobs.example",
            cipher=self.cipher,
            new_token=lambda: f"claim-{next(token)}",
        )

    async def channel(self, **changes: Any) -> int:
        """A new channel's id."""
        channel_id = next(new_id)
        values: dict[str, Any] = {
            "id": channel_id,
            "name": f"channel {channel_id}",
            "kind": ChannelKind.WEBHOOK,
            "language": "en",
            "time_zone": "UTC",
            "settings": {"url": "https://hooks.example"},
            "secrets": encrypt_channel_secrets(self.cipher, channel_id, {"key": "s3cret"}),
            "per_minute": 600,
        }
        stored = StoredChannel(**values | changes)
        await self.database.run(lambda c: add_channel(c, stored, now=now_ms(c)))
        return channel_id

    async def rule(self, kind: AlarmKind, *channels: int, **changes: Any) -> int:
        """A new rule's id."""
        rule_id = next(new_id)
        values: dict[str, Any] = {"name": f"rule {rule_id}", "channels": channels}
        rule = AlarmRule(id=rule_id, kind=kind, **values | changes)
        await self.database.run(lambda c: add_rule(c, rule, now=now_ms(c)))
        return rule_id

    async def evaluate(self) -> None:
        while await self.evaluator.run_once():
            pass

    async def deliver(self) -> None:
        while await self.delivery.run_once() or self.delivery._under_way:
            await self.delivery.settle()

    async def tell(self) -> list[list[tuple[str, str]]]:
        """Evaluate and deliver; what the provider was told."""
        await self.evaluate()
        await self.deliver()
        return self.provider.told()

    async def open(self) -> Sequence[Alarm]:
        """Open alarms, newest first."""
        return await self.database.read(lambda c: page_alarms(c, limit=1_000))

    async def count(self, table: sa.Table) -> int:
        """Rows of a table."""
        statement = sa.select(sa.func.count()).select_from(table)
        return await self.database.read(lambda c: c.execute(statement).scalar_one())
