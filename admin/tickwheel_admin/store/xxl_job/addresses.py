"""Where executors of the protocol listen: registered by themselves or set by hand."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from tickwheel_admin.domain.executors.node import ADMIN_LEASE_MS
from tickwheel_admin.domain.xxl_job.bridge import (
    LEAVING_MS,
    MAX_REGISTERED,
    REGISTRATION_MS,
    AddressReport,
    Registration,
    XxlAddress,
)
from tickwheel_admin.store.database.batch import insert_values
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.tables import admin, xxl_address

PRESENT_MS = 6_000  # an admin that has not renewed its lease for so long may be gone


def read_addresses(conn: sa.Connection) -> list[XxlAddress]:
    """Every address that may have runs: not those that left long ago."""
    now = now_ms(conn)
    quiet = now - REGISTRATION_MS
    t = xxl_address.c
    rows = conn.execute(
        sa.select(
            t.executor_id,
            t.address,
            t.incarnation,
            t.dialect,
            t.client,
            t.registered_at,
            t.removed_at,
        )
        .where(sa.or_(t.removed_at.is_(None), t.removed_at > now - LEAVING_MS))
        .where(sa.or_(t.registered_at.is_(None), t.registered_at > now - LEAVING_MS))
        .order_by(t.executor_id, t.address)
    )
    return [
        XxlAddress(
            executor_id=row.executor_id,
            address=row.address,
            incarnation=row.incarnation,
            dialect=row.dialect,
            client=row.client,
            registered_at=row.registered_at,
            is_leaving=row.removed_at is not None
            or (row.registered_at is not None and row.registered_at <= quiet),
        )
        for row in rows
    ]


def present_admins(conn: sa.Connection) -> list[int]:
    """Ids of the admins that renewed their lease within the last seconds.

    Sooner than a lease ends: the nodes of an admin that died have a successor before theirs do.
    """
    renewed = now_ms(conn) + ADMIN_LEASE_MS - PRESENT_MS
    rows = conn.execute(
        sa.select(admin.c.id).where(admin.c.lease_expires_at > renewed).order_by(admin.c.id)
    )
    return list(rows.scalars())


def register_addresses(conn: sa.Connection, registrations: Sequence[Registration]) -> list[bool]:
    """Executors say that they listen at these addresses.

    Returns for each whether it was taken: an executor has at most `MAX_REGISTERED` of them.
    """
    now = now_ms(conn)
    t = xxl_address.c
    executor_ids = sorted({each.executor_id for each in registrations})
    counts = dict.fromkeys(executor_ids, 0)
    rows = conn.execute(
        sa.select(t.executor_id, sa.func.count())
        .where(t.executor_id.in_(executor_ids))
        .group_by(t.executor_id)
    )
    counts.update({row[0]: row[1] for row in rows})
    addresses = sorted({each.address for each in registrations})
    known = {
        (row.executor_id, row.address)
        for row in conn.execute(
            sa.select(t.executor_id, t.address).where(
                t.executor_id.in_(executor_ids), t.address.in_(addresses)
            )
        )
    }
    taken = []
    for key in (each.key for each in registrations):
        if key not in known:
            if counts[key[0]] >= MAX_REGISTERED:
                taken.append(False)
                continue
            counts[key[0]] += 1
            known.add(key)
        taken.append(True)
    wanted = {
        each.key: each for each, is_taken in zip(registrations, taken, strict=True) if is_taken
    }
    insert_values(
        conn,
        xxl_address,
        [(*key, 0, 0, 0) for key in sorted(wanted)],
        columns=("executor_id", "address", "incarnation", "calls", "errors"),
        ignore_duplicates_of=("executor_id", "address"),
    )
    for (executor_id, address), each in sorted(wanted.items()):
        conn.execute(
            sa.update(xxl_address)
            .where(t.executor_id == executor_id, t.address == address)
            .values(registered_at=now, removed_at=None, client=each.client.value)
        )
    return taken


def unregister_address(conn: sa.Connection, executor_id: int, address: str) -> bool:
    """An executor says that it stops listening there; False: it never registered that address."""
    t = xxl_address.c
    removed = conn.execute(
        sa.update(xxl_address)
        .where(t.executor_id == executor_id, t.address == address)
        .where(t.registered_at.is_not(None))
        .values(removed_at=now_ms(conn))
    )
    return removed.rowcount == 1


def forget_addresses(conn: sa.Connection) -> None:
    """Delete registered addresses that nobody has used for a day."""
    t = xxl_address.c
    conn.execute(sa.delete(xxl_address).where(t.registered_at < now_ms(conn) - 86_400_000))


def raise_incarnation(conn: sa.Connection, executor_id: int, address: str, known: int) -> None:
    """The process at an address is gone: whoever answers there next is another one."""
    t = xxl_address.c
    conn.execute(
        sa.update(xxl_address)
        .where(t.executor_id == executor_id, t.address == address, t.incarnation == known)
        .values(incarnation=known + 1)
    )


def note_addresses(conn: sa.Connection, reports: Sequence[AddressReport]) -> None:
    """Add what an admin saw of its addresses."""
    now = now_ms(conn)
    t = xxl_address.c
    for report in reports:
        values: dict[str, object] = {
            "calls": t.calls + report.calls,
            "errors": t.errors + report.errors,
            "node_id": report.node_id,
        }
        if report.dialect is not None:
            values["dialect"] = report.dialect
        if report.beat_at_ms_ago is not None:
            values["beat_at"] = now - report.beat_at_ms_ago
        if report.error is not None:
            values |= {"error": report.error, "error_at": now - (report.error_ms_ago or 0)}
        conn.execute(
            sa.update(xxl_address)
            .where(t.executor_id == report.executor_id, t.address == report.address)
            .values(values)
        )
