"""`tickwheel as-of` and `tickwheel why`: how it was, and why a job did or did not run."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tickwheel_admin.cli.client import exit_codes, names
from tickwheel_admin.cli.client.errors import UsageFailure
from tickwheel_admin.cli.client.inputs import clock_or_instant
from tickwheel_admin.cli.client.output.table import Item
from tickwheel_admin.cli.client.output.words import visible
from tickwheel_admin.cli.client.registration import Invocation, add_command

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_WHEN = "03:00, 2026-11-28T03:12 by this machine's zone, or 2h: so long ago; at most 7 days back"
_MORE = f"""\
TIME: {_WHEN}

examples:
  tickwheel as-of 03:12
  tickwheel as-of 90m --executor billing
  tickwheel as-of 2026-11-28T03:12Z --job billing/invoices -o json
"""
_MORE_WHY = f"""\
TIME: {_WHEN}

examples:
  tickwheel why billing/invoices 03:00
  tickwheel why 42 2026-11-28T03:00Z -o json

exit codes: 0 a run of the minute started, or none was to; 1 one was to, and did not.
"""


def register(subparsers: Subparsers) -> None:
    """Add the commands."""
    command = add_command(
        subparsers,
        "as-of",
        _as_of,
        told="how it was at a past instant, and what changed just before",
        more=_MORE,
    )
    command.add_argument("at", type=clock_or_instant, metavar="TIME", help=_WHEN)
    command.add_argument("--executor", metavar="EXECUTOR", help="of this one")
    command.add_argument("--job", metavar="JOB", help="of this one, as `executor/job` or id")
    command = add_command(
        subparsers,
        "why",
        _why,
        told="why a job did or did not run in a past minute",
        more=_MORE_WHY,
    )
    command.add_argument("job", metavar="JOB", help="as `executor/job` or id")
    command.add_argument("at", type=clock_or_instant, metavar="TIME", help=_WHEN)


def _as_of(call: Invocation) -> None:
    args = call.args
    if args.executor is not None and args.job is not None:
        raise UsageFailure("give either --executor or --job")
    found = call.api.get(
        "/as-of",
        at=args.at,
        executor_id=None if args.executor is None else names.executor_id(call.api, args.executor),
        job_id=None if args.job is None else names.job_id(call.api, args.job),
    )
    if not call.printer.is_for_people:
        call.printer.value(found)
        return
    for line in _picture_lines(found):
        call.printer.line(visible(line))


def _picture_lines(found: Item) -> list[str]:
    more = "+" if found["counts_are_cut"] else ""
    counts = ", ".join(f"{count}{more} {name}" for name, count in found["counts"].items() if count)
    lines = [f"As it was at {found['at']}: {counts or 'no run'}."]
    if found["revision"]:
        made = found["revision"]
        lines.append(f"Revision {made['revision']}, made {made['made_at']} by {made['made_by']}.")
    lines += [
        f"Paused since {each['paused_at']}: {each['executor_name'] or 'everything'}."
        for each in found["pauses"]
    ]
    lines.append(
        f"{found['node_count']} nodes were connected, with {found['slots_in_use']} of"
        f" {found['slots']} slots in use."
    )
    lines += _section(
        "Triggers:",
        (
            f"{each['description']}{' (paused)' if each['paused'] else ''}:"
            f" next {each['next_fire_at'] or 'unknown'}"
            for each in found["triggers"]
        ),
    )
    lines += _section(
        "Runs:",
        (
            f"{each['run_id']}  {each['standing']:<10}  {_job(each)}"
            f"{'  on ' + (each['node_name'] or str(each['node_id'])) if each['node_id'] else ''}"
            f"  since {each['since']}"
            for each in found["runs"]
        ),
    )
    failed = f"{found['failure_count']}{'+' if found['failures_are_cut'] else ''}"
    lines += _section(
        f"Failed in the hour before: {failed}",
        (
            f"{each['ended_at']}  {each['run_id']}  {each['state']:<9}  {_job(each)}"
            f"  {(each['message'] or '').partition(chr(10))[0]}"
            for each in found["failures"]
        ),
    )
    lines += _section(
        "Changed in the hour before:",
        (
            f"{each['at']}  {each['change']:<18}  {each['name'] or each['job_name'] or ''}"
            f"{'  by ' + each['by'] if each['by'] else ''}"
            for each in found["changes"]
        ),
    )
    return lines


def _section(title: str, lines: Iterable[str]) -> list[str]:
    rows = [f"  {line.rstrip()}" for line in lines]
    return [title, *rows] if rows else []


def _job(item: Item) -> str:
    return f"{item['executor_name'] or ''}/{item['job_name'] or item['job_id']}"


def _why(call: Invocation) -> int:
    found = call.api.get(f"/jobs/{names.job_id(call.api, call.args.job)}/why", at=call.args.at)
    if call.printer.is_for_people:
        for line in _why_lines(found):
            call.printer.line(visible(line))
    else:
        call.printer.value(found)
    held = any(each["without_run"] for each in found["triggers"])
    waits = [each["waited_for"]["code"] for each in found["runs"] if each["waited_for"]]
    waited = any(code != "not_due" for code in waits)
    return exit_codes.FAILED if held or waited else exit_codes.DONE


def _why_lines(found: Item) -> list[str]:
    revision = found["revision"]
    if revision is None:
        return [f"{found['job_name']} was not there at {found['from']}."]
    made = f"revision {revision['revision']} of {revision['made_at']}"
    lines = [f"{found['job_name']} in the minute of {found['from']}, by {made}:"]
    for each in found["triggers"]:
        told = f"  Trigger {each['description']}:"
        if each["fires"]:
            told += f" {len(each['fires'])} instants, {len(each['without_run'])} without a run."
        lines.append(told)
        lines += [f"    {reason['text']}" for reason in each["reasons"]]
        if not each["fires"] and each["next_fire_at"]:
            lines.append(f"    The next instant was {each['next_fire_at']}.")
    if not found["triggers"]:
        lines.append("  It had no trigger.")
    for each in found["runs"]:
        lines += _run_lines(each)
    if not found["runs"]:
        lines.append("  It had no run, and none was live.")
    lines.append(
        f"  {found['node_count']} nodes of its executor were connected, with"
        f" {found['slots_in_use']} of {found['slots']} slots in use."
    )
    return lines


def _run_lines(run: Item) -> list[str]:
    node = run["node_name"] or run["node_id"]
    place = f" on {node}" if node else ""
    if run["standing"] is None:
        told = f"{run['state']} at {run['ended_at']}"
        if run["started_at"]:
            told = f"started {run['started_at']}{place}, {told}"
        if run["reason"]:
            told += f" ({run['reason']})"
    else:
        told = f"{run['standing']}{place} since {run['since']}"
    lines = [f"  Run {run['run_id']} for {run['scheduled_at']}: {told}."]
    if run["waited_for"]:
        runs = ", ".join(map(str, run["waited_for_runs"]))
        lines.append(f"    {run['waited_for']['text']}{' Runs: ' + runs if runs else ''}")
    if run["message"]:
        lines += [f"    {line}" for line in run["message"].splitlines()[:1]]
    return lines
