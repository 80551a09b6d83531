"""Exit codes, results, states, checkpoints, limits: what the end of a child means."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.availability import NOT_HERE
from tickwheel_executor import Run
from tickwheel_executor.offers.children import ending
from tickwheel_executor.offers.children.settings import ChildLimits, Children
from tickwheel_executor.offers.command import Command
from tickwheel_executor.offers.script import Script
from tickwheel_executor.testing import run_handler

from .running import command, line, offered, shell, source, until

COLOURED = "echo out; echo a >&2; printf '\\033[31mb\\033[0m' >&2; exit 2"
HALF = "echo '[1' > $TICKWHEEL_RESULT"
LARGE = 'perl -e "print chr(34), 1 x 70000, chr(34)" > $TICKWHEEL_RESULT'


@pytest.mark.parametrize(
    ("text", "outcome", "message", "final"),
    [
        ("exit 0", "succeeded", "", False),
        ("exit 1", "failed", "exit code 1", False),
        ("echo why; exit 1", "failed", "exit code 1: why", False),
        (COLOURED, "failed", "exit code 2: a\nb", False),
        ("exit 75", "failed", "exit code 75", False),
        ("exit 78", "failed", "exit code 78", True),
        ("echo nothing new; exit 9", "skipped", "nothing new", False),
        ("kill -SEGV $$", "failed", "killed by SIGSEGV", False),
        ("kill -KILL $$", "failed", "killed by SIGKILL (out of memory?)", False),
        (HALF, "failed", "$TICKWHEEL_RESULT is not JSON: Input data was truncated", False),
        (LARGE, "failed", "the handler's return value is 70,002 bytes of JSON; the limit is 65,536",
         False),
    ],
)  # fmt: skip
async def test_the_exit_code_is_the_outcome(
    text: str, outcome: str, message: str, final: bool
) -> None:
    end = await shell(text, parameters={"skip_exit_code": 9})
    assert (end.outcome, end.message, end.final) == (outcome, message, final)
    assert not any("Traceback" in text for text in end.lines())


@pytest.mark.parametrize(("code", "after"), [(75, 2.5), (1, None)])
async def test_a_script_can_say_when_its_next_try_is(code: int, after: float | None) -> None:
    end = await shell(f"echo '::retry-after 2.5::'; exit {code}")
    assert (end.outcome, end.retry_after, end.lines("info")) == ("failed", after, [])


async def test_results_states_and_checkpoints_are_files(tmp_path: Path) -> None:
    text = 'cat "$TICKWHEEL_STATE" "$TICKWHEEL_CHECKPOINT"; echo \'{"n": 2}\' > "$TICKWHEEL_STATE"'
    end = await shell(text, state={"n": 1}, checkpoint={"row": 7})
    assert (end.lines(), end.state, end.checkpoint) == (['{"n":1}{"row":7}'], {"n": 2}, None)
    text += '; echo \'{"row": 9}\' > "$TICKWHEEL_CHECKPOINT"; exit 1'
    end = await shell(text, state={"n": 1}, checkpoint={"row": 7})
    assert (end.state, end.checkpoint) == ({"n": 1}, {"row": 9})
    end = await shell('echo 3 > "$TICKWHEEL_STATE"', state={})
    assert end.message == "$TICKWHEEL_STATE cannot be kept: write a JSON object"
    end = await shell('[ -z "$TICKWHEEL_STATE" ] && [ ! -e "$TICKWHEEL_CHECKPOINT" ]')
    assert end.succeeded
    end = await shell('echo "{" > "$TICKWHEEL_CHECKPOINT"; exit 1', checkpoint=5)
    assert end.checkpoint == 5
    assert "is left as it was: it is not JSON" in end.lines("warning")[-1]
    async with offered(tmp_path, Script(languages=("shell",))) as admin:
        text = 'echo 1 > x; mv x "$TICKWHEEL_CHECKPOINT"; echo saved; sleep 1000'
        run = await admin.begin("script", script=source("shell", text))
        await until(lambda: run._attempt._checkpoint[1] == b"1")  # while it runs
        await line(run, "saved")
        await run.cancel()
        assert (await run.end()).checkpoint == 1


async def test_limits_end_a_run_and_are_named() -> None:
    offer = Command(children=Children(limits=ChildLimits(cpu_seconds=1, file_mb=1, open_files=16)))
    end = await command("sh", "-c", "while :; do :; done", offer=offer)
    assert end.message == "killed by SIGXCPU: more than 1 s of CPU time"
    end = await command("dd", "if=/dev/zero", "of=big", "bs=1M", "count=2", offer=offer)
    assert end.message == "killed by SIGXFSZ: it wrote a file of more than 1 MiB"
    assert (await command("sh", "-c", "ulimit -n; ulimit -c", offer=offer)).lines() == ["16", "0"]
    offer = Command(children=Children(cgroups="off", limits=ChildLimits(memory_mb=64)))
    end = await command("perl", "-e", '$x = "x" x 500_000_000', offer=offer)
    assert not end.succeeded
    assert "Out of memory" in end.message


@pytest.mark.skipif(os.geteuid() != 0, reason=NOT_HERE + "only root can change users")
async def test_a_child_has_the_rights_of_its_user_only() -> None:
    offer = Script(languages=("shell",), children=Children(run_as="games"))
    text = (
        'id -un; id -Gn; echo "$HOME $USER"; grep NoNewPrivs /proc/self/status; '
        'cat /etc/shadow || echo refused; echo 1 > "$TICKWHEEL_RESULT"; touch x && pwd; ls ../..'
    )
    end = await run_handler(offer.run, "script", script=source("shell", text), state={})
    name, groups, home, privileges, refused, _ = end.lines("info")
    assert (name, groups, home) == ("games", "games", "/usr/games games")
    assert (privileges, refused, end.result) == ("NoNewPrivs:\t1", "refused", None)
    assert "Permission denied" in end.lines("warning")[-1], "other runs cannot be listed"


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ({"code": -9, "oom_kills": 1}, "killed by SIGKILL: out of memory (more than 256 MiB)"),
        ({"code": 1, "oom_kills": 2}, "out of memory (more than 256 MiB); exit code 1"),
        ({"code": -70}, "killed by signal 70"),
        (
            {"problem": {"step": "fork", "errno": 11, "text": "busy"}},
            "the program cannot be started (fork): busy",
        ),
    ],
)
def test_what_the_kernel_did_is_named(report: dict[str, Any], message: str) -> None:
    async def handler(run: Run) -> None:
        ending.conclude(
            run,
            {"oom_kills": 0, **report},
            limits=ChildLimits(memory_mb=256),
            skip_exit_code=None,
            result=None,
            state=None,
            last_lines="",
        )

    end = run_handler(handler).result()
    assert (end.outcome, end.final, end.message) == ("failed", False, message)
