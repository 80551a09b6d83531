"""What somebody who types may mean: jobs in the palette, values and nodes in filters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.executors.node import ANY_HANDLER
from tickwheel_admin.domain.fields import is_clean
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.lists.scope import visible_executors
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.executors.executors import offered_handlers
from tickwheel_admin.store.jobs.filters import JobFilter
from tickwheel_admin.store.jobs.pages import ListedJob, page_jobs
from tickwheel_admin.store.lists import suggestions as store
from tickwheel_admin.store.lists.suggestions import NodeName

SUGGESTED_AT_MOST = 12
JOBS_AT_MOST = 20
OTHERS_AT_MOST = 5
MAX_TEXT_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """What a text may mean, each the likeliest first."""

    jobs: list[ListedJob]
    executors: list[tuple[str, int]]  # names and ids
    nodes: list[NodeName]


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
        return await self._store.read(partial(_jobs, scope, text)) if is_clean(text) else []

    async def anything(self, actor: Actor, text: str) -> Matches:
        """Jobs as `jobs` finds them, and up to 5 executors and 5 live nodes with the text in their
        names; of those none for an empty text.
        """
        text = text.strip()[:MAX_TEXT_CHARS]
        scope = visible_executors(actor)

        def read(conn: sa.Connection) -> Matches:
            most = OTHERS_AT_MOST if text else 0
            return Matches(
                jobs=_jobs(scope, text, conn),
                executors=store.executors_with(conn, scope, part=text, limit=most),
                nodes=store.live_nodes(conn, scope, part=text, limit=most),
            )

        if not is_clean(text):
            return Matches(jobs=[], executors=[], nodes=[])
        return await self._store.read(read)

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


def _jobs(scope: store.Scope, text: str, conn: sa.Connection) -> list[ListedJob]:
    page = partial(page_jobs, conn, limit=JOBS_AT_MOST)
    behind = page(JobFilter(executors=scope), after=(text, 0)) if text else []
    found = [each for each in behind if each.job.config.name.startswith(text)]
    found += page(JobFilter(text=text, executors=scope), after=None)
    once = {each.job.id: each for each in found}.values()
    ranked = sorted(once, key=lambda each: _rank(text.lower(), each.job.config.name.lower()))
    return ranked[:JOBS_AT_MOST]


def _first(
    read: Callable[..., list[str]], scope: store.Scope, conn: sa.Connection, **how: Any
) -> list[str]:
    return read(conn, scope, limit=SUGGESTED_AT_MOST, **how)


def _rank(text: str, name: str) -> tuple[bool, bool, bool]:
    """Smaller for a job that is more likely meant."""
    return (name != text, not name.startswith(text), text not in name)


def _handlers(conn: sa.Connection, scope: store.Scope) -> list[str]:
    offered = offered_handlers(conn, sorted(store.executor_names(conn, scope).values()))
    return sorted(frozenset().union(*offered.values()) - {ANY_HANDLER})


def _with(part: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if part.lower() in name.lower()][:SUGGESTED_AT_MOST]
