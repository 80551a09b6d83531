"""Runs one child from start to end, as the body of a handler."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tickwheel_executor.errors import CheckpointError, Fail, Failed
from tickwheel_executor.run.context import Run, expect_stop_within, has_state, stop_of
from tickwheel_shared.protocol import Level, Outcome

from . import ending
from .child import Child, ChildLostError
from .environment import inherited
from .keeper import KeeperError
from .output import OutputLines
from .settings import Children

RESULT, CHECKPOINT, STATE = "result.json", "checkpoint.json", "state.json"
_KILL_SECONDS = 2.0  # to report the end after a kill


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """What to run: `prefix` and then `argv`.

    In `prefix` alone, `{directory}` stands for the private directory of the run: what a job decides
    is left as it is.
    """

    argv: list[str]
    prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)  # checked
    files: Mapping[str, str] = field(default_factory=dict)  # to write into the private directory
    cwd: str | None = None  # None: the private directory
    stdin: str = ""
    grace_seconds: float = 10.0  # between SIGTERM and SIGKILL
    skip_exit_code: int | None = None
    traced: str = ""  # one of `files` in which tracebacks tell the place of an error


async def run_child(children: Children, run: Run, invocation: Invocation) -> Any:
    """Run it to its end; returns the result that it wrote.

    Raises:
        Failed: it failed.
        Retry, Fail, Skip: as its exit code says.
        asyncio.CancelledError: it was stopped; nothing of it is left.
    """
    expect_stop_within(run, invocation.grace_seconds + _KILL_SECONDS)
    output, errors = OutputLines(run, Level.INFO), OutputLines(run, Level.WARNING)
    try:
        child = Child(children.keeper)
    except (KeeperError, OSError) as error:
        raise Failed(f"the program cannot be started: {error}") from error
    cancelled: asyncio.CancelledError | None = None
    try:
        await child.order(_order(children, run, invocation, child.directory))
        while not child.is_over:
            try:
                await child.wait()
            except asyncio.CancelledError as error:
                # The first asks it to end; the next one, if any, comes when it must be over.
                child.stop(0 if cancelled is not None else grace_of(run, invocation))
                cancelled = error
                continue
            child.take(output.feed, errors.feed, lambda message: _checkpoint(run, message))
    except ChildLostError:
        text = "its supervisor was killed, and so was the program"
        raise cancelled or Failed(text) from None
    finally:
        child.close()
    output.finish()
    errors.finish()
    report = child.report or {}
    files = report.get("files", {})
    _checkpoint(run, files.get(CHECKPOINT), is_last=True)
    if report.get("left"):
        run.log.warning("what it had left behind was killed (processes: %d)", report["left"])
    if "left_directory" in report:
        run.log.warning("its directory %s cannot be removed", report["left_directory"])
    if cancelled is not None:
        raise cancelled
    return ending.conclude(
        run,
        report,
        limits=children.limits,
        skip_exit_code=invocation.skip_exit_code,
        result=files.get(RESULT),
        state=files.get(STATE),
        last_lines=errors.last_lines(5, traced=invocation.traced) or output.last_lines(3),
        retry_after=output.retry_after,
    )


def grace_of(run: Run, invocation: Invocation) -> float:
    """Seconds that the child has to end, now that its handler was cancelled."""
    stop = stop_of(run)
    if stop is None:
        return 0  # the node has ended
    if stop.outcome in (Outcome.CUT_OFF, Outcome.FAILED):  # others wait for the end, at a deadline
        return min(invocation.grace_seconds, stop.grace_seconds)
    return invocation.grace_seconds


def _order(children: Children, run: Run, invocation: Invocation, parent: str) -> dict[str, Any]:
    name = f"run-{run.id}-{run.attempt}-{os.urandom(4).hex()}"
    directory = f"{parent}/{name}"
    files = dict(invocation.files)
    returned = [RESULT, CHECKPOINT]
    if run.checkpoint is not None:
        files[CHECKPOINT] = msgspec.json.encode(run.checkpoint).decode()
    if has_state(run):
        files[STATE] = msgspec.json.encode(run.state).decode()
        returned.append(STATE)
    return {
        **children.order(name),
        "argv": [
            *(each.format(directory=directory) for each in invocation.prefix),
            *invocation.argv,
        ],
        "directory": directory,
        "cwd": invocation.cwd,
        "environment": _environment(children, run, invocation, directory),
        "files": files,
        "returned": returned,
        "stdin": invocation.stdin or None,
        "watched": CHECKPOINT,
    }


def _environment(
    children: Children, run: Run, invocation: Invocation, directory: str
) -> dict[str, str]:
    """From what the machine's owner decides to what the run decides; the last one counts."""
    own = {"PATH": children.path, "TMPDIR": f"{directory}/work"}
    user = children.user
    if user is not None:
        own |= {"HOME": user.home, "USER": user.name, "LOGNAME": user.name}
    about = {
        "RUN_ID": str(run.id),
        "ATTEMPT": str(run.attempt),
        "TRY": str(run.try_number),
        "JOB": run.job,
        "SCHEDULED_AT": run.scheduled_at.isoformat(timespec="milliseconds"),
        "SHARD_INDEX": str(run.shard_index),
        "SHARD_TOTAL": str(run.shard_total),
        "RESULT": f"{directory}/{RESULT}",
        "CHECKPOINT": f"{directory}/{CHECKPOINT}",
    }
    if run.interval_start is not None:
        about["INTERVAL_START"] = run.interval_start.isoformat(timespec="milliseconds")
        about["INTERVAL_END"] = about["SCHEDULED_AT"]
    if has_state(run):
        about["STATE"] = f"{directory}/{STATE}"
    return {
        **inherited(os.environ, children.pass_environment),
        **own,
        # As OpenTelemetry and others read it: the specification "environment variables".
        **{name.upper(): value for name, value in run.trace_headers.items()},
        **children.environment,
        **invocation.environment,
        **{f"TICKWHEEL_{name}": value for name, value in about.items()},
    }


def _checkpoint(run: Run, message: dict[str, Any] | None, *, is_last: bool = False) -> None:
    """Save what the child wrote. While it runs, a file that is half written is left for later."""
    if message is None:
        return
    problem = message.get("problem")
    if problem is None and "text" in message:
        try:
            value = msgspec.json.decode(message["text"])
            if value != run.checkpoint or not is_last:
                run.save_checkpoint(value)
        except (msgspec.DecodeError, RecursionError) as error:
            problem = f"it is not JSON: {error}"
        except CheckpointError as error:
            problem = str(error)
    if problem is not None and is_last:
        run.log.warning("$TICKWHEEL_CHECKPOINT is left as it was: %s", problem)


def refuse_zero_bytes(what: str, texts: list[str]) -> None:
    """No program can be given a zero byte as an argument.

    Raises:
        Fail: one of these texts has one.
    """
    for index, text in enumerate(texts):
        if "\x00" in text:
            raise Fail(f"parameters: {what}[{index}] contains a zero byte")
