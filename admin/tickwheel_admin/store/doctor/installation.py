"""What `tickwheel doctor` asks of the installation beside what the overview does."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.admin_status import status_from_json
from tickwheel_admin.domain.alarms.notification import NotificationState
from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.domain.xxl_job.bridge import REGISTRATION_MS
from tickwheel_admin.store.database.tables import (
    ALIVE,
    admin,
    alarm_channel,
    executor,
    node,
    notification,
    xxl_address,
)
from tickwheel_admin.store.triggers.pauses import read_pauses

MAX_MESSAGES = 10_000
MAX_ADDRESSES = 1_000
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedSince:
    """A pause that lasts."""

    executor: str | None  # None: everything is paused
    paused_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelFailures:
    """Messages that a channel did not deliver."""

    name: str
    failed: int
    error: str | None  # of one of them


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveAdmin:
    """An admin that is up."""

    name: str
    url: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachedAddress:
    """An address of an executor of XXL-JOB that no admin gets an answer from."""

    executor: str
    address: str
    registers: bool  # its process calls the admins; False: a person set the address
    error: str


def live_admins(conn: sa.Connection, *, now: int) -> list[LiveAdmin]:
    """Those that are up, by name."""
    rows = conn.execute(
        sa.select(admin.c.name, admin.c.url, admin.c.version)
        .where(admin.c.lease_expires_at > now)
        .order_by(admin.c.name)
    )
    return [LiveAdmin(name=row.name, url=row.url, version=row.version) for row in rows]


def clocks_of_nodes(conn: sa.Connection, *, now: int) -> dict[str, int]:
    """Clocks of nodes that were far off when they connected to an admin that is up: milliseconds
    ahead of the database's, by `executor/node`.
    """
    rows = conn.execute(sa.select(admin.c.status).where(admin.c.lease_expires_at > now))
    off: dict[int, int] = {}
    for row in rows:
        off |= status_from_json(row.status).node_clocks
    named = conn.execute(
        sa.select(node.c.id, node.c.name, executor.c.name.label("executor"))
        .join(executor, executor.c.id == node.c.executor_id)
        .where(node.c.id.in_(sorted(off)), node.c.state == NodeState.LIVE.value)
        .order_by(executor.c.name, node.c.name, node.c.id)
    )
    return {f"{row.executor}/{row.name}": off[row.id] for row in named}


def sdks_of_nodes(conn: sa.Connection) -> dict[str, int]:
    """How many live nodes have each SDK."""
    rows = conn.execute(
        sa.select(node.c.sdk, sa.func.count().label("nodes"))
        .where(node.c.state == NodeState.LIVE.value)
        .group_by(node.c.sdk)
    )
    return {row.sdk: row.nodes for row in rows}


def pauses_that_last(conn: sa.Connection) -> list[PausedSince]:
    """Of everything, and of executors that are there."""
    found = read_pauses(conn)
    names = {
        row.id: row.name
        for row in conn.execute(
            sa.select(executor.c.id, executor.c.name).where(executor.c.deleted_at == ALIVE)
        )
    }
    lasting = [
        PausedSince(executor=names[each], paused_at=at)
        for each, at in sorted(found.executors.items())
        if at is not None and each in names
    ]
    if found.everything is not None:
        lasting.insert(0, PausedSince(executor=None, paused_at=found.everything))
    return lasting


def failing_channels(conn: sa.Connection, *, now: int) -> list[ChannelFailures]:
    """Channels with messages of the last day that were given up, or were tried in vain so far."""
    latest = (
        sa.select(
            notification.c.channel_id,
            notification.c.state,
            notification.c.attempts,
            notification.c.error,
        )
        .where(notification.c.written_at > now - DAY_MS)
        .order_by(notification.c.written_at.desc(), notification.c.id.desc())
        .limit(MAX_MESSAGES)
        .subquery()
    )
    bad = sa.or_(
        latest.c.state == NotificationState.DEAD.value,
        sa.and_(latest.c.state == NotificationState.WAITING.value, latest.c.attempts > 0),
    )
    rows = conn.execute(
        sa.select(
            alarm_channel.c.name,
            sa.func.count().label("failed"),
            sa.func.max(latest.c.error).label("error"),
        )
        .join(latest, latest.c.channel_id == alarm_channel.c.id)
        .where(bad, alarm_channel.c.deleted_at == ALIVE, alarm_channel.c.enabled == sa.true())
        .group_by(alarm_channel.c.name)
        .order_by(alarm_channel.c.name)
    )
    return [ChannelFailures(name=row.name, failed=row.failed, error=row.error) for row in rows]


def unreached_addresses(conn: sa.Connection, *, now: int) -> list[UnreachedAddress]:
    """Addresses that are in use and do not answer the admins, by executor; at most 1,000."""
    t = xxl_address.c
    since = now - REGISTRATION_MS
    rows = conn.execute(
        sa.select(executor.c.name, t.address, t.registered_at, t.error)
        .join(executor, executor.c.id == t.executor_id)
        .where(
            executor.c.deleted_at == ALIVE,
            t.removed_at.is_(None),
            sa.or_(t.registered_at.is_(None), t.registered_at > since),
            t.error_at > since,
            sa.or_(t.beat_at.is_(None), t.beat_at <= since),
        )
        .order_by(executor.c.name, t.address)
        .limit(MAX_ADDRESSES)
    )
    return [
        UnreachedAddress(
            executor=row.name,
            address=row.address,
            registers=row.registered_at is not None,
            error=row.error or "no answer",
        )
        for row in rows
    ]
