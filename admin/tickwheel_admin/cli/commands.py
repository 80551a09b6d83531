"""All commands, with what they need of the server."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import structlog

from tickwheel_admin import __version__
from tickwheel_admin.cli import (
    audit,
    cron,
    db,
    demo,
    imports,
    scripts,
    secret_key,
    serve,
    tokens,
    users,
)
from tickwheel_admin.cli.backups import backup, restore
from tickwheel_admin.cli.client import commands as client
from tickwheel_admin.cli.common import Failure
from tickwheel_admin.cli.doctor import command as doctor
from tickwheel_admin.cli.parser import CommandParser
from tickwheel_admin.cli.proofs import verify
from tickwheel_admin.config import ConfigError
from tickwheel_admin.log_setup import redact_secrets

_EXAMPLES = """\
examples:
  tickwheel demo                      look around: an admin, two nodes and some jobs
  tickwheel serve                     an admin with its embedded database, on this machine only
  tickwheel serve --config /etc/tickwheel.toml
  tickwheel backup FILE               write everything but runs to a file; restore reads it
  tickwheel doctor                    what is set up wrong, each with its remedy
  tickwheel db upgrade                bring a database server's schema up to date
  tickwheel user reset-password admin when the password is lost
  tickwheel token create admin ci     a token for the API
  tickwheel cron next '0 9 * * 1-5'   when an expression fires
  tickwheel audit xxl-job --from URL  what an existing XXL-JOB lost, doubled or ran late
  tickwheel import xxl-job --from URL what would be imported from it; --apply imports it
  tickwheel import crontab FILE       the same of the lines of a crontab
  tickwheel import quartz --from URL  the same of the tables of Quartz 2

with a server and an API token, from any machine:
  tickwheel login --url URL           note both
  tickwheel job list                  and run, backfill, workflow, executor, node, calendar, pool,
                                      secret, alarm, failure: `tickwheel job --help` has examples
  tickwheel run start EXECUTOR/JOB --wait --follow
                                      the exit code says how it ended
  tickwheel verify FILE --key KEY     whether the file of a proof is genuine; asks no server
  tickwheel backfill preview EXECUTOR/JOB --from 7d --to 1d
                                      which fires of the past would run
  tickwheel top                       what runs and waits, live

Settings come from flags, the environment (TICKWHEEL_…) and a TOML file; see docs/configuration.md.
Exit codes: 0 done, 1 failed, 2 wrong usage or configuration; others are in docs/cli.md.
"""


def run(words: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    args = make_parser().parse_args(words)
    if not structlog.is_configured():  # `serve` says more of it
        # The standard output is for what the command tells, which may be JSON for a program.
        structlog.configure(
            processors=[redact_secrets, *structlog.get_config()["processors"]],
            logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        )
    try:
        code: int = args.run(args)
    except ConfigError as error:
        print("tickwheel: the configuration has problems:", file=sys.stderr)
        for problem in error.problems:
            print(f"  {problem}", file=sys.stderr)
        return 2
    except Failure as failure:
        print(f"tickwheel: {failure}", file=sys.stderr)
        return failure.exit_code
    return code


def make_parser() -> argparse.ArgumentParser:
    """The parser with every command."""
    parser = CommandParser(
        prog="tickwheel",
        description="Tickwheel, a distributed job scheduler.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"tickwheel {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (
        serve,
        demo,
        db,
        backup,
        restore,
        doctor,
        users,
        tokens,
        cron,
        audit,
        imports,
        scripts,
        secret_key,
        verify,
        client,
    ):
        module.register(commands)
    version = commands.add_parser("version", help="print the version")
    version.set_defaults(run=_print_version)
    return parser


def _print_version(_args: argparse.Namespace) -> int:
    print(f"tickwheel {__version__}")
    return 0
