"""What handlers take: the JSON Schemas that nodes sent, by executor and handler."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.tables import executor, handler_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchema:
    """A schema, and which process said it."""

    schema: str
    said_by: int  # node id
    said_at: int  # when that node connected


def get_schema(conn: sa.Connection, executor_id: int, handler: str) -> str | None:
    """JSON Schema of a handler's parameters; None: it takes whatever it is given."""
    found = conn.execute(
        sa.select(handler_schema.c.schema).where(
            handler_schema.c.executor_id == executor_id, handler_schema.c.handler == handler
        )
    )
    return found.scalar_one_or_none()


def read_schemas(conn: sa.Connection, executor_id: int) -> dict[str, StoredSchema]:
    """All of an executor, by handler."""
    rows = conn.execute(
        sa.select(
            handler_schema.c.handler,
            handler_schema.c.schema,
            handler_schema.c.said_by,
            handler_schema.c.said_at,
        ).where(handler_schema.c.executor_id == executor_id)
    )
    return {
        row.handler: StoredSchema(schema=row.schema, said_by=row.said_by, said_at=row.said_at)
        for row in rows
    }


def executors_with_schemas(conn: sa.Connection, executor_ids: Collection[int]) -> set[int]:
    """Those of the executors that have a handler with a schema."""
    if not executor_ids:
        return set()
    says = sa.exists().where(handler_schema.c.executor_id == executor.c.id)
    found = sa.select(executor.c.id).where(executor.c.id.in_(sorted(executor_ids)), says)
    return set(conn.execute(found).scalars())


def set_schemas(
    conn: sa.Connection, executor_id: int, schemas: Mapping[str, str], *, node_id: int, at: int
) -> None:
    """Write schemas, by handler, over those that there are."""
    rows = [
        {
            "executor_id": executor_id,
            "handler": handler,
            "schema": schema,
            "said_by": node_id,
            "said_at": at,
        }
        for handler, schema in sorted(schemas.items())
    ]
    insert_rows(
        conn,
        handler_schema,
        rows,
        columns=("executor_id", "handler", "schema", "said_by", "said_at"),
        replace_duplicates_of=("executor_id", "handler"),
    )


def forget_schemas(
    conn: sa.Connection, executor_id: int, handlers: Collection[str] | None = None
) -> None:
    """Remove those of some handlers, or all of the executor."""
    statement = sa.delete(handler_schema).where(handler_schema.c.executor_id == executor_id)
    if handlers is not None:
        statement = statement.where(handler_schema.c.handler.in_(sorted(handlers)))
    conn.execute(statement)
