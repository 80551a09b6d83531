"""`tickwheel node`: processes that run jobs."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from tickwheel_admin.cli.client import names
from tickwheel_admin.cli.client.output.printer import Subtable
from tickwheel_admin.cli.client.output.run_columns import RUNS
from tickwheel_admin.cli.client.output.table import (
    Item,
    instant,
    made,
    number,
    optional,
    state,
    text,
)
from tickwheel_admin.cli.client.registration import Invocation, add_command, add_group

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
  tickwheel node list
  tickwheel node list --executor billing --all     also those that ended
  tickwheel node list --version 0.8                whose SDK is to be upgraded
  tickwheel node drain billing/billing-3           before it is stopped
  tickwheel node show billing-3                    `safe to stop` says when it may be
  tickwheel node resume billing-3
  tickwheel node slots billing-3 32                or `own`: what the node itself says

NODE is an id, `executor/node`, or a name alone if only one live node has it.
"""


def duty_of(node: Item) -> str:
    """What operators want of it."""
    if node["drain_wanted"] or node["draining"]:
        return "safe to stop" if node["safe_to_stop"] else "draining"
    return "cordoned" if node["cordoned"] else "takes runs"


def _labels(node: Item) -> str:
    return ",".join(f"{key}={value}" if value else key for key, value in node["labels"].items())


NODES_OF_ONE = (
    number("ID", "id"),
    text("NODE", "name", cuttable=True),
    state("STATE", "state"),
    made("DUTY", duty_of),
    made("SLOTS", lambda node: f"{node['in_use']}/{node['slots']}", right=True),
    optional(made("LABELS", _labels, cuttable=True)),
    optional(text("SDK", "sdk", cuttable=True)),
    instant("SEEN", "seen_at"),
)
_NODES = (NODES_OF_ONE[0], text("EXECUTOR", "executor_name", cuttable=True), *NODES_OF_ONE[1:])
_ONE = (
    number("node", "id"),
    text("name", "name"),
    text("executor", "executor_name"),
    state("state", "state"),
    made("duty", duty_of),
    text("safe to stop", "safe_to_stop"),
    made("slots in use", lambda node: f"{node['in_use']} of {node['slots']}"),
    text("slots by hand", "slots_wanted"),
    text("weight", "weight"),
    text("weight by hand", "weight_wanted"),
    made("labels", _labels),
    text("handlers", "handlers"),
    text("sdk", "sdk"),
    text("address", "address"),
    instant("connected", "connected_at"),
    instant("seen", "seen_at"),
    instant("ended", "ended_at"),
    made("connected to", lambda node: [each["admin_name"] for each in node["heard_by"]]),
)


def register(subparsers: Subparsers) -> None:
    """Add the group."""
    group = add_group(subparsers, "node", told="processes that run jobs", examples=_EXAMPLES)
    command = add_command(group, "list", _list, told="list the nodes of executors")
    command.add_argument("--executor", metavar="EXECUTOR", help="of this one")
    states = command.add_mutually_exclusive_group()
    states.add_argument("--all", action="store_true", help="also those that ended")
    states.add_argument(
        "--state", choices=("live", "gone", "dead"), default="live", help="(default: live)"
    )
    command.add_argument("--version", metavar="PART", help="whose SDK contains this, as `0.9`")
    _add_one(add_command(group, "show", _show, told="show one with what it runs"))
    for name, done, told in (
        ("cordon", "cordoned", "give it no new runs"),
        ("drain", "draining", "the same, and let it refuse runs that are on their way"),
        ("resume", "resumed", "give it runs again"),
    ):
        _add_one(add_command(group, name, partial(_act, name, done), told=told))
    for name, told in (
        ("slots", "say how many attempts it may run at once"),
        ("weight", "say its share with the routing `weighted`"),
    ):
        command = add_command(group, name, partial(_set, name), told=told)
        _add_one(command)
        command.add_argument("wanted", type=_number, metavar="N", help="a number, or `own`")


def _add_one(command: argparse.ArgumentParser) -> None:
    command.add_argument("node", help="its id, `executor/node`, or its name if that is unique")


def _number(text: str) -> int | None:
    if text == "own":
        return None
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor `own`")
    return int(text)


def _list(call: Invocation) -> None:
    state = None if call.args.all else call.args.state
    found = names.nodes(call.api, call.args.executor, state=state, version=call.args.version)
    call.printer.items(found, _NODES, none="There is no such node.")


def _show(call: Invocation) -> None:
    node = call.api.get(f"/nodes/{names.node_id(call.api, call.args.node)}")
    running = Subtable(title="it runs", items=node["running"], columns=RUNS)
    call.printer.one(node, _ONE, sections=[running])


def _act(action: str, done: str, call: Invocation) -> None:
    node_id = names.node_id(call.api, call.args.node)
    call.api.post(f"/nodes/{node_id}/{action}")
    call.printer.done(f"Node {call.args.node} is {done}.", {"node_id": node_id, "done": done})


def _set(what: str, call: Invocation) -> None:
    node_id = names.node_id(call.api, call.args.node)
    call.api.put(f"/nodes/{node_id}/{what}", {what: call.args.wanted})
    told = "what the node says itself" if call.args.wanted is None else str(call.args.wanted)
    call.printer.done(
        f"Node {call.args.node} has {what}: {told}.", {"node_id": node_id, what: call.args.wanted}
    )
