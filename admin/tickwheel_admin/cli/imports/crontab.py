"""`tickwheel import crontab`: lines of crontabs as script jobs."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tickwheel_admin.cli.common import Failure
from tickwheel_admin.cli.imports.arguments import add_import_flags
from tickwheel_admin.cli.imports.foreign import ForeignScheduler, run_import
from tickwheel_admin.domain.imports.crontab.jobs import (
    CrontabFile,
    CrontabRules,
    map_crontab,
)
from tickwheel_admin.domain.imports.crontab.lines import MAX_FILE_BYTES, Layout, read_crontab
from tickwheel_admin.domain.imports.foreign import ForeignCalendar, ForeignJob
from tickwheel_admin.domain.imports.notes import ImportNote, note
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.zones import zone_of
from tickwheel_admin.services.imports.plan import PAGE

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

MAX_JOBS = 10_000  # of one import, which is one transaction
MAX_SOURCE_CHARS = 200
_SPOOL = "crontabs"  # the directory whose files have the names of their users
_SYSTEM = ("crontab", "cron.d")  # /etc/crontab, and the directory beside it
_DESCRIPTION = """\
Import the lines of crontabs as script jobs of one executor, whose nodes offer the handler “script”
(tickwheel-agent does). Without --apply it only says what it would do. All of it is imported, or
nothing. Importing again finds what was imported before and brings what has changed since.
"""
_EXAMPLES = """\
examples:
  crontab -l | tickwheel import crontab - --source web1     the plan
  tickwheel import crontab /etc/crontab /etc/cron.d --executor web --apply
  tickwheel import crontab /var/spool/cron/crontabs --executor web --user-label run_as

Jobs are created paused, for cron goes on running them: take a line out of the crontab, then resume
its job. --active lets them fire at once.

docs/import-crontab.md says what becomes of variables, %, CRON_TZ, MAILTO and users.

Exit codes: 0 done; 1 something cannot be imported, as said; 2 nothing could be done, or wrong
usage; stderr says why.
"""


def register(commands: Subparsers) -> None:
    """Add the command."""
    command = commands.add_parser(
        "crontab",
        help="import the lines of crontabs as script jobs",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a crontab, a directory of them, or - for standard input",
    )
    layout = command.add_mutually_exclusive_group()
    layout.add_argument(
        "--user",
        dest="layout",
        action="store_const",
        const=Layout.USER,
        help="the files are crontabs of users: no column names one (default, but see --system)",
    )
    layout.add_argument(
        "--system",
        dest="layout",
        action="store_const",
        const=Layout.SYSTEM,
        help="behind the schedule stands a user (default for /etc/crontab and /etc/cron.d)",
    )
    command.add_argument(
        "--timezone",
        metavar="NAME",
        help="in which cron reads schedules (default: that of this machine)",
    )
    command.add_argument(
        "--user-label",
        metavar="LABEL",
        help="let a job run on nodes only that have its user as this label",
    )
    command.add_argument(
        "--mail-channel",
        action="append",
        default=[],
        metavar="[ADDRESS=]CHANNEL",
        help="a channel of alarms for failures of jobs with this address in MAILTO, or with any"
        " that has no channel of its own; again for more (default: nobody is told)",
    )
    command.add_argument(
        "--source",
        metavar="NAME",
        help="names the machine, so that another import of it finds its jobs again",
    )
    add_import_flags(command)
    command.set_defaults(run=_import_crontab)


def _import_crontab(args: argparse.Namespace) -> int:
    return run_import(args, partial(_opened, args))


@contextmanager
def _opened(args: argparse.Namespace) -> Iterator[ForeignScheduler]:
    """The files of the flags; raises Failure, ScheduleError."""
    yield _Crontabs(args, zone_of(args.timezone or _zone_here()).name)


class _Crontabs:
    """The files of the command line, read at once: they are small."""

    is_whole = True

    def __init__(self, args: argparse.Namespace, zone: str) -> None:
        self.name = args.source or "crontab"
        self.title = f"crontab, schedules in {zone}"
        rules = CrontabRules(
            timezone=zone,
            user_label=args.user_label,
            mail_channels=_mail_channels(args.mail_channel),
        )
        self._jobs: list[ForeignJob] = []
        remarks: list[ImportNote] = []
        sources: list[str] = []
        for path in _files(args.files):
            layout = args.layout or _layout_of(path)
            file = CrontabFile(
                source=_source(args.source, path),
                label="standard input" if path == _STDIN else str(path),
                user=path.name if layout is Layout.USER and path.parent.name == _SPOOL else "",
            )
            if path.parent.name == "cron.d" and "." in path.name:
                text = f"{path}: cron reads no file with a dot in its name"
                remarks.append(note("dot", text))
            found = map_crontab(file, read_crontab(_content(path), layout), rules)
            self._jobs += found.jobs
            remarks += found.remarks
            sources.append(file.source)
        if len(self._jobs) > MAX_JOBS:
            raise Failure(f"these are more than {MAX_JOBS:,} lines; import the files in parts")
        self.remarks = remarks
        self.sources = sources

    def count(self) -> int:
        return len(self._jobs)

    def calendars(self) -> Sequence[ForeignCalendar]:
        return ()

    def pages(self) -> Iterator[Sequence[ForeignJob]]:
        for start in range(0, len(self._jobs), PAGE):
            yield self._jobs[start : start + PAGE]


def _mail_channels(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in given:
        # No address has a "=" behind its "@", and names of channels may have any.
        head, equals, tail = each.partition("=")
        address, name = (head, tail) if equals and "@" in head else ("", each)
        if not name.strip():
            raise Failure(f"--mail-channel {each[:80]}: write CHANNEL, or ops@example.com=CHANNEL")
        found[address.strip()] = name.strip()
    return found


_STDIN = Path("-")


def _files(names: Sequence[str]) -> Iterator[Path]:
    for name in names:
        path = Path(name)
        if path == _STDIN or not path.is_dir():
            yield path
            continue
        files = sorted(each for each in path.iterdir() if each.is_file())
        yield from (each for each in files if not _is_left_aside(each.name))


def _is_left_aside(name: str) -> bool:
    """Whether no cron reads it in a directory: hidden files, and copies of editors and packages."""
    return name.startswith((".", "#")) or name.endswith(("~", ".rpmsave", ".rpmorig", ".rpmnew"))


def _layout_of(path: Path) -> Layout:
    is_system = path.name == _SYSTEM[0] or path.absolute().parent.name == _SYSTEM[1]
    return Layout.SYSTEM if is_system else Layout.USER


def _content(path: Path) -> bytes:
    try:
        if path == _STDIN:
            content = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            with path.open("rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise Failure(f"{path} is larger than {MAX_FILE_BYTES // 1024**2} MiB, so it is no crontab")
    return content


def _source(name: str | None, path: Path) -> str:
    place = "-" if path == _STDIN else str(path.absolute())
    source = f"crontab:{name or ''}:{place}"
    if len(source) > MAX_SOURCE_CHARS:
        raise Failure(f"{path}: its path and --source are too long together")
    return source


def _zone_here() -> str:
    """The zone of this machine, as far as it has a name."""
    names = [os.environ.get("TZ", "").lstrip(":")]
    with contextlib.suppress(OSError, UnicodeDecodeError):
        names.append(Path("/etc/timezone").read_text(encoding="ascii").strip())
    with contextlib.suppress(OSError):
        names.append(str(Path("/etc/localtime").readlink()).partition("zoneinfo/")[2])
    for name in names:
        try:
            if name:
                return zone_of(name).name
        except ScheduleError:
            continue
    return "UTC"
