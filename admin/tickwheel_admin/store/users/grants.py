"""What people may do with which executors: rows in, values out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import sqlalchemy as sa

from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Grant, Role
from tickwheel_admin.store.database.tables import ALIVE, executor, grant, user

Grants = Mapping[int, Grant]  # by executor id (0: all)


def grants_of(conn: sa.Connection, user_id: int) -> dict[int, Grant]:
    """By executor id (0: all)."""
    return grants_of_many(conn, [user_id]).get(user_id, {})


def grants_of_many(conn: sa.Connection, user_ids: Sequence[int]) -> dict[int, dict[int, Grant]]:
    """By person and executor; people without any are left out."""
    rows = conn.execute(
        sa.select(grant).where(grant.c.user_id.in_(user_ids)).order_by(grant.c.executor_id)
    )
    found: defaultdict[int, dict[int, Grant]] = defaultdict(dict)
    for row in rows:
        found[row.user_id][row.executor_id] = Grant(Role(row.role), bool(row.scripts))
    return dict(found)


def replace_grants(conn: sa.Connection, user_id: int, grants: Grants) -> None:
    """Give a person these and no others."""
    delete_grants_of(conn, user_id)
    if grants:
        conn.execute(
            sa.insert(grant),
            [
                {
                    "user_id": user_id,
                    "executor_id": executor_id,
                    "role": each.role.value,
                    "scripts": each.scripts,
                }
                for executor_id, each in sorted(grants.items())
            ],
        )


def delete_grants_of(conn: sa.Connection, user_id: int) -> None:
    conn.execute(sa.delete(grant).where(grant.c.user_id == user_id))


def has_other_admin(conn: sa.Connection, user_id: int) -> bool:
    """Whether somebody else administers everything and is not shut out."""
    found = conn.execute(
        sa.select(user.c.id)
        .join(grant, grant.c.user_id == user.c.id)
        .where(
            grant.c.executor_id == ALL_EXECUTORS,
            grant.c.role == Role.ADMIN.value,
            user.c.disabled == sa.false(),
            user.c.id != user_id,
        )
        .limit(1)
    )
    return found.first() is not None


def names_of_those_with(
    conn: sa.Connection,
    roles: Collection[Role],
    executor_id: int,
    *,
    limit: int,
    name: str | None = None,
) -> list[str]:
    """Names of people who have one of the roles there, or on all, and are not shut out; by name.

    Args:
        name: only the person of this name.
    """
    wanted = (
        sa.select(user.c.name)
        .join(grant, grant.c.user_id == user.c.id)
        .where(
            grant.c.executor_id.in_(sorted({ALL_EXECUTORS, executor_id})),
            grant.c.role.in_(sorted(role.value for role in roles)),
            user.c.disabled == sa.false(),
        )
        .distinct()
        .order_by(user.c.name)
        .limit(limit)
    )
    if name is not None:
        wanted = wanted.where(user.c.name == name)
    return list(conn.execute(wanted).scalars())


def remove_orphan_grants(conn: sa.Connection, *, limit: int) -> int:
    """Delete grants on executors that are no more; returns how many."""
    alive = sa.exists().where(executor.c.id == grant.c.executor_id, executor.c.deleted_at == ALIVE)
    found = conn.execute(
        sa.select(grant.c.user_id, grant.c.executor_id)
        .where(grant.c.executor_id != ALL_EXECUTORS, ~alive)
        .limit(limit)
    ).all()
    for row in found:
        conn.execute(
            sa.delete(grant).where(
                grant.c.user_id == row.user_id, grant.c.executor_id == row.executor_id
            )
        )
    return len(found)
