"""Moves: what changes while the bulk is copied arrives too, and a failed move changes nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.admin.store.backup.sample import contents, fill, sample_rows
from tests.support.databases import KeptDatabase, sqlite_with_tables
from tickwheel_admin.store.backup.contents import columns_of, tables_of_move
from tickwheel_admin.store.backup.engines import one_transaction, snapshot
from tickwheel_admin.store.backup.moving import (
    ARRIVED,
    MoveFailed,
    begin_move,
    copy_everything,
    fence,
    has_arrived,
    wait_for_admins,
)
from tickwheel_admin.store.backup.restoring import EVERY_TABLE, TargetRefused
from tickwheel_admin.store.backup.rows import write_rows
from tickwheel_admin.store.database import tables as t
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.system.moved import DatabaseMove, read_move


def quiet(_table: str, _rows: int, _total: int) -> None:
    pass


def change(source: str) -> Callable[[], DatabaseMove]:
    """The last moments of the old admins: runs end, begin and are purged between the two copies."""

    def stop_admins() -> DatabaseMove:
        with one_transaction(source) as conn:
            conn.execute(sa.update(t.run).where(t.run.c.id == 2).values(state="failed"))
            conn.execute(sa.delete(t.run).where(t.run.c.id.in_([1, 4])))
            conn.execute(sa.delete(t.run_log).where(t.run_log.c.run_id > 3))
            names = [column.name for column in columns_of(t.run)]
            for number, row in enumerate(sample_rows(t.run, count=3), 101):
                new = dict(zip(names, row, strict=True))
                new |= {"id": number, "trigger_id": number, "job_id": number}
                write_rows(conn, t.run, [tuple(new.values())])
            conn.execute(sa.delete(t.session))
            return begin_move(conn, to="new", token="secret")

    return stop_admins


@pytest.fixture
def source(store_url: str) -> str:
    fill(store_url, tables_of_move())
    return store_url


@pytest.fixture
def target(tmp_path: Path) -> str:
    return sqlite_with_tables(tmp_path / "new.db")


def test_what_changes_meanwhile_arrives(
    source: str,
    kept_mariadb: KeptDatabase,
    kept_postgresql: KeptDatabase,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tickwheel_admin.store.backup.rows.rows_at_once", lambda table: 2)
    was = None
    for url in (kept_mariadb.emptied(), kept_postgresql.emptied()):
        if was is not None:  # on from there
            source = was
            with one_transaction(source) as conn:
                conn.execute(sa.delete(t.run))
                write_rows(conn, t.run, sample_rows(t.run))
        move, _ = copy_everything(
            source, url, stop_admins=change(source), replace=False, told=quiet
        )
        expected = contents(source, tables_of_move())
        found = contents(url, tables_of_move())
        for each in (expected, found):
            each["setting"] = [row for row in each["setting"] if row[0] not in ("moved", ARRIVED)]
        assert found == expected
        assert {row[0] for row in found["run"]} == {2, 3, 5, 101, 102, 103}
        with snapshot(url) as conn:
            assert has_arrived(conn, move)
            assert read_move(conn) is None
        was = url


def test_a_move_that_fails_writes_nothing(source: str, target: str) -> None:
    def never() -> DatabaseMove:
        raise MoveFailed("somebody does not leave")

    with pytest.raises(MoveFailed):
        copy_everything(source, target, stop_admins=never, replace=False, told=quiet)
    assert not any(contents(target, EVERY_TABLE).values())

    fill(target, (t.saved_view,))
    with pytest.raises(TargetRefused, match="saved_view"):
        copy_everything(source, target, stop_admins=never, replace=False, told=quiet)


def test_a_mark_is_taken_up_by_the_same_move_only(source: str) -> None:
    with one_transaction(source) as conn:
        first = begin_move(conn, to="one", token="a")
        assert begin_move(conn, to="one", token="b") == first
        with pytest.raises(MoveFailed, match="is being moved to one"):
            begin_move(conn, to="two", token="c")


def test_the_fence_waits_for_admins(source: str) -> None:
    with one_transaction(source) as conn:
        live = {"lease_expires_at": now_ms(conn) + 60_000, "status": "{}", "started_at": 0}
        conn.execute(sa.insert(t.admin).values(id=1, name="one", url="u", version="1", **live))
        with pytest.raises(MoveFailed, match="one"):
            fence(conn)
        conn.execute(sa.update(t.admin).values(lease_expires_at=now_ms(conn)))
        fence(conn)
        assert conn.execute(sa.select(sa.func.count()).select_from(t.admin)).scalar_one() == 0


def test_an_admin_that_does_not_leave_ends_the_wait() -> None:
    answers = itertools.chain([["one"], ["one"]], itertools.repeat([]))
    wait_for_admins(lambda: next(answers), sleep=lambda seconds: None)
    with pytest.raises(MoveFailed, match="one"):
        wait_for_admins(lambda: ["one"], seconds=0, sleep=lambda seconds: None)
