"""`tickwheel db`: create, upgrade and check the schema, or print it as SQL."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tickwheel_admin.config import Config, ConfigError, load_config
from tickwheel_admin.store import migrate
from tickwheel_admin.store.connections import create_engine
from tickwheel_admin.store.ddl import DIALECTS, generate_ddl

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def register(subparsers: Subparsers) -> None:
    """Add the command. Each subcommand sets `run`: from its arguments to the exit code."""
    parser = subparsers.add_parser("db", help="create, upgrade, check or print the schema")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    command = commands.add_parser("upgrade", help="bring the schema to this program's revision")
    _add_config(command)
    command.set_defaults(run=_upgrade)

    command = commands.add_parser("check", help="say what is wrong; exit code 1 if anything is")
    _add_config(command)
    command.set_defaults(run=_check)

    command = commands.add_parser("ddl", help="print the schema as SQL")
    command.add_argument("dialect", nargs="?", choices=DIALECTS, help="print this one")
    command.add_argument("--write", type=Path, metavar="DIR", help="write a file for each dialect")
    command.set_defaults(run=_ddl)


def _add_config(command: argparse.ArgumentParser) -> None:
    # No flag for the URL: other users of the machine could read its password in the process list.
    command.add_argument(
        "--config",
        metavar="FILE",
        help="TOML file with the settings; those in the environment (TICKWHEEL_DATABASE_URL) win",
    )


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
        return _failure(f"say which: {', '.join(DIALECTS)}, or all with --write DIRECTORY")
    return 0


def _with_engine(args: argparse.Namespace, work: Callable[[sa.Engine], int]) -> int:
    """Open the configured database; what a person can put right ends as a sentence."""
    try:
        config = load_config(file=args.config)
        _make_file(config)
        engine = create_engine(config.database_url, connections=1)
    except (ConfigError, OSError) as error:
        return _failure(str(error))
    try:
        return work(engine)
    except migrate.SchemaError as error:
        return _failure(str(error))
    except sa.exc.DBAPIError as error:
        # The driver's own words: SQLAlchemy's would show the whole statement.
        place = engine.url.render_as_string(hide_password=True)
        return _failure(f"{place}: {str(error.orig).strip()}")
    finally:
        engine.dispose()


def _make_file(config: Config) -> None:
    """Make the embedded database for its owner only; SQLite's other files follow it."""
    if config.is_embedded:
        file = Path(sa.make_url(config.database_url).database or "")
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600)


def _failure(text: str) -> int:
    print(f"tickwheel db: {text}", file=sys.stderr)
    return 1
