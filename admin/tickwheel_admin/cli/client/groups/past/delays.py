"""`tickwheel delays`: what runs waited for before they started, and who caused it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tickwheel_admin.cli.client import names
from tickwheel_admin.cli.client.inputs import instant_of
from tickwheel_admin.cli.client.output.printer import Subtable
from tickwheel_admin.cli.client.output.table import (
    Item,
    duration,
    instant,
    made,
    number,
    optional,
    text,
)
from tickwheel_admin.cli.client.output.words import length
from tickwheel_admin.cli.client.registration import Invocation, add_command, add_group

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

SHOWN_CAUSES = 3  # jobs in a row
_EXAMPLES = """\
  tickwheel delays run 4711              what this run waited for, and for which runs
  tickwheel delays show billing          whose runs were delayed in the last 24 hours, by whom
  tickwheel delays show billing --from 2026-11-28T02:00Z --until 2026-11-28T04:00Z
  tickwheel delays show billing -o json  the whole matrix
"""


def _name(job: Item) -> str:
    if job["job_name"]:
        return str(job["job_name"])
    return "another job" if job["job_id"] is None else f"#{job['job_id']}"


def _who(job: Item) -> str:
    return f"{job['jobs']} other jobs" if job["jobs"] > 1 else _name(job)


_PARTS = (
    text("KIND", "kind"),
    duration("DELAY", "ms"),
    number("RUN", "run_id"),
    made("CAUSED BY", lambda row: row["cause"], cuttable=True),
)
_RUN = (
    number("run", "run_id"),
    instant("was due", "due_at"),
    instant("started", "started_at"),
    duration("start delay", "delay_ms"),
    optional(instant("runs due before this were not looked at", "unknown_before")),
)
_ROWS = (
    made("DELAYED", _who),
    number("RUNS", "runs"),
    duration("DELAY", "delay_ms"),
    duration("UNCHARGED", "uncharged_ms"),
    made("CAUSED BY", lambda row: row["by"], cuttable=True),
)


def register(subparsers: Subparsers) -> None:
    """Add the group."""
    group = add_group(
        subparsers,
        "delays",
        told="what runs waited for before they started, and who caused it",
        examples=_EXAMPLES,
    )
    command = add_command(group, "run", _run, told="the parts of one run's start delay")
    command.add_argument("number", metavar="RUN", help="number of the run")
    command = add_command(
        group, "show", _show, told="whose runs were delayed at an executor, and by whose"
    )
    command.add_argument("executor", metavar="EXECUTOR", help="name or number of the executor")
    command.add_argument(
        "--from",
        dest="since",
        type=instant_of,
        metavar="TIME",
        help="what was waited from here on (default: a day before the end)",
    )
    command.add_argument(
        "--until",
        type=instant_of,
        metavar="TIME",
        help="at most 48 hours later (default: now)",
    )


def _run(call: Invocation) -> None:
    found = call.api.get(f"/runs/{names.run_id(call.api, call.args.number)}/delay")
    if not call.printer.is_for_people:
        call.printer.value(found)
        return
    rows = [row for part in found["parts"] for row in _rows_of(part)]
    parts = Subtable(title="what it waited for", items=rows, columns=_PARTS)
    call.printer.one(found, _RUN, sections=[parts] if rows else [])


def _rows_of(part: Item) -> list[Item]:
    """A line for a part that nobody caused; else one for each cause."""
    rows: list[Item] = [
        {"kind": part["kind"], "ms": each["ms"], "run_id": each["run_id"], "cause": _name(each)}
        for each in part["causes"]
    ]
    rest = part["ms"] - sum(each["ms"] for each in part["causes"])
    if rest:
        more = f"{part['more_causes']} other runs" if part["more_causes"] else ""
        rows.append({"kind": part["kind"], "ms": rest, "run_id": None, "cause": more})
    return rows


def _show(call: Invocation) -> None:
    args = call.args
    executor_id = names.executor_id(call.api, args.executor)
    found = call.api.get(
        f"/executors/{executor_id}/delays", **{"from": args.since, "until": args.until}
    )
    if not call.printer.is_for_people:
        call.printer.value(found)
        return
    if found["cut_at"]:
        call.printer.line(
            f"There are too many runs: only what was waited since {found['cut_at']} is told."
            " Ask for less time."
        )
    rows = [row | {"by": _by(row, found["causes"])} for row in found["rows"]]
    call.printer.items(rows, _ROWS, none="No run was delayed.")


def _by(row: Item, causes: list[Item]) -> str:
    """The jobs that caused most of it."""
    shares = sorted(
        ((ms, _name(cause)) for ms, cause in zip(row["caused_by_ms"], causes, strict=True) if ms),
        reverse=True,
    )
    told = [f"{name} {length(ms)}" for ms, name in shares[:SHOWN_CAUSES]]
    rest = sum(ms for ms, _ in shares[SHOWN_CAUSES:]) + row["by_others_ms"]
    if rest:
        told.append(f"others {length(rest)}")
    return ", ".join(told)
