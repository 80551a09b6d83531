"""`tickwheel demo`: it runs jobs of every kind, survives a kill, and stops cleanly."""

from __future__ import annotations

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.forks import run_command
from tests.support.polling import wait_until
from tests.support.processes import ManagedProcess, free_port

ROOT = Path(__file__).parents[3]
TICKWHEEL = (sys.executable, "-m", "tickwheel_admin.cli")
ONE_TIME = r"with password  ((?:[a-z0-9]{5}-){3}[a-z0-9]{5})"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command(arguments, os.environ)


class Demo:
    """`tickwheel demo` with its output."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.directory = directory / "demo"
        self.port = free_port()
        log = directory / f"demo-{self.port}.log"
        self.process = ManagedProcess(
            [*TICKWHEEL, "demo", "--directory", str(self.directory), "--port", str(self.port),
             *arguments],
            log,
            directory=ROOT,
            death_signal=signal.SIGTERM,
        )  # fmt: skip

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        database = sqlite3.connect(f"file:{self.directory}/tickwheel.db?mode=ro", uri=True)
        try:
            return database.execute(statement).fetchall()
        finally:
            database.close()

    def children(self) -> dict[str, int]:
        """Process ids of the executors' processes by name."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().decode().split("\0")
                environment = (entry / "environ").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if "--name" in words and f"127.0.0.1:{self.port}" in environment:
                found[words[words.index("--name") + 1]] = int(entry.name)
            elif f"{self.directory}/agent.toml" in words:
                found["agent"] = int(entry.name)
        return found


@pytest.mark.slow
def test_the_demo_runs_jobs_survives_a_kill_and_stops_cleanly(tmp_path: Path) -> None:
    demo = Demo(tmp_path)
    with demo.process:
        demo.process.wait_for_line(ONE_TIME, timeout_seconds=60)
        demo.process.wait_for_line(f"http://127.0.0.1:{demo.port}")
        metrics = demo.process.wait_for_line(r"http://127\.0\.0\.1:\d+/metrics")[0]
        with urllib.request.urlopen(metrics, timeout=30) as answer:
            assert re.search(rb'tickwheel_build_info\{[^}]*admin="demo"', answer.read())
        wait_until(
            lambda: demo.query("SELECT id FROM job WHERE name = 'price-round'"),
            timeout_seconds=30,
            what="the job and the workflow that a node declares in its code",
        )
        of_jobs = "SELECT name FROM alarm_rule WHERE job_id IS NOT NULL ORDER BY name"
        assert demo.query(of_jobs) == [
            ("all processed",),
            ("exported in time",),
            ("failed",),
            ("slow",),
        ]
        listed = "SELECT name FROM job WHERE deleted_at = 0 ORDER BY name"  # steps' jobs are not
        assert [name for (name,) in demo.query(listed)] == [
            "archive-orders", "close-day", "copy-archive", "count-words", "disk-space",
            "find-primes", "flaky", "import-orders", "kernel", "mail-digest", "mail-invoices",
            "minutely-cleanup", "monthly-sales", "morning-prices", "nightly-archive",
            "old-exports", "ping-console", "poll-feeds", "price-list", "price-round", "quick",
            "read-ledger", "rebuild-index",
            "refresh-customer", "send-newsletter", "slow-report", "statements", "stock-sync",
            "stocktaking", "sync-export", "sync-orders", "train-model", "warm-cache",
            "weekly-figures",
        ]  # fmt: skip
        wait_until(
            lambda: demo.query("SELECT id FROM run WHERE state = 'succeeded'"),
            timeout_seconds=30,
            what="a run that succeeded",
        )
        wait_until(
            lambda: demo.query(
                "SELECT run.id FROM run JOIN job ON job.id = run.job_id"
                " JOIN run_log ON run_log.run_id = run.id AND run_log.lines LIKE '%shop Paris%'"
                " WHERE job.name = 'sync-orders' AND run.state = 'succeeded'"
            ),
            timeout_seconds=60,
            what="a run of the executor of the protocol xxl_job, with its log",
        )
        wait_until(
            lambda: (
                demo.query(
                    "SELECT DISTINCT job.name FROM run JOIN job ON job.id = run.job_id"
                    " WHERE job.handler IN ('script', 'command', 'http', 'sql', 'file')"
                    " AND job.name != 'count-words' AND run.state = 'succeeded' ORDER BY job.name"
                )
                == [
                    (name,)
                    for name in (
                        "disk-space",
                        "kernel",
                        "monthly-sales",
                        "old-exports",
                        "ping-console",
                    )
                ]
            ),
            timeout_seconds=90,
            what="a run of each kind that an agent has",
        )
        nodes = demo.children()
        assert set(nodes) == {"agent", "legacy-orders", "node-1", "node-2"}
        os.kill(nodes["node-1"], signal.SIGKILL)
        demo.process.wait_for_line(r"node-1 ended \(signal SIGKILL\); starting it again")
        wait_until(lambda: demo.children().get("node-1"), what="the node to be started again")

        assert demo.process.stop(signal.SIGINT, timeout_seconds=60) == 0
        assert not demo.children()
        assert "Stopped." in demo.process.output()

    runs = demo.query("SELECT max(id) FROM run")
    again = Demo(tmp_path)
    with again.process:
        again.process.wait_for_line(r"reset-password admin", timeout_seconds=60)
        assert not re.search(ONE_TIME, again.process.output())
        assert again.query("SELECT count(*) FROM job WHERE deleted_at = 0") == [(34,)]
        assert again.query("SELECT max(id) FROM run") >= runs
        wait_until(
            lambda: again.query("SELECT id FROM node WHERE state = 'live'"), what="a live node"
        )
        assert again.process.stop(signal.SIGTERM, timeout_seconds=60) == 0


def test_the_demo_deletes_only_a_demos_directory(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "precious").write_text("mine")
    for flag in ([], ["--reset"]):
        done = run("demo", "--directory", str(tmp_path / "demo"), *flag)
        assert done.returncode == 1
        assert re.fullmatch(r"tickwheel: will not \w+ .*holds other things.*\n", done.stderr)
    assert (tmp_path / "demo" / "precious").read_text() == "mine"


@pytest.mark.slow
def test_a_demo_has_its_directory_alone_and_starts_afresh_when_told_to(tmp_path: Path) -> None:
    for flags in (["--nodes", "0"], ["--reset", "--nodes", "0"]):
        demo = Demo(tmp_path, *flags)
        with demo.process:
            demo.process.wait_for_line(ONE_TIME, timeout_seconds=60)
            other = run("demo", "--directory", str(demo.directory), "--port", str(free_port()))
            assert other.returncode == 1
            assert "a demo already runs" in other.stderr
            assert demo.process.stop(timeout_seconds=60) == 0


def test_what_the_demo_lacks_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for arguments, sentence in (
            (["--executor", "nowhere.py"], "there is no nowhere.py"),
            (["--port", port], f"port {port} is in use"),
            (["--directory", str(tmp_path / "file" / "demo")], "cannot write to"),
        ):
            (tmp_path / "file").touch()
            done = run(
                *("demo", "--directory", str(tmp_path / "demo"), "--port", str(free_port())),
                *arguments,
            )
            assert done.returncode == 1
            assert (done.stdout + done.stderr).count("\n") == 1
            assert f"tickwheel: {sentence}" in done.stderr
