"""Changes of channels in transactions: each reads, decides and writes, with its audit row."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.rule import AlarmRule
from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.input.alarm_channel import ChannelInput
from tickwheel_admin.services.events.transactions import AuditEntry
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.secrets.channels import encrypt_channel_secrets
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.store.alarms import channels as store
from tickwheel_admin.store.alarms.channels import StoredChannel
from tickwheel_admin.store.alarms.rules import lock_alarm_edits, rules_of_channel
from tickwheel_admin.store.database.clock import now_ms

MAX_CHANNELS = 500
MAX_NAMED = 5  # rules that a refusal names
_FIELDS = ("name", "language", "time_zone", "per_minute", "settings", "enabled")


def channel_to_store(
    cipher: Cipher,
    channel_id: int,
    wanted: ChannelInput,
    secrets: Mapping[str, str],
    *,
    version: int,
    enabled: bool,
) -> StoredChannel:
    """The row of a channel that somebody wrote; raises Conflict secret_key.missing.

    Args:
        secrets: all that it shall have, not only those that were given.
    """
    return StoredChannel(
        id=channel_id,
        name=wanted.name,
        kind=wanted.kind,
        language=wanted.language,
        time_zone=wanted.time_zone,
        settings=wanted.settings,
        secrets=encrypt_channel_secrets(cipher, channel_id, secrets),
        per_minute=wanted.per_minute,
        enabled=enabled,
        version=version,
    )


def changed_fields(
    old: StoredChannel, new: StoredChannel, *, secrets: Collection[str]
) -> list[str]:
    """Names of the fields that an edit changes; `secrets` are those that are set or dropped."""
    changed = [name for name in _FIELDS if getattr(new, name) != getattr(old, name)]
    return changed + [f"secrets.{name}" for name in sorted(secrets)]


def create_channel(conn: sa.Connection, entry: AuditEntry, channel: StoredChannel) -> None:
    """Add one; raises as `AlarmChannels.create`."""
    lock_alarm_edits(conn)
    _check_name(conn, channel)
    if len(store.list_channels(conn, limit=MAX_CHANNELS)) >= MAX_CHANNELS:
        raise Conflict(
            "alarm_channel.too_many",
            "There are at most %(limit)d channels.",
            limit=MAX_CHANNELS,
        )
    store.add_channel(conn, channel, now=now_ms(conn))
    entry.write("alarm_channel.created", channel.id, name=channel.name, kind=channel.kind.value)


def update_channel(
    conn: sa.Connection,
    entry: AuditEntry,
    channel: StoredChannel,
    old: StoredChannel,
    *,
    changed: Sequence[str],
) -> int:
    """Replace what it says; returns its new version; raises as `AlarmChannels.update`."""
    lock_alarm_edits(conn)
    if channel.name != old.name:
        _check_name(conn, channel)
        _check_not_named_by_jobs(conn, old)
    if not store.change_channel(conn, channel, now=now_ms(conn)):
        raise changed_meanwhile(known_channel(conn, channel.id))
    version = channel.version + 1
    entry.write(
        "alarm_channel.updated",
        channel.id,
        name=channel.name,
        changed=list(changed),
        version=version,
    )
    return version


def delete_channel(conn: sa.Connection, entry: AuditEntry, channel_id: int) -> None:
    """Remove one that no rule names; raises as `AlarmChannels.delete`."""
    lock_alarm_edits(conn)
    old = known_channel(conn, channel_id)
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


def known_channel(conn: sa.Connection, channel_id: int) -> StoredChannel:
    """The channel; NotFound when it is not there."""
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


def changed_meanwhile(old: StoredChannel) -> Conflict:
    """An edit is based on an older version."""
    return Conflict(
        "alarm_channel.changed",
        "Somebody else changed this channel meanwhile; it is at version %(version)d now. Load it"
        " again and repeat your change.",
        version=old.version,
    )


def unreadable() -> Conflict:
    """Its secrets were encrypted with a key that this admin does not have."""
    return Conflict(
        "channel.unreadable",
        "This admin cannot read the secrets of the channel: its key is another one. Enter them"
        " again, or start the admin with the key that they were encrypted with.",
    )
