"""Start a run and wait for its outcome, which becomes the exit code."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tickwheel_admin.cli.client import exit_codes, names
from tickwheel_admin.cli.client.connection import new_key
from tickwheel_admin.cli.client.errors import ApiRefused
from tickwheel_admin.cli.client.following import (
    ENDED,
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    SLOWER,
    Patient,
    followed,
    print_line,
)
from tickwheel_admin.cli.client.inputs import key_of, parameters_of, seconds_of
from tickwheel_admin.cli.client.output.table import Item
from tickwheel_admin.cli.client.output.words import between, visible
from tickwheel_admin.cli.client.registration import Invocation


def add_start_flags(command: argparse.ArgumentParser) -> None:
    """The flags of a new run."""
    command.add_argument(
        "--parameters", metavar="JSON", help="an object over the job's parameters, or @FILE"
    )
    command.add_argument(
        "-p",
        dest="single",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="one parameter; the value is JSON, or else a text",
    )
    command.add_argument("--node", metavar="NODE", help="only on this one: its name or id")
    command.add_argument("--delay", type=seconds_of, metavar="LENGTH", help="start later: 90s, 2h")
    command.add_argument(
        "--key", type=key_of, help="repeated with the same key, it is the same run"
    )
    command.add_argument("--wait", action="store_true", help="until it has ended")
    add_wait_flags(command)


def add_wait_flags(command: argparse.ArgumentParser) -> None:
    """How a run is waited for."""
    command.add_argument(
        "--follow", action="store_true", help="print its log meanwhile (implies --wait)"
    )
    command.add_argument(
        "--wait-timeout", type=seconds_of, metavar="LENGTH", help="wait no longer: 90s, 2h"
    )
    command.add_argument(
        "--cancel-on-interrupt",
        action="store_true",
        help="stop the run when this command is (Ctrl-C, SIGTERM)",
    )


def start(call: Invocation) -> int | None:
    """Start one, and wait for it if that is asked."""
    args = call.args
    body: dict[str, Any] = {}
    parameters = parameters_of(args.parameters, args.single)
    if parameters is not None:
        body["parameters"] = parameters
    if args.node:
        body |= {"node_id": int(args.node)} if args.node.isdecimal() else {"node": args.node}
    if args.delay:
        body["delay_seconds"] = args.delay
    job_id = names.job_id(call.api, args.job)
    made = call.api.post(f"/jobs/{job_id}/run", body, key=args.key or new_key())["run_id"]
    if args.wait or args.follow:
        return outcome(call, made)
    call.printer.done(f"Run {made} was started.", {"run_id": made})
    return None


def outcome(call: Invocation, run_id: int) -> int:
    """Wait until the run has ended, print it, and return the exit code that stands for its end."""
    args = call.args
    ends_at = None if args.wait_timeout is None else time.monotonic() + args.wait_timeout
    if call.printer.is_for_people:
        print(f"Waiting for run {run_id} …", file=sys.stderr, flush=True)
    try:
        with _interrupted_by_sigterm(args.cancel_on_interrupt):
            run = _ended(call, run_id, ends_at)
    except KeyboardInterrupt:
        return _interrupted(call, run_id)
    except _TimeIsOver:
        told = f"run {run_id} has not ended after {args.wait_timeout} s and goes on"
        print(f"tickwheel: {told}", file=sys.stderr)
        return exit_codes.NOT_ENDED
    _print_end(call, run)
    return exit_codes.BY_OUTCOME.get(run["state"], exit_codes.FAILED)


def _ended(call: Invocation, run_id: int, ends_at: float | None) -> Item:
    """The run when it has ended; _TimeIsOver when that takes too long."""

    def sleep(seconds: float) -> None:
        left = float("inf") if ends_at is None else ends_at - time.monotonic()
        if left <= 0:
            raise _TimeIsOver
        time.sleep(min(seconds, left))

    api = Patient(call.api, sleep=sleep)
    if call.args.follow:
        for line in followed(api, run_id, sleep=sleep):
            if call.printer.is_for_people:
                print_line(call, line)
            else:  # the standard output is for the run
                print(visible(line["text"], lines=True), file=sys.stderr, flush=True)
    pause = FIRST_PAUSE_SECONDS
    while True:
        run: Item = api.get(f"/runs/{run_id}")
        if run["state"] in ENDED:
            return run
        sleep(pause)
        pause = min(pause * SLOWER, LONGEST_PAUSE_SECONDS)


def _print_end(call: Invocation, run: Item) -> None:
    printer = call.printer
    if not printer.is_for_people:
        printer.value(run)
        return
    state = printer.style.coloured(run["state"].replace("_", " "), run["state"])
    took = between(run["started_at"], run["ended_at"], printer.style.now())
    time_taken = "" if run["started_at"] is None else f" after {took}"
    message = f": {visible(run['message'])}" if run["message"] else ""
    printer.line(f"Run {run['id']} {state}{time_taken}{message}")


def _interrupted(call: Invocation, run_id: int) -> int:
    """What becomes of the run when the command is stopped."""
    if not call.args.cancel_on_interrupt:
        print(
            f"\nRun {run_id} goes on. `tickwheel run wait {run_id} --follow` follows it again,"
            f" `tickwheel run cancel {run_id}` stops it.",
            file=sys.stderr,
        )
        return exit_codes.INTERRUPTED
    try:
        call.api.post(f"/runs/{run_id}/cancel")
    except ApiRefused as refused:
        if refused.code != "run.ended":
            raise
    print(f"\nRun {run_id} was asked to stop.", file=sys.stderr)
    return exit_codes.INTERRUPTED


@contextmanager
def _interrupted_by_sigterm(wanted: bool) -> Iterator[None]:
    """SIGTERM like a Ctrl-C: build servers end their commands so."""
    if not wanted:
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _TimeIsOver(Exception):
    """`--wait-timeout` has passed."""
