"""Channels of alarms: as they are stored, and their edits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.alarms.channel import ChannelKind
from tickwheel_admin.store.database.tables import ALIVE, alarm_channel


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChannel:
    """A channel as its row has it: what is secret is encrypted."""

    id: int
    name: str
    kind: ChannelKind
    language: str
    time_zone: str
    settings: Mapping[str, str]
    secrets: str | None  # ciphertext of a JSON object of strings; None: it has none
    per_minute: int
    enabled: bool = True
    version: int = 1
    created_at: int = 0
    updated_at: int = 0


_SELECTED = sa.select(*(alarm_channel.c[name] for name in StoredChannel.__dataclass_fields__))
_settings = msgspec.json.Decoder(dict[str, str])


def list_channels(
    conn: sa.Connection, *, limit: int, after: str | None = None
) -> list[StoredChannel]:
    """By name, behind the name `after`."""
    wanted = _SELECTED.where(alarm_channel.c.deleted_at == ALIVE).order_by(alarm_channel.c.name)
    if after is not None:
        wanted = wanted.where(alarm_channel.c.name > after)
    return [_channel(row) for row in conn.execute(wanted.limit(limit))]


def get_channel(
    conn: sa.Connection, channel_id: int, *, lock: bool = False
) -> StoredChannel | None:
    """The channel, unless it is deleted."""
    wanted = _SELECTED.where(alarm_channel.c.id == channel_id, alarm_channel.c.deleted_at == ALIVE)
    row = conn.execute(wanted.with_for_update() if lock else wanted).one_or_none()
    return None if row is None else _channel(row)


def existing_channels(conn: sa.Connection, ids: Iterable[int]) -> set[int]:
    """Those of the channels that are there and enabled."""
    return set(
        conn.execute(
            sa.select(alarm_channel.c.id).where(
                alarm_channel.c.id.in_(sorted(set(ids))),
                alarm_channel.c.deleted_at == ALIVE,
                alarm_channel.c.enabled == sa.true(),
            )
        ).scalars()
    )


def living_channels(conn: sa.Connection, ids: Iterable[int]) -> set[int]:
    """Those of the channels that are not deleted."""
    wanted = sa.select(alarm_channel.c.id).where(
        alarm_channel.c.id.in_(sorted(set(ids))), alarm_channel.c.deleted_at == ALIVE
    )
    return set(conn.execute(wanted).scalars())


def channel_name_is_taken(conn: sa.Connection, name: str, *, by_other_than: int) -> bool:
    """Whether another channel has the name."""
    wanted = sa.select(alarm_channel.c.id).where(
        alarm_channel.c.name == name,
        alarm_channel.c.deleted_at == ALIVE,
        alarm_channel.c.id != by_other_than,
    )
    return conn.execute(wanted.limit(1)).first() is not None


def channel_names(conn: sa.Connection, ids: Iterable[int]) -> dict[int, str]:
    """Names of channels, also of deleted ones."""
    wanted = sa.select(alarm_channel.c.id, alarm_channel.c.name)
    rows = conn.execute(wanted.where(alarm_channel.c.id.in_(sorted(set(ids)))))
    return {row.id: row.name for row in rows}


def channels_named(conn: sa.Connection, names: Iterable[str]) -> dict[str, int]:
    """Ids of those of the channels that are not deleted, by name."""
    wanted = sa.select(alarm_channel.c.name, alarm_channel.c.id).where(
        alarm_channel.c.name.in_(sorted(set(names))), alarm_channel.c.deleted_at == ALIVE
    )
    return {row.name: row.id for row in conn.execute(wanted)}


def add_channel(conn: sa.Connection, channel: StoredChannel, *, now: int) -> None:
    """Keep a new channel; its unique name is the database's to guard."""
    conn.execute(
        sa.insert(alarm_channel).values(
            id=channel.id,
            version=channel.version,
            created_at=now,
            updated_at=now,
            deleted_at=ALIVE,
            **_edited(channel),
        )
    )


def change_channel(conn: sa.Connection, channel: StoredChannel, *, now: int) -> bool:
    """Give a channel its new content; False: it has another version by now, or is deleted."""
    changed = conn.execute(
        sa.update(alarm_channel)
        .where(
            alarm_channel.c.id == channel.id,
            alarm_channel.c.version == channel.version,
            alarm_channel.c.deleted_at == ALIVE,
        )
        .values(version=channel.version + 1, updated_at=now, **_edited(channel))
    )
    return changed.rowcount == 1


def encrypt_channel_anew(conn: sa.Connection, channel: StoredChannel, *, secrets: str) -> None:
    """Replace what it keeps secret by the same under another key, unless somebody edited it."""
    conn.execute(
        sa.update(alarm_channel)
        .where(alarm_channel.c.id == channel.id, alarm_channel.c.version == channel.version)
        .values(secrets=secrets)
    )


def set_channel_enabled(conn: sa.Connection, channel_id: int, *, enabled: bool, now: int) -> None:
    """Switch a channel on or off."""
    conn.execute(
        sa.update(alarm_channel)
        .where(alarm_channel.c.id == channel_id)
        .values(enabled=enabled, version=alarm_channel.c.version + 1, updated_at=now)
    )


def delete_channel(conn: sa.Connection, channel_id: int, *, now: int) -> bool:
    """Delete a channel and what it kept secret; False: it is not there."""
    deleted = conn.execute(
        sa.update(alarm_channel)
        .where(alarm_channel.c.id == channel_id, alarm_channel.c.deleted_at == ALIVE)
        .values(deleted_at=now, secrets=None)
    )
    return deleted.rowcount == 1


def _edited(channel: StoredChannel) -> dict[str, Any]:
    return {
        "name": channel.name,
        "kind": channel.kind.value,
        "language": channel.language,
        "time_zone": channel.time_zone,
        "settings": msgspec.json.encode(dict(channel.settings)).decode(),
        "secrets": channel.secrets,
        "per_minute": channel.per_minute,
        "enabled": channel.enabled,
    }


def _channel(row: Any) -> StoredChannel:
    return StoredChannel(
        **row._asdict()
        | {
            "kind": ChannelKind(row.kind),
            "settings": _settings.decode(row.settings),
            "enabled": bool(row.enabled),
        }
    )
