"""The schema as SQL for people who must review it or create it by hand: the files in sql/."""

from __future__ import annotations

import re

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from tickwheel_admin.store.database.migrate import VERSION_TABLE, head
from tickwheel_admin.store.database.tables import metadata

DIALECTS: dict[str, type[sa.Dialect]] = {
    "mysql": mysql.dialect,
    "postgresql": postgresql.dialect,
    "sqlite": sqlite.dialect,
}

# As Alembic makes it.
_VERSION = sa.Table(
    VERSION_TABLE,
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)


def generate_ddl(name: str) -> str:
    """The whole schema for one of `DIALECTS`, with the revision that `tickwheel db` looks for."""
    statements: list[CreateTable | CreateIndex | sa.Insert] = []
    for table in (*metadata.tables.values(), _VERSION):
        statements += [CreateTable(table), *map(CreateIndex, _indexes(table))]
    statements.append(sa.insert(_VERSION).values(version_num=sa.literal_column(f"'{head()}'")))
    heading = f"-- Tickwheel's schema for {name}, revision {head()}; see README.md."
    dialect = DIALECTS[name]()
    told = [f"{_tidy(str(statement.compile(dialect=dialect)))};" for statement in statements]
    return "\n\n".join([heading, *told]) + "\n"


def _indexes(table: sa.Table) -> list[sa.Index]:
    # A set in SQLAlchemy: sorted, so that the file does not change by itself.
    return sorted(table.indexes, key=lambda index: str(index.name))


def _tidy(statement: str) -> str:
    spaced = statement.strip().replace("\t", "    ").replace(")ENGINE", ") ENGINE")
    return re.sub(r" +$", "", spaced, flags=re.MULTILINE)
