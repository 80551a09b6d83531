"""`tickwheel doctor`: looks at database, admins, network and disks, and changes nothing."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import sqlalchemy as sa

from tickwheel_admin import __version__
from tickwheel_admin.app.services import create_cipher
from tickwheel_admin.cli.common import Failure, add_config_flags, config_of
from tickwheel_admin.cli.doctor import database as of_database
from tickwheel_admin.cli.doctor import installation as of_installation
from tickwheel_admin.cli.doctor import machine, network
from tickwheel_admin.cli.doctor import slow_statements as of_statements
from tickwheel_admin.cli.doctor.finding import Finding, Grade, error
from tickwheel_admin.config import Config
from tickwheel_admin.services.overview.attention.service import Attention
from tickwheel_admin.services.secrets.readability import unreadable_secrets
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Database, DatabaseUnavailable, StatementRefused
from tickwheel_admin.store.database.migrate import check
from tickwheel_admin.store.database.server_facts import read_server_facts
from tickwheel_admin.store.doctor.installation import (
    LiveAdmin,
    clocks_of_nodes,
    failing_channels,
    live_admins,
    pauses_that_last,
    sdks_of_nodes,
    unreached_addresses,
)
from tickwheel_admin.store.doctor.server_settings import read_server_settings, read_table_sizes
from tickwheel_admin.store.doctor.slow_statements import read_slow_counters, read_slow_statements
from tickwheel_admin.store.self_audit.results import differences_stand
from tickwheel_admin.store.system.moved import read_move

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

T = TypeVar("T")

_DESCRIPTION = """\
Look for what is set up wrong or about to fail: settings and schema of the database, clocks,
versions, addresses and the proxies before them, disks, keys, and all that needs attention. Each
finding comes with its remedy. Nothing is changed.
"""
_EXAMPLES = """\
examples:
  tickwheel doctor
  tickwheel doctor --output json
  tickwheel doctor --spool /var/lib/billing/spool    also the disk of a node on this machine

Exit codes: 0 nothing was found, 1 something was, 2 wrong usage or configuration.
"""
_ROUND_TRIPS = 7
_TABLES_SHOWN = 5


class Report(msgspec.Struct, kw_only=True):
    """What was looked at, and what was found."""

    version: str
    database: str = ""
    admins: dict[str, str] = {}  # names by URL
    tables: dict[str, int] = {}  # the largest ones, and their bytes
    findings: list[Finding] = []
    notes: list[str] = []  # what could be looked at, if more were switched on


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "doctor",
        help="look for what is set up wrong or about to fail",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_config_flags(parser)
    parser.add_argument(
        "--output", choices=("text", "json"), default="text", help="for people, or for programs"
    )
    parser.add_argument(
        "--spool",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="spool of a node on this machine; may be repeated",
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    report = examine(config_of(args), spools=args.spool)
    if args.output == "json":
        print(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        _print(report)
    return 1 if report.findings else 0


def examine(config: Config, *, spools: list[Path]) -> Report:
    """Look at everything."""
    report = Report(version=__version__)
    found = report.findings
    for spool in spools:
        if not spool.is_dir():
            raise Failure(f"--spool: there is no directory {spool}")
        found += machine.disk("the spool", spool)
    if config.is_embedded:
        found += machine.embedded(config.data_dir)
        found += machine.disk("the data directory", config.data_dir)
    found += network.proxies(
        console_url=config.console_url,
        public_url=config.public_url,
        trusted=config.trusted_proxies,
    )
    urls = {config.console_url: "The console"} if config.console_url != config.public_url else {}
    if not config.is_embedded or Path(sa.make_url(config.database_url).database or "").exists():
        urls |= _examine_database(config, report)
    else:
        found.append(
            error(
                "database.missing",
                f"There is no database at {sa.make_url(config.database_url).database}.",
                "Say where it is with --data-dir, --config or TICKWHEEL_DATABASE_URL; or start"
                " `tickwheel serve`, which makes one.",
            )
        )
    found += asyncio.run(network.reachability(urls))
    found.sort(key=lambda each: each.grade is not Grade.ERROR)
    return report


def _examine_database(config: Config, report: Report) -> dict[str, str]:
    """Add what is found; returns the addresses of admins."""
    database = Database(config.database_url, threads=2)
    try:
        _DatabaseVisit(config, database, report).examine()
    except DatabaseUnavailable as failure:
        report.findings.append(
            error(
                "database.reach",
                f"The database does not answer: {failure}.",
                "Look at TICKWHEEL_DATABASE_URL, at the server and its log, and at the firewall.",
            )
        )
        return {}
    finally:
        database.close_sync()
    return {url: f"The admin {name}" for url, name in report.admins.items()}


class _DatabaseVisit:
    """All that is asked of one database."""

    def __init__(self, config: Config, database: Database, report: Report) -> None:
        self._config = config
        self._database = database
        self._report = report
        self._found = report.findings

    def examine(self) -> None:
        facts = self._ask(read_server_facts)
        self._report.database = f"{facts.kind} {facts.version}"
        settings = self._ask(read_server_settings)
        kind = facts.kind.lower()
        self._found += of_database.durability(kind, settings)
        self._found += of_database.round_trip(self._round_trip_ms())
        self._examine_statements(kind)
        problems = check(self._database.engine)
        for problem in problems:
            self._found.append(
                error(
                    "database.schema",
                    problem,
                    "Run `tickwheel db upgrade`; what was changed by hand, change back: sql/ has"
                    " the schema.",
                )
            )
        sizes = self._ask(read_table_sizes)
        self._report.tables = {each.name: each.bytes for each in sizes[:_TABLES_SHOWN]}
        self._found += of_database.tables(settings, sizes)
        if facts.revision != facts.needed:
            return  # the rest would ask for tables that may not be there
        if (move := self._ask(read_move)) is not None:
            self._found.append(error("database.moved", f"Here {move.sentence}.", "Go there."))
        now = self._ask(now_ms)
        self._found += of_installation.clock(time.time_ns() // 1_000_000 - now)
        admins = self._ask(lambda conn: live_admins(conn, now=now))
        self._found += of_database.room(settings, admins=len(admins))
        self._examine_installation(admins, now=now)

    def _examine_installation(self, admins: list[LiveAdmin], *, now: int) -> None:
        self._report.admins = {each.url: each.name for each in admins}
        by_name = {each.name: each.version for each in admins}
        self._found += of_installation.nobody_serves(by_name)
        self._found += of_installation.versions(__version__, by_name, self._ask(sdks_of_nodes))
        self._found += of_installation.node_clocks(
            self._ask(lambda conn: clocks_of_nodes(conn, now=now))
        )
        cipher = create_cipher(self._config)
        self._found += of_installation.secrets(
            self._ask(lambda conn: unreadable_secrets(conn, cipher)), has_key=bool(cipher.key_ids)
        )
        self._found += of_installation.reach_of_executors(
            self._ask(lambda conn: unreached_addresses(conn, now=now))
        )
        self._found += of_installation.left_behind(
            self._ask(pauses_that_last),
            self._ask(lambda conn: failing_channels(conn, now=now)),
            now=now,
        )
        self._found += of_installation.self_audit(self._ask(differences_stand))
        looked = asyncio.run(Attention(self._database).look(COMMAND_LINE))
        self._found += of_installation.attention(looked.concerns)

    def _examine_statements(self, kind: str) -> None:
        try:
            found = self._database.read_sync(read_slow_statements)
        except StatementRefused:  # its user may not read them
            found = None
        if found is not None:
            self._found += of_statements.slow_statements(found)
            return
        self._report.notes.append(of_statements.not_counted(kind))
        if kind != "postgresql":
            self._found += of_statements.slow_counters(self._ask(read_slow_counters))

    def _ask(self, question: Callable[[sa.Connection], T]) -> T:
        try:
            return self._database.read_sync(question)
        except StatementRefused as refused:
            raise Failure(
                f"the database refuses a question: {refused}; give the user of Tickwheel the right"
                " to read its own tables and the server's settings"
            ) from None

    def _round_trip_ms(self) -> float:
        def measure(conn: sa.Connection) -> float:
            took = []
            for _ in range(_ROUND_TRIPS):
                began = time.perf_counter()
                conn.execute(sa.select(1)).scalar_one()
                took.append(time.perf_counter() - began)
            return statistics.median(took) * 1000

        return self._ask(measure)


def _print(report: Report) -> None:
    for line in _lines(report):
        print(line)
    sys.stdout.flush()


def _lines(report: Report) -> Iterator[str]:
    yield f"Tickwheel {report.version}; database: {report.database or 'not reached'}"
    for url, admin in report.admins.items():
        yield f"admin: {admin} at {url}"
    for name, size in report.tables.items():
        yield f"table: {name}, {size / 1024 / 1024:,.1f} MiB"
    for note in report.notes:
        yield f"note: {note}"
    if not report.findings:
        yield "Nothing was found."
        return
    for finding in report.findings:
        yield f"\n{finding.grade.upper()}  {finding.check}"
        yield f"  {finding.what}"
        yield f"  → {finding.remedy}"
    count = len(report.findings)
    yield f"\n{count} finding{'s' if count > 1 else ''}."
