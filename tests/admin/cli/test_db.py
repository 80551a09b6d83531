"""`tickwheel db`: exit codes, and sentences instead of tracebacks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import free_port
from tickwheel_admin.cli import main
from tickwheel_admin.store.database.ddl import DIALECTS


@pytest.fixture(autouse=True)
def own_umask() -> Iterator[None]:
    """A command keeps its files to their owner; other tests share this process."""
    before = os.umask(0o077)
    os.umask(before)
    yield
    os.umask(before)


def run(*arguments: str) -> int:
    return main(["db", *arguments])


def test_check_fails_until_upgrade_was_run(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TICKWHEEL_DATABASE_URL", database_url)

    assert run("check") == 1
    assert "run `tickwheel db upgrade`" in capsys.readouterr().out
    assert run("upgrade") == 0
    assert "is now at revision" in capsys.readouterr().out
    assert run("upgrade") == 0
    assert "was already at revision" in capsys.readouterr().out
    assert run("check") == 0


@pytest.mark.parametrize("scheme", ["mysql+pymysql", "postgresql+psycopg"])
def test_a_server_that_does_not_answer_is_one_sentence_without_the_password(
    scheme: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(
        "TICKWHEEL_DATABASE_URL", f"{scheme}://someone:s3cret@127.0.0.1:{free_port()}/tickwheel"
    )

    assert run("upgrade") == 1

    said = capsys.readouterr().err
    assert "127.0.0.1" in said
    assert "refused" in said
    assert "s3cret" not in said
    assert "Traceback" not in said


def test_a_bad_url_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TICKWHEEL_DATABASE_URL", "oracle://host/db")

    assert run("check") == 2
    assert "TICKWHEEL_DATABASE_URL" in capsys.readouterr().err


def test_the_embedded_database_is_for_its_owner_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "new" / "data"
    monkeypatch.setenv("TICKWHEEL_DATABASE_URL", f"sqlite:///{directory / 'tickwheel.db'}")

    assert run("upgrade") == 0

    assert directory.stat().st_mode & 0o077 == 0
    assert (directory / "tickwheel.db").stat().st_mode & 0o077 == 0


def test_ddl_prints_one_dialect_and_writes_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("ddl", "postgresql") == 0
    printed = capsys.readouterr().out
    assert "CREATE TABLE" in printed

    assert run("ddl", "--write", str(tmp_path)) == 0
    assert {file.stem for file in tmp_path.iterdir()} == set(DIALECTS)
    assert (tmp_path / "postgresql.sql").read_text() == printed

    assert run("ddl") == 1
