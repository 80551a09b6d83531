"""What people do about steps of a workflow's run: under `run` and under `workflow`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tickwheel_admin.cli.client import names
from tickwheel_admin.cli.client.connection import in_path
from tickwheel_admin.cli.client.registration import Invocation, add_command

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_answer_commands(group: Subparsers) -> None:
    """`approve`, `decline`, `skip`, `pause-step` and `resume-step`."""
    for name, approved, told in (
        ("approve", True, "let a step that waits for people go on"),
        ("decline", False, "let a step that waits for people fail"),
    ):
        command = _add(group, name, partial(_answer, approved), told=told)
        command.add_argument("--message", help="for whoever reads the run")
    command = _add(group, "skip", _skip, told="let a step count as passed")
    command.add_argument("--reason", required=True, help="why; it is kept with the step")
    for name, told in (
        ("pause-step", "let a step wait for a person before it begins"),
        ("resume-step", "lift such a pause; a step that waits there goes on"),
    ):
        _add(group, name, partial(_pause, name.removesuffix("-step")), told=told)


def _add(
    group: Subparsers, name: str, work: Callable[[Invocation], None], *, told: str
) -> argparse.ArgumentParser:
    command = add_command(group, name, work, told=told)
    command.add_argument("run_id", metavar="RUN", help="the run of a workflow")
    command.add_argument("step", metavar="STEP", help="the key of the step")
    return command


def _path(call: Invocation) -> str:
    run_id = names.run_id(call.api, call.args.run_id)
    return f"/runs/{run_id}/steps/{in_path(call.args.step)}"


def _answer(approved: bool, call: Invocation) -> None:
    body = {"approve": approved, "message": call.args.message}
    call.api.post(f"{_path(call)}/answer", {k: v for k, v in body.items() if v is not None})
    done = "approved" if approved else "declined"
    call.printer.done(f"Step {call.args.step} is {done}.", {"step": call.args.step, "done": done})


def _skip(call: Invocation) -> None:
    call.api.post(f"{_path(call)}/skip", {"reason": call.args.reason})
    call.printer.done(
        f"Step {call.args.step} counts as passed.", {"step": call.args.step, "done": "skipped"}
    )


def _pause(action: str, call: Invocation) -> None:
    call.api.post(f"{_path(call)}/{action}")
    done = f"{action}d"
    call.printer.done(f"Step {call.args.step} is {done}.", {"step": call.args.step, "done": done})
