"""`tickwheel workflow`: jobs with steps, and the steps of their runs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tickwheel_admin.cli.client import names
from tickwheel_admin.cli.client.connection import in_path
from tickwheel_admin.cli.client.groups.steps import add_answer_commands
from tickwheel_admin.cli.client.output.job_columns import JOBS, ONE_JOB
from tickwheel_admin.cli.client.output.printer import Subtable
from tickwheel_admin.cli.client.output.table import (
    Item,
    instant,
    made,
    made_state,
    number,
    optional,
    state,
    text,
)
from tickwheel_admin.cli.client.output.words import NOTHING, plain
from tickwheel_admin.cli.client.registration import Invocation, add_command, add_group, add_limit

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
  tickwheel workflow list
  tickwheel workflow show billing/close-of-month      its steps and what they wait for
  tickwheel workflow steps billing/close-of-month     of its newest run; or the number of a run
  tickwheel workflow approve 42 release --message "figures checked"
  tickwheel workflow skip 42 notify --reason "the partner is closed"
  tickwheel run retry 42 --steps failed               begin again where it failed
"""


def _does(step: Item) -> str:
    """What a step runs or waits for, in a few words."""
    for name in ("handler", "job", "workflow", "script", "approval", "wait"):
        if name in step and step[name] is not None:
            value = step[name]
            return name if isinstance(value, dict) else f"{name} {plain(value)}"
    return NOTHING


_GRAPH = (
    text("STEP", "key"),
    made("DOES", _does, cuttable=True),
    text("NEEDS", "needs", cuttable=True),
    text("WHEN", "when", cuttable=True),
    text("FOR EACH", "for_each", cuttable=True),
)


def _items(step: Item) -> str | None:
    items: dict[str, Any] | None = step["items"]
    if items is None:
        return None
    failed = f", {items['failed']} failed" if items["failed"] else ""
    return f"{items['succeeded']} of {items['all']}{failed}"


def _state(step: Item) -> str:
    """Where a step stands; a run that waits for a node does not run yet."""
    return "queued" if step["run_state"] == "queued" else str(step["state"])


def _waits_for(step: Item) -> str | None:
    """Other steps, a person or an instant."""
    if step["state"] != "ready":
        return ", ".join(step["waits_for"]) or None
    what = {"approval": "approval", "breakpoint": "a person"}.get(step["reason"], "its instant")
    return what if step["due_at"] is None else f"{what}, until {step['due_at']}"


_STEPS = (
    text("STEP", "key"),
    made_state("STATE", _state),
    optional(instant("SINCE", "since")),
    number("RUN", "run_id"),
    made("ITEMS", _items),
    made("WAITS FOR", _waits_for, cuttable=True),
    optional(text("REASON", "reason")),
    text("MESSAGE", "message", cuttable=True),
)
_ITEMS = (
    number("ITEM", "item"),
    number("RUN", "run_id"),
    state("STATE", "state"),
    instant("STARTED", "started_at"),
    instant("ENDED", "ended_at"),
    text("MESSAGE", "message", cuttable=True),
)


def register(subparsers: Subparsers) -> None:
    """Add the group."""
    group = add_group(
        subparsers, "workflow", told="workflows and the steps of their runs", examples=_EXAMPLES
    )
    command = add_command(group, "list", _list, told="list the jobs that have steps")
    command.add_argument("--executor", metavar="EXECUTOR", help="of this executor")
    add_limit(command)
    command = add_command(group, "show", _show, told="show one with its steps")
    command.add_argument("job", help="its id, `executor/job`, or its name if that is unique")
    command = add_command(group, "steps", _steps, told="show the steps of a run")
    command.add_argument("run_id", metavar="RUN", help="its number, or `executor/job`")
    command = add_command(group, "items", _list_items, told="list the items of a step of a run")
    command.add_argument("run_id", metavar="RUN", help="its number, or `executor/job`")
    command.add_argument("step", metavar="STEP", help="the key of the step")
    command.add_argument("--state", help="only those in this state")
    add_limit(command)
    add_answer_commands(group)


def _list(call: Invocation) -> None:
    executor = call.args.executor
    found = call.api.pages(
        "/jobs",
        most=call.args.limit,
        handler="workflow",
        executor_id=names.executor_id(call.api, executor) if executor else None,
    )
    call.printer.items(found, JOBS, none="There is no workflow.")


def _show(call: Invocation) -> None:
    job = call.api.get(f"/jobs/{names.job_id(call.api, call.args.job)}")
    graph = job["config"].get("workflow") or {"steps": []}
    call.printer.one(
        job, ONE_JOB, sections=[Subtable(title="steps", items=graph["steps"], columns=_GRAPH)]
    )


def _steps(call: Invocation) -> None:
    found = call.api.get(f"/runs/{names.run_id(call.api, call.args.run_id)}/steps")
    if not call.printer.is_for_people:
        call.printer.value(found)
        return
    call.printer.items(found["steps"], _STEPS, none="It has no steps.")


def _list_items(call: Invocation) -> None:
    run_id = names.run_id(call.api, call.args.run_id)
    found = call.api.pages(
        f"/runs/{run_id}/steps/{in_path(call.args.step)}/items",
        most=call.args.limit,
        state=call.args.state,
    )
    call.printer.items(found, _ITEMS, none="There is no such item.")
