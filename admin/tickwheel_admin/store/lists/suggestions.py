"""Values that there are, to suggest them: each read from an index, and never more than a few."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import ALIVE, executor, job, node

MAX_EXECUTORS = 1_000
MAX_VALUES_SEEN = 60  # different values that one suggestion looks at
MAX_JOBS_SEEN = 200  # of one value, to find one that the caller may see

Scope = frozenset[int] | None  # executors that the caller sees; None: all


class NodeName(NamedTuple):
    """A node by its name."""

    id: int
    name: str
    executor_id: int


def executor_names(conn: sa.Connection, scope: Scope) -> dict[str, int]:
    """Ids of executors by name, in the order of the names; at most 1,000."""
    chosen = sa.select(executor.c.name, executor.c.id).where(executor.c.deleted_at == ALIVE)
    if scope is not None:
        chosen = chosen.where(executor.c.id.in_(sorted(scope)))
    rows = conn.execute(chosen.order_by(executor.c.name).limit(MAX_EXECUTORS))
    return {row.name: row.id for row in rows}


def owners(conn: sa.Connection, scope: Scope, *, start: str, limit: int) -> list[str]:
    """Owners of jobs whose names begin so."""

    def behind(last: str | None) -> sa.Select[Any]:
        chosen = sa.select(job.c.owner).where(job.c.deleted_at == ALIVE)
        bound = job.c.owner >= start if last is None else job.c.owner > last
        by_owner = reading(chosen.where(bound, job.c.owner != ""), job, "ix_job_of_owner")
        return by_owner.order_by(job.c.owner).limit(1)

    found: list[str] = []
    for owner in _distinct(conn, behind):
        if not owner.startswith(start) or len(found) == limit:
            break
        if _is_seen(conn, scope, job.c.owner == owner, "ix_job_of_owner"):
            found.append(owner)
    return found


def tags(conn: sa.Connection, scope: Scope, *, part: str, limit: int) -> list[str]:
    """Tags with this part in any case, in order; of many different sets of tags the first ones."""

    def sets_from(start: str) -> Callable[[str | None], sa.Select[Any]]:
        def behind(last: str | None) -> sa.Select[Any]:
            chosen = sa.select(job.c.tags).where(job.c.deleted_at == ALIVE)
            bound = job.c.tags >= start if last is None else job.c.tags > last
            by_tags = reading(chosen.where(bound, job.c.tags != ""), job, "ix_job_tags")
            return by_tags.order_by(job.c.tags).limit(1)

        return behind

    found: set[str] = set()
    for start in dict.fromkeys((part, "")):  # sets that begin with it may lie behind many others
        for tag_set in _distinct(conn, sets_from(start)):
            new = {tag for tag in tag_set.split(",") if part.lower() in tag.lower()} - found
            if new and _is_seen(conn, scope, job.c.tags == tag_set, "ix_job_tags"):
                found |= new
            if len(found) >= limit:
                break
    return sorted(found)[:limit]


def job_names(conn: sa.Connection, scope: Scope, *, start: str, limit: int) -> list[str]:
    """Names of jobs that begin so, each once."""
    chosen = sa.select(job.c.name, job.c.executor_id).where(
        job.c.deleted_at == ALIVE, job.c.name >= start
    )
    by_name = reading(chosen, job, "ix_job_by_name").order_by(job.c.name)
    found: dict[str, None] = {}
    for row in conn.execute(by_name.limit(MAX_JOBS_SEEN)):
        if not row.name.startswith(start) or len(found) == limit:
            break
        if scope is None or row.executor_id in scope:
            found[row.name] = None
    return list(found)


def live_node_names(conn: sa.Connection, scope: Scope, *, part: str, limit: int) -> list[str]:
    """Names of live nodes with this part in any case, each once; reads the live nodes."""
    return sorted({each.name for each in _live_nodes(conn, scope, part)})[:limit]


def live_nodes(conn: sa.Connection, scope: Scope, *, part: str, limit: int) -> list[NodeName]:
    """Live nodes with this part in their names, those that begin so first; reads the live nodes."""
    found = _live_nodes(conn, scope, part)
    return sorted(found, key=lambda each: (_begins_late(part, each.name), each.name))[:limit]


def executors_with(
    conn: sa.Connection, scope: Scope, *, part: str, limit: int
) -> list[tuple[str, int]]:
    """Names and ids of executors with this part in any case, those that begin so first."""
    named = executor_names(conn, scope).items()
    found = [each for each in named if part.lower() in each[0].lower()]
    return sorted(found, key=lambda each: _begins_late(part, each[0]))[:limit]


def _live_nodes(conn: sa.Connection, scope: Scope, part: str) -> list[NodeName]:
    chosen = sa.select(node.c.id, node.c.name, node.c.executor_id)
    return [
        NodeName(row.id, row.name, row.executor_id)
        for row in conn.execute(chosen.where(node.c.state == NodeState.LIVE.value))
        if part.lower() in row.name.lower() and (scope is None or row.executor_id in scope)
    ]


def _begins_late(part: str, name: str) -> bool:
    return not name.lower().startswith(part.lower())


def nodes_named(conn: sa.Connection, executors: frozenset[int], name: str) -> list[NodeName]:
    """Nodes of these executors with exactly this name: live ones first, then the newest."""
    rows = conn.execute(
        sa.select(node.c.id, node.c.name, node.c.executor_id, node.c.state, node.c.connected_at)
        .where(
            node.c.executor_id.in_(sorted(executors)),
            node.c.state.in_([state.value for state in NodeState]),
            node.c.name == name,
        )
        .limit(MAX_VALUES_SEEN)
    ).all()
    newest = sorted(rows, key=lambda row: (row.state != NodeState.LIVE, -row.connected_at, row.id))
    return [NodeName(row.id, row.name, row.executor_id) for row in newest]


def _distinct(conn: sa.Connection, behind: Callable[[str | None], sa.Select[Any]]) -> Iterator[str]:
    """Different values in order, each found by one step into an index.

    DISTINCT would read every entry on databases that cannot skip within an index.
    """
    last: str | None = None
    for _ in range(MAX_VALUES_SEEN):
        last = conn.execute(behind(last)).scalar_one_or_none()
        if last is None:
            return
        yield last


def _is_seen(
    conn: sa.Connection, scope: Scope, condition: sa.ColumnElement[bool], index: str
) -> bool:
    """Whether the caller sees one of the first jobs with a value."""
    if scope is None:
        return True
    first = reading(
        sa.select(job.c.executor_id).where(job.c.deleted_at == ALIVE, condition), job, index
    ).limit(MAX_JOBS_SEEN)
    return not scope.isdisjoint(conn.execute(first).scalars())
