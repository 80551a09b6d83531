"""`run start --wait`, `run logs -f`: outcomes as exit codes, lines as they come, interruptions."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.admin.cli.client.scripted import Scripted, error
from tickwheel_admin.cli import main
from tickwheel_admin.cli.client.output.style import Style, logged

STARTED = (202, {"run_id": 42})


def run(state: str, **more: Any) -> tuple[int, dict[str, Any]]:
    """The answer for a run."""
    fields = {
        "id": 42,
        "state": state,
        "message": None,
        "attempt": 1,
        "started_at": "2026-03-01T08:00:00Z",
        "ended_at": None if state in ("queued", "running") else "2026-03-01T08:00:03Z",
    }
    return 200, fields | more


def log(attempt: int, first: int, *texts: str, ended: bool = False) -> tuple[int, dict[str, Any]]:
    """The answer for lines of its log."""
    at = "2026-03-01T08:00:00Z"
    lines = [
        {"seq": first + index, "at": at, "level": "info", "text": text}
        for index, text in enumerate(texts)
    ]
    after = first + len(texts) - 1
    return 200, {
        "attempt": attempt, "lines": lines, "next": after, "more": False, "ended": ended,
    }  # fmt: skip


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take no time."""
    monkeypatch.setattr(time, "sleep", lambda _: None)


@pytest.mark.parametrize(
    ("state", "code"),
    [("succeeded", 0), ("failed", 10), ("timed_out", 11), ("cancelled", 12), ("lost", 13),
     ("skipped", 14)],
)  # fmt: skip
def test_the_outcome_is_the_exit_code(
    state: str, code: int, admin: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.will(STARTED, run("queued"), run("running"), run(state, message="月 13"))
    assert main(["run", "start", "7", "--wait", "-p", "month=13", "-p", "who=eve"]) == code
    told = capsys.readouterr()
    assert told.out == f"Run 42 {state.replace('_', ' ')} after 3.0s: 月 13\n"
    assert admin.asked[0].path == "/api/v1/jobs/7/run"
    assert admin.asked[0].body == {"parameters": {"month": 13, "who": "eve"}}
    assert len(admin.asked[0].headers["Idempotency-Key"]) == 32


def test_the_log_is_followed_through_the_tries(
    admin: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.will(
        STARTED,
        log(0, 1), run("queued"),
        log(1, 1, "one"), log(1, 2, "two"), log(1, 3, ended=True), run("queued"),
        log(1, 3, ended=True), run("running", attempt=2),
        log(2, 1, "again"), log(2, 2, ended=True), run("succeeded", attempt=2),
        run("succeeded", attempt=2),
    )  # fmt: skip
    assert main(["job", "run", "7", "--follow"]) == 0
    told = [line.split()[-1] for line in capsys.readouterr().out.splitlines()]
    assert told[:-1] == ["one", "two", "again"]
    asked = [each.path.removeprefix("/api/v1/runs/42") for each in admin.asked[1:]]
    assert [each for each in asked if "attempt=2" in each] == [
        "/log?attempt=2&after=0&limit=1000",
        "/log?attempt=2&after=1&limit=1000",
    ]


def test_lines_that_come_just_before_the_end_are_not_missed(
    admin: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.will(log(0, 1), run("succeeded"), log(1, 1, "one", ended=True), run("succeeded"))
    assert main(["run", "logs", "-f", "42", "--plain"]) == 0
    assert capsys.readouterr().out == "one\n"
    admin.will(log(0, 1), run("skipped", attempt=0), log(0, 1), run("skipped", attempt=0))
    assert main(["run", "logs", "-f", "42", "--plain"]) == 0
    assert capsys.readouterr().out == ""


def test_json_on_the_standard_output_is_the_run_alone(
    admin: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.will(STARTED, log(1, 1, "one", ended=True), run("failed"), run("failed"))
    assert main(["run", "start", "7", "--follow", "-o", "json"]) == 10
    told = capsys.readouterr()
    assert json.loads(told.out)["state"] == "failed"
    assert told.err == "one\n"


def test_one_does_not_wait_for_ever(
    admin: Scripted, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(100))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)) * 10)
    admin.will(*[run("running")] * 9)
    assert main(["run", "wait", "42", "--wait-timeout", "1m"]) == 15
    assert "has not ended after 60 s and goes on" in capsys.readouterr().err


@pytest.mark.parametrize("cancels", [False, True])
def test_an_interrupted_wait_says_what_becomes_of_the_run(
    cancels: bool,
    admin: Scripted,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    admin.will(run("running"), (202, {"run_id": 42}))
    flags = ["--cancel-on-interrupt"] if cancels else []
    assert main(["run", "wait", "42", *flags]) == 130
    told = capsys.readouterr().err
    assert ("was asked to stop" if cancels else "Run 42 goes on") in told
    assert [each.method for each in admin.asked] == ["GET", "POST"][: 1 + cancels]


def test_a_restart_of_the_admin_is_survived(admin: Scripted) -> None:
    away = (503, error("database.unavailable"))
    admin.will(run("running"), *[away] * 6, run("succeeded"))
    assert main(["run", "wait", "42"]) == 0


def test_a_log_is_printed_from_its_end_by_level_or_as_it_is(
    admin: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = log(1, 1, "one", "two", "three", ended=True)
    for flags, told in (
        (["--tail", "1", "--plain"], "three\n"),
        (["--plain"], "one\ntwo\nthree\n"),
        (["--level", "error"], ""),
        (["--tail", "0", "-f"], ""),
    ):
        admin.will(lines, log(1, 4, ended=True), run("succeeded"))
        assert main(["run", "logs", "42", *flags]) == 0
        assert capsys.readouterr().out == told
        admin.answers.clear()
    admin.will(lines)
    assert main(["run", "logs", "42", "--tail", "2", "-o", "json"]) == 0
    assert [each["seq"] for each in json.loads(capsys.readouterr().out)] == [2, 3]


def test_colours_of_a_log_stay_and_other_codes_do_not() -> None:
    text = "\x1b[32mok\x1b[0m \x1b]0;title\x07 \x1b[2J"
    terminal = Style(columns=80, colours=True)
    assert logged(text, terminal) == "\x1b[32mok\x1b[0m \\x1b]0;title\\x07 \\x1b[2J\x1b[0m"
    assert "\x1b" not in logged(text, Style(columns=80, colours=False))
    assert logged(text, Style(columns=None, colours=False)) == text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("run start 7 --parameters [1]", "must be a JSON object"),
        ("run start 7 --parameters {", "is not JSON"),
        ("run start 7 -p month", "write key=value"),
        ("run start 7 --parameters @/nowhere", "cannot be read"),
        ("alarm mute 7", "say how long"),
        ("failure mute 7", "say how long"),
        ("failure note 7", "give --owner"),
        ("job create -f /nowhere --executor 1", "cannot be read"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_sent(
    words: str, told: str, admin: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    assert told in capsys.readouterr().err
    assert admin.asked == []


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("alarm ack 7", ("POST", "/alarms/7/acknowledge", {})),
        ("alarm close 7", ("POST", "/alarms/7/close", {})),
        ("alarm mute 7 --for 2h", ("POST", "/alarms/7/mute", {"seconds": 7200})),
        ("alarm mute 7 --off", ("POST", "/alarms/7/mute", {"seconds": None})),
        ("alarm assign 7 olga", ("POST", "/alarms/7/assign", {"to": "olga"})),
        ("alarm assign 7", ("POST", "/alarms/7/assign", {"to": None})),
        ("failure ack 7", ("POST", "/failures/7/acknowledge", {})),
        ("failure resolve 7", ("POST", "/failures/7/resolve", {})),
        ("failure retry 7 --stop", ("POST", "/failures/7/retry/stop", {})),
        ("failure mute 7 --for 2h", ("POST", "/failures/7/mute", {"seconds": 7200})),
        ("failure mute 7 --off", ("POST", "/failures/7/mute", {"seconds": None})),
        ("run release 42", ("POST", "/runs/42/release", {})),
        ("run skip 42 x --reason late", ("POST", "/runs/42/steps/x/skip", {"reason": "late"})),
        ("run decline 42 ok", ("POST", "/runs/42/steps/ok/answer", {"approve": False})),
        ("workflow pause-step 42 ok", ("POST", "/runs/42/steps/ok/pause", {})),
        ("workflow resume-step 42 ok", ("POST", "/runs/42/steps/ok/resume", {})),
        ("executor delete 1 --with-jobs --yes", ("DELETE", "/executors/1?with_jobs=true", None)),
    ],
)  # fmt: skip
def test_a_command_asks_for(words: str, asked: Any, admin: Scripted) -> None:
    admin.will((204, ""))
    assert main(words.split()) == 0
    sent = admin.asked[0]
    assert (sent.method, sent.path.removeprefix("/api/v1"), sent.body) == asked
