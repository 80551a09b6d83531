"""`tickwheel secret`: values that jobs use and nobody reads back."""

from __future__ import annotations

import argparse
import getpass
import sys
from typing import TYPE_CHECKING

from tickwheel_admin.cli.client import names
from tickwheel_admin.cli.client.connection import in_path
from tickwheel_admin.cli.client.errors import UsageFailure
from tickwheel_admin.cli.client.inputs import confirm
from tickwheel_admin.cli.client.output.table import instant, made, number, optional, text
from tickwheel_admin.cli.client.registration import Invocation, add_command, add_group

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
  tickwheel secret list billing
  tickwheel secret set billing API_KEY                    asks for the value, unseen
  tickwheel secret set billing API_KEY < key.txt          without the last line break
  tickwheel secret delete billing API_KEY

A value is never an argument: others could read it in the process list and in your history.
"""
_COLUMNS = (
    text("SECRET", "name"),
    text("EXISTS", "exists"),
    optional(text("READABLE", "readable")),
    number("VERSION", "version"),
    instant("UPDATED", "updated_at"),
    optional(text("BY", "updated_by")),
    instant("LAST USED", "last_used_at"),
    made("JOBS", lambda each: [job["name"] for job in each["jobs"]], cuttable=True),
)


def register(subparsers: Subparsers) -> None:
    """Add the group."""
    group = add_group(subparsers, "secret", told="values that jobs use", examples=_EXAMPLES)
    command = add_command(group, "list", _list, told="list those of an executor, without values")
    _add_executor(command)
    command = add_command(group, "set", _set, told="set one; the value is typed or piped in")
    _add_executor(command)
    command.add_argument("name", help="letters, digits and underscores")
    command = add_command(group, "delete", _delete, told="delete one that no job names")
    _add_executor(command)
    command.add_argument("name", help="of the secret")
    command.add_argument("--yes", action="store_true", help="do not ask")


def _add_executor(command: argparse.ArgumentParser) -> None:
    command.add_argument("executor", help="name or id of the executor")


def _list(call: Invocation) -> None:
    executor_id = names.executor_id(call.api, call.args.executor)
    items = call.api.get(f"/executors/{executor_id}/secrets")["items"]
    call.printer.items(items, _COLUMNS, none="It has no secrets.")


def _set(call: Invocation) -> None:
    name = call.args.name
    executor_id = names.executor_id(call.api, call.args.executor)
    value = _typed(name) if sys.stdin.isatty() else sys.stdin.read().removesuffix("\n")
    call.api.put(f"/executors/{executor_id}/secrets/{in_path(name)}", {"value": value})
    call.printer.done(f"Secret {name} is set.", {"name": name, "done": "set"})


def _typed(name: str) -> str:
    value = getpass.getpass(f"Value of {name}: ")
    if value != getpass.getpass("Again: "):
        raise UsageFailure("the two are different; nothing was changed")
    return value


def _delete(call: Invocation) -> None:
    name = call.args.name
    executor_id = names.executor_id(call.api, call.args.executor)
    confirm(f"Delete the secret {name}?", yes=call.args.yes)
    call.api.delete(f"/executors/{executor_id}/secrets/{in_path(name)}")
    call.printer.done(f"Secret {name} is deleted.", {"name": name, "done": "deleted"})
