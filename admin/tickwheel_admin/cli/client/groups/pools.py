"""`tickwheel pool`: slots that the runs of several jobs share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tickwheel_admin.cli.client import names
from tickwheel_admin.cli.client.errors import UsageFailure
from tickwheel_admin.cli.client.inputs import confirm
from tickwheel_admin.cli.client.output.printer import Subtable
from tickwheel_admin.cli.client.output.table import instant, made, number, text
from tickwheel_admin.cli.client.registration import Invocation, add_command, add_group, add_limit

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
  tickwheel pool list
  tickwheel pool show warehouse         with the runs that hold its slots
  tickwheel pool create warehouse --slots 4
  tickwheel pool create licences --slots 2 --executor billing
                                        only jobs of this executor may name it
  tickwheel pool change warehouse --slots 0
                                        closes it: live runs go on, none starts
  tickwheel pool delete warehouse
"""
_COLUMNS = (
    number("ID", "id"),
    text("POOL", "name", cuttable=True),
    text("EXECUTOR", "executor_name", cuttable=True),
    made("IN USE", lambda pool: f"{pool['in_use']}/{pool['slots']}", right=True),
    number("WAITING", "waiting"),
    number("JOBS", "used_by_jobs"),
    text("DESCRIPTION", "description", cuttable=True),
)
_ONE = (
    number("pool", "id"),
    text("name", "name"),
    text("executor", "executor_name"),
    text("description", "description"),
    made("slots in use", lambda pool: f"{pool['in_use']} of {pool['slots']}"),
    text("waiting runs", "waiting"),
    text("version", "version"),
    instant("updated", "updated_at"),
)
_USERS = (
    made("JOB", lambda each: f"{each['executor_name']}/{each['job_name']}", cuttable=True),
    text("AS A STEP", "is_step"),
)
_HOLDERS = (
    number("RUN", "run_id"),
    text("JOB", "job_name", cuttable=True),
    number("SLOTS", "slots"),
    instant("SINCE", "since"),
)


def register(subparsers: Subparsers) -> None:
    """Add the group."""
    group = add_group(
        subparsers, "pool", told="slots that the runs of several jobs share", examples=_EXAMPLES
    )
    command = add_command(group, "list", _list, told="list pools by name")
    command.add_argument("--text", help="part of a name")
    add_limit(command)
    _add_one(add_command(group, "show", _show, told="show one with who holds its slots"))
    command = add_command(group, "create", _create, told="add one")
    command.add_argument("name", help="of the new pool")
    command.add_argument(
        "--slots", type=int, required=True, metavar="N", help="that its runs share; 0: none starts"
    )
    command.add_argument(
        "--executor", metavar="EXECUTOR", help="only its jobs may name it (default: those of all)"
    )
    command.add_argument("--description", default="", help="for people")
    command = add_command(group, "change", _change, told="change its slots or its description")
    _add_one(command)
    command.add_argument("--slots", type=int, metavar="N", help="from now on; live runs go on")
    command.add_argument("--description", metavar="TEXT", help="for people")
    command.add_argument(
        "--version", type=int, metavar="N", help="refuse if it is at another one by now"
    )
    command = add_command(group, "delete", _delete, told="delete one that no job names")
    _add_one(command)
    command.add_argument("--yes", action="store_true", help="do not ask")


def _add_one(command: argparse.ArgumentParser) -> None:
    command.add_argument("pool", help="its name, `executor/pool`, or id")


def _list(call: Invocation) -> None:
    found = call.api.pages("/pools", most=call.args.limit, text=call.args.text)
    call.printer.items(found, _COLUMNS, none="There is no such pool.")


def _show(call: Invocation) -> None:
    pool = call.api.get(f"/pools/{names.pool_id(call.api, call.args.pool)}")
    call.printer.one(
        pool,
        _ONE,
        sections=[
            Subtable(title="used by", items=pool["used_by"], columns=_USERS),
            Subtable(title="runs that hold slots", items=pool["holders"], columns=_HOLDERS),
        ],
    )


def _create(call: Invocation) -> None:
    args = call.args
    body = {"name": args.name, "slots": args.slots, "description": args.description}
    if args.executor:
        body["executor"] = names.executor_id(call.api, args.executor)
    new = call.api.post("/pools", body)
    call.printer.done(f"Pool {args.name} is added.", new)


def _change(call: Invocation) -> None:
    args = call.args
    given: dict[str, Any] = {
        name: value
        for name in ("slots", "description")
        if (value := getattr(args, name)) is not None
    }
    if not given:
        raise UsageFailure("say what to change: --slots, --description")
    path = f"/pools/{names.pool_id(call.api, args.pool)}"
    pool = call.api.get(path)
    kept = {name: pool[name] for name in ("executor", "name", "slots", "description")}
    version = pool["version"] if args.version is None else args.version
    saved = call.api.put(path, {**kept, **given, "version": version})
    call.printer.done(f"Pool {args.pool} is at version {saved['version']} now.", saved)


def _delete(call: Invocation) -> None:
    given = call.args.pool
    pool_id = names.pool_id(call.api, given)
    confirm(f"Delete the pool {given}?", yes=call.args.yes)
    call.api.delete(f"/pools/{pool_id}")
    call.printer.done(f"Pool {given} is deleted.", {"pool_id": pool_id, "done": "deleted"})
