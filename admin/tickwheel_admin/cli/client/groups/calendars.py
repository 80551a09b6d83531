"""`tickwheel calendar`: times at which jobs do not fire."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tickwheel_admin.cli.client import names
from tickwheel_admin.cli.client.editing import edited
from tickwheel_admin.cli.client.inputs import confirm, read_document
from tickwheel_admin.cli.client.output.printer import Subtable
from tickwheel_admin.cli.client.output.table import Item, instant, made, number, optional, text
from tickwheel_admin.cli.client.registration import Invocation, add_command, add_group, add_limit

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
  tickwheel calendar list
  tickwheel calendar show germany -o yaml
  tickwheel calendar create -f germany.yaml
  tickwheel calendar edit germany            in $EDITOR; or with -f FILE
  tickwheel calendar delete germany
"""


def _days(item: Item) -> str:
    """How many days of which kind."""
    config = item["config"]
    counts = {name: len(config.get(name) or ()) for name in ("dates", "yearly", "weekdays")}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


_COLUMNS = (
    number("ID", "id"),
    text("CALENDAR", "config.name", cuttable=True),
    text("SENSE", "config.sense"),
    made("DAYS", _days, cuttable=True),
    optional(text("BASE", "config.base")),
    optional(number("TRIGGERS", "used_by_triggers")),
    optional(instant("CHANGED", "changed_at")),
    optional(text("DESCRIPTION", "config.description", cuttable=True)),
)
_ONE = (
    number("calendar", "id"),
    text("name", "config.name"),
    text("description", "config.description"),
    text("version", "version"),
    text("sense", "config.sense"),
    text("dates", "config.dates"),
    text("yearly", "config.yearly"),
    text("month days", "config.month_days"),
    text("weekdays", "config.weekdays"),
    text("windows", "config.windows"),
    text("cron", "config.cron"),
    text("base", "config.base"),
    made("base of", lambda item: [each["name"] for each in item["based_on_it"]]),
    instant("changed", "changed_at"),
)
_USERS = (
    made("JOB", lambda each: f"{each['executor_name']}/{each['job_name']}", cuttable=True),
    number("TRIGGERS", "triggers"),
)


def register(subparsers: Subparsers) -> None:
    """Add the group."""
    group = add_group(
        subparsers, "calendar", told="times at which jobs do not fire", examples=_EXAMPLES
    )
    command = add_command(group, "list", _list, told="list calendars by name")
    command.add_argument("--text", help="part of a name")
    add_limit(command)
    _add_one(add_command(group, "show", _show, told="show one with who uses it"))
    command = add_command(group, "create", _create, told="add the one in a file")
    command.add_argument(
        "-f", "--file", required=True, help="YAML or JSON, or - for the standard input"
    )
    command = add_command(group, "edit", _edit, told="change one")
    _add_one(command)
    command.add_argument("-f", "--file", help="YAML or JSON of it, instead of $EDITOR")
    command.add_argument(
        "--version", type=int, metavar="N", help="refuse if it is at another one by now"
    )
    command = add_command(group, "delete", _delete, told="delete one that nothing uses")
    _add_one(command)
    command.add_argument("--yes", action="store_true", help="do not ask")


def _add_one(command: argparse.ArgumentParser) -> None:
    command.add_argument("calendar", help="its name or id")


def _list(call: Invocation) -> None:
    found = call.api.pages("/calendars", most=call.args.limit, text=call.args.text)
    call.printer.items(found, _COLUMNS, none="There is no such calendar.")


def _show(call: Invocation) -> None:
    item = call.api.get(f"/calendars/{names.calendar_id(call.api, call.args.calendar)}")
    users = Subtable(title="used by", items=item["used_by"], columns=_USERS)
    call.printer.one(item, _ONE, sections=[users])


def _create(call: Invocation) -> None:
    new = call.api.post("/calendars", read_document(call.args.file))
    call.printer.done(f"Calendar {new['id']} is added.", new)


def _edit(call: Invocation) -> None:
    args = call.args
    path = f"/calendars/{names.calendar_id(call.api, args.calendar)}"
    item = call.api.get(path)
    version = args.version or item["version"]
    if args.file:
        saved = call.api.put(path, {**read_document(args.file), "version": version})
    else:
        saved = edited(
            item["config"],
            name=f"calendar-{item['id']}",
            again=f"tickwheel calendar edit {item['id']} --version {version} -f",
            save=lambda config: call.api.put(path, {**config, "version": version}),
        )
    if saved is None:
        call.printer.done("Nothing was changed.", {"id": item["id"], "version": version})
    else:
        call.printer.done(f"Calendar {item['id']} is at version {saved['version']} now.", saved)


def _delete(call: Invocation) -> None:
    given = call.args.calendar
    calendar_id = names.calendar_id(call.api, given)
    confirm(f"Delete the calendar {given}?", yes=call.args.yes)
    call.api.delete(f"/calendars/{calendar_id}")
    call.printer.done(
        f"Calendar {given} is deleted.", {"calendar_id": calendar_id, "done": "deleted"}
    )
