"""What somebody who types may mean: jobs in the palette, values and nodes in filters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.fields import is_clean
from tickwheel_admin.domain.user import Actor
from tickwheel_admin.services.scope import visible_executors
from tickwheel_admin.store import suggestions as store
from tickwheel_admin.store.database import Store
from tickwheel_admin.store.executors import offered_handlers
from tickwheel_admin.store.job_pages import JobFilter, ListedJob, page_jobs
from tickwheel_admin.store.suggestions import NodeName

SUGGESTED_AT_MOST = 12
JOBS_AT_MOST = 20
MAX_TEXT_CHARS = 200


class Suggestions:
    """Use cases of filter boxes; each shows a caller only what lists show them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def nodes_named(
        self, actor: Actor, name: str, executor_id: int | None = None
    ) -> list[NodeName]:
        """Nodes of exactly this name: live ones first, then the newest."""
        scope = visible_executors(actor, executor_id)

        def read(conn: sa.Connection) -> list[NodeName]:
            executors = store.executor_names(conn, scope).values()
            return store.nodes_named(conn, frozenset(executors), name)

        return await self._store.read(read) if is_clean(name) else []

    async def jobs(self, actor: Actor, text: str) -> list[ListedJob]:
        """Up to 20 jobs with the text in name, handler, owner or a tag: those called so first, then
        those whose names begin so or have it in them, however many others come before by name.
        """
        text = text.strip()[:MAX_TEXT_CHARS]
        scope = visible_executors(actor)

        def read(conn: sa.Connection) -> list[ListedJob]:
            page = partial(page_jobs, conn, limit=JOBS_AT_MOST)
            behind = page(JobFilter(executors=scope), after=(text, 0)) if text else []
            found = [each for each in behind if each.job.config.name.startswith(text)]
            found += page(JobFilter(text=text, executors=scope), after=None)
            once = {each.job.id: each for each in found}.values()
            return sorted(once, key=lambda each: _rank(text.lower(), each.job.config.name.lower()))

        found = await self._store.read(read) if is_clean(text) else []
        return found[:JOBS_AT_MOST]

    async def values(self, actor: Actor, key: str, text: str) -> list[str]:
        """Up to 12 values that a key may have, most of them with the text in them or before them;
        none for keys whose values are no names.
        """
        scope = visible_executors(actor)
        text = text[:MAX_TEXT_CHARS]
        found: dict[str, Callable[[sa.Connection], list[str]]] = {
            "executor": lambda conn: _with(text, store.executor_names(conn, scope)),
            "owner": partial(_first, store.owners, scope, start=text),
            "tag": partial(_first, store.tags, scope, part=text),
            "job": partial(_first, store.job_names, scope, start=text),
            "node": partial(_first, store.live_node_names, scope, part=text),
            "handler": lambda conn: _with(text, _handlers(conn, scope)),
        }
        if key not in found or not is_clean(text):
            return []
        return await self._store.read(found[key])


def _first(
    read: Callable[..., list[str]], scope: store.Scope, conn: sa.Connection, **how: Any
) -> list[str]:
    return read(conn, scope, limit=SUGGESTED_AT_MOST, **how)


def _rank(text: str, name: str) -> tuple[bool, bool, bool]:
    """Smaller for a job that is more likely meant."""
    return (name != text, not name.startswith(text), text not in name)


def _handlers(conn: sa.Connection, scope: store.Scope) -> list[str]:
    offered = offered_handlers(conn, sorted(store.executor_names(conn, scope).values()))
    return sorted(frozenset().union(*offered.values()))


def _with(part: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if part.lower() in name.lower()][:SUGGESTED_AT_MOST]
