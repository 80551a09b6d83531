"""Run by Alembic: applies the steps on the connection that `store.database.migrate` has locked."""

from __future__ import annotations

from alembic import context

from tickwheel_admin.store.database.migrate import VERSION_TABLE
from tickwheel_admin.store.database.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
