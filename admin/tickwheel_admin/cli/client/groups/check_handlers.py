"""`tickwheel check-handlers`: what a new version of a service would break."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tickwheel_admin.cli.client import exit_codes
from tickwheel_admin.cli.client.errors import NotFoundFailure, UsageFailure
from tickwheel_admin.cli.client.output.words import visible
from tickwheel_admin.cli.client.registration import Invocation, add_command
from tickwheel_admin.cli.client.target import TOKEN_VARIABLE

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_APP = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")  # billing.jobs:executor
_ABOUT = """\
Compares the handlers of a service's new version with the stored jobs of its executor, handlers that
are steps of workflows, and queued runs. Jobs that code declares come with the version.

examples:
  tickwheel check-handlers billing.jobs:executor --executor billing
  tickwheel check-handlers billing.jobs:executor --executor billing --python .venv/bin/python

  python -m tickwheel_executor describe billing.jobs:executor > handlers.json    elsewhere
  tickwheel check-handlers handlers.json --executor billing

MODULE:NAME is imported from the current directory, by a process of its own that does not get the
API token and connects nowhere.

exit codes: 0 nothing breaks, 1 something would.
"""


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = add_command(
        subparsers, "check-handlers", _check, more=_ABOUT,
        told="what a new version of a service would break",
    )  # fmt: skip
    parser.add_argument(
        "handlers",
        metavar="MODULE:NAME|FILE",
        help="the service's Executor, such as billing.jobs:executor; or a file with what"
        " `python -m tickwheel_executor describe` wrote, - is stdin",
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        default=sys.executable,
        help="the interpreter of the service (default: that of this command)",
    )
    parser.add_argument("--executor", required=True, metavar="NAME", help="of the service")


def _check(call: Invocation) -> int:
    given = call.args.handlers
    is_app = _APP.fullmatch(given) and not Path(given).exists()
    handlers = _described(given, python=call.args.python) if is_app else _read(given)
    wanted = call.args.executor
    ids = {each["name"]: each["id"] for each in call.api.get("/executors")["items"]}
    if wanted not in ids:
        raise NotFoundFailure(f"there is no executor {wanted}, or the token may not see it")
    found = call.api.post(f"/executors/{ids[wanted]}/check-handlers", {"handlers": handlers})
    if not call.printer.is_for_people:
        call.printer.value(found)
    else:
        for each in found["breaks"]:
            run = f" {each['run_id']} of" if each["run_id"] is not None else ""
            problem = each["problem"]
            call.printer.line(
                visible(
                    f"{each['what']}{run} {each['job_name']}: {problem['field']}:"
                    f" {problem['message']}"
                )
            )
        call.printer.line(
            f"{len(found['breaks'])} problem(s) in {found['jobs']} jobs, {found['steps']} steps and"
            f" {found['runs']} queued runs."
        )
    return exit_codes.FAILED if found["breaks"] else exit_codes.DONE


def _described(app: str, *, python: str) -> Any:
    """What the process of the service's own interpreter says."""
    environment = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    command = [python, "-m", "tickwheel_executor", "describe", app]
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter that the user names, no shell
            command, env=environment, capture_output=True, check=False
        )
    except OSError as error:
        raise UsageFailure(f"{python} cannot be run: {error.strerror}") from None
    told = done.stderr.decode(errors="replace").strip()
    if done.returncode:
        if "No module named tickwheel_executor" in told:
            told += "; name the interpreter of the service with --python"
        raise UsageFailure(f"{app} cannot be imported: {told}")
    if told:
        print(told, file=sys.stderr)  # what the service's modules say as they are imported
    return json.loads(done.stdout)["handlers"]


def _read(file: str) -> Any:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        handlers = json.loads(text)["handlers"]
    except OSError as error:
        raise UsageFailure(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UsageFailure(
            f"{file} is not what `python -m tickwheel_executor describe` writes"
        ) from None
    return handlers
