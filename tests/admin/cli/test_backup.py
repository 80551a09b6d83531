"""`tickwheel backup` and `restore`: what people type, and what they are told."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from tickwheel_admin.app.services import SECRET_KEY_FILE, create_cipher
from tickwheel_admin.cli import main
from tickwheel_admin.config import load_config
from tickwheel_admin.services.secrets.purposes import purpose_of_secret
from tickwheel_admin.store.backup.engines import one_transaction
from tickwheel_admin.store.executors.secrets import add_secret


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An embedded installation with a secret of executor 1."""
    directory = tmp_path / "old"
    monkeypatch.setenv("TICKWHEEL_DATA_DIR", str(directory))
    assert main(["db", "upgrade"]) == 0
    config = load_config()
    ciphertext = create_cipher(config).encrypt("s3cret", purpose=purpose_of_secret(1, "KEY"))
    with one_transaction(config.database_url) as conn:
        add_secret(conn, 1, "KEY", ciphertext=ciphertext, by="admin", now=1)
    return directory


def test_a_backup_is_written_checked_and_restored_elsewhere(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "a.backup"
    assert main(["backup", str(file)]) == 0
    assert "without runs" in capsys.readouterr().out
    assert file.stat().st_mode & 0o077 == 0
    assert b"s3cret" not in file.read_bytes()
    assert main(["backup", str(file)]) == 1
    assert "exists already" in capsys.readouterr().err
    assert main(["restore", "--check", str(file)]) == 0
    assert "is complete" in capsys.readouterr().out

    # Into an empty database that does not have the key.
    monkeypatch.setenv("TICKWHEEL_DATA_DIR", str(tmp_path / "new"))
    assert main(["restore", str(file), "--paused"]) == 0
    told = capsys.readouterr().out
    assert "None of the keys of this admin decrypts" in told
    assert "1: KEY" in told
    assert "Everything is paused" in told
    (tmp_path / "new" / SECRET_KEY_FILE).write_bytes((data / SECRET_KEY_FILE).read_bytes())

    # Not over what is there, unless somebody means it.
    assert main(["restore", str(file)]) == 1
    assert "not empty" in capsys.readouterr().err
    assert main(["restore", str(file), "--replace"]) == 1
    assert "add --yes" in capsys.readouterr().err
    assert main(["restore", str(file), "--replace", "--yes"]) == 0
    assert "None of the keys" not in capsys.readouterr().out

    # A damaged file is refused, and everything stays.
    file.write_bytes(file.read_bytes()[:-100])
    assert main(["restore", str(file), "--replace", "--yes"]) == 1
    assert "cut off" in capsys.readouterr().err
    assert main(["restore", str(tmp_path / "missing")]) == 1
    assert "cannot read" in capsys.readouterr().err


def test_a_move_tells_the_next_step_and_leaves_the_old_database_shut(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = f"sqlite:///{data.parent / 'other.db'}"
    assert main(["backup", "--cancel-move"]) == 1
    assert "is not being moved" in capsys.readouterr().err

    assert main(["backup", "--move-to", f"sqlite:///{data.parent / 'new.db'}"]) == 0
    told = capsys.readouterr().out
    assert "set TICKWHEEL_DATABASE_URL to" in told
    assert f"TICKWHEEL_SECRET_KEY_FILE to {data / SECRET_KEY_FILE}" in told

    for command in (["token", "create", "admin", "x"], ["backup", "--move-to", other]):
        assert main(command) == 1
        assert "was moved to sqlite" in capsys.readouterr().err
    assert main(["backup", "--cancel-move"]) == 1
    assert "every fire would run twice" in capsys.readouterr().err
    assert main(["backup", "--move-to", f"sqlite:///{data.parent / 'new.db'}"]) == 0
    assert "Everything moved" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "give a FILE"),
        (["file", "--move-to", "sqlite:///x"], "give a FILE"),
        (["--move-to", "sqlite:///x.db", "--with-runs"], "--with-runs belongs to a FILE"),
        (["file", "--replace"], "--replace belongs to --move-to"),
        (["--move-to", "oracle://x"], "--move-to: starts with oracle"),
        (["file"], "there is no database at"),
    ],
)
def test_wrong_use_is_told(
    words: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TICKWHEEL_DATA_DIR", str(tmp_path))
    if "oracle" in " ".join(words):
        assert main(["db", "upgrade"]) == 0
    assert main(["backup", *words]) == 1
    assert told in capsys.readouterr().err


def test_what_the_new_database_says_is_told_in_its_words(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_engine: object) -> None:
        raise sa.exc.OperationalError("", {}, Exception(1045, "Access denied for user 'tickwheel'"))

    monkeypatch.setattr("tickwheel_admin.cli.backups.move.upgrade", refuse)
    assert main(["backup", "--move-to", f"sqlite:///{tmp_path / 'new.db'}"]) == 1
    told = "tickwheel: the new database: Access denied for user 'tickwheel'\n"
    assert capsys.readouterr().err == told
