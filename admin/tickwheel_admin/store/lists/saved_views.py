"""Filters of lists that people keep under a name."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.users.saved_view import ListPage, SavedView
from tickwheel_admin.store.database.tables import saved_view, user

MAX_SHARED_SHOWN = 100  # of other people


def views_for(conn: sa.Connection, user_id: int, page: ListPage) -> list[SavedView]:
    """A person's own views of a list by name, then those that others share, by name."""
    own = conn.execute(
        _select()
        .where(saved_view.c.user_id == user_id, saved_view.c.page == page.value)
        .order_by(saved_view.c.name)
    )
    shared = conn.execute(
        _select()
        .where(
            saved_view.c.page == page.value,
            saved_view.c.shared == sa.true(),  # which MariaDB finds by index, unlike IS
            saved_view.c.user_id != user_id,
        )
        .order_by(saved_view.c.name, saved_view.c.id)
        .limit(MAX_SHARED_SHOWN)
    )
    return [_view(row) for row in (*own, *shared)]


def get_view(conn: sa.Connection, view_id: int, *, lock: bool = False) -> SavedView | None:
    """One view."""
    if lock:  # a row of one table: MariaDB cannot lock one of a join
        conn.execute(sa.select(saved_view.c.id).where(saved_view.c.id == view_id).with_for_update())
    row = conn.execute(_select().where(saved_view.c.id == view_id)).one_or_none()
    return None if row is None else _view(row)


def count_views(conn: sa.Connection, user_id: int) -> int:
    """How many views a person has."""
    return conn.execute(
        sa.select(sa.func.count()).where(saved_view.c.user_id == user_id)
    ).scalar_one()


def view_named(conn: sa.Connection, user_id: int, page: ListPage, name: str) -> int | None:
    """The id of a person's view of this name."""
    return conn.execute(
        sa.select(saved_view.c.id).where(
            saved_view.c.user_id == user_id,
            saved_view.c.page == page.value,
            saved_view.c.name == name,
        )
    ).scalar_one_or_none()


def add_view(conn: sa.Connection, view: SavedView, *, now: int) -> None:
    """Keep a new view; its unique name is the database's to guard."""
    conn.execute(
        sa.insert(saved_view).values(
            id=view.id,
            user_id=view.owner_id,
            page=view.page.value,
            created_at=now,
            **_changeable(view),
        )
    )


def change_view(conn: sa.Connection, view: SavedView) -> None:
    """Give a view its new name, query and share."""
    conn.execute(
        sa.update(saved_view).where(saved_view.c.id == view.id).values(**_changeable(view))
    )


def delete_view(conn: sa.Connection, view_id: int) -> None:
    """Forget a view."""
    conn.execute(sa.delete(saved_view).where(saved_view.c.id == view_id))


def _changeable(view: SavedView) -> dict[str, Any]:
    return {"name": view.name, "query": view.query, "shared": view.shared}


def _select() -> sa.Select[Any]:
    return sa.select(
        saved_view.c.id,
        saved_view.c.user_id,
        saved_view.c.page,
        saved_view.c.name,
        saved_view.c.query,
        saved_view.c.shared,
        user.c.name.label("owner_name"),
    ).outerjoin(user, user.c.id == saved_view.c.user_id)


def _view(row: Any) -> SavedView:
    return SavedView(
        id=row.id,
        page=ListPage(row.page),
        name=row.name,
        query=row.query,
        shared=bool(row.shared),
        owner_id=row.user_id,
        owner_name=row.owner_name or "",
    )
