"""What handlers take, as the process that started last says."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from tickwheel_admin.domain.executors.node import ANY_HANDLER
from tickwheel_admin.domain.executors.xxl_job import PARAMETER_SCHEMA
from tickwheel_admin.domain.input.node_manifest import NodeManifest, Process
from tickwheel_admin.store.executors import handler_schemas as store
from tickwheel_admin.store.executors.executors import get_executor, offered_handlers
from tickwheel_admin.store.jobs.declared import said_by_newer_nodes
from tickwheel_admin.store.xxl_job.executors import is_xxl_executor

MAX_KNOWN = 2_000  # schemas of one executor; more only while live nodes offer as many


def schema_of(conn: sa.Connection, executor_id: int, handler: str) -> str | None:
    """JSON Schema of a handler's parameters; None: it takes whatever it is given."""
    schema = store.get_schema(conn, executor_id, handler)
    if schema is None and is_xxl_executor(conn, executor_id):
        return PARAMETER_SCHEMA
    return schema


def schemas_of(conn: sa.Connection, executor_id: int) -> dict[str, str]:
    """All of an executor, by handler; that of ANY_HANDLER is for those that are not named."""
    if is_xxl_executor(conn, executor_id):
        return {ANY_HANDLER: PARAMETER_SCHEMA}
    return {name: each.schema for name, each in store.read_schemas(conn, executor_id).items()}


def take_schemas(conn: sa.Connection, process: Process, manifest: NodeManifest) -> bool:
    """Keep what a process says of its handlers; those it offers without a schema have none.

    Returns whether anything changed. Handlers that it does not offer are none of its business.
    """
    if get_executor(conn, process.executor_id, lock=True) is None:
        return False
    known = store.read_schemas(conn, process.executor_id)
    _, said_since = said_by_newer_nodes(
        conn, process.executor_id, node_id=process.node_id, connected_at=process.connected_at
    )
    mine = {
        name
        for name in manifest.handlers
        if name not in said_since
        and (name not in known or (known[name].said_at, known[name].said_by) <= process.place)
    }
    written = {
        name: schema
        for name, schema in manifest.schemas.items()
        if name in mine and (name not in known or known[name].schema != schema)
    }
    gone = [name for name in known if name in mine and name not in manifest.schemas]
    gone += _too_many(conn, process, manifest, known)
    store.set_schemas(
        conn, process.executor_id, written, node_id=process.node_id, at=process.connected_at
    )
    if gone:
        store.forget_schemas(conn, process.executor_id, gone)
    return bool(written or gone)


def _too_many(
    conn: sa.Connection,
    process: Process,
    manifest: NodeManifest,
    known: Mapping[str, store.StoredSchema],
) -> list[str]:
    """Those of handlers that were renamed or removed long ago: the oldest that nobody offers."""
    surplus = len(known.keys() | manifest.schemas.keys()) - MAX_KNOWN
    if surplus <= 0:
        return []
    offered = offered_handlers(conn, [process.executor_id]).get(process.executor_id, frozenset())
    unused = [name for name in known if name not in offered and name not in manifest.handlers]
    return sorted(unused, key=lambda name: known[name].said_at)[:surplus]


def differs(conn: sa.Connection, process: Process, manifest: NodeManifest) -> bool:
    """Whether what a process says of its handlers is not what is known of them."""
    known = store.read_schemas(conn, process.executor_id)
    offered = {name: each.schema for name, each in known.items() if name in manifest.handlers}
    return offered != dict(manifest.schemas)
