"""`tickwheel run`: see runs, start them, follow their logs, stop and repeat them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tickwheel_admin.cli.client import names
from tickwheel_admin.cli.client.connection import new_key
from tickwheel_admin.cli.client.event_following import add_event_flags, follow_events
from tickwheel_admin.cli.client.following import add_log_flags, follow_log, print_log
from tickwheel_admin.cli.client.groups.steps import add_answer_commands
from tickwheel_admin.cli.client.inputs import instant_of, parameters_of
from tickwheel_admin.cli.client.output.printer import Subtable
from tickwheel_admin.cli.client.output.run_columns import ATTEMPTS, ONE_RUN, RUNS, SHARDS
from tickwheel_admin.cli.client.registration import Invocation, add_command, add_group, add_limit
from tickwheel_admin.cli.client.starting import (
    add_start_flags,
    add_wait_flags,
    outcome,
    start,
)

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
  tickwheel run list --state failed_any --since 24h
  tickwheel run start billing/report --wait --follow
                                        the exit code says how it ended
  tickwheel run logs -f billing/report  of the newest run of that job
  tickwheel run logs 42 --attempt 1
  tickwheel run events --executor billing --state failed,lost
  tickwheel run retry 42 --wait
  tickwheel run cancel 42 43 44

RUN is the number of a run, or `executor/job` for the newest run of that job.
"""
_STATES = (
    *("queued", "dispatched", "running"),
    *("succeeded", "failed", "timed_out", "cancelled", "lost", "skipped"),
    *("active", "failed_any", "unresolved", "resolved"),
)
_ORIGINS = (
    *("schedule", "misfire", "manual", "api", "retry"),
    *("child", "backfill", "step", "try"),
)


def register(subparsers: Subparsers) -> None:
    """Add the group."""
    group = add_group(
        subparsers, "run", told="see, start, follow, stop and repeat runs", examples=_EXAMPLES
    )
    _add_list(group)
    _add_one(add_command(group, "show", _show, told="show one with its attempts"))
    logs = add_command(group, "logs", _logs, told="print the log of one", more=_LOGS)
    _add_one(logs)
    add_log_flags(logs)
    events = add_command(group, "events", follow_events, told="tell what happens", more=_EVENTS)
    add_event_flags(events)
    command = add_command(group, "start", start, told="start one of a job", more=_START)
    command.add_argument("job", help="its id, `executor/job`, or its name if that is unique")
    add_start_flags(command)
    command = add_command(group, "wait", _wait, told="wait until one has ended", more=_START)
    _add_one(command)
    add_wait_flags(command)
    _add_several(add_command(group, "cancel", _cancel, told="stop some"))
    command = add_command(group, "retry", _retry, told="make a new run of one", more=_RETRY)
    _add_one(command)
    _add_retry_flags(command)
    told = "stop waiting for nodes to confirm the end of some"
    _add_several(add_command(group, "release", _release, told=told))
    add_answer_commands(group)


_LOGS = """\
examples:
  tickwheel run logs 42 -f             new lines as they come, until the run has ended
  tickwheel run logs 42 --level warning --tail 20
  tickwheel run logs 42 -o json        each line with its number, instant and level
"""
_EVENTS = """\
Tells each change of a run's state as it happens, until Ctrl-C. A lost connection is made up for: no
event is left out. Without --after it begins with what happens from now on.

examples:
  tickwheel run events --job billing/report
  tickwheel run events -o json         an object in each line, with its number `seq`
  tickwheel run events -o json --after 1790000000000042 --count 100
"""
_START = """\
exit codes of --wait:
  0 succeeded, 10 failed, 11 timed out, 12 cancelled, 13 lost, 14 skipped,
  15 it had not ended after --wait-timeout; 1 to 5 as for any command; 130 after Ctrl-C

examples:
  tickwheel run start billing/report -p month=3 --wait --follow
  tickwheel run start billing/report --parameters @march.json --wait --wait-timeout 30m
  tickwheel run start billing/report --key order-4711    one run, however often this is repeated

After Ctrl-C the run goes on, unless --cancel-on-interrupt is given.
"""
_RETRY = """\
examples:
  tickwheel run retry 42 --wait
  tickwheel run retry 42 -p month=4
  tickwheel run retry 42 --steps failed                   of a workflow
  tickwheel run retry 42 --steps from --step load         of a workflow
"""


def _add_list(group: Subparsers) -> None:
    command = add_command(group, "list", _list, told="list runs, newest first")
    command.add_argument("--job", metavar="JOB", help="of this job")
    command.add_argument("--executor", metavar="EXECUTOR", help="of this executor")
    command.add_argument("--state", choices=_STATES, metavar="STATE", help=", ".join(_STATES))
    command.add_argument("--origin", choices=_ORIGINS, metavar="ORIGIN", help=", ".join(_ORIGINS))
    command.add_argument("--since", type=instant_of, metavar="WHEN", help="2h, 7d, or an instant")
    command.add_argument("--until", type=instant_of, metavar="WHEN", help="likewise")
    command.add_argument("--text", help="part of the name of the job")
    command.add_argument("--error", metavar="TEXT", help="part of the first line of the error")
    command.add_argument("--owner", help="owner of the job")
    command.add_argument("--tag", action="append", help="tag of the job; several: all of them")
    command.add_argument("--requested-by", metavar="USER", help="who asked for them")
    add_limit(command)


def _add_one(command: argparse.ArgumentParser) -> None:
    command.add_argument("run_id", metavar="RUN", help="its number, or `executor/job`")


def _add_several(command: argparse.ArgumentParser) -> None:
    command.add_argument("run_ids", metavar="RUN", nargs="+", help="numbers of runs")


def _add_retry_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("--parameters", metavar="JSON", help="over those of the run; or @FILE")
    command.add_argument(
        "-p",
        dest="single",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="one parameter; the value is JSON, or else a text",
    )
    command.add_argument(
        "--revision",
        choices=("current", "original"),
        help="settings of the job: today's or its own",
    )
    command.add_argument("--failed-shards-only", action="store_true", help="of a run with shards")
    command.add_argument(
        "--steps", choices=("all", "failed", "from", "only"), help="which steps of a workflow"
    )
    command.add_argument("--step", metavar="KEY", help="the step for `--steps from` and `only`")
    command.add_argument(
        "--skip", action="append", default=[], metavar="KEY", help="a step that counts as passed"
    )
    command.add_argument("--reason", help="why steps are skipped")
    command.add_argument("--wait", action="store_true", help="until it has ended")
    add_wait_flags(command)


def _list(call: Invocation) -> None:
    args, api = call.args, call.api
    found = api.pages(
        "/runs",
        most=args.limit,
        job_id=names.job_id(api, args.job) if args.job else None,
        executor_id=names.executor_id(api, args.executor) if args.executor else None,
        state=args.state,
        origin=args.origin,
        from_at=args.since,
        to_at=args.until,
        text=args.text,
        error=args.error,
        owner=args.owner,
        tag=",".join(args.tag) if args.tag else None,
        requested_by=args.requested_by,
    )
    call.printer.items(found, RUNS, none="There is no such run.")


def _show(call: Invocation) -> None:
    run = call.api.get(f"/runs/{names.run_id(call.api, call.args.run_id)}")
    call.printer.one(
        run,
        ONE_RUN,
        sections=[
            Subtable(title="earlier attempts", items=run["attempts"], columns=ATTEMPTS),
            Subtable(title="shards", items=run["shards"], columns=SHARDS),
            Subtable(title="runs that it started", items=run["children"], columns=RUNS),
        ],
    )


def _logs(call: Invocation) -> None:
    run_id = names.run_id(call.api, call.args.run_id)
    if call.args.follow:
        follow_log(call, run_id)
    else:
        print_log(call, run_id)


def _wait(call: Invocation) -> int:
    return outcome(call, names.run_id(call.api, call.args.run_id))


def _cancel(call: Invocation) -> None:
    for given in call.args.run_ids:
        run_id = names.run_id(call.api, given)
        call.api.post(f"/runs/{run_id}/cancel")
        call.printer.done(f"Run {run_id} was asked to stop.", {"run_id": run_id})


def _release(call: Invocation) -> None:
    for given in call.args.run_ids:
        run_id = names.run_id(call.api, given)
        call.api.post(f"/runs/{run_id}/release")
        call.printer.done(f"Run {run_id} is released.", {"run_id": run_id})


def _retry(call: Invocation) -> int | None:
    args = call.args
    body = {
        "parameters": parameters_of(args.parameters, args.single),
        "revision": args.revision,
        "failed_shards_only": args.failed_shards_only or None,
        "steps": args.steps,
        "step": args.step,
        "skip": args.skip or None,
        "reason": args.reason,
    }
    run_id = names.run_id(call.api, args.run_id)
    sent = {name: value for name, value in body.items() if value is not None}
    made = call.api.post(f"/runs/{run_id}/retry", sent, key=new_key())["run_id"]
    if args.wait:
        return outcome(call, made)
    call.printer.done(f"Run {made} was made.", {"run_id": made})
    return None
