"""Where executors of the protocol listen: registered by themselves or set by hand."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.executors.node import ADMIN_LEASE_MS
from tickwheel_admin.domain.xxl_job.bridge import (
    LEAVING_MS,
    MAX_KEPT,
    MAX_REGISTERED,
    REGISTRATION_MS,
    AddressReport,
    Registration,
    XxlAddress,
)
from tickwheel_admin.store.database.batch import insert_values
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.run_conditions import IS_LIVE
from tickwheel_admin.store.database.tables import admin, run, xxl_address

PRESENT_MS = 6_000  # an admin that has not renewed its lease for so long may be gone
FORGOTTEN_MS = 86_400_000  # since an address was last in use

_ids = msgspec.json.Decoder(list[int])


def read_addresses(conn: sa.Connection, *, recording_since: int = 0) -> list[XxlAddress]:
    """Every address that may have runs: not those that left long ago.

    Args:
        recording_since: since when registrations can be recorded again, by the database's clock;
            silence before it says nothing of a process.
    """
    now = now_ms(conn)
    t = xxl_address.c
    left = _before(t.removed_at, now - LEAVING_MS)
    if recording_since <= now - LEAVING_MS:
        answers = sa.and_(t.beat_at.is_not(None), t.beat_at > now - REGISTRATION_MS)
        left = sa.or_(left, sa.and_(_before(t.registered_at, now - LEAVING_MS), ~answers))
    busy = _busy_nodes(conn, left)
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
        .where(sa.or_(~left, t.node_id.in_(busy)))
        .order_by(t.executor_id, t.address)
    )
    quiet = now - REGISTRATION_MS
    return [
        XxlAddress(
            executor_id=row.executor_id,
            address=row.address,
            incarnation=row.incarnation,
            dialect=row.dialect,
            client=row.client,
            registered_at=row.registered_at,
            is_leaving=row.removed_at is not None
            or (row.registered_at is not None and max(row.registered_at, recording_since) <= quiet),
        )
        for row in rows
    ]


def serving_admins(conn: sa.Connection) -> dict[int, frozenset[int]]:
    """The admins that serve this protocol and renewed their lease within the last seconds.

    Sooner than a lease ends: the nodes of an admin that died have a successor before theirs do.

    Returns for each the executors that it cannot serve.
    """
    renewed = now_ms(conn) + ADMIN_LEASE_MS - PRESENT_MS
    rows = conn.execute(
        sa.select(admin.c.id, admin.c.xxl_unreadable)
        .where(admin.c.lease_expires_at > renewed, admin.c.xxl_unreadable.is_not(None))
        .order_by(admin.c.id)
    )
    return {row.id: frozenset(_ids.decode(row.xxl_unreadable)) for row in rows}


def tell_unreadable(conn: sa.Connection, *, admin_id: int, executor_ids: Collection[int]) -> None:
    """Note that an admin serves this protocol, and which executors it cannot serve."""
    text = msgspec.json.encode(sorted(executor_ids)).decode()
    conn.execute(sa.update(admin).where(admin.c.id == admin_id).values(xxl_unreadable=text))


def register_addresses(conn: sa.Connection, registrations: Sequence[Registration]) -> list[bool]:
    """Executors say that they listen at these addresses.

    Returns for each whether it was taken: at most `MAX_REGISTERED` of an executor are in use.
    """
    now = now_ms(conn)
    t = xxl_address.c
    executor_ids = sorted({each.executor_id for each in registrations})
    in_use = sa.and_(t.removed_at.is_(None), t.registered_at > now - REGISTRATION_MS)
    used, kept = dict.fromkeys(executor_ids, 0), dict.fromkeys(executor_ids, 0)
    for row in conn.execute(
        sa.select(t.executor_id, sa.func.count().label("kept"), _count(in_use).label("used"))
        .where(t.executor_id.in_(executor_ids))
        .group_by(t.executor_id)
    ):
        used[row.executor_id], kept[row.executor_id] = row.used, row.kept
    addresses = sorted({each.address for each in registrations})
    known: dict[tuple[int, str], bool] = {
        (row.executor_id, row.address): bool(row.is_used)
        for row in conn.execute(
            sa.select(
                t.executor_id, t.address, sa.case((in_use, 1), else_=0).label("is_used")
            ).where(t.executor_id.in_(executor_ids), t.address.in_(addresses))
        )
    }
    taken = []
    wanted: dict[tuple[int, str], Registration] = {}
    for each in registrations:
        if not known.get(each.key, False) and each.key not in wanted:
            if used[each.executor_id] >= MAX_REGISTERED:
                taken.append(False)
                continue
            used[each.executor_id] += 1
            kept[each.executor_id] += each.key not in known
        wanted[each.key] = each
        taken.append(True)
    # One statement in the order of the key: rows are locked in the same order by everyone.
    insert_values(
        conn,
        xxl_address,
        [(*key, now, None, wanted[key].client.value) for key in sorted(wanted)],
        columns=("executor_id", "address", "registered_at", "removed_at", "client"),
        replace_duplicates_of=("executor_id", "address"),
    )
    for executor_id in executor_ids:
        if kept[executor_id] > MAX_KEPT:
            _drop_unused(conn, executor_id, kept[executor_id] - MAX_KEPT, now=now)
    return taken


def _count(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    return sa.func.sum(sa.case((condition, 1), else_=0))


def _drop_unused(conn: sa.Connection, executor_id: int, count: int, *, now: int) -> None:
    """Delete the addresses of an executor that registered longest ago and have no runs."""
    t = xxl_address.c
    unused = sa.and_(
        t.executor_id == executor_id,
        sa.or_(t.removed_at.is_not(None), _before(t.registered_at, now - REGISTRATION_MS)),
    )
    dropped = conn.execute(
        sa.select(t.address)
        .where(unused, _has_none_of(_busy_nodes(conn, unused)))
        .order_by(sa.func.coalesce(t.registered_at, 0), t.address)
        .limit(count)
    ).scalars()
    conn.execute(
        sa.delete(xxl_address).where(t.executor_id == executor_id, t.address.in_(sorted(dropped)))
    )


def _busy_nodes(conn: sa.Connection, condition: sa.ColumnElement[bool]) -> list[int]:
    """Nodes at the addresses for which this holds that have runs, or are about to."""
    t = xxl_address.c
    found = conn.execute(sa.select(t.node_id).where(condition, t.node_id.is_not(None))).scalars()
    node_ids = sorted(set(found))
    if not node_ids:
        return []
    busy = sa.select(run.c.node_id).where(IS_LIVE, run.c.node_id.in_(node_ids)).distinct()
    return list(conn.execute(busy).scalars())


def _before(column: sa.ColumnElement[Any], instant: int) -> sa.ColumnElement[bool]:
    """Unlike a plain comparison, false for NULL, so that it can be denied."""
    return sa.and_(column.is_not(None), column <= instant)


def _has_none_of(node_ids: Collection[int]) -> sa.ColumnElement[bool]:
    t = xxl_address.c
    return sa.or_(t.node_id.is_(None), t.node_id.not_in(node_ids))


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


def forget_addresses(conn: sa.Connection, *, recording_since: int = 0) -> None:
    """Delete addresses that nobody has used for a day.

    Args:
        recording_since: as for `read_addresses`. Nothing is deleted for an hour after it.
    """
    now = now_ms(conn)
    if recording_since > now - LEAVING_MS:
        return
    t = xxl_address.c
    old = now - FORGOTTEN_MS
    unused = sa.and_(
        sa.or_(_before(t.registered_at, old), _before(t.removed_at, old)),
        sa.or_(t.registered_at.is_(None), t.registered_at <= old),
        sa.or_(t.beat_at.is_(None), t.beat_at <= old),
    )
    conn.execute(sa.delete(xxl_address).where(unused, _has_none_of(_busy_nodes(conn, unused))))


def raise_incarnation(conn: sa.Connection, executor_id: int, address: str, known: int) -> None:
    """The process at an address is gone: whoever answers there next is another one."""
    t = xxl_address.c
    conn.execute(
        sa.update(xxl_address)
        .where(t.executor_id == executor_id, t.address == address, t.incarnation == known)
        .values(incarnation=known + 1, node_id=None)
    )


def begin_turn(conn: sa.Connection, executor_id: int, address: str) -> int:
    """An admin begins to serve an address; returns how many have by now, 0: nobody knows it."""
    t = xxl_address.c
    this = (t.executor_id == executor_id, t.address == address)
    conn.execute(sa.update(xxl_address).where(*this).values(turns=t.turns + 1))
    return conn.execute(sa.select(t.turns).where(*this)).scalar() or 0


def note_addresses(conn: sa.Connection, reports: Sequence[AddressReport]) -> None:
    """Add what an admin saw of its addresses."""
    now = now_ms(conn)
    t = xxl_address.c
    by_key = {(each.executor_id, each.address): each for each in reports}
    # Locked in the order of the key first, as registrations do: several admins write these rows.
    rows = conn.execute(
        sa.select(*(t[column] for column in _NOTED))
        .where(
            t.executor_id.in_(sorted({key[0] for key in by_key})),
            t.address.in_(sorted({key[1] for key in by_key})),
        )
        .order_by(t.executor_id, t.address)
        .with_for_update()
    ).all()
    insert_values(
        conn,
        xxl_address,
        [
            _noted(row, by_key[row.executor_id, row.address], now)
            for row in rows
            if (row.executor_id, row.address) in by_key
        ],
        columns=_NOTED,
        replace_duplicates_of=("executor_id", "address"),
    )


_NOTED = (
    "executor_id", "address", "node_id", "dialect", "beat_at", "calls", "errors", "error",
    "error_at",
)  # fmt: skip


def _noted(row: Any, report: AddressReport, now: int) -> tuple[Any, ...]:
    """A row with what was seen since, in the order of `_NOTED`."""
    beat_at, error, error_at = row.beat_at, row.error, row.error_at
    if report.beat_at_ms_ago is not None:
        beat_at = now - report.beat_at_ms_ago
    if report.error is not None:
        error, error_at = report.error.replace("\0", "\ufffd"), now - (report.error_ms_ago or 0)
    return (
        row.executor_id,
        row.address,
        row.node_id if report.node_id is None else report.node_id,
        row.dialect if report.dialect is None else report.dialect,
        beat_at,
        row.calls + report.calls,
        row.errors + report.errors,
        error,
        error_at,
    )
