"""`tickwheel import quartz` on tables that Quartz wrote, in each kind of database."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import World
from tests.support.quartz import write_tables
from tickwheel_admin.cli import main
from tickwheel_admin.cli.imports.quartz import PASSWORD_VARIABLE
from tickwheel_admin.store.database.tables import calendar, import_record, job, trigger


class Quartz:
    """The command on Quartz's tables and a database of ours, which has one executor."""

    def __init__(self, theirs: str, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.theirs = theirs
        self.data_dir = data_dir
        self.url = f"sqlite:///{data_dir / 'tickwheel.db'}"
        self._capsys = capsys

    def run(self, *words: str, zone: str = "Europe/Berlin") -> tuple[int, str, str]:
        own = ("--timezone", zone, "--data-dir", str(self.data_dir))
        code = main(["import", "quartz", "--from", self.theirs, *words, *own])
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def add_executor(self) -> None:
        async def add() -> None:
            world = World(self.url)
            await world.executor("billing")
            world.close()

        asyncio.run(add())

    def json(self, *words: str) -> tuple[int, Any]:
        code, out, err = self.run("--scheduler", "billing", *words, "--format", "json")
        assert out, err
        return code, json.loads(out)

    def rows(self, statement: sa.Select[Any]) -> list[Any]:
        world = World(self.url)
        try:
            return world.rows(statement)
        finally:
            world.close()

    def sql(self, statement: str) -> None:
        """In their database."""
        engine = sa.create_engine(self.theirs, poolclass=sa.NullPool)
        with engine.begin() as connection:
            connection.exec_driver_sql(statement)
        engine.dispose()


@pytest.fixture
def quartz(database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Quartz:
    ours = tmp_path / "ours"
    made = Quartz(database_url, ours, capsys)
    write_tables(database_url)
    assert made.run("--scheduler", "billing")[0] == 2  # it makes our database

    made.add_executor()
    return made


def test_a_scheduler_is_imported_once(quartz: Quartz) -> None:
    code, plan = quartz.json("--apply")
    assert code == 1
    assert plan["counts"]["jobs"] == {"created": 9, "changed": 0, "unchanged": 0, "cannot": 2}
    assert plan["counts"]["calendars"]["created"] == 12
    assert plan["refused"].startswith("Something cannot be imported")
    assert quartz.rows(sa.select(job)) == []

    assert quartz.json("--apply", "--leave-out")[1]["refused"] is None
    jobs = {each.name: each for each in quartz.rows(sa.select(job))}
    assert len(jobs) == 9
    assert all(each.paused for each in jobs.values())
    assert jobs["nightly.states"].handler == "interop.Jobs$OneByOne"
    assert len(quartz.rows(sa.select(calendar))) == 12
    paused = sa.select(trigger.c.spec).where(
        trigger.c.paused, trigger.c.job_id == jobs["nightly.states"].id
    )
    assert len(quartz.rows(paused)) == 2

    code, again = quartz.json("--apply", "--leave-out")
    assert again["counts"]["jobs"]["unchanged"] == 9
    assert again["counts"]["calendars"]["unchanged"] == 12
    assert len(quartz.rows(sa.select(import_record))) == 21

    quoted = '"qrtz_cron_triggers"' if "postgresql" in quartz.theirs else "QRTZ_CRON_TRIGGERS"
    quartz.sql(
        f"UPDATE {quoted} SET cron_expression = '0 0 5 * * ?' WHERE trigger_name = 'policy-1'"
    )
    code, changed = quartz.json("--apply", "--leave-out")
    assert [each["name"] for each in changed["jobs"] if each["fate"] == "changed"] == [
        "nightly.states"
    ]
    specs = [json.loads(each.spec) for each in quartz.rows(paused)]
    assert {each.get("expression") for each in specs} == {None, "0 0 5 * * ?"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_how_far_it_is(
    sqlite_url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_tables(sqlite_url)
    theirs = Quartz(sqlite_url, tmp_path / "ours", capsys)
    assert theirs.run("--scheduler", "plain")[0] == 2
    theirs.add_executor()
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("tickwheel_admin.cli.imports.quartz.PAGE", 4)
    assert theirs.run("--scheduler", "billing", "--apply", "--leave-out")[0] == 1
    told = [each for each in terminal.getvalue().split("\r\x1b[K") if each]
    assert told == [
        "Read 0 of 9 jobs (0 %)",
        "Read 4 of 9 jobs (44 %)",
        "Read 8 of 9 jobs (88 %)",
        "Read 11 of 11 jobs (100 %)",
        "Imported 4 of 9 jobs (44 %)",
        "Imported 8 of 9 jobs (88 %)",
        "Imported 11 of 11 jobs (100 %)",
    ]
    assert terminal.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "more than one scheduler in these tables; name one with --scheduler: billing, plain"),
        (["--scheduler", "other"], "there is no scheduler “other”; there are billing, plain"),
        (["--prefix", "X_"], "no table X_JOB_DETAILS; there is QRTZ_JOB_DETAILS"),
        (["--scheduler", "plain", "--handler", "a"], "write CLASS=NAME"),
        (["--scheduler", "plain", "--executor", "none"], "there is no executor called none"),
    ],
)
def test_wrong_usage_is_told(
    words: list[str], expected: str, sqlite_url: str, tmp_path: Path, capsys: Any
) -> None:
    write_tables(sqlite_url)
    code, out, err = Quartz(sqlite_url, tmp_path / "ours", capsys).run(*words)
    assert (code, out) == (2, "")
    assert expected in err


def test_a_password_is_never_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "canary-4711")
    url = "mysql://quartz@127.0.0.1:1/app"
    code, out, err = Quartz(url, tmp_path, capsys).run()
    assert code == 2
    assert "127.0.0.1" in err
    assert "canary" not in out + err
