"""What the end of a child means for its run."""

from __future__ import annotations

import errno
import signal
from typing import Any, NoReturn

import msgspec

from tickwheel_executor.errors import Fail, Failed, Retry, Skip
from tickwheel_executor.run.context import Run, has_state

from .settings import ChildLimits

RETRY_CODE = 75  # EX_TEMPFAIL of sysexits.h
FAIL_CODE = 78  # EX_CONFIG
_PASSING = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC)


def conclude(
    run: Run,
    report: dict[str, Any],
    *,
    limits: ChildLimits,
    skip_exit_code: int | None,
    result: dict[str, Any] | None,
    state: dict[str, Any] | None,
    last_lines: str,
    retry_after: float | None = None,
) -> Any:
    """The run's result, if the child succeeded.

    Args:
        report: of the supervisor.
        result, state: what it read in these files; None: they do not exist.
        last_lines: of its output, for the message of a failure.
        retry_after: seconds until the next try, if it asked for that.

    Raises:
        Failed: it failed.
        Retry, Fail, Skip: as its exit code says.
    """
    if "problem" in report:
        _not_started(report["problem"])
    code = int(report["code"])
    if code < 0:
        raise Failed(_with(_killed_by(-code, report, limits), last_lines))
    if code not in (0, skip_exit_code):
        text = _with(f"exit code {code}", last_lines)
        if code == RETRY_CODE:
            raise Retry(text, after=retry_after)
        if code == FAIL_CODE:
            raise Fail(text)
        if report["oom_kills"]:
            text = f"{_out_of_memory(limits)}; {text}"
        raise Failed(text)
    _save_state(run, state)
    if code == skip_exit_code:
        raise Skip(last_lines or f"exit code {code}")
    return None if result is None else _decoded("$TICKWHEEL_RESULT", result)


def _save_state(run: Run, found: dict[str, Any] | None) -> None:
    if found is None or not has_state(run):
        return
    value = _decoded("$TICKWHEEL_STATE", found)
    if not isinstance(value, dict):
        raise Failed("$TICKWHEEL_STATE cannot be kept: write a JSON object")
    run.state = value


def _decoded(name: str, found: dict[str, Any]) -> Any:
    if "problem" in found:
        raise Failed(f"{name} cannot be read: {found['problem']}")
    text = found["text"]
    if not text.strip():
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Failed(f"{name} is not JSON: {error}") from None


def _not_started(problem: dict[str, Any]) -> NoReturn:
    text = f"the program cannot be started ({problem['step']}): {problem['text']}"
    if problem["errno"] in _PASSING or problem["step"] == "cgroup":
        raise Failed(text)
    raise Fail(text)


def _killed_by(number: int, report: dict[str, Any], limits: ChildLimits) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    if report["oom_kills"]:
        return f"killed by {name}: {_out_of_memory(limits)}"
    reasons = {
        "SIGXCPU": f": more than {limits.cpu_seconds} s of CPU time",
        "SIGXFSZ": f": it wrote a file of more than {limits.file_mb} MiB",
        "SIGKILL": " (out of memory?)",
    }
    return f"killed by {name}{reasons.get(name, '')}"


def _out_of_memory(limits: ChildLimits) -> str:
    rule = f"more than {limits.memory_mb:,} MiB" if limits.memory_mb else "the machine had no more"
    return f"out of memory ({rule})"


def _with(text: str, last_lines: str) -> str:
    return f"{text}: {last_lines}" if last_lines else text
