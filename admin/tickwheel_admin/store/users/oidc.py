"""People who log in at the OpenID provider, and the executors that its groups are told of."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from tickwheel_admin.store.database.tables import ALIVE, executor, user
from tickwheel_admin.store.users.users import StoredUser, get_user


def find_oidc_user(conn: sa.Connection, oidc_key: str) -> StoredUser | None:
    """Whoever logged in with this issuer and subject before."""
    user_id = conn.execute(sa.select(user.c.id).where(user.c.oidc_key == oidc_key)).scalar()
    return None if user_id is None else get_user(conn, user_id)


def executor_ids(conn: sa.Connection, names: Iterable[str]) -> dict[str, int]:
    """Ids of executors that are not deleted, by name; names of none are left out."""
    wanted = executor.c.name.in_(sorted(names))
    rows = conn.execute(
        sa.select(executor.c.name, executor.c.id).where(wanted, executor.c.deleted_at == ALIVE)
    )
    return {row.name: row.id for row in rows}
