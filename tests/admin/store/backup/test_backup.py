"""Backups: every table, to every kind of database and back; damaged files are refused."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.store.backup.sample import contents, fill
from tests.support.databases import KeptDatabase, sqlite_with_tables
from tickwheel_admin.store.backup.adjustments import ID_GAP, adjusted
from tickwheel_admin.store.backup.contents import (
    CONFIGURATION,
    HISTORY,
    MOMENTARY,
    tables_of_backup,
)
from tickwheel_admin.store.backup.engines import one_transaction, snapshot
from tickwheel_admin.store.backup.reader import BackupFile, BackupRefused
from tickwheel_admin.store.backup.restoring import EVERY_TABLE, TargetRefused, restore
from tickwheel_admin.store.backup.rows import read_batches, write_rows
from tickwheel_admin.store.backup.writer import write_backup
from tickwheel_admin.store.database import tables as t
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.system.moved import DatabaseMove, mark_move

EVERYTHING = tables_of_backup(with_runs=True)


def quiet(_table: str, _rows: int, _total: int) -> None:
    pass


def backed_up(url: str, file: Path, *, with_runs: bool = True) -> Path:
    with snapshot(url) as conn:
        write_backup(conn, file, version="1", with_runs=with_runs, told=quiet)
    return file


def restored(url: str, file: Path, *, replace: bool = False, paused: bool = False) -> int:
    with BackupFile(file) as backup:
        backup.verify(quiet)
        return restore(url, backup, replace=replace, paused=paused, told=quiet).rows


@pytest.fixture
def filled(store_url: str) -> str:
    fill(store_url, EVERYTHING)
    return store_url


def test_every_table_is_kept_or_left_out_on_purpose() -> None:
    names = [table.name for table in (*CONFIGURATION, *HISTORY, *MOMENTARY)]
    assert sorted(names) == sorted(t.metadata.tables)


def test_the_same_rows_arrive_at_every_kind_of_database(
    filled: str, kept_mariadb: KeptDatabase, kept_postgresql: KeptDatabase, tmp_path: Path
) -> None:
    """Each ordered pair of kinds once."""
    expected = contents(filled, EVERYTHING)
    urls = {
        "sqlite": filled,
        "mariadb": kept_mariadb.emptied(),
        "postgresql": kept_postgresql.emptied(),
    }
    source = "sqlite"
    for number, kind in enumerate(
        ("mariadb", "postgresql", "sqlite", "postgresql", "mariadb", "sqlite")
    ):
        file = backed_up(urls[source], tmp_path / f"{number}.backup")
        restored(urls[kind], file, replace=True)
        for table in EVERYTHING:
            expected[table.name] = sorted(
                adjusted(table, expected[table.name], now=0, paused_at=None), key=repr
            )
        assert contents(urls[kind], EVERYTHING) == expected, f"{source} to {kind}"
        source = kind


def test_without_runs_there_is_no_history_and_audits_do_not_miss_it(
    filled: str, tmp_path: Path
) -> None:
    file = backed_up(filled, tmp_path / "a.backup", with_runs=False)
    target = sqlite_with_tables(tmp_path / "b.db")

    restored(target, file, paused=True)

    found = contents(target, EVERY_TABLE)
    assert all(found[table.name] for table in CONFIGURATION)
    assert not any(found[table.name] for table in (*HISTORY, *MOMENTARY))
    settings = dict(found["setting"])
    with BackupFile(file) as backup:
        assert settings["paused_at"] == str(backup.manifest.made_at)
    assert len(settings) == 5 + 2  # the pause, and from when on runs are kept


@pytest.mark.every_database
def test_what_was_going_on_does_not_go_on(store_url: str, tmp_path: Path) -> None:
    fill(store_url, EVERYTHING)
    with one_transaction(store_url) as conn:
        for number, state in enumerate(("queued", "dispatched", "running"), 1):
            conn.execute(
                sa.update(t.run).where(t.run.c.id == number).values(state=state, blocking_key=2)
            )
        conn.execute(sa.update(t.node).values(state="live", in_use=3))
        conn.execute(
            sa.update(t.notification).where(t.notification.c.id > 1).values(state="waiting")
        )
        conn.execute(sa.update(t.id_block).where(t.id_block.c.name.like("1%")).values(name="run"))
        mark_move(conn, DatabaseMove(to="elsewhere", token="x", at=1))
        before = now_ms(conn)
    was = dict(contents(store_url, (t.id_block,))["id_block"])

    restored(store_url, backed_up(store_url, tmp_path / "a.backup"), replace=True)

    found = {name: list(rows) for name, rows in contents(store_url, EVERYTHING).items()}
    state, key, ended = (
        list(t.run.c.keys()).index(n) for n in ("state", "blocking_key", "ended_at")
    )
    runs = {row[0]: row for row in found["run"]}
    assert [runs[n][state] for n in (1, 2, 3, 4)] == ["cancelled", "lost", "lost", "succeeded"]
    assert [runs[n][key] for n in (1, 2, 3)] == [None] * 3
    assert all(runs[n][ended] >= before for n in (1, 2, 3))
    assert {row[4] for row in found["node"]} == {"dead"}
    assert len(found["notification"]) == 1
    assert dict(found["id_block"])["run"] == was["run"] + ID_GAP
    assert "moved" not in dict(found["setting"])


def test_a_filled_database_and_a_live_admin_are_refused(filled: str, tmp_path: Path) -> None:
    file = backed_up(filled, tmp_path / "a.backup")
    with pytest.raises(TargetRefused, match=r"not empty.*--replace"):
        restored(filled, file)
    with one_transaction(filled) as conn:
        live = {"lease_expires_at": now_ms(conn) + 60_000, "status": "{}", "started_at": 0}
        conn.execute(sa.insert(t.admin).values(id=1, name="one", url="u", version="1", **live))
    with pytest.raises(TargetRefused, match="admins work on this database: one"):
        restored(filled, file, replace=True)


@pytest.mark.every_database
def test_a_row_that_is_refused_leaves_everything_as_it_was(store_url: str, tmp_path: Path) -> None:
    fill(store_url, EVERYTHING)
    before = contents(store_url, EVERYTHING)
    file = backed_up(store_url, tmp_path / "a.backup")
    other = changed(file, "user", lambda rows: [*rows, [9, *rows[0][1:]]])  # a name twice

    with pytest.raises(TargetRefused, match="two names for one"):
        restored(store_url, other, replace=True)

    assert contents(store_url, EVERYTHING) == before


# --- damaged files -------------------------------------------------------------------------


def changed(
    file: Path,
    table: str,
    change: Callable[[list[Any]], list[Any]],
    *,
    honest: bool = True,
    manifest: Callable[[dict[str, Any]], object] = lambda manifest: None,
) -> Path:
    """The backup with another table; unless `honest`, its manifest says nothing of it."""
    import hashlib

    made = file.with_suffix(".changed")
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(made, "w") as new:
        parts = {name: old.read(name) for name in old.namelist()}
        part = f"tables/{table}.ndjson"
        rows = [json.loads(line) for line in parts[part].splitlines()]
        parts[part] = b"".join(json.dumps(row).encode() + b"\n" for row in change(rows))
        told = json.loads(parts["manifest.json"])
        if honest:
            told["tables"][table]["rows"] = parts[part].count(b"\n")
            told["tables"][table]["sha256"] = hashlib.sha256(parts[part]).hexdigest()
        manifest(told)
        parts["manifest.json"] = json.dumps(told).encode()
        for name, content in parts.items():
            if name != "tables/left_out.ndjson":
                new.writestr(name, content)
    return made


def keep(rows: list[Any]) -> list[Any]:
    return rows


def with_value(column: str, value: Any) -> Callable[[list[Any]], list[Any]]:
    place = list(t.executor.c.keys()).index(column)
    return lambda rows: [[*rows[0][:place], value, *rows[0][place + 1 :]]]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda file: changed(file, "executor", lambda rows: rows[1:], honest=False), "is not as"),
        (
            lambda file: changed(file, "executor", lambda rows: rows[::-1], honest=False),
            "is not as",
        ),
        (lambda file: changed(file, "executor", with_value("name", "a\0b")), "NUL"),
        (lambda file: changed(file, "executor", with_value("name", "x" * 101)), "executor, line 1"),
        (lambda file: changed(file, "executor", with_value("name", None)), "executor, line 1"),
        (lambda file: changed(file, "executor", with_value("id", 2**63)), "executor, line 1"),
        (lambda file: changed(file, "executor", with_value("scripts", 1)), "executor, line 1"),
        (lambda file: changed(file, "executor", lambda rows: [[1]]), "executor, line 1"),
        (
            lambda file: changed(file, "job", keep, manifest=lambda m: m["tables"].pop("job")),
            "does not name the tables",
        ),
        (
            lambda file: changed(file, "job", keep, manifest=lambda m: m.update(format=2)),
            "upgrade the program",
        ),
        (
            lambda file: changed(file, "job", keep, manifest=lambda m: m.update(revision="0099")),
            "schema revision 0099",
        ),
        (
            lambda file: changed(file, "job", keep, manifest=lambda m: m.update(more=1)),
            "manifest is not valid",
        ),
    ],
)
def test_an_altered_file_is_refused(
    filled: str, tmp_path: Path, damage: Callable[[Path], Path], told: str
) -> None:
    file = damage(backed_up(filled, tmp_path / "a.backup"))
    with pytest.raises(BackupRefused, match=told), BackupFile(file) as backup:
        backup.verify(quiet)


def test_a_file_that_is_cut_off_or_has_a_wrong_bit_is_refused(filled: str, tmp_path: Path) -> None:
    whole = backed_up(filled, tmp_path / "a.backup").read_bytes()
    file = tmp_path / "b.backup"
    step = max(1, len(whole) // 40)
    for length in range(0, len(whole), step):
        file.write_bytes(whole[:length])
        with pytest.raises(BackupRefused):
            BackupFile(file)
    first = contents(filled, EVERYTHING)
    for place in range(0, len(whole), step):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x40]) + whole[place + 1 :])
        try:
            with BackupFile(file) as backup:
                backup.verify(quiet)
                # It hit what decides nothing, such as a date of the zip file.
                rows = {
                    table.name: sorted((r for b in backup.batches(table) for r in b), key=repr)
                    for table in EVERYTHING
                }
        except BackupRefused:
            continue
        assert rows == first


@pytest.mark.every_database
def test_rows_are_read_a_batch_at_a_time_and_each_once(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store_url, EVERYTHING)
    with one_transaction(store_url) as conn:
        rows = [(7, n, m, "x") for n in range(1, 4) for m in range(1, 4)]
        conn.execute(sa.delete(t.run_log))
        lines = [(run, attempt, first, 1, text) for run, attempt, first, text in rows]
        write_rows(conn, t.run_log, [*lines, (8, 1, 1, 1, "y")])
    monkeypatch.setattr("tickwheel_admin.store.backup.rows.rows_at_once", lambda table: 2)
    with snapshot(store_url) as conn:
        batches = list(read_batches(conn, t.run_log))
    assert [len(batch) for batch in batches] == [2, 2, 2, 2, 2]
    assert [row[:3] for batch in batches for row in batch] == [
        *((7, n, m) for n in range(1, 4) for m in range(1, 4)),
        (8, 1, 1),
    ]
