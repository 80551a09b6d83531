"""`tickwheel night-plan`: what will run in the next hours, and which deadlines will be met."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tickwheel_admin.cli.client import exit_codes, names
from tickwheel_admin.cli.client.output.printer import Subtable
from tickwheel_admin.cli.client.output.table import Item, instant, made, number, text
from tickwheel_admin.cli.client.output.words import length, local_time, visible
from tickwheel_admin.cli.client.registration import Invocation, add_command

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

DEFAULT_HOURS = 12
_ABOUT = """\
Simulates the next hours of an executor twenty times, each time with other durations out of those
that were measured. Says of each deadline whether it will be met, what it waits for, and what would
help; then what will run.

examples:
  tickwheel night-plan billing
  tickwheel night-plan billing --hours 6 -o json

exit codes: 0 no deadline is in danger, 1 one will be missed, or may be.
"""


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = add_command(
        subparsers,
        "night-plan",
        _show,
        told="what will run in the next hours, and which deadlines will be met",
        more=_ABOUT,
    )
    parser.add_argument("executor", metavar="EXECUTOR", help="its name or id")
    parser.add_argument("--node", metavar="NODE", help="only runs on this node; without deadlines")
    parser.add_argument(
        "--hours",
        type=int,
        default=DEFAULT_HOURS,
        metavar="N",
        help=f"how far to look, 1 to 24 (default: {DEFAULT_HOURS})",
    )


def _show(call: Invocation) -> int:
    args = call.args
    node = None if args.node is None else names.node_id(call.api, args.node)
    found = call.api.get(
        "/night-plan",
        executor_id=names.executor_id(call.api, args.executor),
        node_id=node,
        hours=args.hours,
    )
    in_danger = [each for each in found["deadlines"] if each["verdict"] in _DANGER]
    if call.printer.is_for_people:
        for each in in_danger:
            for line in _lines(each):
                call.printer.line(visible(line))
            call.printer.line("")
        if found["score"]["deadlines"]:
            call.printer.line(_score(found["score"]))
            call.printer.line("")
    sections = [
        Subtable(title="deadlines", items=found["deadlines"], columns=_DEADLINES),
        Subtable(title="running and to come", items=found["runs"], columns=_RUNS),
        Subtable(title="in sums", items=found["sums"], columns=_SUMS),
    ]
    call.printer.one(found, _ROWS, sections=sections)
    return exit_codes.FAILED if in_danger else exit_codes.DONE


def _lines(deadline: Item) -> Iterator[str]:
    """Why it is in danger, and what would help."""
    by = local_time(deadline["deadline_at"], None)
    name = deadline["job_name"]
    if deadline["verdict"] == "at_risk":
        yield f"{name} may miss {by}: {deadline['miss_share']:.0%} of the draws do."
    elif deadline["late_seconds"] is None:
        yield f"{name} will miss {by}: no success is in sight."
    else:
        yield f"{name} will miss {by} by {length(deadline['late_seconds'] * 1000)}."
    for step in deadline["path"]:
        yield f"  {_step(step)}"
    for remedy in deadline["remedies"]:
        yield f"  {_remedy(remedy)}"
    if deadline["path"] and not deadline["remedies"]:
        yield "  Nothing that was tried helps."


def _score(score: Item) -> str:
    """How good such forecasts were lately."""
    right = score["warned_and_missed"]
    told = (
        f"The last 30 days, half an hour before {score['deadlines']} deadlines: {right} of"
        f" {score['warned']} warnings came true, {right} of {score['missed']} missed deadlines"
        " had a warning."
    )
    if score["end_error_seconds"] is not None:
        off = length(score["end_error_seconds"] * 1000)
        told += f" Half of the predicted ends were off by at most {off}."
    return told


def _step(step: Item) -> str:
    told = f"{_name(step)} is due at {local_time(step['due_at'], None)}"
    if step["origin"] == "running":
        told = f"{_name(step)} runs"
    elif step["origin"] == "parent":
        told = f"{_name(step)} follows at {local_time(step['due_at'], None)}"
    if step["waits_for"] is not None:
        told += f", waits {length(step['wait_seconds'] * 1000)} for {_WAITS[step['waits_for']]}"
    if step["holders"]:
        held = (f"{_name(each)} {length(each['held_seconds'] * 1000)}" for each in step["holders"])
        told += f" ({', '.join(held)})"
    end = "not in sight" if step["end_at"] is None else local_time(step["end_at"], None)
    return f"{told}; end: {end}"


def _remedy(remedy: Item) -> str:
    others = remedy["other_jobs"]
    jobs = [*remedy["job_names"], *([f"{others} other job(s)"] if others else [])]
    match remedy["kind"]:
        case "slots":
            told = f"{remedy['slots']} more slot(s) for each node"
        case "priority":
            told = f"priority 1 for {', '.join(jobs)}"
        case _:
            told = f"without {', '.join(jobs)}"
    gain = remedy["gain_seconds"]
    brings = "brings an end" if gain is None else f"brings {length(gain * 1000)}"
    return f"{told}: {brings}, {'in time' if remedy['meets_deadline'] else 'too late'}"


def _name(item: Item) -> str:
    return str(item["job_name"] or "another job")


def _ended(item: Item, name: str) -> str:
    return "later" if item[name] is None else local_time(item[name], None)


def _after(run: Item) -> Any:
    return run["after_job_id"] or ""


_DANGER = ("missed", "at_risk")
_WAITS = {
    "own_run": "an earlier run of it",
    "slot": "a slot",
    "pool": "slots of its pool",
}
_ROWS = (
    instant("from", "start"),
    instant("now", "now"),
    instant("to", "end"),
    number("slots", "slots"),
    made("ended", lambda found: len(found["past"]) + sum(s["runs"] for s in found["past_sums"])),
    made("draws", lambda found: found["basis"]["draws"]),
)
_DEADLINES = (
    instant("DEADLINE", "deadline_at"),
    text("JOB", "job_name"),
    text("VERDICT", "verdict"),
    made("END P50", lambda each: _ended(each, "end_at")),
    made("END P95", lambda each: _ended(each, "slow_end_at")),
    made("MISS", lambda each: f"{each['miss_share']:.0%}"),
)
_RUNS = (
    instant("START", "start_at"),
    made("END P50", lambda each: _ended(each, "end_at")),
    made("END P95", lambda each: _ended(each, "slow_end_at")),
    text("JOB", "job_name"),
    made("RUN", lambda each: each["run_id"] or "predicted"),
    made("AFTER JOB", _after),
)
_SUMS = (
    text("JOB", "job_name"),
    number("RUNS", "runs"),
    instant("FIRST", "first_at"),
    instant("LAST", "last_at"),
)
