"""`tickwheel pool`: slots that the runs of several jobs share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tickwheel_admin.cli.client import names
from tickwheel_admin.cli.client.output.printer import Subtable
from tickwheel_admin.cli.client.output.table import instant, made, number, text
from tickwheel_admin.cli.client.registration import Invocation, add_command, add_group, add_limit

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
  tickwheel pool list
  tickwheel pool show warehouse         with the runs that hold its slots
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
    command = add_command(group, "show", _show, told="show one with who holds its slots")
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
