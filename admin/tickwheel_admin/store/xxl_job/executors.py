"""Executors of the protocol `xxl_job`, and where their processes listen."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.tables import ALIVE, executor, xxl_address, xxl_executor

_urls = msgspec.json.Decoder(list[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredXxlExecutor:
    """What such an executor has besides."""

    executor_id: int
    name: str
    app_name: str  # by which its processes register
    addresses: tuple[str, ...] | None  # set by a person; None: its processes register themselves
    token: str = field(repr=False)  # encrypted
    token_hash: str  # of the executor; it changes when its nodes are to be sent away


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredXxlAddress:
    """Where a process of an executor listens, or listened."""

    executor_id: int
    address: str  # normalised URL without a slash at the end
    registered_at: int | None  # last registration; None: a person set the address
    removed_at: int | None  # since when it is not to be used; None: it is
    incarnation: int  # which process at this address
    node_id: int | None  # of that process
    dialect: str | None  # A, B or C; None: not seen yet
    beat_at: int | None  # last beat that was answered
    calls: int
    errors: int
    error: str | None  # the last one
    error_at: int | None


_EXECUTORS = (
    sa.select(
        xxl_executor.c.executor_id,
        executor.c.name,
        xxl_executor.c.app_name,
        xxl_executor.c.addresses,
        xxl_executor.c.token,
        executor.c.token_hash,
    )
    .join(executor, executor.c.id == xxl_executor.c.executor_id)
    .where(executor.c.deleted_at == ALIVE)
)


def read_xxl_executors(conn: sa.Connection) -> list[StoredXxlExecutor]:
    """All of them, by id."""
    rows = conn.execute(_EXECUTORS.order_by(xxl_executor.c.executor_id))
    return [_executor(row) for row in rows]


def get_xxl_executor(conn: sa.Connection, executor_id: int) -> StoredXxlExecutor | None:
    """One; None for an executor of another protocol, or a deleted one."""
    row = conn.execute(_EXECUTORS.where(xxl_executor.c.executor_id == executor_id)).one_or_none()
    return None if row is None else _executor(row)


def is_xxl_executor(conn: sa.Connection, executor_id: int) -> bool:
    """Whether the executor is of this protocol."""
    found = sa.select(xxl_executor.c.executor_id).where(xxl_executor.c.executor_id == executor_id)
    return conn.execute(found).first() is not None


def xxl_executor_of_app(conn: sa.Connection, app_name: str) -> StoredXxlExecutor | None:
    """The executor whose processes register by the name."""
    row = conn.execute(_EXECUTORS.where(xxl_executor.c.app_name == app_name)).one_or_none()
    return None if row is None else _executor(row)


def add_xxl_executor(
    conn: sa.Connection,
    executor_id: int,
    *,
    app_name: str,
    addresses: Sequence[str] | None,
    token: str,
) -> None:
    """Insert what an executor that was just added has besides.

    Args:
        token: encrypted.
    """
    conn.execute(
        sa.insert(xxl_executor).values(
            executor_id=executor_id, app_name=app_name, addresses=_text(addresses), token=token
        )
    )


def change_xxl_executor(
    conn: sa.Connection,
    executor_id: int,
    *,
    app_name: str,
    addresses: Sequence[str] | None,
    token: str,
) -> None:
    """Write all that may change of it; as `add_xxl_executor`."""
    conn.execute(
        sa.update(xxl_executor)
        .where(xxl_executor.c.executor_id == executor_id)
        .values(app_name=app_name, addresses=_text(addresses), token=token)
    )


def encrypt_token_anew(conn: sa.Connection, old: StoredXxlExecutor, *, token: str) -> bool:
    """The same access token under another key; False: it was changed meanwhile."""
    changed = conn.execute(
        sa.update(xxl_executor)
        .where(xxl_executor.c.executor_id == old.executor_id, xxl_executor.c.token == old.token)
        .values(token=token)
    )
    return changed.rowcount == 1


def delete_xxl_executor(conn: sa.Connection, executor_id: int) -> None:
    """Forget it and its addresses; nothing, for an executor of another protocol."""
    conn.execute(sa.delete(xxl_address).where(xxl_address.c.executor_id == executor_id))
    conn.execute(sa.delete(xxl_executor).where(xxl_executor.c.executor_id == executor_id))


def read_xxl_addresses(
    conn: sa.Connection, executor_ids: Collection[int] | None = None
) -> list[StoredXxlAddress]:
    """Those of the executors, or all; by executor and address."""
    statement = sa.select(xxl_address).order_by(xxl_address.c.executor_id, xxl_address.c.address)
    if executor_ids is not None:
        statement = statement.where(xxl_address.c.executor_id.in_(sorted(executor_ids)))
    return [_address(row) for row in conn.execute(statement)]


def set_xxl_addresses(
    conn: sa.Connection, executor_id: int, addresses: Sequence[str] | None, *, now: int
) -> None:
    """Note which addresses a person set; others are not used from now on.

    Args:
        addresses: None: processes register themselves, so that those set before are not used.
    """
    mine = xxl_address.c.executor_id == executor_id
    wanted = set(addresses or ())
    known = {
        row.address: row
        for row in conn.execute(
            sa.select(
                xxl_address.c.address, xxl_address.c.registered_at, xxl_address.c.removed_at
            ).where(mine)
        )
    }
    unused = [
        each.address
        for each in known.values()
        if each.address not in wanted and each.removed_at is None
        # While processes register themselves, those that did are used as before.
        if addresses is not None or each.registered_at is None
    ]
    if unused:
        conn.execute(
            sa.update(xxl_address)
            .where(mine, xxl_address.c.address.in_(sorted(unused)))
            .values(removed_at=now)
        )
    if again := sorted(wanted & known.keys()):
        conn.execute(
            sa.update(xxl_address)
            .where(mine, xxl_address.c.address.in_(again))
            .values(removed_at=None, registered_at=None)
        )
    rows = [
        {"executor_id": executor_id, "address": each, "incarnation": 0, "calls": 0, "errors": 0}
        for each in sorted(wanted - known.keys())
    ]
    if rows:
        insert_rows(conn, xxl_address, rows, columns=tuple(rows[0]))


def remove_xxl_address(conn: sa.Connection, executor_id: int, address: str) -> bool:
    """Forget an address; whether it was known."""
    removed = conn.execute(
        sa.delete(xxl_address).where(
            xxl_address.c.executor_id == executor_id, xxl_address.c.address == address
        )
    )
    return removed.rowcount == 1


def _text(addresses: Sequence[str] | None) -> str | None:
    return None if addresses is None else msgspec.json.encode(list(addresses)).decode()


def _executor(row: Any) -> StoredXxlExecutor:
    return StoredXxlExecutor(
        executor_id=row.executor_id,
        name=row.name,
        app_name=row.app_name,
        addresses=None if row.addresses is None else tuple(_urls.decode(row.addresses)),
        token=row.token,
        token_hash=row.token_hash,
    )


def _address(row: Any) -> StoredXxlAddress:
    return StoredXxlAddress(
        executor_id=row.executor_id,
        address=row.address,
        registered_at=row.registered_at,
        removed_at=row.removed_at,
        incarnation=row.incarnation,
        node_id=row.node_id,
        dialect=row.dialect,
        beat_at=row.beat_at,
        calls=row.calls,
        errors=row.errors,
        error=row.error,
        error_at=row.error_at,
    )
