"""All commands that speak to an admin; only the group that is called is imported."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tickwheel_admin.cli.client.output.words import visible
from tickwheel_admin.cli.failure import Failure
from tickwheel_admin.cli.parser import CommandParser

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_GROUPS = "tickwheel_admin.cli.client.groups"
# The modules that register them, in the order of `tickwheel --help`.
GROUPS: Final = {
    "login": "login",
    "profile": "profiles",
    "job": "jobs",
    "run": "runs",
    "backfill": "backfills",
    "workflow": "workflows",
    "executor": "executors",
    "node": "nodes",
    "calendar": "calendars",
    "pool": "pools",
    "secret": "secrets",
    "alarm": "alarms",
    "failure": "failures",
    "trends": "past.trends",
    "proof": "past.proof",
    "delays": "past.delays",
    "what-if": "what_if",
    "as-of": "past.as_of",
    "why": "past.as_of",
    "night-plan": "night_plan",
    "top": "top",
    "mcp": "mcp",
    "plan": "gitops",
    "apply": "gitops",
    "export": "gitops",
    "schema": "gitops",
    "check-handlers": "check_handlers",
    "completion": "completion",
}


def register(subparsers: Subparsers, only: str | None = None) -> None:
    """Add the groups, or one of them."""
    modules = dict.fromkeys(GROUPS.values() if only is None else [GROUPS[only]])
    for module in modules:
        importlib.import_module(f"{_GROUPS}.{module}").register(subparsers)


def run(words: Sequence[str]) -> int:
    """Run a command whose first word is one of GROUPS, and return its exit code."""
    parser: argparse.ArgumentParser = CommandParser(prog="tickwheel")
    register(parser.add_subparsers(metavar="COMMAND", required=True), only=words[0])
    args = parser.parse_args(words)
    try:
        code: int = args.run(args)
    except Failure as failure:
        sys.stdout.flush()
        print(f"tickwheel: {visible(str(failure), lines=True)}", file=sys.stderr)
        return failure.exit_code
    return code
