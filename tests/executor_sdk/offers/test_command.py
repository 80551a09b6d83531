"""The offer `command`: what may run, where, with which environment."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tickwheel_executor import ConfigurationError
from tickwheel_executor.handlers.handlers import Handlers
from tickwheel_executor.offers.children.settings import Children
from tickwheel_executor.offers.command import Command
from tickwheel_executor.testing import run_handler

from .running import CHILDREN, command


async def test_arguments_reach_the_program_as_they_are() -> None:
    attack = ["$(touch /tmp/x)", "; id", "`id`", "a b", "*", "{directory}", "-", "\n", "ü"]
    end = await command("/usr/bin/printf", "%s|", *attack)
    assert end.outcome == "succeeded"
    assert "\n".join(end.lines("info")) == "|".join((*attack, ""))


async def test_a_child_sees_little_of_the_agent_and_everything_about_its_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TICKWHEEL_TOKEN", "secret")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/evil")
    monkeypatch.setenv("DATABASE_URL", "secret")
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    children = Children(environment={"REGION": "eu"}, pass_environment=("JAVA_*",))
    end = await command("env", "-0", offer=Command(children=children), environment={"A": "b"})
    seen = dict(each.split("=", 1) for each in "\n".join(end.lines()).split("\ufffd") if each)
    directory = os.path.dirname(seen["TICKWHEEL_RESULT"])
    assert set(seen) <= {
        *("A", "REGION", "JAVA_HOME", "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME"),
        *("USER", "TZ", "TMPDIR", "TICKWHEEL_JOB", "TICKWHEEL_RUN_ID", "TICKWHEEL_ATTEMPT"),
        *("TICKWHEEL_TRY", "TICKWHEEL_SCHEDULED_AT", "TICKWHEEL_SHARD_INDEX"),
        *("TICKWHEEL_SHARD_TOTAL", "TICKWHEEL_RESULT", "TICKWHEEL_CHECKPOINT"),
    }
    assert (seen["A"], seen["REGION"], seen["JAVA_HOME"]) == ("b", "eu", "/opt/java")
    assert (seen["TICKWHEEL_RUN_ID"], seen["TICKWHEEL_TRY"]) == ("1", "1")
    assert seen["TMPDIR"] == f"{directory}/work"
    assert await command("test", "!", "-e", directory), "it is removed at the end"


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "LD_AUDIT", "PATH", "BASH_ENV", "PYTHONPATH", "NODE_OPTIONS", "PERL5OPT"]
)
async def test_a_job_cannot_change_which_code_runs(name: str) -> None:
    end = await command("true", environment={name: "/tmp/evil"})
    assert (end.outcome, end.final) == ("failed", True)
    assert end.message.startswith(f"environment: {name} changes which code a program runs")
    allowed = Command(children=Children(allow_environment=(name,)))
    assert (await command("/bin/true", offer=allowed, environment={name: ""})).succeeded


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"argv": []}, "parameters: argv: expected array of length >= 1"),
        ({"argv": ["echo", "a\0b"]}, "parameters: argv[1] contains a zero byte"),
        ({"argv": ["echo\0"]}, "parameters: argv[0] contains a zero byte"),
        ({"argv": ["no-such-program"]}, "there is no program 'no-such-program' on this machine"),
        ({"argv": ["./true"]}, "there is no program './true'"),
        ({"argv": [""]}, "there is no program ''"),
        ({"argv": ["/etc/passwd"]}, "there is no program '/etc/passwd'"),
        ({"argv": ["true"], "environment": {"A=B": "c"}}, "'A=B' is no name of a variable"),
        ({"argv": ["true"], "environment": {"A": "\0"}}, "A contains a zero byte"),
        ({"argv": ["true"], "environment": {"TICKWHEEL_RESULT": "/x"}}, "are the agent's own"),
        ({"argv": ["true"], "cwd": "/tmp"}, "not in a directory that this machine's owner allows"),
        ({"argv": ["true"], "stop_grace_seconds": -1}, "stop_grace_seconds: expected float >= 0"),
    ],
)
async def test_bad_parameters_fail_for_good(parameters: dict[str, Any], message: str) -> None:
    end = await run_handler(Command(children=CHILDREN).run, "command", parameters=parameters)
    assert (end.outcome, end.final) == ("failed", True)
    assert message in end.message


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """A directory of programs, with ways out of it."""
    directory = tmp_path / "jobs"
    (directory / "sub").mkdir(parents=True)
    for name in ("good", "sub/good", "linked-here"):
        (directory / name).write_text("#!/bin/sh\necho good\n")
        (directory / name).chmod(0o755)
    (directory / "inner-link").symlink_to("linked-here")
    (directory / "shell").symlink_to("/bin/sh")
    (directory / "up").symlink_to("..")
    (tmp_path / "other").write_text("#!/bin/sh\necho other\n")
    (tmp_path / "other").chmod(0o755)
    return directory


async def test_only_allowed_programs_run(jobs: Path) -> None:
    offer = Command(children=CHILDREN, programs=(f"{jobs}/", "/usr/bin/env"))
    for name in ("good", "sub/good", "inner-link", "sub/../good", "./good", "up/jobs/good"):
        assert (await command(f"{jobs}/{name}", offer=offer)).lines() == ["good"], name
    assert (await command("/bin/env", "true", offer=offer)).succeeded, "/bin may be a link"
    for refused in ("shell", "../other", "up/other", "sub/../../other"):
        end = await command(f"{jobs}/{refused}", offer=offer)
        assert "is not among the programs that this machine's owner allows" in end.message
    for name in ("sh", "/usr/bin/sh", "/bin/sh"):
        assert "is not among the programs" in (await command(name, offer=offer)).message


async def test_a_name_of_a_program_with_many_names_allows_no_other(jobs: Path) -> None:
    (jobs / "box").write_text('#!/bin/sh\necho "$0"\n')
    (jobs / "box").chmod(0o755)
    for name in ("ls", "sh"):
        (jobs / name).symlink_to("box")
    offer = Command(children=CHILDREN, programs=(f"{jobs}/ls",))
    assert (await command(f"{jobs}/ls", offer=offer)).lines() == [f"{jobs}/ls"]
    assert not (await command(f"{jobs}/sh", offer=offer)).succeeded
    assert not (await command(f"{jobs}/box", offer=offer)).succeeded


async def test_commands_run_in_allowed_directories_only(jobs: Path, tmp_path: Path) -> None:
    offer = Command(children=CHILDREN, directories=(jobs,))
    assert (await command("pwd", offer=offer, cwd=str(jobs / "sub"))).lines() == [str(jobs / "sub")]
    for cwd in (jobs / "up", jobs / "..", tmp_path / "jobs-2", jobs / "sub/../.."):
        end = await command("pwd", offer=offer, cwd=str(cwd))
        assert "is not in a directory that this machine's owner allows" in end.message
    end = await command("pwd", offer=offer, cwd=str(jobs / "absent"))
    assert "there is no directory" in end.message


async def test_standard_input_is_empty_or_the_given_text() -> None:
    assert (await command("cat")).lines() == []
    text = "ü" * 30_000 + "\nend"
    assert (await command("cat", stdin=text)).lines()[-1] == "end"


async def test_a_program_starts_as_from_a_shell() -> None:
    """No files of the agent are open, and no signals are ignored or blocked."""
    end = await command("sh", "-c", "ls /proc/$$/fd; grep -E 'Sig(Ign|Blk)' /proc/self/status")
    *files, blocked, ignored = end.lines()
    assert (files, blocked) == (["0", "1", "2"], f"SigBlk:\t{0:016x}")
    mask = int(ignored.removeprefix("SigIgn:\t"), 16)
    # 32 and 33 are the C library's own, which no program can set.
    assert [each for each in signal.valid_signals() if mask >> (each - 1) & 1] == []


async def test_a_program_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    program = tmp_path / "broken"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    end = await command(str(program))
    assert (end.outcome, end.final) == ("failed", True)
    assert end.message == "the program cannot be started (program): No such file or directory"


def test_the_form_describes_every_parameter() -> None:
    handlers = Handlers()
    handlers.add("command", Command().run)
    handlers.close()
    schema = msgspec.json.decode(handlers.schemas["command"])
    assert schema["required"] == ["argv"]
    assert all("description" in json.dumps(each) for each in schema["properties"].values())


def test_a_configuration_is_refused_with_all_its_problems(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Command(programs=("rsync",), directories=("data",))
    assert len(raised.value.problems) == 2
    problems: list[str] = []
    table = {"directories": [str(tmp_path), "/no/such"], "program": ["/bin/true"]}
    assert Command.from_config(table, problems) is None
    assert problems == [
        (
            "command.programs: it is missing; write the programs that may run, as "
            '["/usr/bin/rsync", "/opt/jobs/"], or ["*"] for any'
        ),
        "command.directories: there is no directory '/no/such'; create it",
        "command.program: there is no such setting; did you mean 'programs'?",
    ]
    problems.clear()
    assert Command.from_config({"programs": ["*"]}, problems) is not None
    assert problems == []
