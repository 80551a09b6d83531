"""`tickwheel trends`: runs, failures, durations and start delays by week, day or hour."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tickwheel_admin.cli.client import names
from tickwheel_admin.cli.client.errors import UsageFailure
from tickwheel_admin.cli.client.inputs import instant_of
from tickwheel_admin.cli.client.output.table import Item, duration, instant, made
from tickwheel_admin.cli.client.registration import Invocation, add_command

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_MORE = """\
examples:
  tickwheel trends                      of all runs, by week
  tickwheel trends --executor billing --step day --timezone Europe/Berlin
  tickwheel trends --job billing/invoices --from 2026-09-01
  tickwheel trends --tag night          of the jobs that have this tag now
"""


def _failures(bucket: Item) -> int:
    failures: int = bucket["failed"] + bucket["timed_out"]
    return failures


def _runs(bucket: Item) -> str:
    runs = bucket["succeeded"] + _failures(bucket) + bucket["cancelled"]
    return f"~{runs}" if bucket["is_estimated"] else f"{runs}"


def _rate(bucket: Item) -> str | None:
    rate = bucket["failure_rate"]
    return None if rate is None else f"{100 * rate:.2f}%"


_COLUMNS = (
    instant("FROM", "start"),
    made("RUNS", _runs, right=True),
    made("FAILURES", lambda bucket: f"{_failures(bucket)}", right=True),
    made("RATE", _rate, right=True),
    duration("DURATION P50", "duration_p50_ms"),
    duration("P95", "duration_p95_ms"),
    duration("START DELAY P50", "start_delay_p50_ms"),
    duration("P95", "start_delay_p95_ms"),
)


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    command = add_command(
        subparsers,
        "trends",
        _trends,
        told="runs, failures, durations and start delays by week, day or hour",
        more=_MORE,
    )
    command.add_argument("--executor", metavar="EXECUTOR", help="of this one")
    command.add_argument("--job", metavar="JOB", help="of this one, as `executor/job` or id")
    command.add_argument("--tag", metavar="TAG", help="of the jobs that have this tag now")
    command.add_argument(
        "--step",
        choices=("week", "day", "hour"),
        default="week",
        help="how long each row is (default: week)",
    )
    command.add_argument(
        "--from",
        dest="since",
        type=instant_of,
        metavar="WHEN",
        help="the first: 2026-03-01T00:00Z, or 7d before now",
    )
    command.add_argument(
        "--to", type=instant_of, metavar="WHEN", help="until this one (default: now)"
    )
    command.add_argument("--timezone", metavar="ZONE", help="whose days they are (default: UTC)")


def _trends(call: Invocation) -> None:
    args = call.args
    if args.executor is not None and args.job is not None:
        raise UsageFailure("give either --executor or --job")
    if args.job is not None and args.tag is not None:
        raise UsageFailure("give either --job or --tag")
    found = call.api.get(
        "/trends",
        step=args.step,
        executor_id=None if args.executor is None else names.executor_id(call.api, args.executor),
        job_id=None if args.job is None else names.job_id(call.api, args.job),
        tag=args.tag,
        timezone=args.timezone,
        **{"from": args.since, "to": args.to},
    )
    call.printer.items(found["buckets"], _COLUMNS, none="Nothing ran in this time.")
