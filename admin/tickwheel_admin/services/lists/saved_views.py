"""Saved views: everybody keeps filters of their own and may share them."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, NotAllowed
from tickwheel_admin.domain.users.saved_view import (
    MAX_VIEWS,
    ListPage,
    SavedView,
    parse_name,
    parse_page,
    parse_query,
)
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.lists import saved_views as store


class SavedViews:
    """Use cases of saved views. What changes what others see is noted in the audit."""

    def __init__(self, store: Store, ids: Ids) -> None:
        self._store = store
        self._ids = ids
        self._audited = AuditedTransactions(store, ids)

    async def list(self, actor: Actor, page: str) -> list[SavedView]:
        """The caller's own by name, then up to 100 that others share, by name.

        Raises:
            InvalidInput: no such list.
        """
        return await self._store.read(store.views_for, actor.user_id, parse_page(page))

    async def get(self, actor: Actor, view_id: int) -> SavedView:
        """One view, of the caller or shared."""
        found = await self._store.read(store.get_view, view_id)
        if found is None or not (found.shared or found.owner_id == actor.user_id):
            raise not_found()
        return found

    async def save(self, actor: Actor, page: str, name: str, query: str, *, shared: bool) -> int:
        """Keep a filter under a name of its own; returns its id.

        Args:
            query: of the list's address; what of it says no filter is left out.

        Raises:
            InvalidInput: with the field that breaks a rule.
            Conflict: view.name_taken; view.too_many when the caller has 50.
        """
        wanted = SavedView(
            id=await self._ids.take("saved_view"),
            page=parse_page(page),
            name=parse_name(name),
            query=parse_query(ListPage(page), query),
            shared=shared,
            owner_id=actor.user_id,
            owner_name=actor.name,
        )

        def save(conn: sa.Connection, entry: AuditEntry) -> None:
            if store.get_view(conn, wanted.id) is not None:
                return  # an earlier try of this transaction was committed after all
            if store.count_views(conn, actor.user_id) >= MAX_VIEWS:
                raise Conflict(
                    "view.too_many",
                    "You have %(limit)d views already; delete one that you no longer need.",
                    limit=MAX_VIEWS,
                )
            _check_name(conn, wanted)
            store.add_view(conn, wanted, now=now_ms(conn))
            if shared:
                _write(entry, "view.shared", wanted)

        await self._audited.run(actor, save)
        return wanted.id

    async def change(
        self,
        actor: Actor,
        view_id: int,
        *,
        name: str | None = None,
        shared: bool | None = None,
        query: str | None = None,
    ) -> None:
        """Rename a view of one's own, share it or no longer, or keep another filter under it.

        Args:
            name, shared, query: None: as it was.

        Raises:
            InvalidInput: with the field that breaks a rule.
            Conflict: view.name_taken.
            NotAllowed: view.of_another.
        """

        def change(conn: sa.Connection, entry: AuditEntry) -> None:
            old = _own(conn, actor, view_id)
            new = replace(
                old,
                name=old.name if name is None else parse_name(name),
                shared=old.shared if shared is None else shared,
                query=old.query if query is None else parse_query(old.page, query),
            )
            if new == old:
                return
            _check_name(conn, new)
            store.change_view(conn, new)
            if old.shared != new.shared:
                _write(entry, f"view.{'' if new.shared else 'un'}shared", new)
            elif new.shared:
                _write(entry, "view.changed", new)

        await self._audited.run(actor, change)

    async def delete(self, actor: Actor, view_id: int) -> None:
        """Forget a view of one's own; who may administer everything also a shared one.

        Raises:
            NotAllowed: view.of_another.
        """

        def delete(conn: sa.Connection, entry: AuditEntry) -> None:
            found = _own(conn, actor, view_id, unless=Permission.ADMINISTER)
            store.delete_view(conn, view_id)
            if found.shared:
                _write(entry, "view.deleted", found)

        await self._audited.run(actor, delete)


def _own(
    conn: sa.Connection, actor: Actor, view_id: int, *, unless: Permission | None = None
) -> SavedView:
    """The caller's own view, or with the permission one that others share."""
    found = store.get_view(conn, view_id, lock=True)
    if found is not None and found.owner_id == actor.user_id:
        return found
    if found is None or not found.shared:
        raise not_found()
    if unless is not None and actor.may(unless):
        return found
    raise NotAllowed(
        "view.of_another", "This view is %(owner)s’s; only its owner can change it.",
        owner=found.owner_name,
    )  # fmt: skip


def _check_name(conn: sa.Connection, view: SavedView) -> None:
    taken = store.view_named(conn, view.owner_id, view.page, view.name)
    if taken not in (None, view.id):
        raise Conflict(
            "view.name_taken", "You already have a view named “%(name)s”.", name=view.name
        )


def _write(entry: AuditEntry, action: str, view: SavedView) -> None:
    entry.write(action, view.id, page=view.page.value, name=view.name, query=view.query)
