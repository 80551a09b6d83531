"""The version after this one, made from this one's code: what an upgrade has to live with.

It has a step more in its schema, writes what that adds, speaks the protocol's next version and the
present one, and its nodes say in their hello what today's admins do not know.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tickwheel_admin.store.database import migrate

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "tickwheel-admin": ROOT / "admin/tickwheel_admin",
    "tickwheel-executor": ROOT / "executor_sdk/tickwheel_executor",
    "tickwheel-shared": ROOT / "shared/tickwheel_shared",
}
VERSION = "0.99.0"

# One of everything that a step may do: columns of busy tables, an index of one, a table.
_STEP = """
import sqlalchemy as sa
from tickwheel_admin.store.migrations.steps import add_column, add_index, create_table

revision = "{revision}"
down_revision = "{before}"


def upgrade() -> None:
    add_column("run", sa.Column("region", sa.String(20)))
    add_column("job", sa.Column("tier", sa.String(20), nullable=False, server_default="usual"))
    add_column("node", sa.Column("tier", sa.String(20), nullable=False, server_default="usual"))
    add_index("ix_run_region", "run", ["region", "id"])
    create_table("region", sa.Column("name", sa.String(20), primary_key=True))
"""
_TABLES = """

run.append_column(sa.Column("region", sa.String(20)))
sa.Index("ix_run_region", run.c.region, run.c.id)
for _each in (job, node):
    _each.append_column(sa.Column("tier", sa.String(20), nullable=False, server_default="usual"))
_table("region", sa.Column("name", sa.String(20), primary_key=True))
"""
_WRITTEN = {"run": "region", "job": "tier", "node": "tier"}
"""By the next version, in each row that it inserts."""
_INSERT = f"""    if (more := {_WRITTEN}.get(table.name)) and more not in columns:
        rows, columns = [(*row, {VERSION!r}) for row in rows], (*columns, more)
    batch = _Batch(rows, columns, apart={{columns[0]}})
    statement = _insert_statement("""


def make_next_version(directory: Path) -> Path:
    """Write its packages to a directory, which goes first in `PYTHONPATH`."""
    for name, package in PACKAGES.items():
        shutil.copytree(package, directory / package.name)  # with what Python has compiled
        about = directory / f"{name.replace('-', '_')}-{VERSION}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSION}\n"
        )
    store = directory / "tickwheel_admin" / "store"
    before = migrate.head()
    revision = f"{int(before) + 1:04}"
    step = store / "migrations" / "versions" / f"{revision}_next_version.py"
    step.write_text(_STEP.format(revision=revision, before=before))
    tables = store / "database" / "tables.py"
    tables.write_text(tables.read_text() + _TABLES)
    _change(
        store / "database" / "batch.py",
        "    batch = _Batch(rows, columns, apart={columns[0]})\n    statement = _insert_statement(",
        _INSERT,
    )
    protocol = directory / "tickwheel_shared" / "protocol.py"
    _change(protocol, "PROTOCOL_VERSION = 2", "PROTOCOL_VERSION = 3")
    _change(protocol, "(PROTOCOL_VERSION, 1)", "(PROTOCOL_VERSION, 2)")
    _change(
        protocol,
        "    versions: list[int]  # protocol versions the node speaks",
        '    region: str = ""\n    versions: list[int]',
    )
    node = directory / "tickwheel_executor" / "node" / "node.py"
    _change(node, "versions=list(SPOKEN_VERSIONS),", 'versions=[3, 2], region="west",')
    return directory


def _change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1, f"{file.name} has {old!r} {text.count(old)} times"
    file.write_text(text.replace(old, new))
