"""`tickwheel executor`: services that run jobs, and their tokens."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from tickwheel_admin.cli.client import names
from tickwheel_admin.cli.client.groups.nodes import NODES_OF_ONE
from tickwheel_admin.cli.client.inputs import confirm, seconds_of
from tickwheel_admin.cli.client.output.printer import Subtable
from tickwheel_admin.cli.client.output.table import instant, made, number, optional, text
from tickwheel_admin.cli.client.registration import Invocation, add_command, add_group

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
  tickwheel executor list
  tickwheel executor create billing --description "Invoices and reminders"
                                        prints the token of its nodes, only this once
  tickwheel executor pause billing      none of its triggers fires until resumed
  tickwheel executor token rotate billing --overlap 24h
"""
_COLUMNS = (
    number("ID", "id"),
    text("EXECUTOR", "name", cuttable=True),
    optional(text("PROTOCOL", "protocol")),
    number("NODES", "live_nodes"),
    made("SLOTS", lambda each: f"{each['in_use']}/{each['slots']}", right=True),
    number("JOBS", "jobs"),
    number("WAITING", "waiting"),
    instant("PAUSED SINCE", "paused_at"),
    optional(text("DESCRIPTION", "description", cuttable=True)),
)
_ONE = (
    number("executor", "id"),
    text("name", "name"),
    text("description", "description"),
    text("protocol", "protocol"),
    text("live nodes", "live_nodes"),
    made("slots in use", lambda each: f"{each['in_use']} of {each['slots']}"),
    text("jobs", "jobs"),
    text("waiting runs", "waiting"),
    instant("waiting since", "waiting_since"),
    instant("paused since", "paused_at"),
    instant("old token until", "old_token_until"),
    text("jobs in code", "code_jobs"),
    text("scripts allowed", "scripts"),
    text("handlers", "handlers"),
    instant("created", "created_at"),
)


def register(subparsers: Subparsers) -> None:
    """Add the group."""
    group = add_group(
        subparsers, "executor", told="services that run jobs, and their tokens", examples=_EXAMPLES
    )
    add_command(group, "list", _list, told="list executors by name")
    _add_one(add_command(group, "show", _show, told="show one with its nodes"))
    command = add_command(group, "create", _create, told="add one; prints the token of its nodes")
    command.add_argument("name", help="of the new executor")
    command.add_argument("--description", default="", help="for people")
    for name, done, told in (
        ("pause", "paused", "let none of its triggers fire until resumed"),
        ("resume", "resumed", "let its triggers fire again, from now on"),
    ):
        _add_one(add_command(group, name, partial(_act, name, done), told=told))
    command = add_command(group, "delete", _delete, told="delete one")
    _add_one(command)
    command.add_argument("--with-jobs", action="store_true", help="and all its jobs")
    command.add_argument("--yes", action="store_true", help="do not ask")
    tokens = add_group(
        group, "token", told="the token by which its nodes connect", examples=_EXAMPLES
    )
    command = add_command(tokens, "rotate", _rotate, told="replace it; prints the new one")
    _add_one(command)
    command.add_argument(
        "--overlap",
        type=seconds_of,
        default=0,
        metavar="LENGTH",
        help="the old one works so long beside it: 24h, 7d (default: it ends at once)",
    )
    _add_one(add_command(tokens, "end-old", _end_old, told="end the overlap now"))


def _add_one(command: argparse.ArgumentParser) -> None:
    command.add_argument("executor", help="its name or id")


def _list(call: Invocation) -> None:
    items = call.api.get("/executors")["items"]
    call.printer.items(items, _COLUMNS, none="There is no executor.")


def _show(call: Invocation) -> None:
    detail = call.api.get(f"/executors/{names.executor_id(call.api, call.args.executor)}")
    nodes = Subtable(title="nodes", items=detail["nodes"], columns=NODES_OF_ONE)
    call.printer.one(detail, _ONE, sections=[nodes])


def _create(call: Invocation) -> None:
    body = {"name": call.args.name, "description": call.args.description}
    made = call.api.post("/executors", body)
    call.printer.done(
        f"Executor {made['name']} is added; its nodes connect with TICKWHEEL_TOKEN={made['token']}",
        made,
    )


def _act(action: str, done: str, call: Invocation) -> None:
    given = call.args.executor
    executor_id = names.executor_id(call.api, given)
    call.api.post(f"/executors/{executor_id}/{action}")
    call.printer.done(f"Executor {given} is {done}.", {"executor_id": executor_id, "done": done})


def _delete(call: Invocation) -> None:
    given = call.args.executor
    executor_id = names.executor_id(call.api, given)
    jobs = " with all its jobs" if call.args.with_jobs else ""
    confirm(f"Delete the executor {given}{jobs}?", yes=call.args.yes)
    with_jobs = "true" if call.args.with_jobs else None
    call.api.delete(f"/executors/{executor_id}", with_jobs=with_jobs)
    call.printer.done(
        f"Executor {given} is deleted.", {"executor_id": executor_id, "done": "deleted"}
    )


def _rotate(call: Invocation) -> None:
    executor_id = names.executor_id(call.api, call.args.executor)
    body = {"overlap_seconds": call.args.overlap}
    made = call.api.post(f"/executors/{executor_id}/token", body)
    call.printer.done(made["token"], made)


def _end_old(call: Invocation) -> None:
    executor_id = names.executor_id(call.api, call.args.executor)
    call.api.delete(f"/executors/{executor_id}/old-token")
    call.printer.done("The old token has ended.", {"executor_id": executor_id, "done": "ended"})
