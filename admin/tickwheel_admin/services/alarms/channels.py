"""Channels of alarms: made by administrators; their secrets are only ever written."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.channel import Channel, ChannelKind
from tickwheel_admin.domain.alarms.rule import AlarmRule
from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.input.alarm_channel import ChannelInput, StoredSecrets, parse_channel
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.events import ALARMS, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.secrets.channels import encrypt_channel_secrets, open_channel
from tickwheel_admin.services.secrets.cipher import Cipher, SecretUnreadable
from tickwheel_admin.store.alarms import channels as store
from tickwheel_admin.store.alarms.channels import StoredChannel
from tickwheel_admin.store.alarms.rules import lock_alarm_edits, rules_of_channel
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids

MAX_CHANNELS = 500
MAX_NAMED = 5  # rules that a refusal names


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
        found = await self._store.read(store.list_channels, limit=MAX_CHANNELS)
        return {each.id: each.name for each in found}

    async def list(self, actor: Actor) -> builtins.list[ChannelItem]:
        """All of them, by name."""
        actor.require(Permission.ADMINISTER)
        found = await self._store.read(store.list_channels, limit=MAX_CHANNELS)
        return [self._item(each) for each in found]

    async def get(self, actor: Actor, channel_id: int) -> ChannelItem:
        """One channel."""
        actor.require(Permission.ADMINISTER)
        return self._item(await self._store.read(_get, channel_id))

    async def to_send(self, actor: Actor, channel_id: int) -> Channel:
        """The channel with its secrets, for a message that tries it. It is noted in the audit.

        Raises:
            Conflict: channel.unreadable.
        """
        actor.require(Permission.ADMINISTER)
        stored = await self._store.read(_get, channel_id)
        try:
            channel = open_channel(self._cipher, stored)
        except (SecretUnreadable, Conflict):
            raise _unreadable() from None

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

        def create(conn: sa.Connection, entry: AuditEntry) -> None:
            lock_alarm_edits(conn)
            _check_name(conn, channel)
            if len(store.list_channels(conn, limit=MAX_CHANNELS)) >= MAX_CHANNELS:
                raise Conflict(
                    "alarm_channel.too_many",
                    "There are at most %(limit)d channels.",
                    limit=MAX_CHANNELS,
                )
            store.add_channel(conn, channel, now=now_ms(conn))
            entry.write(
                "alarm_channel.created", channel_id, name=channel.name, kind=channel.kind.value
            )

        await self._audited.run(actor, create, ALARMS)
        return channel_id

    async def update(self, actor: Actor, channel_id: int, raw: object, *, version: int) -> int:
        """Replace what a channel says; returns its new version. Secrets that are not given stay.

        Raises:
            InvalidInput: with every problem found.
            Conflict: alarm_channel.changed, alarm_channel.name_taken, channel.unreadable;
                alarm_channel.named_by_jobs when it gets another name.
        """
        actor.require(Permission.ADMINISTER)
        old = await self._store.read(_get, channel_id)
        if old.version != version:
            raise _changed(old)
        kept = self._secrets_of(old)
        wanted = parse_channel(
            raw,
            languages=self._languages,
            stored=StoredSecrets(kind=old.kind, settings=old.settings, secrets=frozenset(kept)),
        )
        secrets = {k: v for k, v in kept.items() if k not in wanted.dropped} | dict(wanted.secrets)
        channel = self._stored(channel_id, wanted, secrets, version=version, enabled=old.enabled)
        fields = ("name", "language", "time_zone", "per_minute", "settings")
        changed = [name for name in fields if getattr(channel, name) != getattr(old, name)]
        changed += [f"secrets.{name}" for name in sorted({*wanted.secrets, *wanted.dropped})]
        if not changed:
            return version

        def update(conn: sa.Connection, entry: AuditEntry) -> int:
            lock_alarm_edits(conn)
            if channel.name != old.name:
                _check_name(conn, channel)
                _check_not_named_by_jobs(conn, old)
            if not store.change_channel(conn, channel, now=now_ms(conn)):
                raise _changed(_get(conn, channel_id))
            entry.write(
                "alarm_channel.updated",
                channel_id,
                name=channel.name,
                changed=changed,
                version=version + 1,
            )
            return version + 1

        return await self._audited.run(
            actor, update, ALARMS, repeated=lambda noted: int(noted.detail["version"])
        )

    async def set_enabled(self, actor: Actor, channel_id: int, *, enabled: bool) -> None:
        """Switch a channel on or off. What is to be sent by one that is off is given up."""
        actor.require(Permission.ADMINISTER)

        def switch(conn: sa.Connection, entry: AuditEntry) -> None:
            lock_alarm_edits(conn)
            old = _get(conn, channel_id)
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

        def delete(conn: sa.Connection, entry: AuditEntry) -> None:
            lock_alarm_edits(conn)
            old = _get(conn, channel_id)
            if rules := rules_of_channel(conn, channel_id):
                raise Conflict(
                    "alarm_channel.in_use",
                    "The channel “%(name)s” is used by %(count)d rules: %(rules)s. Take it out of"
                    " them first; or switch it off.",
                    name=old.name,
                    count=len(rules),
                    rules=_some_names(rules),
                )
            store.delete_channel(conn, channel_id, now=now_ms(conn))
            entry.write("alarm_channel.deleted", channel_id, name=old.name)

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
        return StoredChannel(
            id=channel_id,
            name=wanted.name,
            kind=wanted.kind,
            language=wanted.language,
            time_zone=wanted.time_zone,
            settings=wanted.settings,
            secrets=encrypt_channel_secrets(self._cipher, channel_id, secrets),
            per_minute=wanted.per_minute,
            enabled=enabled,
            version=version,
        )


def _get(conn: sa.Connection, channel_id: int) -> StoredChannel:
    found = store.get_channel(conn, channel_id)
    if found is None:
        raise not_found()
    return found


def _check_not_named_by_jobs(conn: sa.Connection, old: StoredChannel) -> None:
    """Jobs and their YAML have channels by name, and declarations in code cannot be changed."""
    if rules := [each for each in rules_of_channel(conn, old.id) if each.job_id is not None]:
        raise Conflict(
            "alarm_channel.named_by_jobs",
            "%(count)d rules of jobs name the channel “%(name)s”: %(rules)s. Keep its name, or add"
            " another channel for them first.",
            name=old.name,
            count=len(rules),
            rules=_some_names(rules),
        )


def _some_names(rules: Sequence[AlarmRule]) -> str:
    shown = ", ".join(f"“{each.name}”" for each in rules[:MAX_NAMED])
    return shown + ("" if len(rules) <= MAX_NAMED else " …")


def _check_name(conn: sa.Connection, channel: StoredChannel) -> None:
    if store.channel_name_is_taken(conn, channel.name, by_other_than=channel.id):
        raise Conflict(
            "alarm_channel.name_taken",
            "There is already a channel named “%(name)s”.",
            name=channel.name,
        )


def _changed(old: StoredChannel) -> Conflict:
    return Conflict(
        "alarm_channel.changed",
        "Somebody else changed this channel meanwhile; it is at version %(version)d now. Load it"
        " again and repeat your change.",
        version=old.version,
    )


def _unreadable() -> Conflict:
    return Conflict(
        "channel.unreadable",
        "This admin cannot read the secrets of the channel: its key is another one. Enter them"
        " again, or start the admin with the key that they were encrypted with.",
    )
