"""`tickwheel import crontab`: plan, all or nothing, again, and what changed on either side."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, World
from tests.admin.store.alarms.test_alarms import channel
from tickwheel_admin.cli import main
from tickwheel_admin.store.alarms.channels import add_channel
from tickwheel_admin.store.database.database import Database

CRONTAB = """\
# Nightly
30 2 * * * backup --full
*/5 * * * * ping
@daily mail team%Hello,%team
"""


class Crontab:
    """A crontab, the command on it, and a database with one executor."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.file = directory / "crontab"
        self.data_dir = directory
        self._capsys = capsys
        self.file.write_text(CRONTAB)

    def run(self, *words: str) -> tuple[int, str, str]:
        own = ("--user", "--timezone", "Europe/Berlin", "--data-dir", str(self.data_dir))
        code = main(["import", "crontab", str(self.file), *words, *own])
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def json(self, *words: str) -> tuple[int, Any]:
        code, out, err = self.run(*words, "--format", "json")
        assert out, err
        return code, json.loads(out)

    def fates(self, *words: str) -> list[str]:
        return [each["fate"] for each in self.json(*words)[1]["jobs"]]

    def rows(self, statement: str) -> list[Any]:
        database = Database(f"sqlite:///{self.data_dir / 'tickwheel.db'}", threads=1)
        try:
            return database.run_sync(_rows, statement)
        finally:
            database.close_sync()


def _rows(conn: sa.Connection, statement: str) -> list[Any]:
    result = conn.execute(sa.text(statement))
    return list(result) if result.returns_rows else []


@pytest.fixture
def crontab(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Crontab:
    made = Crontab(tmp_path, capsys)
    assert made.run()[0] == 2  # it makes the database, and finds no executor

    async def executor() -> None:
        world = World(f"sqlite:///{tmp_path / 'tickwheel.db'}")
        executor_id = await world.executor("web")
        await world.executors.set_scripts(ADMIN, executor_id, allowed=True)
        world.close()

    asyncio.run(executor())
    return made


def test_of_a_directory_only_what_cron_would_read_is_read(crontab: Crontab) -> None:
    directory = crontab.data_dir / "crontabs"
    directory.mkdir()
    crontab.file = crontab.file.rename(directory / "olga")
    for name in ("olga~", "#olga#", ".placeholder", "olga.rpmsave"):
        (directory / name).write_text("@daily stale\n")
    crontab.file = directory
    assert len(crontab.json()[1]["jobs"]) == 3


def test_a_crontab_is_imported_once(crontab: Crontab) -> None:
    code, plan = crontab.json()
    assert code == 0
    assert plan["counts"]["jobs"]["created"] == 3
    assert not plan["applied"]
    assert crontab.rows("SELECT * FROM job") == []

    assert crontab.run("--apply")[0] == 0
    jobs = crontab.rows("SELECT name, handler, paused FROM job ORDER BY id")
    assert [tuple(each) for each in jobs] == [
        ("backup --full", "script", 1),
        ("ping", "script", 1),
        ("mail team", "script", 1),
    ]
    assert len(crontab.rows("SELECT * FROM script_source")) == 3
    entries = crontab.rows("SELECT action, detail FROM audit ORDER BY id")
    assert [each.action for each in entries][-4:].count("job.created") == 3
    assert crontab.fates("--apply") == ["unchanged"] * 3
    assert len(crontab.rows("SELECT * FROM job")) == 3


def test_all_or_nothing(crontab: Crontab) -> None:
    crontab.file.write_text(CRONTAB + "@reboot start\n61 * * * * broken\n")
    code, out, _ = crontab.run("--apply")
    assert code == 1
    assert "! line 5" in out
    assert "did\n        you mean 59?" in out
    assert crontab.rows("SELECT * FROM job") == []
    assert crontab.run("--apply", "--leave-out", "--active")[0] == 1
    assert [each.paused for each in crontab.rows("SELECT paused FROM job")] == [0, 0, 0]
    crontab.rows("UPDATE executor SET scripts = 0")
    code, out, _ = crontab.run("--apply", "--leave-out")
    assert code == 1
    assert "forbids scripts" in out


def test_what_changed_on_either_side(crontab: Crontab) -> None:
    crontab.run("--apply")
    crontab.rows("UPDATE job SET name = 'heartbeat' WHERE name = 'ping'")
    crontab.file.write_text("31 2 * * * backup --full\n*/5 * * * * ping\n0 1 * * * new\n")
    code, plan = crontab.json("--apply")
    assert code == 0
    assert [(each["fate"], each["changes"]) for each in plan["jobs"]] == [
        ("changed", ["description", "triggers"]),
        ("unchanged", []),
        ("created", []),
    ]
    assert plan["gone"] == ["mail team"]
    assert len(crontab.rows("SELECT * FROM job")) == 4
    (spec,) = crontab.rows(
        'SELECT t.spec FROM "trigger" t JOIN job j ON j.id = t.job_id'
        " WHERE j.name = 'backup --full'"
    )
    assert json.loads(spec.spec)["expression"] == "31 2 * * *"


def test_mailto_becomes_an_alarm_of_each_job(crontab: Crontab) -> None:
    crontab.file.write_text("MAILTO=ops@example.com\n0 1 * * * one\n0 2 * * * two\n")
    wants = ("--mail-channel", "ops@example.com=ops")
    code, out, _ = crontab.run(*wants, "--apply")
    assert code == 1
    assert "There is no channel" in " ".join(out.split())
    assert crontab.rows("SELECT * FROM job") == []

    async def channels() -> None:
        world = World(f"sqlite:///{crontab.data_dir / 'tickwheel.db'}")
        for number, name in ((1, "ops"), (2, "night")):
            await world.database.run(add_channel, channel(number, name=name), now=world.now)
        world.close()

    def told() -> list[tuple[str, str, list[int]]]:
        rows = crontab.rows(
            "SELECT j.name, r.kind, r.channels FROM alarm_rule r JOIN job j ON j.id = r.job_id"
            " WHERE r.deleted_at = 0 ORDER BY j.name"
        )
        return [(row.name, row.kind, json.loads(row.channels)) for row in rows]

    asyncio.run(channels())
    assert crontab.run(*wants, "--apply")[0] == 0
    assert told() == [("one", "failed", [1]), ("two", "failed", [1])]
    assert crontab.fates(*wants) == ["unchanged", "unchanged"]
    # Another channel is a change of the jobs; so is an alarm that an earlier import did not make.
    code, plan = crontab.json("--mail-channel", "night", "--apply")
    assert [each["changes"] for each in plan["jobs"]] == [["alarms"], ["alarms"]]
    assert told() == [("one", "failed", [2]), ("two", "failed", [2])]
    assert crontab.run("--apply")[0] == 0
    assert told() == []
    assert crontab.run("--mail-channel", "night", "--apply")[0] == 0
    assert told() == [("one", "failed", [2]), ("two", "failed", [2])]
    assert crontab.run("--mail-channel", "ops@example.com=")[0] == 2


def test_more_lines_than_are_planned_at_once(crontab: Crontab) -> None:
    crontab.file.write_text("".join(f"{n % 60} 3 * * * job {n % 550}\n" for n in range(1_100)))
    assert crontab.run("--apply")[0] == 0
    ((jobs, names),) = crontab.rows("SELECT COUNT(*), COUNT(DISTINCT name) FROM job")
    assert (jobs, names) == (1_100, 1_100)
    assert set(crontab.fates()) == {"unchanged"}
