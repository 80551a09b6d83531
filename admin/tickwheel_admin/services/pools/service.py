"""Pools: slots that the runs of several jobs share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed
from tickwheel_admin.domain.fields import CONTROL_CHARACTERS, is_clean
from tickwheel_admin.domain.input.pool import PoolInput, parse_pool
from tickwheel_admin.domain.pools.pool import OF_INSTALLATION, SlotPool
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.events import JOBS, QUEUED, RUNS, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.lists.paging import (
    Page,
    bad_cursor,
    check_limit,
    decode_cursor,
    encode_cursor,
)
from tickwheel_admin.services.lists.scope import not_found, visible_executors
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.executors import executor_names, get_executor
from tickwheel_admin.store.pools import pools as store
from tickwheel_admin.store.pools.pools import PoolHolder, PoolUser

MAX_SHOWN = 200
MAX_NAMED = 5  # users of a pool that an error names
MAX_TEXT_CHARS = 200


class _Key(NamedTuple):
    """A place in the list: behind this pool."""

    name: str
    executor_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolItem:
    """A pool in a list."""

    pool: SlotPool
    executor_name: str | None  # None: it is the installation's
    in_use: int  # slots that live runs hold; more than there are when they were made fewer
    waiting: int  # due runs that wait, at most 1,000 of each executor
    jobs: int  # that name it
    may_change: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDetail:
    """One pool, who uses it and who holds its slots."""

    item: PoolItem
    users: list[PoolUser]  # jobs that the caller may see, at most 200
    holders: list[PoolHolder]  # runs that the caller may see, at most 200


class Pools:
    """Use cases of pools.

    Those of the installation are seen by everybody, and changed by who administers it; those of an
    executor are seen by who sees the executor, and changed by who develops its jobs.
    """

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._ids = ids
        self._audited = AuditedTransactions(store, ids, events)

    async def page(
        self, actor: Actor, *, text: str = "", cursor: str | None = None, limit: int = 50
    ) -> Page[PoolItem]:
        """Pools by name; `text` is a part of a name."""
        actor.require(Permission.LOGGED_IN)
        text = text.strip()[:MAX_TEXT_CHARS]
        if not is_clean(text):
            raise InvalidInput.one("text", "control_characters", CONTROL_CHARACTERS)
        after = decode_cursor(cursor, _Key)
        if after is not None and not is_clean(after.name):
            raise bad_cursor()
        limit = check_limit(limit)

        def read(conn: sa.Connection) -> Page[PoolItem]:
            scope = actor.scope(Permission.VIEW)
            found = store.page_pools(conn, scope=scope, text=text, after=after, limit=limit + 1)
            shown = found[:limit]
            last = _Key(shown[-1].name, shown[-1].executor_id) if len(found) > limit else None
            following = None if last is None else encode_cursor(last)
            return Page(items=_items(conn, actor, shown), next=following)

        return await self._store.read(read)

    async def names_for(self, actor: Actor, executor_id: int) -> list[str]:
        """What a job of the executor may name."""
        actor.require(Permission.VIEW, executor_id)
        found = await self._store.read(store.pools_for, executor_id)
        return [each.name for each in found]

    async def get(self, actor: Actor, pool_id: int) -> PoolDetail:
        """One pool; of jobs and runs, those that the caller may see."""
        actor.require(Permission.LOGGED_IN)

        def read(conn: sa.Connection) -> PoolDetail:
            found = _seen(conn, actor, pool_id)
            seen = visible_executors(actor)
            return PoolDetail(
                item=_items(conn, actor, [found])[0],
                users=store.users_of_pool(conn, pool_id, limit=MAX_SHOWN, executor_ids=seen),
                holders=store.holders_of(conn, pool_id, limit=MAX_SHOWN, executor_ids=seen),
            )

        return await self._store.read(read)

    async def create(self, actor: Actor, raw: Mapping[str, Any]) -> int:
        """Add a pool; returns its id.

        Raises:
            InvalidInput: with every problem found.
            Conflict: pool.name_taken.
        """
        if not actor.may_anywhere(Permission.DEVELOP):
            _require_change(actor, OF_INSTALLATION)
        new = parse_pool(raw)
        _require_change(actor, new.executor_id)
        pool_id = await self._ids.take("pool")

        def create(conn: sa.Connection, entry: AuditEntry) -> None:
            create_pool(conn, entry, new, pool_id=pool_id)

        await self._audited.run(actor, create, JOBS)
        return pool_id

    async def update(
        self, actor: Actor, pool_id: int, raw: Mapping[str, Any], *, version: int
    ) -> int:
        """Change slots and description; returns the new version. It counts from the commit on.

        Args:
            version: the one the change was made from.

        Raises:
            InvalidInput: with every problem found; pool.renamed.
            Conflict: pool.changed when `version` is no longer current.
        """
        await self._may_change(actor, pool_id)
        new = parse_pool(raw)

        def update(conn: sa.Connection, entry: AuditEntry) -> int:
            return update_pool(conn, entry, pool_id, new, version=version)

        return await self._audited.run(
            actor,
            update,
            JOBS,
            RUNS,
            QUEUED,
            repeated=lambda noted: int(noted.detail["version"]),
        )

    async def delete(self, actor: Actor, pool_id: int) -> None:
        """Remove a pool that no job names.

        Raises:
            Conflict: pool.in_use, naming some of the jobs.
        """
        await self._may_change(actor, pool_id)

        def delete(conn: sa.Connection, entry: AuditEntry) -> None:
            delete_pool(conn, entry, pool_id)

        await self._audited.run(actor, delete, JOBS, QUEUED)

    async def _may_change(self, actor: Actor, pool_id: int) -> None:
        """Refuse before the input is looked at: its problems are not for everybody."""
        await self._store.read(pool_to_change, actor, pool_id)


def create_pool(conn: sa.Connection, entry: AuditEntry, new: PoolInput, *, pool_id: int) -> None:
    """Write a new pool; raises as `Pools.create`."""
    # Locked, so that the executor is not deleted meanwhile.
    store.lock_pool_edits(conn)
    if new.executor_id and get_executor(conn, new.executor_id, lock=True) is None:
        raise not_found()
    _check_name(conn, new.name, new.executor_id)
    now = now_ms(conn)
    stored = SlotPool(
        id=pool_id,
        executor_id=new.executor_id,
        name=new.name,
        description=new.description,
        slots=new.slots,
        version=1,
        created_at=now,
        updated_at=now,
    )
    store.add_pool(conn, stored)
    _note(entry, "pool.created", stored, slots=new.slots)


def update_pool(
    conn: sa.Connection, entry: AuditEntry, pool_id: int, new: PoolInput, *, version: int
) -> int:
    """Change one; returns its new version, and raises as `Pools.update`."""
    old = store.lock_pool(conn, pool_id)
    if old is None:
        raise not_found()
    if old.version != version:
        raise Conflict(
            "pool.changed",
            "Somebody else changed this pool meanwhile; it is at version %(version)d now."
            " Load it again and repeat your change.",
            version=old.version,
        )
    if (new.name, new.executor_id) != (old.name, old.executor_id):
        raise InvalidInput.one(
            "name" if new.name != old.name else "executor",
            "pool.renamed",
            "Jobs name it, so a pool keeps its name “%(name)s” and its executor; add"
            " another one instead.",
            name=old.name,
        )
    if (new.slots, new.description) == (old.slots, old.description):
        return old.version
    now = now_ms(conn)
    store.revise_pool(conn, old, description=new.description, slots=new.slots, now=now)
    _note(
        entry,
        "pool.updated",
        old,
        version=old.version + 1,
        changes=_changes(old, new),
    )
    return old.version + 1


def delete_pool(conn: sa.Connection, entry: AuditEntry, pool_id: int) -> None:
    """Remove one; raises as `Pools.delete`."""
    # From here on no job can begin to name it: saving one locks this row as well.
    old = store.lock_pool(conn, pool_id)
    if old is None:
        raise not_found()
    if store.users_of_pool(conn, pool_id, limit=1):
        seen = visible_executors(entry.actor)
        raise _in_use(
            old,
            store.users_of_pool(conn, pool_id, limit=MAX_NAMED + 1, executor_ids=seen),
        )
    store.delete_pool(conn, pool_id, now=now_ms(conn))
    _note(entry, "pool.deleted", old)


def may_change(actor: Actor, executor_id: int) -> bool:
    """Whether the caller may change the pools of an executor, or of the installation."""
    if executor_id == OF_INSTALLATION:
        return actor.may(Permission.ADMINISTER)
    return actor.may(Permission.DEVELOP, executor_id)


def pool_to_change(conn: sa.Connection, actor: Actor, pool_id: int) -> SlotPool:
    """A pool that the caller may change.

    Raises:
        NotFound: it is not there, or not to be seen.
        NotAllowed: it may only be seen.
    """
    found = _seen(conn, actor, pool_id)
    _require_change(actor, found.executor_id)
    return found


def _require_change(actor: Actor, executor_id: int) -> None:
    if executor_id != OF_INSTALLATION:
        actor.require(Permission.DEVELOP, executor_id)
    elif not may_change(actor, executor_id):
        raise NotAllowed(
            "not_allowed",
            "This pool is for jobs of every executor; to change it, your role needs the permission"
            " “%(permission)s” on all executors. A pool of one executor takes “develop” there.",
            permission=Permission.ADMINISTER.value,
        )


def _seen(conn: sa.Connection, actor: Actor, pool_id: int) -> SlotPool:
    found = store.get_pool(conn, pool_id)
    if found is None:
        raise not_found()
    if found.executor_id != OF_INSTALLATION and not actor.may(Permission.VIEW, found.executor_id):
        raise not_found()
    return found


def _check_name(conn: sa.Connection, name: str, executor_id: int) -> None:
    """A job names a pool by its name alone, so that it must be clear which one is meant."""
    for each in store.pools_named(conn, name):
        if OF_INSTALLATION in (executor_id, each.executor_id) or each.executor_id == executor_id:
            raise Conflict(
                "pool.name_taken",
                "There is already a pool named “%(name)s” that jobs could mean by this name.",
                name=name,
            )


def _in_use(pool: SlotPool, seen: Sequence[PoolUser]) -> Conflict:
    names = ", ".join(f"“{each.job_name}”" for each in seen[:MAX_NAMED])
    if not seen:
        return Conflict(
            "pool.in_use",
            "The pool “%(name)s” is in use by jobs that you may not see. Take it from them first,"
            " or give it 0 slots to close it.",
            name=pool.name,
        )
    return Conflict(
        "pool.in_use",
        "The pool “%(name)s” is in use by %(jobs)s. Take it from these jobs first, or give it 0"
        " slots to close it.",
        name=pool.name,
        jobs=names + (", …" if len(seen) > MAX_NAMED else ""),
    )


def _items(conn: sa.Connection, actor: Actor, found: Sequence[SlotPool]) -> list[PoolItem]:
    ids = [each.id for each in found]
    if not ids:
        return []
    in_use = store.slots_in_use(conn, ids)
    waiting = store.runs_waiting(conn, ids, now=now_ms(conn))
    jobs = store.count_users(conn, ids)
    names = executor_names(conn, {each.executor_id for each in found if each.executor_id})
    return [
        PoolItem(
            pool=each,
            executor_name=names.get(each.executor_id) if each.executor_id else None,
            in_use=in_use.get(each.id, 0),
            waiting=waiting.get(each.id, 0),
            jobs=jobs.get(each.id, 0),
            may_change=may_change(actor, each.executor_id),
        )
        for each in found
    ]


def _changes(old: SlotPool, new: PoolInput) -> dict[str, Any]:
    """What differs, as the audit keeps it."""
    return {
        name: {"before": getattr(old, name), "after": getattr(new, name)}
        for name in ("slots", "description")
        if getattr(old, name) != getattr(new, name)
    }


def _note(entry: AuditEntry, action: str, pool: SlotPool, **detail: Any) -> None:
    entry.write(action, pool.id, executor_id=pool.executor_id or None, name=pool.name, **detail)
