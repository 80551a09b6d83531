"""`tickwheel proof`: what should have run in a period, what became of it, and a signed file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tickwheel_admin.cli.client import exit_codes, names
from tickwheel_admin.cli.client.errors import UsageFailure
from tickwheel_admin.cli.client.inputs import instant_of, seconds_of
from tickwheel_admin.cli.client.output.table import Item, instant, made, number, optional, text
from tickwheel_admin.cli.client.output.words import length, visible
from tickwheel_admin.cli.client.registration import Invocation, add_command, add_group, add_limit

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
  tickwheel proof show                   the last 24 whole hours, in numbers that add up
  tickwheel proof show --from 2026-11-27T18:00Z --until 2026-11-28T08:00Z --executor billing
  tickwheel proof exceptions             each run that did not succeed at once
  tickwheel proof unrun                  each instant without a run, or skipped, with its cause
  tickwheel proof export night.ndjson --from 2026-11-27T18:00Z
  tickwheel proof key --create           once, as an administrator
  tickwheel proof key > tickwheel.pub    the public key; once, for whoever verifies
  tickwheel verify night.ndjson --key-file tickwheel.pub

exit codes of `proof show`: 0 everything is proven, 1 something is missing, or not known.
"""


def _cause(run: Item) -> str | None:
    if run["failure_text"]:
        return f"{run['failure_text']} (failure {run['failure_id']})"
    if run["late"]:
        return f"started {length(run['start_delay_ms'])} late"
    return run["reason"] or None


def _done(run: Item) -> str | None:
    told = []
    if run["acknowledged_by"]:
        told.append(f"acknowledged by {run['acknowledged_by']}")
    if run["retried_by"]:
        told.append(f"done again by run {run['retried_by'][-1]}, {run['retry_state']}")
    if run["cancelled_by"]:
        told.append(f"cancelled by {run['cancelled_by']}")
    return "; ".join(told) or None


_COLUMNS = (
    instant("INSTANT", "scheduled_at"),
    text("OUTCOME", "outcome"),
    number("RUN", "run_id"),
    made("JOB", lambda run: run["job_name"] or f"#{run['job_id']}"),
    optional(text("OWNER", "owner")),
    optional(made("DONE", _done)),
    made("CAUSE", _cause, cuttable=True),
)


def _work(found: Item) -> str | None:
    told = []
    if found["done_by"]:
        told.append(f"run {found['done_by'][-1]}, {found['done_state']}")
    if found["seen_by"]:
        told.append(f"seen by {found['seen_by']}")
    return "; ".join(told) or None


_UNRUN_COLUMNS = (
    instant("INSTANT", "at"),
    text("CAUSE", "cause"),
    made("JOB", lambda each: each["job_name"] or f"#{each['job_id']}"),
    optional(number("RUN", "run_id")),
    optional(text("OWNER", "owner")),
    optional(made("DONE", _work)),
)


def register(subparsers: Subparsers) -> None:
    """Add the group."""
    group = add_group(
        subparsers,
        "proof",
        told="what should have run in a period, and what became of it",
        examples=_EXAMPLES,
    )
    command = add_command(group, "show", _show, told="the sums of a period")
    _add_period(command)
    command = add_command(
        group, "exceptions", _exceptions, told="runs that did not succeed at once, oldest first"
    )
    _add_period(command)
    add_limit(command)
    command = add_command(
        group, "unrun", _unrun, told="instants without a run, or whose run was skipped, by hour"
    )
    _add_period(command)
    add_limit(command)
    command = add_command(group, "export", _export, told="write a signed file")
    command.add_argument("file", metavar="FILE", help="to write; it must not exist")
    _add_period(command)
    command = add_command(group, "key", _key, told="print the public key that verifies the files")
    command.add_argument("--create", action="store_true", help="make the pair, if there is none")


def _add_period(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--from",
        dest="since",
        type=instant_of,
        metavar="TIME",
        help="its hour is the first one (default: a day before the end)",
    )
    command.add_argument(
        "--until", type=instant_of, metavar="TIME",
        help="its hour is the last one, at most 31 days later (default: now)",
    )  # fmt: skip
    command.add_argument("--executor", metavar="EXECUTOR", help="runs of this one")
    command.add_argument(
        "--late-after",
        type=seconds_of,
        metavar="LENGTH",
        help="a later start than this is told of (default: 60s)",
    )


def _period(call: Invocation) -> dict[str, Any]:
    args = call.args
    executor = args.executor
    return {
        "from": args.since,
        "until": args.until,
        "executor_id": None if executor is None else names.executor_id(call.api, executor),
        "late_after_seconds": args.late_after,
    }


def _show(call: Invocation) -> int:
    found = call.api.get("/proof", **_period(call))
    if call.printer.is_for_people:
        for line in _lines(found):
            call.printer.line(visible(line))
    else:
        call.printer.value(found)
    return exit_codes.DONE if found["agrees"] else exit_codes.FAILED


def _lines(found: Item) -> list[str]:
    sums, other = found["proven"], found["not_proven"]
    lines = [f"{found['from']} to {found['until']}: {sums['hours']} hours are proven."]
    rows: list[tuple[str, int, str]] = [
        ("", sums["expected"], "instants should have been"),
        ("+", sums["surplus"], "runs for others, or twice"),
        *(("-", count, f"to bring no run: {why}") for why, count in sums["without_run"].items()),
        ("-", sums["missing"], "missing"),
        *(("-", count, f"runs deleted since: {why}") for why, count in sums["gone"].items()),
        ("+", sums["new"], "runs that came since the audit"),
        ("=", sums["runs"], "runs"),
        *(("  ", count, name) for name, count in sums["outcomes"].items()),
        *(("    ", count, f"skipped: {why}") for why, count in sums["skipped"].items()),
        ("  ", sums["late"], "started late, of all of these"),
    ]
    always = ("", "=")
    lines += [
        f"{sign:<4}{count:>10}  {told}"
        for sign, count, told in rows
        if count or sign in always or told == "missing"
    ]
    if other["hours"]:
        lines.append(
            f"{other['hours']} hours are not proven: they were not audited, or not for all"
            f" triggers. The ledger has {other['runs']} runs of them."
        )
    return lines


def _exceptions(call: Invocation) -> None:
    found = call.api.pages("/proof/exceptions", most=call.args.limit, **_period(call))
    call.printer.items(found, _COLUMNS, none="Each run succeeded at the first try, in time.")


def _unrun(call: Invocation) -> None:
    found = call.api.pages("/proof/unrun", most=call.args.limit, **_period(call))
    call.printer.items(found, _UNRUN_COLUMNS, none="No instant is known that brought no work.")


def _export(call: Invocation) -> None:
    file = Path(call.args.file)
    pieces = call.api.text("GET", "/proof/export", **_period(call))
    first = next(pieces, b"")  # what is refused leaves no file
    size = 0
    try:
        with file.open("xb") as out:
            size += out.write(first)
            for piece in pieces:
                size += out.write(piece)
    except OSError as error:
        raise UsageFailure(f"{file}: {error.strerror}") from None
    call.printer.done(f"{size} bytes were written to {file}.", {"file": str(file), "bytes": size})


def _key(call: Invocation) -> None:
    found = call.api.post("/proof/key") if call.args.create else call.api.get("/proof/key")
    if call.printer.is_for_people:
        call.printer.line(found["public_key"])
    else:
        call.printer.value(found)
