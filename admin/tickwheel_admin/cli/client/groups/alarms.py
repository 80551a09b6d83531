"""`tickwheel alarm`: what is or was the matter, and what people do about it."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from tickwheel_admin.cli.client import names
from tickwheel_admin.cli.client.errors import UsageFailure
from tickwheel_admin.cli.client.inputs import seconds_of
from tickwheel_admin.cli.client.output.printer import Subtable
from tickwheel_admin.cli.client.output.table import (
    Item,
    instant,
    made,
    number,
    optional,
    state,
    text,
)
from tickwheel_admin.cli.client.output.words import length
from tickwheel_admin.cli.client.registration import Invocation, add_command, add_group, add_limit

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
  tickwheel alarm list                  those that are open
  tickwheel alarm list --all --job billing/report
  tickwheel alarm show 7                with the messages that told of it
  tickwheel alarm ack 7                 you look after it
  tickwheel alarm mute 7 --for 2h       and `--off` to be told again
  tickwheel alarm close 7
"""


def _about(alarm: Item) -> str | None:
    if alarm["job_name"]:
        return f"{alarm['executor_name']}/{alarm['job_name']}"
    name: str | None = alarm["executor_name"]
    return name


_COLUMNS = (
    number("ALARM", "id"),
    state("SEVERITY", "severity"),
    optional(text("KIND", "kind")),
    made("ABOUT", _about, cuttable=True),
    number("COUNT", "count"),
    instant("SINCE", "since"),
    optional(text("ACKNOWLEDGED BY", "acknowledged_by")),
    text("TEXT", "text", cuttable=True),
)
_ONE = (
    number("alarm", "id"),
    state("severity", "severity"),
    text("kind", "kind"),
    made("about", _about),
    text("text", "text"),
    text("rule", "rule_name"),
    text("run", "run_id"),
    text("count", "count"),
    instant("since", "since"),
    instant("last", "last_at"),
    instant("acknowledged", "acknowledged_at"),
    text("by", "acknowledged_by"),
    text("assigned to", "assigned_to"),
    instant("muted until", "muted_until"),
    instant("closed", "closed_at"),
    text("closed by", "closed_by"),
)
_MESSAGES = (
    number("MESSAGE", "id"),
    text("CHANNEL", "channel_name"),
    state("STATE", "state"),
    instant("WRITTEN", "written_at"),
    instant("ENDED", "ended_at"),
    text("ERROR", "error", cuttable=True),
)


def register(subparsers: Subparsers) -> None:
    """Add the group."""
    group = add_group(
        subparsers, "alarm", told="alarms, and what people do about them", examples=_EXAMPLES
    )
    command = add_command(group, "list", _list, told="list open alarms, the newest first")
    command.add_argument("--all", action="store_true", help="also those that are closed")
    command.add_argument("--executor", metavar="EXECUTOR", help="about this one")
    command.add_argument("--job", metavar="JOB", help="about this one")
    command.add_argument("--kind", help="of this kind")
    add_limit(command)
    _add_one(add_command(group, "show", _show, told="show one with its messages"))
    for name, action, done, told in (
        ("ack", "acknowledge", "acknowledged", "say that you look after it"),
        ("close", "close", "closed", "end it by hand"),
    ):
        _add_one(add_command(group, name, partial(_act, action, done), told=told))
    command = add_command(group, "mute", _mute, told="tell nothing more of it for a while")
    _add_one(command)
    command.add_argument("--for", dest="how_long", type=seconds_of, metavar="LENGTH", help="2h, 1d")
    command.add_argument("--off", action="store_true", help="tell of it again")
    command = add_command(group, "assign", _assign, told="say who looks after it")
    _add_one(command)
    command.add_argument("user", nargs="?", help="name of a user (default: nobody)")


def _add_one(command: argparse.ArgumentParser) -> None:
    command.add_argument("alarm", type=int, help="its number")


def _list(call: Invocation) -> None:
    args, api = call.args, call.api
    found = api.pages(
        "/alarms",
        most=args.limit,
        state="all" if args.all else "open",
        executor_id=names.executor_id(api, args.executor) if args.executor else None,
        job_id=names.job_id(api, args.job) if args.job else None,
        kind=args.kind,
    )
    call.printer.items(found, _COLUMNS, none="There is no alarm.")


def _show(call: Invocation) -> None:
    alarm = call.api.get(f"/alarms/{call.args.alarm}")
    messages = Subtable(title="messages", items=alarm["messages"], columns=_MESSAGES)
    call.printer.one(alarm, _ONE, sections=[messages])


def _act(action: str, done: str, call: Invocation) -> None:
    number = call.args.alarm
    call.api.post(f"/alarms/{number}/{action}")
    call.printer.done(f"Alarm {number} is {done}.", {"alarm_id": number, "done": done})


def _mute(call: Invocation) -> None:
    args = call.args
    if args.off == (args.how_long is not None):
        raise UsageFailure("say how long with --for, or give --off")
    call.api.post(f"/alarms/{args.alarm}/mute", {"seconds": args.how_long})
    told = "is told again" if args.off else f"is muted for {length(args.how_long * 1000)}"
    facts = {"alarm_id": args.alarm, "seconds": args.how_long}
    call.printer.done(f"Alarm {args.alarm} {told}.", facts)


def _assign(call: Invocation) -> None:
    number, user = call.args.alarm, call.args.user
    call.api.post(f"/alarms/{number}/assign", {"to": user})
    call.printer.done(
        f"Alarm {number} is assigned to {user or 'nobody'}.", {"alarm_id": number, "to": user}
    )
