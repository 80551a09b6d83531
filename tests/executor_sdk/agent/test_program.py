"""The program `tickwheel-agent`, as a process at a fake admin."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.executor_sdk.offers.running import (
    WITHIN_SECONDS,
    line,
    processes,
    source,
    until,
)
from tickwheel_executor.agent.program import main
from tickwheel_executor.testing import FakeAdmin

PROGRAM = (sys.executable, "-m", "tickwheel_executor.agent")


def config(directory: Path, admin: FakeAdmin, more: str = "") -> str:
    path = directory / "agent.toml"
    path.write_text(
        f"""
        [agent]
        admins = ["{admin.url}"]
        executor = "crm"
        token = "{admin.token}"
        spool_dir = "{directory}"
        [children]
        directory = "{directory}"
        [script]
        languages = ["shell"]
        {more}
        """
    )
    return str(path)


async def test_an_agent_runs_what_it_offers_and_drains(tmp_path: Path) -> None:
    async with FakeAdmin("crm", within_seconds=WITHIN_SECONDS) as admin:
        agent = await asyncio.create_subprocess_exec(*PROGRAM, "--config", config(tmp_path, admin))
        node = await admin.node()
        assert node.handlers == ["script"]
        text = "echo ready; while [ ! -e go ]; do sleep 0.01; done; echo end; pwd"
        run = await admin.begin("script", script=source("shell", text))
        await line(run, "ready")
        agent.send_signal(signal.SIGHUP)
        agent.send_signal(signal.SIGTERM)
        await until(lambda: list(tmp_path.glob("tickwheel-*/run-*/work")))
        [work] = tmp_path.glob("tickwheel-*/run-*/work")  # noqa: ASYNC240 (a few files)
        (work / "go").touch()
        end = await run.end()
        assert (end.outcome, end.lines()) == ("succeeded", ["ready", "end", str(work)])
        assert await agent.wait() == 0
    await until(lambda: not processes(str(tmp_path)))
    assert await asyncio.to_thread(lambda: list(tmp_path.glob("tickwheel-*"))) == []


def test_a_check_says_what_would_be_offered(tmp_path: Path) -> None:
    with FakeAdmin() as admin:
        path = config(tmp_path, admin)
    done = subprocess.run([*PROGRAM, "--config", path, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for text in (
        "of executor crm",
        "shell",
        "bash",
        "end with the run",
        "a child was started, and ended",
    ):
        assert text in done.stdout
    assert "not offered    command, http, sql, file" in done.stdout
    assert processes(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--config", "/no/such/file"], 78, "there is no file /no/such/file"),
        (["--help"], 0, "exit codes:"),
        (["--example"], 0, "[children]"),
        (["--version"], 0, "tickwheel-agent "),
    ],
)
def test_the_program_explains_itself(
    arguments: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = 0
    try:
        main(arguments)
    except SystemExit as end:
        ended = int(end.code or 0)
    assert ended == code
    assert text in "".join(capsys.readouterr())
