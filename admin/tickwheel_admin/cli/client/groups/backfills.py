"""`tickwheel backfill`: fires of the past, each run once."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from tickwheel_admin.cli.client import names
from tickwheel_admin.cli.client.connection import new_key
from tickwheel_admin.cli.client.inputs import instant_of, key_of, parameters_of
from tickwheel_admin.cli.client.output.table import (
    Item,
    instant,
    made,
    number,
    optional,
    state,
    text,
)
from tickwheel_admin.cli.client.registration import Invocation, add_command, add_group, add_limit
from tickwheel_admin.domain.backfills.backfill import ENDED, MAX_PARALLEL, FillOutcome

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
  tickwheel backfill preview billing/report --from 2026-03-01T00:00Z --to 2026-04-01T00:00Z
                                        how many instants that is, and how many have runs
  tickwheel backfill start billing/report --from 2026-03-01T00:00Z --to 2026-04-01T00:00Z \\
    --parallel 4
  tickwheel backfill list --job billing/report
  tickwheel backfill show 7
  tickwheel backfill instants 7 --outcome failed
  tickwheel backfill pause 7            and resume, cancel
"""


def _job(item: Item) -> str:
    return f"{item['executor_name']}/{item['job_name']}"


def _handled(item: Item) -> int:
    """Instants that are done with."""
    return int(item["existing"]) + sum(int(item[outcome]) for outcome in ENDED)


def _left(item: Item) -> int:
    """Instants that nothing was done about."""
    return int(item["total"]) - _handled(item) - int(item["open"])


_COLUMNS = (
    number("ID", "id"),
    made("JOB", _job, cuttable=True),
    state("STATE", "state"),
    made("DONE", lambda item: f"{_handled(item)}/{item['total']}", right=True),
    number("OPEN", "open"),
    number("FAILED", "failed"),
    optional(instant("FROM", "from")),
    optional(instant("TO", "to")),
    optional(text("BY", "requested_by", cuttable=True)),
)
_ONE = (
    number("backfill", "id"),
    made("job", _job),
    text("trigger", "trigger_id"),
    state("state", "state"),
    text("reason", "reason"),
    instant("from", "from"),
    instant("to", "to"),
    text("order", "order"),
    text("at once", "parallel"),
    text("parameters", "parameters"),
    text("instants", "total"),
    text("with runs already", "existing"),
    text("open", "open"),
    made("left", _left),
    *(text(outcome.replace("_", " "), outcome) for outcome in ENDED),
    text("asked for by", "requested_by"),
    instant("asked for at", "created_at"),
    instant("ended", "ended_at"),
)
_PREVIEW = (
    text("trigger", "trigger_id"),
    text("instants", "total"),
    text("with runs already", "existing"),
    text("would run", "new"),
    instant("first", "first_at"),
    instant("last", "last_at"),
)
_NO_INSTANT = """
The trigger has no instant in this time. A fixed rate counts from when it was saved, unless it has
an anchor or a start: give it an anchor in the past if older instants are wanted."""
_INSTANTS = (instant("INSTANT", "at"), number("RUN", "run_id"), state("STATE", "state"))


def register(subparsers: Subparsers) -> None:
    """Add the group."""
    group = add_group(
        subparsers, "backfill", told="fires of the past, each run once", examples=_EXAMPLES
    )
    command = add_command(
        group, "preview", _preview, told="how many instants there are, and how many have runs"
    )
    _add_asked(command)
    command = add_command(group, "start", _start, told="start a backfill; prints its number")
    _add_asked(command)
    command.add_argument(
        "--key", type=key_of, help="repeated with the same key, it is the same backfill"
    )
    command = add_command(group, "list", _list, told="list backfills, the newest first")
    command.add_argument("--job", metavar="JOB", help="of this job")
    command.add_argument("--executor", metavar="EXECUTOR", help="of this executor's jobs")
    add_limit(command)
    _add_number(add_command(group, "show", _show, told="show how far one has come"))
    command = add_command(
        group, "instants", _list_instants, told="list the instants of one, with their runs"
    )
    _add_number(command)
    command.add_argument(
        "--outcome",
        choices=[each.value for each in FillOutcome],
        default=FillOutcome.OPEN.value,
        help="those of which this became (default: open)",
    )
    add_limit(command)
    for action, done, told in (
        ("pause", "is paused", "start no further runs of one"),
        ("resume", "goes on", "let one go on"),
        ("cancel", "is cancelled", "end one, with its runs"),
    ):
        _add_number(add_command(group, action, partial(_act, action, done), told=told))


def _add_asked(command: argparse.ArgumentParser) -> None:
    command.add_argument("job", help="its id, `executor/job`, or its name if that is unique")
    command.add_argument(
        "--from",
        dest="from_at",
        type=instant_of,
        required=True,
        metavar="WHEN",
        help="the first instant: 2026-03-01T00:00Z, or 7d before now",
    )
    command.add_argument(
        "--to",
        dest="to_at",
        type=instant_of,
        required=True,
        metavar="WHEN",
        help="the first instant that is not wanted; now at the latest",
    )
    command.add_argument(
        "--trigger", type=int, metavar="ID", help="whose instants; needed if the job has several"
    )
    command.add_argument(
        "--parallel",
        type=int,
        default=1,
        metavar="N",
        help=f"the most runs that have not ended, 1 to {MAX_PARALLEL} (default: 1)",
    )
    command.add_argument(
        "--only-holes",
        action="store_true",
        help="what `job coverage` calls holes: also instants whose run failed",
    )
    command.add_argument("--newest-first", action="store_true", help="the newest instants first")
    command.add_argument(
        "--parameters", metavar="JSON", help="an object over those of job and trigger, or @FILE"
    )
    command.add_argument(
        "-p",
        dest="single",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="one parameter; the value is JSON, or else a text",
    )


def _add_number(command: argparse.ArgumentParser) -> None:
    command.add_argument("number", type=int, help="of the backfill")


def _asked(args: argparse.Namespace) -> dict[str, Any]:
    body: dict[str, Any] = {
        "from": args.from_at,
        "to": args.to_at,
        "parallel": args.parallel,
        "order": "newest_first" if args.newest_first else "oldest_first",
    }
    if args.only_holes:
        body["only_holes"] = True
    if args.trigger is not None:
        body["trigger_id"] = args.trigger
    parameters = parameters_of(args.parameters, args.single)
    if parameters is not None:
        body["parameters"] = parameters
    return body


def _preview(call: Invocation) -> None:
    body = _asked(call.args)
    job_id = names.job_id(call.api, call.args.job)
    seen = call.api.post(f"/jobs/{job_id}/backfills/preview", body)
    call.printer.one(seen, _PREVIEW)
    if not seen["total"] and call.printer.is_for_people:
        call.printer.line(_NO_INSTANT)


def _start(call: Invocation) -> None:
    body = _asked(call.args)
    job_id = names.job_id(call.api, call.args.job)
    key = call.args.key or new_key()
    new = call.api.post(f"/jobs/{job_id}/backfills", body, key=key)
    call.printer.done(f"Backfill {new['id']} was started.", new)


def _list(call: Invocation) -> None:
    args = call.args
    found = call.api.pages(
        "/backfills",
        most=args.limit,
        job_id=names.job_id(call.api, args.job) if args.job else None,
        executor_id=names.executor_id(call.api, args.executor) if args.executor else None,
    )
    call.printer.items(found, _COLUMNS, none="There is no such backfill.")


def _show(call: Invocation) -> None:
    call.printer.one(call.api.get(f"/backfills/{call.args.number}"), _ONE)


def _list_instants(call: Invocation) -> None:
    found = call.api.pages(
        f"/backfills/{call.args.number}/instants",
        most=call.args.limit,
        outcome=call.args.outcome,
    )
    call.printer.items(found, _INSTANTS, none="It has no such instant.")


def _act(action: str, done: str, call: Invocation) -> None:
    number = call.args.number
    call.api.post(f"/backfills/{number}/{action}")
    call.printer.done(f"Backfill {number} {done}.", {"backfill_id": number, "done": action})
