"""`tickwheel doctor` as a whole: what it prints, its exit codes, and that it changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.admin.store.backup.sample import contents
from tickwheel_admin.cli import main
from tickwheel_admin.config import load_config
from tickwheel_admin.store.backup.engines import one_transaction
from tickwheel_admin.store.backup.restoring import EVERY_TABLE
from tickwheel_admin.store.database import tables as t
from tickwheel_admin.store.system.moved import DatabaseMove, mark_move
from tickwheel_admin.store.triggers.pauses import pause_everything


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TICKWHEEL_DATA_DIR", str(tmp_path / "data"))
    assert main(["db", "upgrade"]) == 0
    return load_config().database_url


def test_findings_are_told_with_their_remedies_and_nothing_is_changed(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with one_transaction(url) as conn:
        pause_everything(conn, at=0)
        conn.execute(
            sa.insert(t.secret).values(
                executor_id=1, name="KEY", ciphertext="1.ffffffff.AAAA", version=1,
                created_at=0, created_by="a", updated_at=0, updated_by="a",
            )
        )  # fmt: skip
        mark_move(conn, DatabaseMove(to="elsewhere", token="x", at=1))
        conn.exec_driver_sql("DROP INDEX ix_run_recent")
    before = contents(url, EVERY_TABLE)
    capsys.readouterr()

    assert main(["doctor", "--output", "json", "--spool", str(tmp_path)]) == 1

    found = json.loads(capsys.readouterr().out)
    assert {each["check"] for each in found["findings"]} >= {
        "admins.none", "database.moved", "database.schema", "pause.forgotten", "secrets.key",
    }  # fmt: skip
    assert all(each["what"] and each["remedy"] for each in found["findings"])
    assert "ix_run_recent" in json.dumps(found)
    assert contents(url, EVERY_TABLE) == before

    assert main(["doctor"]) == 1
    assert "→ Start one: tickwheel serve." in capsys.readouterr().out


def test_a_database_that_is_not_there_is_a_finding_and_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TICKWHEEL_DATA_DIR", str(tmp_path / "none"))
    assert main(["doctor"]) == 1
    assert "There is no database at" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()
    assert main(["doctor", "--spool", str(tmp_path / "none")]) == 1
    assert "there is no directory" in capsys.readouterr().err
