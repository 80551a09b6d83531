"""Flags that the imports of crontabs and Quartz share, and the executor that they name."""

from __future__ import annotations

import argparse

from tickwheel_admin.cli.common import Failure, add_config_flags
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.services.executors.lists import ExecutorItem
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.administration import COMMAND_LINE


def add_import_flags(command: argparse.ArgumentParser) -> None:
    """Where to, and what to do."""
    command.add_argument(
        "--executor",
        metavar="NAME",
        help="the executor that gets the jobs (default: the only one there is)",
    )
    command.add_argument("--apply", action="store_true", help="do what the plan says")
    command.add_argument(
        "--active",
        action="store_true",
        help="let new jobs fire at once (default: they are paused, for they go on running there)",
    )
    command.add_argument(
        "--leave-out",
        action="store_true",
        help="import the rest when something cannot be imported (default: nothing is)",
    )
    command.add_argument(
        "--format", choices=("text", "json"), default="text", help="text for people (default)"
    )
    add_config_flags(command)


async def chosen_executor(services: Services, name: str | None) -> ExecutorItem:
    """The executor of the flags; Failure when there is none, or more than one is possible."""
    known = await services.executors.list(COMMAND_LINE)
    found = [each for each in known if name is None or each.name == name]
    if name is not None and not found:
        raise Failure(f"there is no executor called {name}; add it in the console first")
    if not found:
        raise Failure("there is no executor yet; add one in the console first")
    if len(found) > 1:
        names = ", ".join(each.name for each in found[:10])
        raise Failure(f"name the executor that gets the jobs with --executor: {names}")
    if found[0].protocol is not Protocol.TICKWHEEL:
        raise Failure(f"{found[0].name} has nodes of XXL-JOB; name another one with --executor")
    return found[0]
