"""`tickwheel backfill`: run fires of the past, for whoever can read the admin's configuration."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from tickwheel_admin.cli.common import (
    Failure,
    add_config_flags,
    config_of,
    executor_ids,
    executors_by_name,
    with_services,
)
from tickwheel_admin.domain.backfills.backfill import ENDED, MAX_PARALLEL
from tickwheel_admin.domain.errors import NotFound
from tickwheel_admin.domain.fields import instant_from_iso, instant_to_iso, optional_iso
from tickwheel_admin.services.backfills.requests import (
    BackfillPreview,
    BackfillRequest,
    no_instant,
)
from tickwheel_admin.services.backfills.service import BackfillItem
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.administration import COMMAND_LINE

T = TypeVar("T")

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
examples:
  tickwheel backfill preview billing report --from 2026-03-01T00:00Z --to 2026-04-01T00:00Z
  tickwheel backfill start billing report --from 2026-03-01T00:00Z --to 2026-04-01T00:00Z \\
    --parallel 4
  tickwheel backfill list
  tickwheel backfill show 7
  tickwheel backfill pause 7          and resume, cancel

Use the same --config, --data-dir or environment as the admin does. The runs are made by running
admins, and not by this command.
"""


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "backfill",
        help="run fires of the past, each once",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, told, run in (
        ("preview", "how many instants there are, and how many have runs", _preview),
        ("start", "start a backfill; prints its number", _start),
    ):
        command = commands.add_parser(name, help=told)
        _add_request_flags(command)
        _finish(command, run)
    command = commands.add_parser("list", help="list the newest backfills")
    _finish(command, _list)
    for name, told, run in (
        ("show", "how far one has come", _show),
        ("pause", "start no further runs of one", _pause),
        ("resume", "let one go on", _resume),
        ("cancel", "end one, with its runs", _cancel),
    ):
        command = commands.add_parser(name, help=told)
        command.add_argument("number", type=int)
        _finish(command, run)


def _add_request_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("executor", help="name of the executor")
    command.add_argument("job", help="name of the job")
    command.add_argument(
        "--from", dest="from_at", required=True, metavar="INSTANT", help="the first instant"
    )
    command.add_argument(
        "--to",
        dest="to_at",
        required=True,
        metavar="INSTANT",
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
    command.add_argument("--newest-first", action="store_true", help="the newest instants first")
    command.add_argument(
        "--parameters", metavar="JSON", help="an object over the parameters of job and trigger"
    )


def _finish(command: argparse.ArgumentParser, run: object) -> None:
    add_config_flags(command)
    command.set_defaults(run=run)


def _request_of(args: argparse.Namespace) -> BackfillRequest:
    return BackfillRequest(
        from_at=_instant(args.from_at, "--from"),
        to_at=_instant(args.to_at, "--to"),
        trigger_id=args.trigger,
        newest_first=args.newest_first,
        parallel=args.parallel,
        parameters=args.parameters,
    )


def _instant(text: str, flag: str) -> int:
    try:
        return max(0, instant_from_iso(text))
    except (ValueError, OverflowError):
        raise Failure(
            f"{flag}: {text!r} is no date and time with its offset from UTC, such as"
            " 2026-03-01T00:00:00Z"
        ) from None


async def _job_of(services: Services, args: argparse.Namespace) -> int:
    [executor_id] = executor_ids(await executors_by_name(services), [args.executor])
    found = await services.jobs.called(COMMAND_LINE, args.job, executor_id)
    if not found:
        raise Failure(f"the executor {args.executor} has no job named {args.job}")
    return found[0]


def _done(args: argparse.Namespace, work: Callable[[Services], Awaitable[T]]) -> T:
    """What a use case of one backfill answers."""

    async def told(services: Services) -> T:
        try:
            return await work(services)
        except NotFound:
            raise Failure(f"there is no backfill {args.number}") from None

    return with_services(config_of(args), told)


def _preview(args: argparse.Namespace) -> int:
    request = _request_of(args)

    async def preview(services: Services) -> BackfillPreview:
        job_id = await _job_of(services, args)
        return await services.backfills.preview(COMMAND_LINE, job_id, request)

    found = with_services(config_of(args), preview)
    print(f"{found.total} instants, {found.existing} of them with runs already")
    if found.first_at is not None and found.last_at is not None:
        print(f"from {instant_to_iso(found.first_at)} to {instant_to_iso(found.last_at)}")
    if not found.total:
        print(no_instant(found).problems[0].message)
    return 0


def _start(args: argparse.Namespace) -> int:
    request = _request_of(args)

    async def start(services: Services) -> int:
        job_id = await _job_of(services, args)
        return await services.backfills.create(COMMAND_LINE, job_id, request)

    print(f"Backfill {with_services(config_of(args), start)} was started.")
    return 0


def _list(args: argparse.Namespace) -> int:
    async def find(services: Services) -> list[BackfillItem]:
        return (await services.backfills.page(COMMAND_LINE)).items

    items = with_services(config_of(args), find)
    for each in items:
        backfill = each.backfill
        done = f"{backfill.handled} of {backfill.total}"
        print(f"{backfill.id}  {backfill.state}  {done}  {each.executor_name} / {each.job_name}")
    if not items:
        print("There is no backfill.")
    return 0


def _show(args: argparse.Namespace) -> int:
    async def find(services: Services) -> BackfillItem:
        return await services.backfills.get(COMMAND_LINE, args.number)

    item = _done(args, find)
    backfill = item.backfill
    print(f"{item.executor_name} / {item.job_name}: {backfill.state}")
    print(f"from {instant_to_iso(backfill.from_at)} to {instant_to_iso(backfill.to_at)}")
    print(
        f"{backfill.total} instants, {backfill.existing} with runs already,"
        f" {backfill.open} open, {backfill.left} left"
    )
    print(", ".join(f"{backfill.counts()[each]} {each}" for each in ENDED))
    if backfill.reason:
        print(f"reason: {backfill.reason}")
    if backfill.ended_at is not None:
        print(f"ended {optional_iso(backfill.ended_at)}")
    return 0


def _pause(args: argparse.Namespace) -> int:
    _done(args, lambda s: s.backfills.pause(COMMAND_LINE, args.number))
    print(f"Backfill {args.number} is paused.")
    return 0


def _resume(args: argparse.Namespace) -> int:
    _done(args, lambda s: s.backfills.resume(COMMAND_LINE, args.number))
    print(f"Backfill {args.number} goes on.")
    return 0


def _cancel(args: argparse.Namespace) -> int:
    _done(args, lambda s: s.backfills.cancel(COMMAND_LINE, args.number))
    print(f"Backfill {args.number} is cancelled.")
    return 0
