"""`tickwheel job pause`, `resume` and `delete`: of jobs that are named, or of all that match."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tickwheel_admin.cli.client import exit_codes, names
from tickwheel_admin.cli.client.errors import UsageFailure
from tickwheel_admin.cli.client.groups.job_filter import add_filter, filter_of, has_filter
from tickwheel_admin.cli.client.inputs import confirm
from tickwheel_admin.cli.client.output.job_columns import JOBS
from tickwheel_admin.cli.client.output.table import Item
from tickwheel_admin.cli.client.registration import Invocation, add_command

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_ABOUT = """\
Name jobs, or say by flags which ones, with --all-matching; the flags are those of `job list`. All
that match are counted and asked for, and changed one by one: what refuses one does not stop the
others. --dry-run prints those that would be {done}, and changes nothing.

examples:
  tickwheel job {action} billing/report billing/reminders
  tickwheel job {action} --executor billing --tag nightly --dry-run
  tickwheel job {action} --executor billing --tag nightly --all-matching

exit codes: 0 all are {done}, 1 some could not be; others are in docs/cli.md.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsChange:
    """What is done to each of them."""

    action: str  # as in the address of the API
    done: str
    told: str
    concerns: Callable[[Item], bool]  # whether it would change a job
    asks_for_names: bool  # also when each job is named


_CHANGES = (
    JobsChange(
        action="pause",
        done="paused",
        told="let some not fire until resumed",
        concerns=lambda job: not job["paused"],
        asks_for_names=False,
    ),
    JobsChange(
        action="resume",
        done="resumed",
        told="let some fire again",
        concerns=lambda job: bool(job["paused"]),
        asks_for_names=False,
    ),
    JobsChange(
        action="delete",
        done="deleted",
        told="delete some; their runs stay",
        concerns=lambda job: not job["managed"],
        asks_for_names=True,
    ),
)


def register(group: Subparsers) -> None:
    """Add the commands to the group `job`."""
    for change in _CHANGES:
        about = _ABOUT.format(action=change.action, done=change.done)
        command = add_command(
            group, change.action, partial(_change, change), told=change.told, more=about
        )
        command.add_argument("jobs", metavar="JOB", nargs="*", help="ids or names")
        add_filter(command)
        command.add_argument(
            "--all-matching",
            action="store_true",
            help="all jobs that the flags say; without any, all that the token may see",
        )
        command.add_argument(
            "--dry-run", action="store_true", help=f"print what would be {change.done}"
        )
        command.add_argument(
            "--yes", action="store_true", help="do not ask; needed where nobody can be asked"
        )


def _change(change: JobsChange, call: Invocation) -> int | None:
    args = call.args
    if args.jobs and (args.all_matching or has_filter(args)):
        raise UsageFailure("name jobs, or say which ones by flags; not both")
    if not (args.jobs or args.all_matching or (args.dry_run and has_filter(args))):
        raise UsageFailure(
            "add --all-matching if all jobs that match are meant, or see them with --dry-run"
            if has_filter(args)
            else "name jobs, or say which ones by flags and --all-matching"
        )
    if args.dry_run:
        would = (each for each in _found(call) if change.concerns(each))
        call.printer.items(would, JOBS, none=f"No job would be {change.done}.")
        return None
    if args.jobs:
        _change_named(change, call)
        return None
    return _change_matching(change, call)


def _found(call: Invocation) -> Iterator[Item]:
    if not call.args.jobs:
        yield from call.api.pages("/jobs", most=None, **filter_of(call))
    for given in call.args.jobs:
        yield call.api.get(f"/jobs/{names.job_id(call.api, given)}")


def _change_named(change: JobsChange, call: Invocation) -> None:
    ids = {given: names.job_id(call.api, given) for given in call.args.jobs}
    if change.asks_for_names:
        confirm(f"{change.action.title()} {', '.join(ids)}?", yes=call.args.yes)
    for given, job_id in ids.items():
        if change.action == "delete":
            call.api.delete(f"/jobs/{job_id}")
        else:
            call.api.post(f"/jobs/{job_id}/{change.action}")
        call.printer.done(f"Job {given} is {change.done}.", {"job_id": job_id, "done": change.done})


def _change_matching(change: JobsChange, call: Invocation) -> int:
    wanted = {name: value for name, value in filter_of(call).items() if value is not None}
    matching = call.api.get("/jobs/count", **wanted)
    if matching["jobs"]:
        count = f"{matching['jobs']:,}{' or more' if matching['capped'] else ''}"
        confirm(f"{change.action.title()} all jobs that match ({count})?", yes=call.args.yes)
    jobs: list[int] = []
    skipped: Counter[str] = Counter()
    cursor: str | None = None
    while matching["jobs"]:
        body: dict[str, Any] = {"filter": wanted}
        if cursor is not None:
            body["cursor"] = cursor
        step = call.api.post(f"/jobs/{change.action}", body)
        jobs += step["jobs"]
        skipped.update(step["skipped"])
        if (cursor := step["next"]) is None:
            break
    told = "".join(f"; {count:,} left alone: {code}" for code, count in sorted(skipped.items()))
    one = len(jobs) == 1
    call.printer.done(
        f"{len(jobs):,} job{'' if one else 's'} {'is' if one else 'are'} {change.done}{told}.",
        {"done": len(jobs), "jobs": jobs, "skipped": dict(skipped)},
    )
    return exit_codes.FAILED if skipped else exit_codes.DONE
