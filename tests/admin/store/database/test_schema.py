"""Migrations, `store.tables` and sql/*.sql give the same database, and upgrades are safe."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.support.processes import ManagedProcess
from tickwheel_admin.store.database import migrate
from tickwheel_admin.store.database.connections import create_engine
from tickwheel_admin.store.database.ddl import DIALECTS, generate_ddl
from tickwheel_admin.store.database.schema import server_problem
from tickwheel_admin.store.database.tables import metadata

SQL = Path(__file__).parents[4] / "sql"
STEPS = Path(migrate.__file__).parents[1] / "migrations" / "versions"


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    engine = create_engine(database_url, connections=2)
    yield engine
    engine.dispose()


def describe(engine: sa.Engine) -> dict[str, object]:
    """Everything that a reflection sees, in an order of its own."""
    inspector = sa.inspect(engine)
    return {
        table: {
            "columns": [
                (
                    column["name"],
                    str(column["type"].compile(engine.dialect)),
                    column["nullable"],
                    column["default"],
                )
                for column in inspector.get_columns(table)
            ],
            "primary key": inspector.get_pk_constraint(table)["constrained_columns"],
            "unique keys": sorted(
                (str(key["name"]), key["column_names"])
                for key in inspector.get_unique_constraints(table)
            ),
            "indexes": sorted(
                (
                    str(index["name"]),
                    index["column_names"],
                    bool(index["unique"]),
                    # which of them hold some rows only
                    str(index.get("dialect_options", {}).get(f"{engine.dialect.name}_where")),
                )
                for index in inspector.get_indexes(table)
            ),
            "options": inspector.get_table_options(table),
        }
        for table in inspector.get_table_names()
        if table != migrate.VERSION_TABLE
    }


def run_sql_file(engine: sa.Engine) -> None:
    text = (SQL / f"{engine.dialect.name}.sql").read_text()
    with engine.begin() as conn:
        for statement in text.split(";\n"):
            if statement.strip():
                conn.exec_driver_sql(statement)


def drop_everything(engine: sa.Engine) -> None:
    found = sa.MetaData()
    found.reflect(engine)
    found.drop_all(engine)


def test_migrations_tables_and_sql_files_give_the_same_database(engine: sa.Engine) -> None:
    metadata.create_all(engine)
    by_tables = describe(engine)
    assert by_tables.keys() == metadata.tables.keys()
    drop_everything(engine)

    migrate.upgrade(engine)
    by_migrations = describe(engine)
    drop_everything(engine)

    run_sql_file(engine)
    by_sql = describe(engine)

    assert by_migrations == by_tables, (
        "a migration is missing for a change of store/database/tables.py"
    )
    assert by_sql == by_tables
    assert migrate.check(engine) == []
    assert migrate.upgrade(engine) is False, "a database made by hand counts as upgraded"


@pytest.mark.parametrize("name", DIALECTS)
def test_the_sql_files_are_up_to_date(name: str) -> None:
    assert (SQL / f"{name}.sql").read_text() == generate_ddl(name), "run `make sql`"


def edited_steps(released: str, steps: Path) -> list[str]:
    """Released steps that are gone or no longer what they were."""
    lines = [line.split() for line in released.splitlines() if line and not line.startswith("#")]
    now = {step.name: hashlib.sha256(step.read_bytes()).hexdigest() for step in steps.glob("*.py")}
    return [name for digest, name in lines if now.get(Path(name).name) != digest]


def test_released_steps_are_not_edited(tmp_path: Path) -> None:
    released = (STEPS.parent / "released.txt").read_text()
    assert edited_steps(released, STEPS) == [], "add a step instead"

    step = tmp_path / "0001_one.py"
    step.write_text("one")
    digest = hashlib.sha256(b"one").hexdigest()
    assert edited_steps(f"# a remark\n{digest}  versions/0001_one.py\n", tmp_path) == []
    step.write_text("two")
    assert edited_steps(f"{digest}  versions/0001_one.py\n", tmp_path) == ["versions/0001_one.py"]


def test_the_second_upgrade_has_nothing_to_do(engine: sa.Engine) -> None:
    assert migrate.upgrade(engine) is True
    assert migrate.upgrade(engine) is False
    with engine.connect() as conn:
        assert migrate.current_revision(conn) == migrate.head()


def test_one_of_many_simultaneous_upgrades_does_the_work(database_url: str, tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from tickwheel_admin.store.database import migrate\n"
        "from tickwheel_admin.store.database.connections import create_engine\n"
        "engine = create_engine(sys.argv[1], connections=1)\n"
        "print('changed', migrate.upgrade(engine))\n"
        "assert not migrate.check(engine)\n"
    )
    processes = [
        ManagedProcess([sys.executable, "-c", script, database_url], tmp_path / f"{n}.log")
        for n in range(3)
    ]
    try:
        codes = [process.wait(timeout_seconds=60) for process in processes]
    finally:
        for process in processes:
            process.__exit__(None, None, None)

    outputs = [process.output() for process in processes]
    assert codes == [0] * 3, outputs
    assert sorted(outputs) == ["changed False\n"] * 2 + ["changed True\n"]


@contextmanager
def cut_off_at(statement_start: str) -> Iterator[None]:
    """Let the process "die" before the first statement that starts like this."""

    def die(conn: object, cursor: object, statement: str, *_: object) -> None:
        if statement.strip().startswith(statement_start):
            raise ConnectionAbortedError

    sa.event.listen(sa.Engine, "before_cursor_execute", die)
    try:
        yield
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", die)


@pytest.mark.parametrize("where", ["CREATE TABLE node_session", "CREATE INDEX ix_run_due"])
def test_an_upgrade_that_was_cut_off_is_continued(engine: sa.Engine, where: str) -> None:
    with cut_off_at(where), pytest.raises(ConnectionAbortedError):
        migrate.upgrade(engine)
    assert migrate.check(engine) != []

    assert migrate.upgrade(engine) is True

    assert migrate.check(engine) == []


def test_tables_of_another_program_are_left_alone(engine: sa.Engine) -> None:
    with engine.begin() as conn:
        conn.exec_driver_sql("CREATE TABLE job (name VARCHAR(10))")

    with pytest.raises(migrate.SchemaError, match=r"did not make \(job\)"):
        migrate.upgrade(engine)

    assert sa.inspect(engine).get_table_names() == ["job"]


def test_the_schema_of_a_newer_version_is_refused(engine: sa.Engine) -> None:
    migrate.upgrade(engine)
    with engine.begin() as conn:
        conn.exec_driver_sql(f"UPDATE {migrate.VERSION_TABLE} SET version_num = '9999'")

    assert "9999" in migrate.check(engine)[0]
    with pytest.raises(migrate.SchemaError, match="newer version"):
        migrate.upgrade(engine)


def test_check_names_what_is_missing_or_changed(engine: sa.Engine) -> None:
    assert migrate.check(engine) == [
        "The database has no Tickwheel schema yet: run `tickwheel db upgrade`."
    ]
    migrate.upgrade(engine)
    on_table = " ON run" if engine.dialect.name == "mysql" else ""
    with engine.begin() as conn:
        conn.exec_driver_sql(f"DROP INDEX ix_run_to_claim{on_table}")
        conn.exec_driver_sql("ALTER TABLE admin DROP COLUMN version")
        conn.exec_driver_sql("CREATE INDEX our_own ON run (created_at)")
        conn.exec_driver_sql("CREATE TABLE our_own_notes (id INTEGER)")

    assert sorted(migrate.check(engine)) == [
        "The column admin.version is missing.",
        "The index ix_run_to_claim of run is missing.",
    ]


def test_only_the_embedded_database_upgrades_itself(engine: sa.Engine) -> None:
    if engine.dialect.name == "sqlite":
        migrate.prepare(engine)
        assert migrate.check(engine) == []
    else:
        with pytest.raises(migrate.SchemaError, match="run `tickwheel db upgrade`"):
            migrate.prepare(engine)


def test_a_server_that_is_too_old_is_named(engine: sa.Engine) -> None:
    with engine.connect() as conn:
        assert server_problem(conn) is None
        conn.dialect.server_version_info = (3, 1, 2)
        problem = server_problem(conn)

    assert problem is not None
    assert "3.1.2 is too old" in problem


def test_steps_do_not_change_when_the_tables_do() -> None:
    steps = sorted(STEPS.glob("[0-9]*.py"))
    assert steps
    for step in steps:
        assert "store.tables" not in step.read_text(), f"{step.name} must be explicit"
