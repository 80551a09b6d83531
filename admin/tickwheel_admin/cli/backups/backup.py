"""`tickwheel backup`: write everything to a file, or move it to another database."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tickwheel_admin import __version__
from tickwheel_admin.cli.backups.move import PASSWORD_VARIABLE, cancel_move, move
from tickwheel_admin.cli.backups.table_progress import TableProgress
from tickwheel_admin.cli.common import Failure, add_config_flags, config_of
from tickwheel_admin.config import Config
from tickwheel_admin.store.backup.engines import snapshot
from tickwheel_admin.store.backup.manifest import Manifest
from tickwheel_admin.store.backup.writer import write_backup
from tickwheel_admin.store.database.connections import create_engine
from tickwheel_admin.store.database.migrate import check

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_DESCRIPTION = """\
Write executors, jobs, schedules, users, secrets and settings to a file, as one consistent
state; admins go on meanwhile. Or move the installation to another database.
"""
_EXAMPLES = f"""\
examples:
  tickwheel backup tickwheel.backup               without runs and their logs
  tickwheel backup tickwheel.backup --with-runs   with them, and all other history
  tickwheel restore --check tickwheel.backup      whether the file is complete
  {PASSWORD_VARIABLE}=… tickwheel backup --move-to postgresql+psycopg://tickwheel@db/tickwheel

Secrets stay encrypted in the file, and their key is not in it: keep the key (secret_key, or
secret.key in the data directory) as well. See docs/backup.md.
"""


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "backup",
        help="write everything to a file, or move it to another database",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_config_flags(parser)
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="must not exist yet")
    parser.add_argument("--with-runs", action="store_true", help="also runs, logs and history")
    parser.add_argument(
        "--move-to",
        metavar="URL",
        help="move the installation to this database, runs and all; its admins stop. Best with"
        f" the password in {PASSWORD_VARIABLE}, as others may see the arguments of a process",
    )
    parser.add_argument(
        "--replace", action="store_true", help="with --move-to: delete what is there first"
    )
    parser.add_argument(
        "--cancel-move", action="store_true", help="stay at this database after all"
    )
    parser.set_defaults(run=_backup)


def _backup(args: argparse.Namespace) -> int:
    chosen = [args.file is not None, args.move_to is not None, args.cancel_move]
    if sum(chosen) != 1:
        raise Failure("give a FILE to write, or --move-to URL, or --cancel-move")
    if args.with_runs and args.file is None:
        raise Failure("--with-runs belongs to a FILE; a move takes the runs with it in any case")
    if args.replace and args.move_to is None:
        raise Failure("--replace belongs to --move-to")
    config = config_of(args)
    require_database(config)
    if args.move_to is not None:
        return move(config, args.move_to, replace=args.replace)
    if args.cancel_move:
        return cancel_move(config)
    return _write(config, args.file, with_runs=args.with_runs)


def require_database(config: Config) -> None:
    """Refuse a database that is not there, or whose schema is not this program's."""
    if config.is_embedded and not Path(sa.make_url(config.database_url).database or "").exists():
        raise Failure(
            f"there is no database at {sa.make_url(config.database_url).database}; say where it is"
            " with --data-dir, --config or TICKWHEEL_DATABASE_URL"
        )
    engine = create_engine(config.database_url, connections=1)
    try:
        problems = check(engine)
    except sa.exc.DBAPIError as error:
        raise Failure(told_by_driver(config.database_url, error)) from None
    finally:
        engine.dispose()
    if problems:
        raise Failure(" ".join(problems))


def told_by_driver(url: str, error: sa.exc.DBAPIError) -> str:
    """What the driver says, without the statement: it may hold people's data."""
    place = sa.make_url(url).render_as_string(hide_password=True)
    return f"{place}: {str(error.orig).strip()}"


def _write(config: Config, file: Path, *, with_runs: bool) -> int:
    if file.exists():
        raise Failure(f"{file} exists already; choose another name, or delete it first")
    with ExitStack() as stack:
        progress = TableProgress("writing")
        stack.callback(progress.end)
        try:
            conn = stack.enter_context(snapshot(config.database_url))
            made = write_backup(conn, file, version=__version__, with_runs=with_runs, told=progress)
        except OSError as error:
            raise Failure(f"cannot write {error.filename or file}: {error.strerror}") from None
        except sa.exc.DBAPIError as error:
            raise Failure(told_by_driver(config.database_url, error)) from None
    print(f"{file}: {summary(made)}, {file.stat().st_size:,} bytes.")
    return 0


def summary(made: Manifest) -> str:
    """What a backup holds, in words."""
    rows = sum(part.rows for part in made.tables.values())
    at = datetime.fromtimestamp(made.made_at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    what = "with runs" if made.with_runs else "without runs"
    return f"{rows:,} rows of {len(made.tables)} tables as of {at}, {what}"
