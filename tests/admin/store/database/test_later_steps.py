"""What steps after the first use: each may be repeated, and admins go on while it works."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.config import Config

from tests.support.polling import wait_until
from tickwheel_admin.store.database import migrate
from tickwheel_admin.store.database.connections import create_engine
from tickwheel_admin.store.migrations.steps import add_column

STEP = """
import sqlalchemy as sa
from tickwheel_admin.store.migrations.steps import add_column, add_index

revision = "{revision}"
down_revision = "{before}"


def upgrade() -> None:
    add_column("setting", sa.Column("region", sa.String(20)))
    add_column("setting", sa.Column("tier", sa.String(20), nullable=False, server_default="usual"))
    add_index("ix_setting_region", "setting", ["region", "name"])
"""
INSERT = "INSERT INTO setting (name, value) VALUES ('{}', 'x')"


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    """With today's schema, and a row."""
    engine = create_engine(database_url, connections=3)
    migrate.upgrade(engine)
    with engine.begin() as conn:
        conn.exec_driver_sql(INSERT.format("before"))
    yield engine
    engine.dispose()


@pytest.fixture
def a_step_more(engine: sa.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The program has a step after today's last one; its revision."""
    before = migrate.head()
    revision = f"{int(before) + 1:04}"
    (tmp_path / f"{revision}_more.py").write_text(STEP.format(revision=revision, before=before))
    steps = Path(migrate.__file__).parents[1] / "migrations" / "versions"
    of_today = migrate._config

    def config() -> Config:
        made = of_today()
        made.set_main_option("path_separator", "os")
        made.set_main_option("version_locations", os.pathsep.join(map(str, (steps, tmp_path))))
        return made

    monkeypatch.setattr(migrate, "_config", config)
    return revision


def assert_it_is_there(engine: sa.Engine) -> None:
    assert migrate.upgrade(engine) is False
    with engine.connect() as conn:
        [row] = conn.exec_driver_sql("SELECT region, tier FROM setting WHERE name = 'before'")
        assert tuple(row) == (None, "usual")
        found = [each["name"] for each in sa.inspect(conn).get_indexes("setting")]
    assert found.count("ix_setting_region") == 1


def test_a_step_adds_beside_what_is_there(engine: sa.Engine, a_step_more: str) -> None:
    assert migrate.upgrade(engine) is True
    assert_it_is_there(engine)
    with engine.begin() as conn:  # as the version before does it
        conn.exec_driver_sql(INSERT.format("after"))
        assert migrate.current_revision(conn) == a_step_more


@pytest.mark.parametrize("where", ["ALTER TABLE setting ADD", "CREATE INDEX"])
def test_a_step_that_was_cut_off_is_continued(
    engine: sa.Engine, a_step_more: str, where: str
) -> None:
    before: list[str] = []

    def die(conn: object, cursor: object, statement: str, *_: object) -> None:
        if statement.strip().startswith(where) and not before:
            before.append(statement)
            raise ConnectionAbortedError

    sa.event.listen(sa.Engine, "before_cursor_execute", die)
    try:
        with pytest.raises(ConnectionAbortedError):
            migrate.upgrade(engine)
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", die)
    assert a_step_more in migrate.check(engine)[0]

    assert migrate.upgrade(engine) is True
    assert_it_is_there(engine)


@pytest.mark.usefixtures("a_step_more")
def test_one_of_several_upgrades_adds(engine: sa.Engine) -> None:
    with ThreadPoolExecutor(3) as threads:
        changed = list(threads.map(migrate.upgrade, [engine] * 3))
    assert sorted(changed) == [False, False, True]
    assert_it_is_there(engine)


@pytest.mark.usefixtures("a_step_more")
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_nobody_waits_for_an_index(engine: sa.Engine) -> None:
    """Building it waits for a transaction under way, and everybody else goes on."""
    with ThreadPoolExecutor(1) as threads, engine.connect() as other:
        with engine.begin() as conn:  # the columns, which need the table for a moment
            conn.exec_driver_sql("ALTER TABLE setting ADD COLUMN region VARCHAR(20)")
            conn.exec_driver_sql("ALTER TABLE setting ADD COLUMN tier VARCHAR(20) DEFAULT 'usual'")
        other.exec_driver_sql(INSERT.format("open"))
        upgrade = threads.submit(migrate.upgrade, engine)

        def builds() -> bool:
            with engine.connect() as conn:
                asked = "SELECT count(*) FROM pg_stat_progress_create_index"
                return bool(conn.exec_driver_sql(asked).scalar())

        wait_until(builds, timeout_seconds=30, what="the index to be begun")
        with engine.begin() as conn:
            conn.exec_driver_sql("SET LOCAL lock_timeout = '1s'")
            conn.exec_driver_sql(INSERT.format("meanwhile"))
        assert not upgrade.done()
        other.commit()
        assert upgrade.result(timeout=30) is True
    assert_it_is_there(engine)


@pytest.mark.usefixtures("a_step_more")
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_half_an_index_is_built_anew(engine: sa.Engine) -> None:
    half = "SELECT NOT indisvalid FROM pg_index WHERE indexrelid = 'ix_setting_region'::regclass"
    build = "CREATE INDEX CONCURRENTLY ix_setting_region ON setting (region, name)"
    with engine.begin() as conn:
        conn.exec_driver_sql("ALTER TABLE setting ADD COLUMN region VARCHAR(20)")
    alone = engine.execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as writer, alone.connect() as builder:
        writer.exec_driver_sql(INSERT.format("open"))
        builder.exec_driver_sql("SET statement_timeout = '300ms'")
        with pytest.raises(sa.exc.OperationalError, match="timeout"):
            builder.exec_driver_sql(build)
        builder.invalidate()
        assert writer.exec_driver_sql(half).scalar() is True

    assert migrate.upgrade(engine) is True
    with engine.connect() as conn:
        assert conn.exec_driver_sql(half).scalar() is False
    assert_it_is_there(engine)


def test_a_column_that_the_version_before_could_not_fill_is_refused() -> None:
    with pytest.raises(ValueError, match=r"run\.tier needs a server_default"):
        add_column("run", sa.Column("tier", sa.String(20), nullable=False))
