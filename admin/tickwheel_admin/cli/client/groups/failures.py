"""`tickwheel failure`: runs that failed alike, and what people do about them."""

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
  tickwheel failure list                those that stand
  tickwheel failure list --all --executor billing
  tickwheel failure show 7              with its jobs and newest runs
  tickwheel failure ack 7               you look after it
  tickwheel failure mute 7 --for 2h     no alarm tells of it; `--off` ends that
  tickwheel failure note 7 --owner ann --notes "the gateway is down; call 4711"
  tickwheel failure why 4711            what differs between run 4711 and the last good one
  tickwheel failure resolve 7
  tickwheel failure retry 7             its runs: one first, then 2, 4, 8 … while they succeed
  tickwheel failure retry 7 --stop      no further ones
"""


def _first(group: Item) -> str:
    job = group["first_job_name"] or f"#{group['first_job_id']}"
    told = f"run {group['first_run_id']} of {job}, revision {group['first_revision']}"
    if group["first_node_id"] is None:
        return told
    node = group["first_node_name"] or f"node {group['first_node_id']}"
    return f"{told}, on {node}"


def _about_job(run: Item) -> str:
    return run["job_name"] or f"#{run['job_id']}"


def _recovered(job: Item) -> str:
    return "yes" if job["is_over"] else "no"


def _retried(group: Item) -> str | None:
    canary = group["canary_retry"]
    if canary is None:
        return None
    told = f"{canary['state']} by {canary['started_by']}"
    if canary["state"] != "running":
        told = f"{canary['state']}, {canary['reason']}" if canary["reason"] else canary["state"]
    counts = [f"{canary[name]} {title}" for name, title in _COUNTS if canary[name]]
    return "; ".join([told, *counts])


_COUNTS = (
    ("retried", "retried"),
    ("succeeded", "succeeded"),
    ("failed", "failed"),
    ("left_out", "left out"),
)
_COLUMNS = (
    number("FAILURE", "id"),
    state("STATE", "state"),
    text("EXECUTOR", "executor_name"),
    number("RUNS", "runs"),
    number("JOBS", "jobs"),
    instant("SINCE", "since"),
    instant("LAST", "last_at"),
    optional(text("OWNER", "owner")),
    text("TEXT", "text", cuttable=True),
)
_ONE = (
    number("failure", "id"),
    state("state", "state"),
    text("text", "text"),
    text("executor", "executor_name"),
    text("runs", "runs"),
    text("jobs", "jobs"),
    instant("since", "since"),
    instant("last", "last_at"),
    made("first", _first),
    text("came back", "returns"),
    text("owner", "owner"),
    text("notes", "notes"),
    instant("acknowledged", "acknowledged_at"),
    text("by", "acknowledged_by"),
    instant("muted until", "muted_until"),
    instant("resolved", "resolved_at"),
    text("resolved by", "resolved_by"),
    made("retry", _retried),
)
_JOBS = (
    number("JOB", "job_id"),
    text("NAME", "job_name"),
    number("RUNS", "runs"),
    instant("LAST", "last_at"),
    made("RECOVERED", _recovered),
)
_RUNS = (
    number("RUN", "id"),
    made("JOB", _about_job),
    number("REVISION", "job_revision"),
    text("NODE", "node_name"),
    instant("SCHEDULED", "scheduled_at"),
    instant("ENDED", "ended_at"),
)


def register(subparsers: Subparsers) -> None:
    """Add the group."""
    group = add_group(subparsers, "failure", told="runs that failed alike", examples=_EXAMPLES)
    command = add_command(group, "list", _list, told="list failures that stand, the newest first")
    command.add_argument("--all", action="store_true", help="also those that are resolved")
    command.add_argument("--executor", metavar="EXECUTOR", help="of this one")
    add_limit(command)
    _add_one(add_command(group, "show", _show, told="show one with its jobs and newest runs"))
    for name, action, done, told in (
        ("ack", "acknowledge", "acknowledged", "say that you look after it"),
        ("resolve", "resolve", "resolved", "say that it is over"),
    ):
        _add_one(add_command(group, name, partial(_act, action, done), told=told))
    command = add_command(
        group, "retry", _retry, told="retry its runs: one first, then more while they succeed"
    )
    _add_one(command)
    command.add_argument("--stop", action="store_true", help="retry no further runs")
    command = add_command(
        group, "why", _why, told="hold a failed run against the last good one of its job"
    )
    command.add_argument("failed_run", metavar="run", type=int, help="its number")
    command = add_command(group, "mute", _mute, told="let no alarm tell of it for a while")
    _add_one(command)
    command.add_argument("--for", dest="how_long", type=seconds_of, metavar="LENGTH", help="2h, 1d")
    command.add_argument("--off", action="store_true", help="let alarms tell of it again")
    command = add_command(group, "note", _note, told="set its owner and notes")
    _add_one(command)
    command.add_argument("--owner", help='who looks after it; "": nobody')
    command.add_argument("--notes", metavar="TEXT", help="what is known of it")


def _add_one(command: argparse.ArgumentParser) -> None:
    command.add_argument("failure", type=int, help="its number")


def _list(call: Invocation) -> None:
    args, api = call.args, call.api
    found = api.pages(
        "/failures",
        most=args.limit,
        state="all" if args.all else "standing",
        executor_id=names.executor_id(api, args.executor) if args.executor else None,
    )
    call.printer.items(found, _COLUMNS, none="There is no failure.")


def _show(call: Invocation) -> None:
    group = call.api.get(f"/failures/{call.args.failure}")
    sections = [
        Subtable(title="jobs", items=group["jobs_failed"], columns=_JOBS),
        Subtable(title="newest runs", items=group["newest_runs"], columns=_RUNS),
    ]
    call.printer.one(group, _ONE, sections=sections)


def _act(action: str, done: str, call: Invocation) -> None:
    number = call.args.failure
    call.api.post(f"/failures/{number}/{action}")
    call.printer.done(f"Failure {number} is {done}.", {"failure_id": number, "done": done})


_CHANGES = (text("WHAT", "what"), text("GOOD", "good"), text("FAILED", "failed", cuttable=True))


def _why(call: Invocation) -> None:
    found = call.api.get(f"/runs/{call.args.failed_run}/why")
    if found["good_run_id"] is None:
        none = (
            f"No run of the job that was due before run {call.args.failed_run} is known to be good."
        )
        call.printer.done(none, found)
        return
    one = (
        number("failed run", "failed_run_id"),
        number("good run", "good_run_id"),
        instant("which was due", "good_scheduled_at"),
    )
    differences = Subtable(title="differences", items=_differences(found), columns=_CHANGES)
    call.printer.one(found, one, sections=[differences])


def _differences(found: Item) -> list[Item]:
    rows = [(each, f"parameter {each['name']}") for each in found["parameters"]]
    rows += [(found[name], title) for name, title in (("node", "node"), ("sdk", "SDK"))]
    rows += [(each, f"label {each['name']}") for each in found["labels"]]
    if found["good_revision"] != found["failed_revision"]:
        changed = ", ".join(found["fields"]) or "nothing"
        after = f"{found['failed_revision']}, which changed: {changed}"
        rows.append(({"good": str(found["good_revision"]), "failed": after}, "revision"))
    rows += [
        ({"good": _ms(each["good_ms"]), "failed": _ms(each["failed_ms"])}, each["name"])
        for each in found["phases"]
    ]
    if (line := found["line"]) is not None:
        rows.append((line, f"log line {line['number']}"))
    return [
        {"what": title, "good": each["good"], "failed": each["failed"]}
        for each, title in rows
        if each is not None
    ]


def _ms(took: int | None) -> str | None:
    return None if took is None else length(took)


def _retry(call: Invocation) -> None:
    number = call.args.failure
    facts = {"failure_id": number}
    if call.args.stop:
        call.api.post(f"/failures/{number}/retry/stop")
        call.printer.done(f"No further runs of failure {number} are retried.", facts)
        return
    facts["canary_retry_id"] = call.api.post(f"/failures/{number}/retry")["id"]
    call.printer.done(f"The runs of failure {number} are retried, one first.", facts)


def _mute(call: Invocation) -> None:
    args = call.args
    if args.off == (args.how_long is not None):
        raise UsageFailure("say how long with --for, or give --off")
    call.api.post(f"/failures/{args.failure}/mute", {"seconds": args.how_long})
    told = "is told of again" if args.off else f"is muted for {length(args.how_long * 1000)}"
    facts = {"failure_id": args.failure, "seconds": args.how_long}
    call.printer.done(f"Failure {args.failure} {told}.", facts)


def _note(call: Invocation) -> None:
    args, path = call.args, f"/failures/{call.args.failure}"
    if args.owner is None and args.notes is None:
        raise UsageFailure("give --owner, --notes or both")
    group = call.api.get(path)
    changed = {
        "owner": group["owner"] if args.owner is None else args.owner,
        "notes": group["notes"] if args.notes is None else args.notes,
        "version": group["version"],
    }
    answer = call.api.put(path, changed)
    facts = {"failure_id": args.failure, "version": answer["version"]}
    call.printer.done(f"Owner and notes of failure {args.failure} are set.", facts)
