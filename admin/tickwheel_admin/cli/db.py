"""`tickwheel db`: create, upgrade and check the schema, or print it as SQL."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tickwheel_admin.cli.common import Failure, add_config_flags, config_of, make_data_directory
from tickwheel_admin.store.database import migrate
from tickwheel_admin.store.database.connections import create_engine
from tickwheel_admin.store.database.ddl import DIALECTS, generate_ddl

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
examples:
  tickwheel db upgrade --config /etc/tickwheel.toml
  tickwheel db check                    exit code 1 if the schema is not as it should be
  tickwheel db ddl postgresql           for a review
"""


def register(subparsers: Subparsers) -> None:
    """Add the command. Each subcommand sets `run`: from its arguments to the exit code."""
    parser = subparsers.add_parser(
        "db", help="create, upgrade, check or print the schema", epilog=_EXAMPLES
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    command = commands.add_parser("upgrade", help="bring the schema to this program's revision")
    add_config_flags(command)
    command.set_defaults(run=_upgrade)

    command = commands.add_parser("check", help="say what is wrong; exit code 1 if anything is")
    add_config_flags(command)
    command.set_defaults(run=_check)

    command = commands.add_parser("ddl", help="print the schema as SQL")
    command.add_argument("dialect", nargs="?", choices=DIALECTS, help="print this one")
    command.add_argument("--write", type=Path, metavar="DIR", help="write a file for each dialect")
    command.set_defaults(run=_ddl)


def _upgrade(args: argparse.Namespace) -> int:
    def work(engine: sa.Engine) -> int:
        changed = migrate.upgrade(engine)
        print(f"The schema {'is now' if changed else 'was already'} at revision {migrate.head()}.")
        return 0

    return _with_engine(args, work)


def _check(args: argparse.Namespace) -> int:
    def work(engine: sa.Engine) -> int:
        problems = migrate.check(engine)
        print("\n".join(problems) or f"The schema is as revision {migrate.head()} should be.")
        return 1 if problems else 0

    return _with_engine(args, work)


def _ddl(args: argparse.Namespace) -> int:
    if args.write is not None:
        for name in DIALECTS:
            (args.write / f"{name}.sql").write_text(generate_ddl(name), encoding="utf-8")
    elif args.dialect is not None:
        print(generate_ddl(args.dialect), end="")
    else:
        raise Failure(f"say which: {', '.join(DIALECTS)}, or all with --write DIRECTORY")
    return 0


def _with_engine(args: argparse.Namespace, work: Callable[[sa.Engine], int]) -> int:
    """Open the configured database; what a person can put right ends as a sentence."""
    config = config_of(args)
    make_data_directory(config)
    engine = create_engine(config.database_url, connections=1)
    try:
        return work(engine)
    except migrate.SchemaError as error:
        raise Failure(str(error)) from None
    except sa.exc.DBAPIError as error:
        # The driver's own words: SQLAlchemy's would show the whole statement.
        place = engine.url.render_as_string(hide_password=True)
        raise Failure(f"{place}: {str(error.orig).strip()}") from None
    finally:
        engine.dispose()
