"""The test kit itself: servers that survive a crash, processes that never stay behind."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.support import availability, databases
from tests.support.polling import wait_until, wait_until_async
from tests.support.processes import ManagedProcess, ProcessEndedError, free_port
from tests.support.servers import DatabaseServer, MariaDB, PostgreSQL

PYTHON = sys.executable


def test_each_database_is_empty_and_its_user_may_create_tables(database_url: str) -> None:
    engine = sa.create_engine(database_url)
    with engine.begin() as connection:
        assert sa.inspect(connection).get_table_names() == []
        connection.execute(sa.text("CREATE TABLE t (id INTEGER PRIMARY KEY)"))
    engine.dispose()


@pytest.mark.parametrize("kind", [MariaDB, PostgreSQL])
def test_a_durable_server_keeps_data_and_port_over_a_crash(kind: type[DatabaseServer]) -> None:
    if not kind.is_installed():
        availability.unavailable(f"{kind.name} is not installed")
    with kind() as server:
        server.create_database("tickwheel_outage")
        engine = sa.create_engine(server.url("tickwheel_outage"))
        with engine.begin() as connection:
            connection.execute(sa.text("CREATE TABLE t (id INTEGER PRIMARY KEY)"))
            connection.execute(sa.text("INSERT INTO t VALUES (7)"))

        server.crash()
        with pytest.raises(sa.exc.OperationalError), engine.connect() as connection:
            connection.execute(sa.text("SELECT 1"))
        server.start()
        engine.dispose()

        with engine.connect() as connection:
            assert connection.execute(sa.text("SELECT id FROM t")).scalar() == 7
        engine.dispose()
        directory = server.directory
    assert not directory.exists()


def test_a_dropped_database_does_not_wait_for_forgotten_connections(
    mariadb_server: DatabaseServer,
) -> None:
    with databases.fresh_database(mariadb_server) as url:
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        forgotten = engine.connect()
        forgotten.execute(sa.text("CREATE TABLE t (id INTEGER PRIMARY KEY)"))
        forgotten.execute(sa.text("SELECT * FROM t"))
    forgotten.invalidate()


def test_a_session_that_may_not_be_ended_keeps_no_database_from_being_emptied(
    postgresql_server: DatabaseServer,
) -> None:
    """Such as autovacuum's, which comes and goes when it wants."""
    assert isinstance(postgresql_server, PostgreSQL)
    with closing(databases.KeptDatabase(postgresql_server)) as kept:
        url = sa.make_url(kept.emptied())
        theirs = sa.create_engine(
            url.set(username="postgres", password=postgresql_server.password),
            poolclass=sa.NullPool,
        )
        with theirs.connect() as stays:
            assert stays.exec_driver_sql("SELECT 1").scalar() == 1
            stays.rollback()
            kept.emptied()
            assert stays.exec_driver_sql("SELECT 2").scalar() == 2


def test_unknown_database_kinds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(databases.ENVIRONMENT_VARIABLE, "sqlite, oracle")
    with pytest.raises(ValueError, match="oracle"):
        databases.chosen_kinds()

    monkeypatch.setenv(databases.ENVIRONMENT_VARIABLE, "postgresql,sqlite")
    assert databases.chosen_kinds() == ("sqlite", "postgresql")


def test_by_day_rules_are_tested_on_one_server_or_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tests = [f"engine/test_it.py test_{number}" for number in range(200)]
    monkeypatch.delenv(databases.ONE_SERVER, raising=False)

    def chosen(kinds: tuple[str, ...]) -> Counter[tuple[str, ...]]:
        return Counter(tuple(databases.kinds_of(test, kinds)) for test in tests)

    assert set(chosen(databases.KINDS)) == {databases.KINDS}

    monkeypatch.setenv(databases.ONE_SERVER, "1")
    by_day = chosen(databases.KINDS)
    assert set(by_day) == {("mariadb",), ("postgresql",)}
    assert min(by_day.values()) > 60
    assert by_day == chosen(databases.KINDS)
    assert set(chosen(("sqlite", "mariadb"))) == {("sqlite", "mariadb")}  # what is asked for is run


@pytest.mark.parametrize(
    ("in_ci", "outcome"), [(False, pytest.skip.Exception), (True, pytest.fail.Exception)]
)
def test_what_is_missing_is_skipped_for_a_visitor_and_fails_in_ci(
    monkeypatch: pytest.MonkeyPatch, in_ci: bool, outcome: type[BaseException]
) -> None:
    monkeypatch.setattr(availability, "IN_CI", in_ci)
    with pytest.raises(outcome, match="no such server"):
        availability.unavailable("no such server")


def test_a_process_is_watched_signalled_and_reaped(tmp_path: Path) -> None:
    script = "import signal, time; print('ready on 7'); signal.sigwait([signal.SIGTERM]); exit(3)"
    command = [PYTHON, "-c", "import signal; signal.pthread_sigmask(0, [15]);" + script]
    with ManagedProcess(command, tmp_path / "log") as process:
        assert process.wait_for_line(r"^ready on (\d)$").group(1) == "7"
        assert process.stop() == 3
    assert not process.is_running


def test_waiting_for_a_process_that_ended_says_what_it_wrote(tmp_path: Path) -> None:
    with (
        ManagedProcess([PYTHON, "-c", "print('port in use')"], tmp_path / "log") as process,
        pytest.raises(ProcessEndedError, match="port in use"),
    ):
        process.wait_for_line("ready")


def test_an_http_server_is_waited_for(tmp_path: Path) -> None:
    port = free_port()
    command = [PYTHON, "-m", "http.server", "--bind", "127.0.0.1", str(port)]
    with ManagedProcess(command, tmp_path / "log", directory=tmp_path) as process:
        process.wait_for_http(f"http://127.0.0.1:{port}/")
        process.wait_for_http(f"http://127.0.0.1:{port}/missing", status=404)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel kills orphans only on Linux")
def test_a_process_dies_with_the_one_that_started_it(tmp_path: Path) -> None:
    parent_script = (
        "import pathlib, sys, time\n"
        "from tests.support.processes import ManagedProcess\n"
        "child = ManagedProcess([sys.executable, '-c', 'import time; print(1); time.sleep(600)'],"
        " pathlib.Path(sys.argv[1]))\n"
        "child.wait_for_line('1')\n"
        "print('child', child.pid)\n"
        "time.sleep(600)\n"
    )
    command = [PYTHON, "-c", parent_script, tmp_path / "child.log"]
    root = Path(__file__).parents[1]
    with ManagedProcess(command, tmp_path / "log", directory=root) as parent:
        child = int(parent.wait_for_line(r"^child (\d+)$").group(1))
        parent.kill()

    def has_ended() -> bool:
        stat = Path(f"/proc/{child}/stat")
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"

    try:
        wait_until(has_ended, what="the orphan to end")
    finally:
        if not has_ended():
            os.kill(child, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_fork_dies_with_the_process_that_asked_for_it(tmp_path: Path) -> None:
    program = tmp_path / "parent.py"
    program.write_text(
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from tests.support.forks import FORKS, _run\n"
        "if __name__ == '__main__':\n"
        "    where = Path(sys.argv[1])\n"
        "    serve = ['serve', '--data-dir', str(where / 'data'), '--port', sys.argv[2]]\n"
        "    files = (where / 'output', where / 'errors')\n"
        "    fork = FORKS.Process(target=_run, args=(serve, dict(os.environ), *files))\n"
        "    fork.start()\n"
        "    print('fork', fork.pid, flush=True)\n"
        "    signal.pause()\n"
    )
    port = free_port()
    root = str(Path(__file__).parents[1])
    with ManagedProcess(
        [PYTHON, program, tmp_path, str(port)],
        tmp_path / "parent.log",
        environment={"PYTHONPATH": root},
    ) as parent:
        fork = Path("/proc", parent.wait_for_line(r"fork (\d+)", timeout_seconds=60)[1])
        parent.wait_for_http(f"http://127.0.0.1:{port}/healthz", timeout_seconds=60)

        parent.kill()

        wait_until(lambda: not fork.exists(), timeout_seconds=60, what="the fork to end")


async def test_waiting_returns_the_value_or_names_what_did_not_come() -> None:
    answers = iter([None, 0, "here"])
    assert wait_until(lambda: next(answers)) == "here"

    async def never() -> bool:
        return False

    with pytest.raises(TimeoutError, match="in vain for the moon"):
        await wait_until_async(never, timeout_seconds=0.02, what="the moon")
