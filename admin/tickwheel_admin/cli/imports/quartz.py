"""`tickwheel import quartz`: jobs, triggers and calendars out of the tables of Quartz 2."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tickwheel_admin.cli.common import Failure
from tickwheel_admin.cli.imports.arguments import add_import_flags
from tickwheel_admin.cli.imports.foreign import ForeignScheduler, run_import
from tickwheel_admin.domain.imports.foreign import ForeignCalendar, ForeignJob
from tickwheel_admin.domain.imports.notes import ImportNote, note
from tickwheel_admin.domain.imports.quartz.calendars import map_calendars
from tickwheel_admin.domain.imports.quartz.jobs import QuartzRules, map_quartz_job
from tickwheel_admin.domain.imports.quartz.time_zones import zone_name
from tickwheel_admin.services.imports.plan import PAGE
from tickwheel_admin.store.imports.quartz.connection import (
    QuartzDatabase,
    open_quartz,
    parsed_url,
)
from tickwheel_admin.store.imports.quartz.tables import (
    chosen_scheduler,
    count_quartz_jobs,
    paused_groups,
    read_calendars_of,
    read_quartz_jobs,
)

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

PASSWORD_VARIABLE = "TICKWHEEL_QUARTZ_PASSWORD"  # noqa: S105 - its name
MAX_SOURCE_CHARS = 200
_DESCRIPTION = """\
Import jobs, triggers and calendars of Quartz 2 into one executor, from the tables in which Quartz
keeps them. Nothing is changed there. Without --apply it only says what it would do. Importing
again finds what was imported before and brings what has changed since.
"""
_EXAMPLES = """\
examples:
  export TICKWHEEL_QUARTZ_PASSWORD=…           of the user of the database; SELECT is enough
  tickwheel import quartz --from mysql://quartz@db.example:3306/app --executor billing \\
      --timezone Europe/Berlin                 the plan
  … --handler com.example.Report=report --apply

Jobs are created paused, for Quartz goes on firing them: stop its scheduler, then resume them.

docs/import-quartz.md says what becomes of each trigger, calendar and value.

Exit codes: 0 done; 1 something cannot be imported, as said; 2 nothing could be done, or wrong
usage; stderr says why.
"""


def register(commands: Subparsers) -> None:
    """Add the command."""
    command = commands.add_parser(
        "quartz",
        help="import jobs, triggers and calendars of Quartz 2, by its tables",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "--from",
        dest="source_url",
        required=True,
        metavar="URL",
        help="its database: mysql://USER@HOST:3306/DATABASE or postgresql://…; best with the"
        f" password in the environment variable {PASSWORD_VARIABLE}",
    )
    command.add_argument(
        "--prefix", default="QRTZ_", metavar="PREFIX", help="of the tables (default: QRTZ_)"
    )
    command.add_argument(
        "--scheduler",
        metavar="NAME",
        help="org.quartz.scheduler.instanceName (default: the only one in the tables)",
    )
    command.add_argument(
        "--timezone",
        metavar="NAME",
        help="of Quartz's JVM; needed for daily triggers, and for calendars without a zone",
    )
    command.add_argument(
        "--handler",
        action="append",
        default=[],
        metavar="CLASS=NAME",
        help="what the handler of jobs of this class is called here; again for more",
    )
    command.add_argument(
        "--simple-names",
        action="store_true",
        help="call other handlers as their class, without its package (default: with it)",
    )
    command.add_argument(
        "--source",
        metavar="NAME",
        help="names the installation, so that another import finds it again although its address"
        " changed (default: host:port/database)",
    )
    add_import_flags(command)
    command.set_defaults(run=_import_quartz)


def _import_quartz(args: argparse.Namespace) -> int:
    return run_import(args, partial(_opened, args))


@contextmanager
def _opened(args: argparse.Namespace) -> Iterator[ForeignScheduler]:
    url = _url(args.source_url)
    jvm = zone_name(args.timezone) if args.timezone else None
    handlers = _handlers(args.handler)
    with open_quartz(url, prefix=args.prefix) as database:
        scheduler = chosen_scheduler(database, args.scheduler)
        mapped = map_calendars(read_calendars_of(database, scheduler), jvm)
        name = f"quartz:{args.source or _place(url)}/{scheduler}"
        if len(name) > MAX_SOURCE_CHARS:
            raise Failure(
                f"the names of source and scheduler have {len(name)} characters; name the"
                " source with --source, in fewer"
            )
        rules = QuartzRules(
            source=name, known=mapped.zones, handlers=handlers, simple_names=args.simple_names
        )
        yield _Quartz(database, scheduler, rules, mapped.calendars)


class _Quartz:
    """One scheduler, read while it is planned and again while it is written."""

    is_whole = False

    def __init__(
        self,
        database: QuartzDatabase,
        scheduler: str,
        rules: QuartzRules,
        calendars: Sequence[ForeignCalendar],
    ) -> None:
        self.name = rules.source
        self.sources = [rules.source]
        jvm = rules.known.jvm
        zone = f", the JVM's zone is {jvm}" if jvm else ""
        self.title = f"Quartz “{scheduler}” at {database.place}{zone}"
        self.remarks: list[ImportNote] = [
            note("paused_group", f"trigger group “{group}” is paused: new triggers of it are not")
            for group in paused_groups(database, scheduler)
        ]
        self._database = database
        self._scheduler = scheduler
        self._rules = rules
        self._calendars = calendars

    def count(self) -> int:
        return count_quartz_jobs(self._database, self._scheduler)

    def calendars(self) -> Sequence[ForeignCalendar]:
        return self._calendars

    def pages(self) -> Iterator[Sequence[ForeignJob]]:
        read = read_quartz_jobs(self._database, self._scheduler)
        jobs = (job for each in read for job in map_quartz_job(each, self._rules))
        while page := list(islice(jobs, PAGE)):
            yield page


def _handlers(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in given:
        class_name, equals, name = each.partition("=")
        if not (class_name.strip() and equals and name.strip()):
            raise Failure(f"--handler {each[:80]}: write CLASS=NAME, com.example.Report=report")
        found[class_name.strip()] = name.strip()
    return found


def _url(given: str) -> str:
    """The URL with the password."""
    password = os.environ.get(PASSWORD_VARIABLE)
    url = parsed_url(given)
    if password and url.password is None:
        url = url.set(password=password)
    return url.render_as_string(hide_password=False)


def _place(url: str) -> str:
    parsed = sa.make_url(url)
    port = f":{parsed.port}" if parsed.port else ""
    return f"{(parsed.host or 'localhost').lower()}{port}/{parsed.database}"
