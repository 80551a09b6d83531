"""Channels of alarms: made by administrators; their secrets are only ever written."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.channel import Channel, ChannelKind
from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.fields import is_clean
from tickwheel_admin.domain.input.alarm_channel import ChannelInput, StoredSecrets, parse_channel
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.alarms import channel_edits as edits
from tickwheel_admin.services.events.events import ALARMS, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.lists.paging import (
    Page,
    bad_cursor,
    check_limit,
    decode_cursor,
    encode_cursor,
)
from tickwheel_admin.services.secrets.channels import open_channel
from tickwheel_admin.services.secrets.cipher import Cipher, SecretUnreadable
from tickwheel_admin.store.alarms import channels as store
from tickwheel_admin.store.alarms.channels import StoredChannel
from tickwheel_admin.store.alarms.rules import lock_alarm_edits
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelItem:
    """What people see of a channel: everything but its secrets."""

    id: int
    name: str
    kind: ChannelKind
    language: str
    time_zone: str
    per_minute: int
    enabled: bool
    version: int
    settings: Mapping[str, str]
    secret_names: Collection[str]  # those that are set
    is_readable: bool  # False: this admin has no key for its secrets, or they were lost


class AlarmChannels:
    """Use cases of channels."""

    def __init__(
        self, store: Store, ids: Ids, events: Events, cipher: Cipher, *, languages: Collection[str]
    ) -> None:
        self._store = store
        self._ids = ids
        self._cipher = cipher
        self._languages = languages
        self._audited = AuditedTransactions(store, ids, events)

    # --- finding -----------------------------------------------------------------------------

    async def names(self, actor: Actor) -> dict[int, str]:
        """By id, for whoever writes rules."""
        actor.require(Permission.LOGGED_IN)
        found = await self._store.read(store.list_channels, limit=edits.MAX_CHANNELS)
        return {each.id: each.name for each in found}

    async def list(self, actor: Actor) -> builtins.list[ChannelItem]:
        """All of them, by name."""
        actor.require(Permission.ADMINISTER)
        found = await self._store.read(store.list_channels, limit=edits.MAX_CHANNELS)
        return [self._item(each) for each in found]

    async def page(
        self, actor: Actor, *, cursor: str | None = None, limit: int = 50
    ) -> Page[ChannelItem]:
        """Some of them, by name.

        Raises:
            InvalidInput: on "cursor" or "limit".
        """
        actor.require(Permission.ADMINISTER)
        after = decode_cursor(cursor, str)
        if after is not None and not is_clean(after):
            raise bad_cursor()
        found = await self._store.read(
            store.list_channels, after=after, limit=check_limit(limit) + 1
        )
        following = encode_cursor(found[limit - 1].name) if len(found) > limit else None
        return Page(items=[self._item(each) for each in found[:limit]], next=following)

    async def get(self, actor: Actor, channel_id: int) -> ChannelItem:
        """One channel."""
        actor.require(Permission.ADMINISTER)
        return self._item(await self._store.read(edits.known_channel, channel_id))

    async def to_send(self, actor: Actor, channel_id: int) -> Channel:
        """The channel with its secrets, for a message that tries it. It is noted in the audit.

        Raises:
            Conflict: channel.unreadable.
        """
        actor.require(Permission.ADMINISTER)
        stored = await self._store.read(edits.known_channel, channel_id)
        try:
            channel = open_channel(self._cipher, stored)
        except (SecretUnreadable, Conflict):
            raise edits.unreadable() from None

        def note(conn: sa.Connection, entry: AuditEntry) -> None:
            entry.write("alarm_channel.tried", channel_id, name=stored.name)

        await self._audited.run(actor, note)
        return channel

    # --- changing ----------------------------------------------------------------------------

    async def create(self, actor: Actor, raw: object) -> int:
        """Add a channel; returns its id.

        Raises:
            InvalidInput: with every problem found.
            Conflict: alarm_channel.name_taken, alarm_channel.too_many, secret_key.missing.
        """
        actor.require(Permission.ADMINISTER)
        wanted = parse_channel(raw, languages=self._languages)
        channel_id = await self._ids.take("alarm_channel")
        channel = self._stored(channel_id, wanted, wanted.secrets, version=1)

        await self._audited.run(actor, partial(edits.create_channel, channel=channel), ALARMS)
        return channel_id

    async def update(self, actor: Actor, channel_id: int, raw: object, *, version: int) -> int:
        """Replace what a channel says; returns its new version. Secrets that are not given stay.

        Raises:
            InvalidInput: with every problem found.
            Conflict: alarm_channel.changed, alarm_channel.name_taken, channel.unreadable;
                alarm_channel.named_by_jobs when it gets another name.
        """
        actor.require(Permission.ADMINISTER)
        old = await self._store.read(edits.known_channel, channel_id)
        if old.version != version:
            raise edits.changed_meanwhile(old)
        kept = self._secrets_of(old)
        wanted = parse_channel(
            raw,
            languages=self._languages,
            stored=StoredSecrets(kind=old.kind, settings=old.settings, secrets=frozenset(kept)),
        )
        secrets = {k: v for k, v in kept.items() if k not in wanted.dropped} | dict(wanted.secrets)
        channel = self._stored(channel_id, wanted, secrets, version=version, enabled=old.enabled)
        changed = edits.changed_fields(old, channel, secrets={*wanted.secrets, *wanted.dropped})
        if not changed:
            return version
        update = partial(edits.update_channel, channel=channel, old=old, changed=changed)
        return await self._audited.run(
            actor, update, ALARMS, repeated=lambda noted: int(noted.detail["version"])
        )

    async def set_enabled(self, actor: Actor, channel_id: int, *, enabled: bool) -> None:
        """Switch a channel on or off. What is to be sent by one that is off is given up."""
        actor.require(Permission.ADMINISTER)

        def switch(conn: sa.Connection, entry: AuditEntry) -> None:
            lock_alarm_edits(conn)
            old = edits.known_channel(conn, channel_id)
            if old.enabled == enabled:
                return
            store.set_channel_enabled(conn, channel_id, enabled=enabled, now=now_ms(conn))
            action = "alarm_channel.enabled" if enabled else "alarm_channel.disabled"
            entry.write(action, channel_id, name=old.name)

        await self._audited.run(actor, switch, ALARMS)

    async def delete(self, actor: Actor, channel_id: int) -> None:
        """Remove a channel that no rule names, with its secrets.

        Raises:
            Conflict: alarm_channel.in_use, naming some of the rules.
        """
        actor.require(Permission.ADMINISTER)

        delete = partial(edits.delete_channel, channel_id=channel_id)
        await self._audited.run(actor, delete, ALARMS)

    # --- secrets -----------------------------------------------------------------------------

    def _item(self, stored: StoredChannel) -> ChannelItem:
        try:
            names, is_readable = frozenset(open_channel(self._cipher, stored).secrets), True
        except (SecretUnreadable, Conflict):  # Conflict: the key file is broken
            names, is_readable = frozenset(), False
        return ChannelItem(
            id=stored.id,
            name=stored.name,
            kind=stored.kind,
            language=stored.language,
            time_zone=stored.time_zone,
            per_minute=stored.per_minute,
            enabled=stored.enabled,
            version=stored.version,
            settings=stored.settings,
            secret_names=names,
            is_readable=is_readable,
        )

    def _secrets_of(self, stored: StoredChannel) -> dict[str, str]:
        """What is stored; nothing where no key reads it, so that everything is entered again."""
        try:
            return dict(open_channel(self._cipher, stored).secrets)
        except SecretUnreadable:
            return {}

    def _stored(
        self,
        channel_id: int,
        wanted: ChannelInput,
        secrets: Mapping[str, str],
        *,
        version: int,
        enabled: bool = True,
    ) -> StoredChannel:
        return edits.channel_to_store(
            self._cipher, channel_id, wanted, secrets, version=version, enabled=enabled
        )
