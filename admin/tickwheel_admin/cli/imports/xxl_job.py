"""`tickwheel import`: executors, jobs and users of an XXL-JOB, and the moves of its jobs."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tickwheel_admin.cli.common import Failure, add_config_flags, config_of, with_services
from tickwheel_admin.cli.imports.xxl_job_text import (
    moved_as_json,
    moved_as_text,
    plan_as_json,
    plan_as_text,
)
from tickwheel_admin.cli.xxl_job_source import add_url_flag, opened_source, source_url
from tickwheel_admin.domain.imports.fate import Fate
from tickwheel_admin.domain.imports.merge import ImportKind
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.zones import Zone, zone_of
from tickwheel_admin.domain.xxl_job.audit.zone_guess import choose_cron_zone
from tickwheel_admin.domain.xxl_job.records import XxlJob
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.services.xxl_job.imports.importer import AccessTokens, Failures
from tickwheel_admin.services.xxl_job.imports.installation import (
    NothingToImport,
    XxlInstallation,
    chosen_jobs,
    needs_cron_zone,
    read_installation,
)
from tickwheel_admin.services.xxl_job.imports.plan import ImportPlan, ImportRequest
from tickwheel_admin.services.xxl_job.moves.situation import Moved, Moving
from tickwheel_admin.services.xxl_job.moves.take_over import ClocksDiffer, TakeOver
from tickwheel_admin.services.xxl_job.moves.their_schedule import open_their_database
from tickwheel_admin.store.imports.source import SourceError
from tickwheel_admin.store.xxl_job.source.connection import source_name
from tickwheel_admin.store.xxl_job.their_schedule import ScheduleLockMissing

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

TOKEN_VARIABLE = "TICKWHEEL_XXL_JOB_ACCESS_TOKEN"  # noqa: S105 - its name
REFUSED = 1  # exit codes
COULD_NOT = 2
MAX_SOURCE_CHARS = 200

_DESCRIPTION = """\
Import executors, jobs, triggers and users of an XXL-JOB installation, 2.2 to 3.5, from its
database. Without --apply it only says what it would do, and changes nothing anywhere. Jobs are
created paused: XXL-JOB goes on firing them until --take-over moves them at an exact instant.
Importing again is safe: it finds what it imported before, whatever its name is now, and brings only
what has changed in XXL-JOB since. What was changed here as well stays as it is here, and is told.
"""
_EXAMPLES = """\
the way of an installation:
  export TICKWHEEL_XXL_JOB_PASSWORD=…          of the user of its database; SELECT is enough
  tickwheel import xxl-job --from mysql+pymysql://audit@db.example:3306/xxl_job \\
      --cron-zone Asia/Shanghai                the plan
  … --apply --access-token-file token.txt      do it
  … --group billing --take-over                these jobs fire here from now on, not there
  … --group billing --give-back                and back again

  --take-over and --give-back need a user with UPDATE on xxl_job_info and xxl_job_lock. They move
  what is imported and nothing else; run them again when they were interrupted.

access token: what the executors have as xxl.job.accessToken. It is stored encrypted. 3.5 has one
for each executor, which is read from its database; else it is read from --access-token-file, else
from the environment variable TICKWHEEL_XXL_JOB_ACCESS_TOKEN, else asked for. It is needed with
--apply, when executors are created.

Use the same --config, --data-dir or environment as the admin does; it need not be stopped.
docs/xxl-job-import.md explains every case.

Exit codes: 0 done; 1 something cannot be imported or moved, as said; 2 nothing could be done, or
wrong usage; stderr says why.
"""


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    command = subparsers.add_parser(
        "xxl-job",
        help="import an XXL-JOB installation, 2.2 to 3.5, by its database, and move its jobs",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_url_flag(command)
    command.add_argument(
        "--cron-zone",
        metavar="NAME",
        help="zone of the JVM of XXL-JOB's admin, in which cron is read (default: that of the"
        " import before; the first time it must be given, or is asked for)",
    )
    what = command.add_mutually_exclusive_group()
    what.add_argument("--apply", action="store_true", help="do what the plan says")
    what.add_argument(
        "--take-over",
        action="store_true",
        help="let imported jobs fire here and no longer in XXL-JOB, at an exact instant",
    )
    what.add_argument(
        "--give-back", action="store_true", help="let jobs that were taken over fire there again"
    )
    command.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="NAME",
        help="this executor and its jobs only, by AppName or title; again for more",
    )
    command.add_argument(
        "--job",
        type=int,
        action="append",
        default=[],
        metavar="ID",
        help="this job only, by XXL-JOB's id; again for more",
    )
    command.add_argument(
        "--source",
        metavar="NAME",
        help="what names this installation, so that another import finds it again although its"
        " address changed (default: host:port/database)",
    )
    command.add_argument(
        "--access-token-file", type=Path, metavar="FILE", help="file with the access token"
    )
    command.add_argument(
        "--format", choices=("text", "json"), default="text", help="text for people (default)"
    )
    add_config_flags(command)
    command.set_defaults(run=_import_xxl_job)


def _import_xxl_job(args: argparse.Namespace) -> int:
    try:
        with opened_source(args) as source:
            theirs = read_installation(source)
        chosen = chosen_jobs(theirs, groups=args.group, job_ids=args.job)
        if args.take_over or args.give_back:
            return _move(args, theirs, chosen)
        return _plan_or_apply(args, theirs, chosen)
    except (SourceError, NothingToImport, ScheduleError, Failure) as error:
        print(f"tickwheel: {error}", file=sys.stderr)
    except (ScheduleLockMissing, ClocksDiffer) as error:
        print(f"tickwheel: {error}", file=sys.stderr)
    except TimeoutError:
        print(
            "tickwheel: the database did not answer in time; run the command again",
            file=sys.stderr,
        )
    return COULD_NOT


# --- importing -----------------------------------------------------------------------------------


def _plan_or_apply(
    args: argparse.Namespace, theirs: XxlInstallation, chosen: Sequence[XxlJob]
) -> int:
    async def work(services: Services) -> tuple[ImportPlan, Failures]:
        zone = _zone(args, await services.importer.zone_before(_source(args)), chosen)
        request = ImportRequest(
            source=_source(args),
            cron_zone=zone,
            groups=tuple(args.group),
            job_ids=frozenset(args.job),
        )
        plan = await services.importer.plan(COMMAND_LINE, theirs, request)
        if not args.apply:
            return plan, {}
        tokens = AccessTokens(by_group=theirs.tokens, for_all=_access_token(args, plan))
        return plan, await services.importer.apply(COMMAND_LINE, plan, tokens)

    plan, failures = with_services(config_of(args), work)
    lines = plan_as_json if args.format == "json" else plan_as_text
    for line in lines(plan, failures, applied=args.apply):
        print(line)
    cannot = any(plan.counts(kind)[Fate.CANNOT] for kind in ImportKind)
    return REFUSED if cannot or failures else 0


def _source(args: argparse.Namespace) -> str:
    name: str = args.source.strip() if args.source else source_name(source_url(args))
    if not 1 <= len(name) <= MAX_SOURCE_CHARS:
        raise Failure(f"--source has 1 to {MAX_SOURCE_CHARS} characters")
    return name


def _zone(args: argparse.Namespace, before: str | None, jobs: Sequence[XxlJob]) -> Zone:
    """The zone of cron: given, or that of the import before, or asked for."""
    if args.cron_zone is not None:
        return zone_of(args.cron_zone)
    if before is not None:
        return zone_of(before)
    if not needs_cron_zone(jobs):
        return zone_of("UTC")
    guess = choose_cron_zone(jobs, given=None)
    fits = f"{guess.zone.name} fits {guess.fits} of {guess.votes} running jobs"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Failure(
            "name the zone of XXL-JOB's admin, in which cron is read, with --cron-zone"
            + (f"; {fits}" if guess.is_confirmed else ", such as Asia/Shanghai")
        )
    if guess.is_confirmed:
        print(f"{fits}.", file=sys.stderr)
    print(
        f"In which zone does XXL-JOB's admin read cron? [{guess.zone.name}] ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    return zone_of(sys.stdin.readline().strip() or guess.zone.name)


def _access_token(args: argparse.Namespace, plan: ImportPlan) -> str:
    """That of executors which have none of their own; "" when it is not needed."""
    if not plan.needs_token:
        return ""
    if args.access_token_file is not None:
        try:
            text: str = args.access_token_file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise Failure(f"cannot read {args.access_token_file}") from None
        return text.strip()
    if token := os.environ.get(TOKEN_VARIABLE, "").strip():
        return token
    names = ", ".join(plan.needs_token[:5]) + (" …" if len(plan.needs_token) > 5 else "")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Failure(
            f"an access token is needed, the xxl.job.accessToken of {names}: give it with"
            f" --access-token-file or in the environment variable {TOKEN_VARIABLE}"
        )
    return getpass.getpass(f"Access token of {names}: ", stream=sys.stderr).strip()


# --- moving --------------------------------------------------------------------------------------


def _move(args: argparse.Namespace, theirs: XxlInstallation, chosen: Sequence[XxlJob]) -> int:
    source = _source(args)
    groups = {group.id: group.app_name for group in theirs.groups}

    async def work(
        services: Services,
    ) -> tuple[Mapping[int, Moving], set[int], Moved, Zone]:
        known = await services.importer.imported(source, [job.id for job in chosen])
        zone = zone_of(args.cron_zone or await services.importer.zone_before(source) or "UTC")
        changed = set[int]()
        if args.take_over and known:
            changed = await _changed_since(services, args, theirs, zone) & known.keys()
        jobs = [each for their_id, each in known.items() if their_id not in changed]
        with open_their_database(source_url(args)) as database:
            await database.check()
            take_over = TakeOver(
                services.store,
                services.ids,
                services.events,
                database,
                source=source,
                actor=COMMAND_LINE,
            )
            move = take_over.take_over if args.take_over else take_over.give_back
            return known, changed, await move(jobs), zone

    known, changed, moved, zone = with_services(config_of(args), work)
    lines = moved_as_json if args.format == "json" else moved_as_text
    for line in lines(chosen, groups, known, changed, moved, taken_over=args.take_over, zone=zone):
        print(line)
    return REFUSED if moved.refused or changed else 0


async def _changed_since(
    services: Services, args: argparse.Namespace, theirs: XxlInstallation, zone: Zone
) -> set[int]:
    """Jobs that XXL-JOB runs differently from what was imported."""
    request = ImportRequest(
        source=_source(args),
        cron_zone=zone,
        groups=tuple(args.group),
        job_ids=frozenset(args.job),
    )
    plan = await services.importer.plan(COMMAND_LINE, theirs, request)
    return {job.their_id for job in plan.jobs if job.fate is not Fate.UNCHANGED}
