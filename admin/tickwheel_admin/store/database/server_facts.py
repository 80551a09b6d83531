"""What the database is, for people who look after it."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.store.database.migrate import current_revision, head

_NAMES = {
    "sqlite": "SQLite",
    "mysql": "MySQL",
    "mariadb": "MariaDB",
    "postgresql": "PostgreSQL",
}
_VERSION = {"sqlite": "SELECT sqlite_version()", "postgresql": "SHOW server_version"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """A database server."""

    kind: str  # "MariaDB"
    version: str  # as the server says it
    revision: str | None  # of the schema; None: made by other means than migrations
    needed: str  # the revision that this program needs


def read_server_facts(conn: sa.Connection) -> ServerFacts:
    """Ask the server."""
    dialect = conn.dialect
    kind = "mariadb" if getattr(dialect, "is_mariadb", False) else dialect.name
    version = conn.exec_driver_sql(_VERSION.get(kind, "SELECT version()")).scalar_one()
    return ServerFacts(
        kind=_NAMES[kind], version=str(version), revision=current_revision(conn), needed=head()
    )
