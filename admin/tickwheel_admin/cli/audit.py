"""`tickwheel audit`: what an existing scheduler did with its fires; changes nothing anywhere."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tickwheel_admin.cli.audit_data import as_csv, as_json
from tickwheel_admin.cli.audit_text import as_text
from tickwheel_admin.cli.xxl_job_source import add_source_flags, opened_source
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.zones import Zone, zone_of
from tickwheel_admin.domain.xxl_job.audit.report import AuditReport
from tickwheel_admin.services.xxl_job.audit import AuditRequest, NoSuchJobs, audit_xxl_job
from tickwheel_admin.store.imports.source import SourceError

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

MAX_DAYS = 3_660
MAX_LATE_SECONDS = 86_400
FOUND = 1  # exit codes
COULD_NOT = 2
_CLEARED = "\r\x1b[K"  # the line, on a terminal
_EVERY_SECONDS = 0.5  # between two lines of progress

_DESCRIPTION = """\
Hold what XXL-JOB should have run against what its log says that it ran: which fires it lost, which
it ran twice, which it started late. It reads groups, jobs and xxl_job_log, in small pages and in
read-only transactions; a user with SELECT is enough, and a replica will do. Nothing is changed.
"""
_EXAMPLES = """\
examples:
  export TICKWHEEL_XXL_JOB_PASSWORD=…
  tickwheel audit xxl-job --from mysql+pymysql://audit@db.example:3306/xxl_job
  tickwheel audit xxl-job --from … --days 7 --zone Asia/Shanghai --cron-zone Asia/Shanghai
  tickwheel audit xxl-job --from … --group billing --format csv --output billing.csv
  tickwheel audit xxl-job --from … --job 17 --job 18 --late-after 2

what it tells, per job and per hour:
  lost      an instant of the schedule without a run near it
  twice     a second run by schedule for one instant; runs by hand, by a parent, by
            the API and retries do not count
  late      a run that started more than --late-after seconds after its instant
  unsent    a run that no executor took (trigger_code 500)
  silent    a run of which no result ever came (handle_code 0)
A job counts from its last edit or start on: what it was before is not stored.
Times are rounded to a second by XXL-JOB. See docs/xxl-job-audit.md for the limits.

Exit codes: 0 nothing lost, doubled, late, unsent or silent; 1 something was; 2 it could not be
done, or wrong usage; stderr says why.
"""


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "audit",
        help="say which fires an existing XXL-JOB lost, doubled or ran late",
        epilog="`tickwheel audit xxl-job --help` has examples.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    command = commands.add_parser(
        "xxl-job",
        help="audit an XXL-JOB installation, 2.2 to 3.5, by its database",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_source_flags(command)
    command.add_argument(
        "--days",
        type=int,
        default=30,
        metavar="N",
        help="how many, back from the newest row of the log (default: 30)",
    )
    command.add_argument(
        "--late-after",
        type=int,
        default=5,
        metavar="SECONDS",
        help="a run is late if it started later than this after its instant (default: 5)",
    )
    command.add_argument(
        "--job",
        type=int,
        action="append",
        default=[],
        metavar="ID",
        help="this job only; again for more",
    )
    command.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="NAME",
        help="jobs of this executor only, by AppName or title; again for more",
    )
    command.add_argument(
        "--format",
        choices=("table", "csv", "json"),
        default="table",
        help="table for people (default); csv and json with all jobs, and all their hours in which"
        " anything was found",
    )
    command.add_argument(
        "--output", type=Path, metavar="FILE", help="write to this file (default: stdout)"
    )
    command.set_defaults(run=_audit_xxl_job)


class _BadFlag(ValueError):
    """A flag that says what cannot be done, in one sentence."""


def _audit_xxl_job(args: argparse.Namespace) -> int:
    try:
        request = _request(args)
        with opened_source(args) as source, _progress() as progress:
            report = audit_xxl_job(source, request, progress=progress)
        _write(args, report)
    except (SourceError, NoSuchJobs, ScheduleError, _BadFlag) as error:
        print(f"tickwheel: {error}", file=sys.stderr)
        return COULD_NOT
    return FOUND if report.is_finding else 0


def _request(args: argparse.Namespace) -> AuditRequest:
    if not 1 <= args.days <= MAX_DAYS:
        raise _BadFlag(f"--days is from 1 to {MAX_DAYS:,}, not {args.days}")
    if not 1 <= args.late_after <= MAX_LATE_SECONDS:
        raise _BadFlag(f"--late-after is from 1 to {MAX_LATE_SECONDS:,}, not {args.late_after}")
    return AuditRequest(
        days=args.days,
        stored_zone=_zone(args.zone),
        cron_zone=_zone(args.cron_zone),
        late_after=args.late_after,
        job_ids=frozenset(args.job),
        groups=tuple(args.group),
    )


def _zone(name: str | None) -> Zone | None:
    return None if name is None else zone_of(name)


def _write(args: argparse.Namespace, report: AuditReport) -> None:
    lines = {"table": as_text, "csv": as_csv, "json": as_json}[args.format](report)
    if args.output is None:
        for line in lines:
            print(line)
        return
    try:
        with args.output.open("w", encoding="utf-8", newline="") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise _BadFlag(f"cannot write to {args.output}: {error.strerror}") from None


@contextmanager
def _progress() -> Iterator[Callable[[int, float], None]]:
    """A line on the terminal that says how far it is; nothing where nobody sees it."""
    if not sys.stderr.isatty():
        yield lambda _rows, _share: None
        return
    begun = said = time.monotonic()

    def say(rows: int, share: float) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said < _EVERY_SECONDS:
            return
        said = now
        left = (now - begun) / share * (1 - share) if share > 0 else 0
        text = f"{rows:,} rows, {share:.0%}, about {left:,.0f} s left"
        print(f"{_CLEARED}{text}", end="", file=sys.stderr, flush=True)

    try:
        yield say
    finally:
        print(_CLEARED, end="", file=sys.stderr, flush=True)
