"""Admins: who serves this database, and since when."""

from __future__ import annotations

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.signal import AlarmSignal
from tickwheel_admin.domain.executors.node import ADMIN_LEASE_MS
from tickwheel_admin.store.alarms.signals import add_signals
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.tables import admin, node_session

GONE_KEPT_MS = 3_600_000  # how long people see that an admin ended without a goodbye


def enter_admin(conn: sa.Connection, *, admin_id: int, name: str, url: str, version: str) -> None:
    """Announce a newly started admin."""
    now = now_ms(conn)
    # One of this name that is gone was most likely the process before.
    over = sa.and_(admin.c.name == name, admin.c.gone_at.is_not(None))
    conn.execute(sa.delete(admin).where((admin.c.id == admin_id) | over))
    conn.execute(
        sa.insert(admin).values(
            id=admin_id,
            name=name,
            url=url,
            version=version,
            started_at=now,
            lease_expires_at=now + ADMIN_LEASE_MS,
            status="{}",
        )
    )


def renew_admin(conn: sa.Connection, *, admin_id: int, status: str) -> bool:
    """Extend this admin's lease; False when others took it for dead and it must enter again.

    Args:
        status: JSON that tells people how it does.
    """
    renewed = conn.execute(
        sa.update(admin)
        .where(admin.c.id == admin_id, admin.c.gone_at.is_(None))
        .values(lease_expires_at=now_ms(conn) + ADMIN_LEASE_MS, status=status)
    )
    return renewed.rowcount == 1


def tell_status(conn: sa.Connection, *, admin_id: int, status: str) -> None:
    """Write this admin's status between two renewals of its lease."""
    conn.execute(sa.update(admin).where(admin.c.id == admin_id).values(status=status))


def statuses_of_others(conn: sa.Connection, admin_id: int | None) -> dict[int, str]:
    """What the other admins that are up said of themselves, by their ids."""
    rows = conn.execute(
        sa.select(admin.c.id, admin.c.status).where(admin.c.lease_expires_at > now_ms(conn))
    )
    return {row.id: row.status for row in rows if row.id != admin_id}


def live_admin_statuses(conn: sa.Connection) -> list[tuple[str, str]]:
    """Names of the admins that are up, and what each said of itself."""
    rows = conn.execute(
        sa.select(admin.c.name, admin.c.status).where(admin.c.lease_expires_at > now_ms(conn))
    )
    return [(row.name, row.status) for row in rows]


def newest_starts(conn: sa.Connection) -> dict[str, int]:
    """When an admin of each name started last, of those that are up."""
    rows = conn.execute(
        sa.select(admin.c.name, sa.func.max(admin.c.started_at).label("at"))
        .where(admin.c.lease_expires_at > now_ms(conn))
        .group_by(admin.c.name)
    )
    return {row.name: row.at for row in rows}


def leave_admin(conn: sa.Connection, *, admin_id: int) -> None:
    """Take a stopping admin and its node sessions off the books."""
    conn.execute(sa.delete(node_session).where(node_session.c.admin_id == admin_id))
    conn.execute(sa.delete(admin).where(admin.c.id == admin_id))


def live_admin_urls(conn: sa.Connection) -> list[str]:
    """Where nodes reach the admins that are up."""
    rows = conn.execute(
        sa.select(admin.c.url).where(admin.c.lease_expires_at > now_ms(conn)).order_by(admin.c.url)
    )
    return list(dict.fromkeys(rows.scalars()))


def remove_dead_admins(conn: sa.Connection) -> list[int]:
    """Note that admins are gone whose lease is over, and end the sessions they had; their ids.

    People see for `GONE_KEPT_MS` which are gone, unless another of the name has come instead.
    A lease given before the database's clock was set back is cut, as those of nodes are.
    """
    now = now_ms(conn)
    conn.execute(
        sa.update(admin)
        .where(admin.c.lease_expires_at > now + 2 * ADMIN_LEASE_MS)
        .values(lease_expires_at=now + ADMIN_LEASE_MS)
    )
    dead = {
        row.id: row.name
        for row in conn.execute(
            sa.select(admin.c.id, admin.c.name)
            .where(admin.c.lease_expires_at <= now_ms(conn), admin.c.gone_at.is_(None))
            .order_by(admin.c.id)
            .with_for_update(skip_locked=True)
        )
    }
    ids = list(dead)
    if ids:
        add_signals(
            conn,
            [
                AlarmSignal(
                    kind=AlarmKind.ADMIN_GONE, subject_id=each, number=now, at=now, text=name
                )
                for each, name in dead.items()
            ],
        )
        conn.execute(sa.delete(node_session).where(node_session.c.admin_id.in_(ids)))
        conn.execute(sa.update(admin).where(admin.c.id.in_(ids)).values(gone_at=now))
        rows = conn.execute(sa.select(admin.c.id, admin.c.name, admin.c.gone_at)).all()
        up = {row.name for row in rows if row.gone_at is None}
        over = [
            row.id
            for row in rows
            if row.gone_at is not None and (row.gone_at < now - GONE_KEPT_MS or row.name in up)
        ]
        if over:
            conn.execute(sa.delete(admin).where(admin.c.id.in_(over)))
    return ids
