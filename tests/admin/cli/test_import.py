"""`tickwheel import xxl-job` on real databases: plan, apply, again, take over, give back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.databases import fresh_database
from tests.support.nightly import often
from tests.support.xxl_job.installation import Installation, installation
from tickwheel_admin.cli import main
from tickwheel_admin.cli.imports.xxl_job import TOKEN_VARIABLE
from tickwheel_admin.cli.xxl_job_source import PASSWORD_VARIABLE
from tickwheel_admin.services.secrets.cipher import new_key
from tickwheel_admin.store.database.database import Database
from tickwheel_shared.protocol import MAX_SCRIPT_BYTES

TOKEN = "canary-access-token-7391"
SHANGHAI = "Asia/Shanghai"


class Command:
    """The command on an XXL-JOB and a database of ours, with all that it ever printed."""

    def __init__(self, theirs: str, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.theirs = theirs
        self.data_dir = data_dir
        self._capsys = capsys
        self.printed = ""

    def run(self, *words: str, zone: str | None = SHANGHAI) -> tuple[int, str, str]:
        more = () if zone is None else ("--cron-zone", zone)
        own = ("--data-dir", str(self.data_dir))
        code = main(["import", "xxl-job", "--from", self.theirs, *more, *words, *own])
        said = self._capsys.readouterr()
        self.printed += said.out + said.err
        return code, said.out, said.err

    def json(self, *words: str, zone: str | None = SHANGHAI) -> tuple[int, Any]:
        code, out, err = self.run(*words, "--format", "json", zone=zone)
        assert out, err
        return code, json.loads(out)

    def rows(self, statement: str) -> list[Any]:
        """Of our database."""
        database = Database(f"sqlite:///{self.data_dir / 'tickwheel.db'}", threads=1)
        try:
            return database.read_sync(lambda conn: list(conn.execute(sa.text(statement))))
        finally:
            database.close_sync()

    def change(self, statement: str) -> None:
        database = Database(f"sqlite:///{self.data_dir / 'tickwheel.db'}", threads=1)
        try:
            database.run_sync(lambda conn: conn.execute(sa.text(statement)))
        finally:
            database.close_sync()

    def config(self, name: str) -> dict[str, Any]:
        (row,) = self.rows(
            "SELECT r.config FROM job j JOIN job_revision r ON r.job_id = j.id"
            f" AND r.revision = j.revision WHERE j.name = '{name}' AND j.deleted_at = 0"
        )
        found: dict[str, Any] = json.loads(row.config)
        return found

    @contextmanager
    def in_xxl_job(self) -> Iterator[sa.Connection]:
        engine = sa.create_engine(self.theirs, poolclass=sa.NullPool)
        with engine.begin() as conn:
            yield conn
        engine.dispose()

    def sql(self, statement: str) -> None:
        with self.in_xxl_job() as conn:
            conn.exec_driver_sql(statement)


@pytest.fixture
def command(
    mariadb_url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Command:
    monkeypatch.setenv("TICKWHEEL_SECRET_KEY", new_key())
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    return Command(mariadb_url, tmp_path / "data", capsys)


def fill(made: Installation) -> None:
    """Executors, jobs of most kinds, users."""
    made.add_group("billing-app", "Billing")
    made.add_group(
        "reports-app", "报表", address_type=1, address_list="http://10.0.0.3:9999/,nonsense"
    )
    made.add_job(id=1, cron="0 0 9 ? * MON-FRI", name="invoices", child_jobid="2,99,1")
    made.add_job(id=2, every_seconds=60, name="mails", executor_param="fast")
    made.add_job(id=3, group=2, name="invoices", author="paul", trigger_status=0)
    made.add_job(id=4, name="invoices", child_jobid="1", executor_route_strategy="ROUND")
    made.add_job(id=5, name="script", glue_type="GLUE_RUBY", executor_handler="")
    made.add_job(id=6, cron="every day", name="bad cron")
    made.add_job(id=7, group=9, name="orphan")
    made.add_user("admin", role=1)
    made.add_user("olga", permission="1,7")
    made.add_user("王", permission="2")


def fates(items: list[dict[str, Any]]) -> dict[int, str]:
    return {each["xxl_job_id"]: each["fate"] for each in items}


IMPORTED = {
    1: "created",
    2: "created",
    3: "created",
    4: "created",
    5: "cannot",
    6: "cannot",
    7: "cannot",
}


@pytest.mark.parametrize("version", ["2.4", "3.1", "3.5"])
def test_an_installation_is_imported_once(version: str, command: Command) -> None:
    with installation(command.theirs, version) as made:
        fill(made)
    code, plan = command.json()
    assert code == 1
    assert not plan["applied"]
    assert fates(plan["jobs"]) == IMPORTED
    assert not command.rows("SELECT * FROM job")
    codes = {
        each["xxl_job_id"]: [why["code"] for why in each["reasons"]]
        for each in plan["jobs"]
        if each["reasons"]
    }
    assert codes == {5: ["glue"], 6: ["cron.invalid"], 7: ["executor_gone"]}
    expected = [] if version == "3.5" else ["billing-app", "reports-app"]
    assert plan["needs_access_token"] == expected

    code, done = command.json("--apply")
    assert code == 1
    assert all(each["refused"] is None for each in done["jobs"])
    jobs = command.rows("SELECT name, paused, executor_id FROM job ORDER BY executor_id, name")
    assert [(name, bool(paused)) for name, paused, _ in jobs] == [
        ("invoices", True),
        ("invoices (4)", True),
        ("mails", True),
        ("invoices", True),
    ]
    assert not command.rows("SELECT * FROM trigger WHERE next_fire_at IS NOT NULL")
    mails = command.config("mails")
    assert json.loads(mails["parameters"]) == {"param": "fast"}
    assert mails["tags"] == ["xxl-job:2"]
    (one, two) = command.rows("SELECT id, name FROM job WHERE name IN ('mails', 'invoices (4)')")
    (billing,) = command.rows(
        "SELECT r.config FROM job j JOIN job_revision r ON r.job_id = j.id AND"
        " r.revision = j.revision WHERE j.name = 'invoices' AND r.config LIKE '%xxl-job:1\"%'"
    )
    children = json.loads(billing.config)["children"]
    assert [each["job_id"] for each in children] == [
        each.id for each in (one, two) if each.name == "mails"
    ]
    (trigger,) = json.loads(billing.config)["triggers"]
    assert trigger["timezone"] == SHANGHAI
    addresses = command.rows("SELECT app_name, addresses FROM xxl_executor ORDER BY app_name")
    assert [tuple(each) for each in addresses] == [
        ("billing-app", None),
        ("reports-app", '["http://10.0.0.3:9999"]'),
    ]
    users = command.rows("SELECT name, password_hash, disabled FROM user ORDER BY name")
    assert [tuple(each) for each in users] == [("admin", None, 0), ("olga", None, 0)]

    code, again = command.json(zone=None)  # the zone is known from the import before
    assert again["cron_zone"] == SHANGHAI
    assert {each["fate"] for each in again["executors"]} == {"unchanged"}
    assert fates(again["jobs"]) == {
        each: "unchanged" if fate == "created" else "cannot" for each, fate in IMPORTED.items()
    }
    assert {each["name"]: each["fate"] for each in again["users"]} == {
        "admin": "unchanged",
        "olga": "unchanged",
        "王": "cannot",
    }
    before = command.rows("SELECT count(*) FROM audit")
    command.json("--apply")
    assert command.rows("SELECT count(*) FROM audit") == before


@pytest.mark.parametrize("kind", ["mariadb", "postgresql"])
def test_into_a_database_server(
    kind: str, command: Command, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with installation(command.theirs, "3.1") as made:
        fill(made)
    with fresh_database(request.getfixturevalue(f"{kind}_server")) as ours:
        monkeypatch.setenv("TICKWHEEL_DATABASE_URL", ours)
        assert main(["db", "upgrade"]) == 0
        command.run()
        assert command.json("--apply")[1]["counts"]["jobs"]["created"] == 4
        # A circle with the links that were imported: the last one of it is left out.
        command.sql("UPDATE xxl_job_info SET executor_timeout = 30, child_jobid = '4' WHERE id = 2")
        _code, plan = command.json("--apply")
        changes = {each["xxl_job_id"]: each["changes"] for each in plan["jobs"] if each["changes"]}
        assert changes == {2: ["timeout_seconds", "children"], 4: ["children"]}
        assert all(each["refused"] is None for each in plan["jobs"])
        _code, plan = command.json()
        assert plan["counts"]["jobs"] == {"created": 0, "changed": 0, "unchanged": 4, "cannot": 3}


def test_only_what_changed_there_is_brought(command: Command) -> None:
    with installation(command.theirs, "3.1") as made:
        fill(made)
    command.json("--apply")
    # Renamed on both sides, and edited on either: nothing is created twice.
    command.sql("UPDATE xxl_job_info SET job_desc = 'letters', executor_timeout = 30 WHERE id = 2")
    command.sql("UPDATE xxl_job_info SET author = 'rosa', executor_param = 'x' WHERE id = 3")
    command.sql("UPDATE xxl_job_info SET child_jobid = '3' WHERE id = 4")
    command.sql("UPDATE xxl_job_group SET app_name = 'bills-app' WHERE id = 1")
    command.sql("UPDATE xxl_job_user SET permission = '1,2' WHERE username = 'olga'")
    command.sql("DELETE FROM xxl_job_info WHERE id = 6")
    command.change(
        "UPDATE job_revision SET config = replace(config, '\"paul\"', '\"ada\"')"
        " WHERE config LIKE '%xxl-job:3\"%'"
    )
    _code, plan = command.json()
    changes = {each["xxl_job_id"]: each["changes"] for each in plan["jobs"] if each["changes"]}
    assert changes == {2: ["name", "timeout_seconds"], 3: ["parameters"], 4: ["children"]}
    kept = {
        each["xxl_job_id"]: note["text"]
        for each in plan["jobs"]
        for note in each["notes"]
        if note["code"] == "kept"
    }
    assert list(kept) == [3]
    assert kept[3].startswith("owner:")
    assert plan["executors"][0]["changes"] == ["app_name"]
    _code, out, err = command.run("--apply")
    assert "0 refused" in out, out + err
    assert command.config("letters")["timeout_ms"] == 30_000
    assert command.rows("SELECT count(*) FROM job") == [(4,)]
    assert command.rows("SELECT app_name FROM xxl_executor ORDER BY app_name") == [
        ("bills-app",),
        ("reports-app",),
    ]
    assert command.rows("SELECT count(*) FROM \"grant\" WHERE role = 'developer'") == [(2,)]
    _code, plan = command.json()
    assert not any(each["changes"] for each in plan["jobs"])
    # What was renamed here keeps its name, and one that was deleted here does not come back.
    command.change("UPDATE job SET name = 'post', deleted_at = 1 WHERE name = 'letters'")
    _code, plan = command.json()
    assert [w["code"] for e in plan["jobs"] if e["xxl_job_id"] == 2 for w in e["reasons"]] == [
        "deleted_here"
    ]


def test_app_names_that_are_there_twice_share_an_executor(command: Command) -> None:
    with installation(command.theirs, "2.4") as made:
        made.add_group("same-app", "One")
        made.add_group("same-app", "Two")
        made.add_group("Ab", "Short")
        made.add_job(id=1, name="a")
        made.add_job(id=2, group=2, name="a")
    code, plan = command.json("--apply")
    assert code == 1
    assert [each["fate"] for each in plan["executors"]] == ["created", "unchanged", "cannot"]
    assert command.rows("SELECT name, executor_id FROM job ORDER BY id") == [
        ("a", 1),
        ("a (2)", 1),
    ]
    _code, plan = command.json()
    assert {each["fate"] for each in plan["jobs"]} == {"unchanged"}


def test_a_part_is_imported(command: Command) -> None:
    with installation(command.theirs, "3.1") as made:
        fill(made)
    code, plan = command.json("--group", "报表", "--apply")
    assert code == 0
    assert fates(plan["jobs"]) == {3: "created"}
    assert not plan["users"]
    code, plan = command.json("--job", "4")
    notes = [note["code"] for note in plan["jobs"][0]["notes"]]
    assert "child_unknown" in notes
    assert command.run("--group", "nobody")[0] == 2
    assert command.run("--job", "77")[0] == 2


def test_the_plan_in_words(command: Command) -> None:
    with installation(command.theirs, "3.5") as made:
        fill(made)
        for number in range(20):
            made.add_job(name=f"bulk {number}")
    code, out, _err = command.run()
    assert code == 1
    assert "Nothing was changed. --apply does it." in out
    assert "it is a script in a language that is not known (GLUE_RUBY)" in out
    assert out.count("alarm mails") == 1  # told once for all
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "Applied: 28 created or changed, 0 refused." in command.run("--apply")[1]


def test_glue_becomes_a_script_job(command: Command) -> None:
    with installation(command.theirs, "3.1") as made:
        made.add_group("billing-app", "Billing")
        made.add_job(
            id=1, name="tidy", executor_handler="",
            glue_type="GLUE_SHELL", glue_source="echo 你好\n", glue_remark="v7",
        )  # fmt: skip
    assert fates(command.json("--apply")[1]["jobs"]) == {1: "created"}
    assert command.rows("SELECT handler FROM job") == [("script",)]
    assert command.rows("SELECT source FROM script_source") == [("echo 你好\n",)]
    assert fates(command.json("--apply")[1]["jobs"]) == {1: "unchanged"}


def test_earlier_sources_of_glue_become_revisions(command: Command) -> None:
    """Each save there keeps the new source, so that the last one is the present one."""
    with installation(command.theirs, "3.1") as made:
        made.add_group("billing-app", "Billing")
        made.add_job(
            id=1, name="tidy", executor_handler="",
            glue_type="GLUE_SHELL", glue_source="echo 3\n", glue_remark="third",
        )  # fmt: skip
        made.add_job(id=2, name="plain")
        made.add_glue(1, "echo 1\n", glue_remark="first", update_time="2026-02-03 04:05:06")
        made.add_glue(1, "echo 1\n", glue_remark="the same again")
        made.add_glue(1, "x" * (MAX_SCRIPT_BYTES + 1), glue_remark="too large")
        made.add_glue(1, "puts 1", glue_type="GLUE_RUBY")
        made.add_glue(1, "print(2)\n", glue_type="GLUE_PYTHON", glue_remark="second")
        made.add_glue(1, "echo 3\n", glue_remark="third")
        made.add_glue(2, "echo of a job that is no script any more\n")
        made.add_glue(77, "echo of a job that is gone\n")
    told = command.json("--apply")[1]["jobs"]
    assert fates(told) == {1: "created", 2: "created"}
    texts = [each["text"] for each in told[0]["notes"] if each["code"] == "script_history"]
    assert texts == [
        "2 earlier sources of its script come along as revisions",
        "2 earlier sources of its script are no scripts here, and are left out",
    ]
    assert command.rows("SELECT name, revision FROM job ORDER BY id") == [("tidy", 3), ("plain", 1)]
    found = command.rows(
        "SELECT revision, source, config FROM job_revision"
        " JOIN script_source ON sha256 = script_sha256 ORDER BY revision"
    )
    assert [row[:2] for row in found] == [(1, "echo 1\n"), (2, "print(2)\n"), (3, "echo 3\n")]
    scripts = [json.loads(row[2])["script"] for row in found]
    assert [each["language"] for each in scripts] == ["shell", "python", "shell"]
    assert scripts[0]["remark"].startswith("first (2026-0")
    assert scripts[2]["remark"] == "third"
    assert fates(command.json("--apply")[1]["jobs"]) == {1: "unchanged", 2: "unchanged"}
    assert command.rows("SELECT revision FROM job ORDER BY id") == [(3,), (1,)]


def test_the_zone_must_be_known(command: Command) -> None:
    with installation(command.theirs, "3.1") as made:
        made.add_group()
        made.add_job(id=1, cron="0 0 9 * * ?", trigger_next_time=1_767_574_800_000)
    code, _out, err = command.run(zone=None)
    assert code == 2
    assert "--cron-zone" in err
    assert command.run(zone="Nowhere/City")[0] == 2
    command.sql("UPDATE xxl_job_info SET schedule_type = 'NONE'")
    assert command.run(zone=None)[0] == 0


def test_a_token_is_needed_to_create_executors(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with installation(command.theirs, "3.1") as made:
        made.add_group()
    monkeypatch.delenv(TOKEN_VARIABLE)
    code, _out, err = command.run("--apply")
    assert code == 2
    assert "--access-token-file" in err
    file = tmp_path / "token"
    file.write_text("")
    assert command.run("--apply", "--access-token-file", str(file))[0] == 2
    file.write_text(TOKEN + "\n")
    assert command.run("--apply", "--access-token-file", str(file))[0] == 0


def test_an_executor_that_is_here_already_is_used(command: Command) -> None:
    with installation(command.theirs, "3.1") as made:
        made.add_group()
        made.add_job(id=1, name="a")
    command.json("--apply")
    _code, plan = command.json("--source", "another")
    (executor,) = plan["executors"]
    assert [note["code"] for note in executor["notes"]] == ["exists"]
    command.json("--source", "another", "--apply")
    assert command.rows("SELECT name FROM job ORDER BY id") == [("a",), ("a (1)",)]


def test_jobs_are_taken_over_and_given_back(command: Command) -> None:
    with installation(command.theirs, "3.1") as made:
        made.add_group("billing-app")
        now = int(time.time())
        due = now + 45  # beyond XXL-JOB's look-ahead
        made.add_job(id=1, every_seconds=60, name="a", trigger_next_time=due * 1_000)
        made.add_job(id=2, name="stopped", trigger_status=0)
        made.add_job(id=3, every_seconds=60, name="late", trigger_next_time=due * 1_000)
    command.json("--apply", "--job", "1", "--job", "2")
    code, moved = command.json("--group", "billing-app", "--take-over")
    assert code == 0
    outcomes = {each["xxl_job_id"]: each["outcome"] for each in moved["jobs"]}
    assert outcomes == {1: "moved", 2: "unchanged", 3: "unchanged"}
    assert moved["jobs"][0]["from_ms"] == due * 1_000
    assert moved["jobs"][0]["from"].endswith("+08:00")
    assert command.rows("SELECT next_fire_at FROM trigger") == [(due * 1_000,)]
    with command.in_xxl_job() as conn:
        rows = conn.exec_driver_sql("SELECT trigger_status FROM xxl_job_info ORDER BY id")
        assert list(rows.scalars()) == [0, 0, 1]
    code, out, _err = command.run("--take-over", "--job", "1")
    assert code == 0
    assert "it was taken over before" in out
    code, out, _err = command.run("--give-back", "--job", "1")
    assert code == 0
    assert "fires in XXL-JOB from" in out
    with command.in_xxl_job() as conn:
        rows = conn.exec_driver_sql("SELECT trigger_status FROM xxl_job_info ORDER BY id")
        assert list(rows.scalars()) == [1, 0, 1]
    # What runs there is not what was imported.
    command.sql("UPDATE xxl_job_info SET executor_handler = 'other' WHERE id = 1")
    code, out, _err = command.run("--take-over", "--job", "1")
    assert code == 1
    assert "import it again first" in out


def test_nothing_is_moved_without_the_lock_of_xxl_job(command: Command) -> None:
    with installation(command.theirs, "3.1") as made:
        made.add_group()
        made.add_job(id=1, every_seconds=60, name="a")
    command.json("--apply")
    command.sql("DELETE FROM xxl_job_lock")
    code, _out, err = command.run("--take-over")
    assert code == 2
    assert "schedule_lock" in err


def test_secrets_are_told_nowhere(
    command: Command, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    password = "canary-password-5512"
    with installation(command.theirs, "3.5") as made:
        fill(made)
    for words in ((), ("--apply",), ("--format", "json"), ("--take-over",), ("--give-back",)):
        assert command.run(*words)[0] in (0, 1)
    right = command.theirs
    command.theirs = str(sa.make_url(right).set(password=None))
    monkeypatch.setenv(PASSWORD_VARIABLE, password)
    assert command.run()[0] == 2
    monkeypatch.delenv(PASSWORD_VARIABLE)
    command.theirs = sa.make_url(right).set(password=password).render_as_string(hide_password=False)
    for words in ((), ("--take-over",)):
        assert command.run(*words)[0] == 2
    stored = (command.data_dir / "tickwheel.db").read_bytes()
    stored += b"".join(each.read_bytes() for each in command.data_dir.glob("tickwheel.db-*"))
    for secret in (password, TOKEN, "group-secret", "session-secret"):
        assert secret not in command.printed
        assert secret not in caplog.text
        assert secret.encode() not in stored


def test_thousands_of_jobs_in_seconds(
    command: Command, record_property: Callable[[str, object], None]
) -> None:
    with installation(command.theirs, "3.1") as made:
        for number in range(10):
            made.add_group(f"app-{number}")
        for number in range(often(600, by_night=3_000)):
            made.add_job(
                group=number % 10 + 1,
                cron="0 0/5 * * * ?",
                name=f"job {number}",
                child_jobid=str(number) if number % 30 == 29 else "",
            )
    began = time.monotonic()
    code, out, err = command.run("--apply")
    took = time.monotonic() - began
    record_property("seconds", took)
    assert code == 0, out + err
    assert took < 60  # 3,000 take about 10 on an idle machine
    began = time.monotonic()
    assert "There is nothing to do." in command.run()[1]
    assert time.monotonic() - began < 30
