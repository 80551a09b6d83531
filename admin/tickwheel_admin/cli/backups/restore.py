"""`tickwheel restore`: read a backup into an empty database, of whichever kind."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tickwheel_admin.app.services import create_cipher
from tickwheel_admin.cli.backups.backup import summary, told_by_driver
from tickwheel_admin.cli.backups.table_progress import TableProgress
from tickwheel_admin.cli.common import (
    Failure,
    add_config_flags,
    config_of,
    held,
    make_data_directory,
    opened,
)
from tickwheel_admin.config import Config
from tickwheel_admin.services.secrets.readability import unreadable_secrets
from tickwheel_admin.store.backup.reader import BackupFile, BackupRefused
from tickwheel_admin.store.backup.restoring import TargetRefused, restore
from tickwheel_admin.store.database.connections import create_engine
from tickwheel_admin.store.database.migrate import SchemaError, check, upgrade

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_DESCRIPTION = """\
Read a file of `tickwheel backup` into an empty database: all of it, or nothing. The file is checked
before anything is written. The database may be of another kind than the one of the backup.
"""
_EXAMPLES = """\
examples:
  tickwheel restore --check tickwheel.backup      only check the file
  tickwheel restore tickwheel.backup              into the database of the configuration
  tickwheel restore --paused tickwheel.backup     and let nothing fire until somebody resumes
  tickwheel restore --replace tickwheel.backup    delete what is in the database first

Stop all admins first. Fires since the backup are missed fires, which each trigger treats by its own
rule; with --paused they do not run. See docs/backup.md.
"""
_CONSENT = "replace"
_SHOWN = 20


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "restore",
        help="read a backup into an empty database",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_config_flags(parser)
    parser.add_argument("file", type=Path, metavar="FILE", help="written by `tickwheel backup`")
    parser.add_argument("--check", action="store_true", help="only check the file; write nothing")
    parser.add_argument("--replace", action="store_true", help="delete what is there first")
    parser.add_argument("--yes", action="store_true", help="with --replace: do not ask")
    parser.add_argument(
        "--paused", action="store_true", help="no fire since the backup runs until you resume"
    )
    parser.set_defaults(run=_restore)


def _restore(args: argparse.Namespace) -> int:
    try:
        with BackupFile(args.file) as backup:
            _verify(backup)
            print(f"{args.file} is complete: {summary(backup.manifest)}.")
            if args.check:
                return 0
            config = config_of(args)
            _write(config, backup, args)
            _tell(config, backup, paused=args.paused)
    except (BackupRefused, TargetRefused, SchemaError) as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(f"cannot read {error.filename or args.file}: {error.strerror}") from None
    return 0


def _verify(backup: BackupFile) -> None:
    progress = TableProgress("checking")
    try:
        backup.verify(progress)
    finally:
        progress.end()


def _write(config: Config, backup: BackupFile, args: argparse.Namespace) -> None:
    if args.replace and not args.yes:
        ask_for_consent(config.database_url)
    make_data_directory(config)
    with ExitStack() as stack:
        if config.is_embedded:
            taken = f"an admin runs on {config.data_dir}; stop it first"
            stack.enter_context(held(config.data_dir, name="admin.lock", taken=taken))
        prepare_schema(config.database_url)
        progress = TableProgress("restoring")
        stack.callback(progress.end)
        try:
            done = restore(
                config.database_url,
                backup,
                replace=args.replace,
                paused=args.paused,
                told=progress,
            )
        except sa.exc.DBAPIError as error:
            raise Failure(told_by_driver(config.database_url, error)) from None
    print(f"Restored {done.rows:,} rows.")


def ask_for_consent(url: str) -> None:
    """Let a person type that everything in a database may be deleted; Failure unless they do."""
    place = sa.make_url(url).render_as_string(hide_password=True)
    if not sys.stdin.isatty():
        raise Failure(f"--replace deletes everything in {place}: add --yes if that is meant")
    print(f"This deletes everything in {place}. Type {_CONSENT} to go on: ", end="", flush=True)
    if sys.stdin.readline().strip() != _CONSENT:
        raise Failure("nothing was changed")


def prepare_schema(url: str) -> None:
    """Make the schema in a database without one; raises SchemaError if it has another.

    Raises:
        Failure: the database does not answer.
    """
    engine = create_engine(url, connections=1)
    try:
        upgrade(engine)
        if problems := check(engine):
            raise SchemaError(" ".join(problems))
    except sa.exc.DBAPIError as error:
        raise Failure(told_by_driver(url, error)) from None
    finally:
        engine.dispose()


def _tell(config: Config, backup: BackupFile, *, paused: bool) -> None:
    with opened(config, threads=1) as database:
        unreadable = database.read_sync(unreadable_secrets, create_cipher(config))
    if unreadable:
        print(
            "\nNone of the keys of this admin decrypts these secrets. Set TICKWHEEL_SECRET_KEY (or"
            "\nTICKWHEEL_SECRET_KEY_FILE) to the key of the installation that the backup is of, or"
            "\nenter the secrets again:"
        )
        for each in unreadable[:_SHOWN]:
            print(f"  {each}")
        if len(unreadable) > _SHOWN:
            print(f"  and {len(unreadable) - _SHOWN:,} more")
    if paused:
        print("\nEverything is paused. Start the admins, look around, and resume in the console.")
    else:
        print(
            "\nStart the admins. Fires since the backup are missed fires: each trigger treats them"
            "\nby its own rule."
        )
    if backup.manifest.with_runs:
        print("Runs that had not ended are marked as lost or cancelled (reason: restored).")
