"""`tickwheel backup --move-to`: moves the installation to another database."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import sqlalchemy as sa

from tickwheel_admin.app.services import SECRET_KEY_FILE
from tickwheel_admin.cli.backups.table_progress import TableProgress
from tickwheel_admin.cli.common import Failure, held
from tickwheel_admin.config import Config
from tickwheel_admin.config_values import database_url
from tickwheel_admin.store.backup.engines import snapshot
from tickwheel_admin.store.backup.moving import (
    MoveFailed,
    admins_left,
    begin_move,
    copy_everything,
    fence,
    has_arrived,
    wait_for_admins,
)
from tickwheel_admin.store.backup.restoring import TargetRefused
from tickwheel_admin.store.database.connections import create_engine
from tickwheel_admin.store.database.database import Database, DatabaseUnavailable
from tickwheel_admin.store.database.migrate import SchemaError, check, upgrade
from tickwheel_admin.store.system.moved import DatabaseMove, mark_move, read_move

PASSWORD_VARIABLE = "TICKWHEEL_MOVE_TO_PASSWORD"  # noqa: S105 - its name
_LOCK_SECONDS = 120.0


def move(config: Config, to: str, *, replace: bool) -> int:
    """Move everything, and tell the next step."""
    target = _target_url(to)
    if sa.make_url(target) == sa.make_url(config.database_url):
        raise Failure("--move-to names the database that the installation is in already")
    database = Database(config.database_url, threads=1)
    try:
        found = database.read_sync(read_move)
        if found is not None and found.to != sa.make_url(target).render_as_string():
            raise MoveFailed(found.sentence)
        _prepare_schema(target)
        with ExitStack() as stack:
            moving = _Moving(config, database, target, stack)
            if moving.arrived_before():
                return _tell(config, target, rows=None)
            rows = moving.run(replace=replace)
        return _tell(config, target, rows=rows)
    except (MoveFailed, TargetRefused) as error:
        raise Failure(f"nothing was moved: {error}") from None
    except DatabaseUnavailable as error:
        raise Failure(f"the database does not answer: {error}") from None
    except sa.exc.DBAPIError as error:
        raise Failure(f"nothing was moved: {str(error.orig).strip()}") from None
    finally:
        database.close_sync()


def cancel_move(config: Config) -> int:
    """Let the admins of this database work again, unless the new one has everything."""
    database = Database(config.database_url, threads=1)
    try:
        found = database.read_sync(read_move)
        if found is None:
            raise Failure("this installation is not being moved")
        if found.done:
            raise Failure(
                f"the move to {found.to} has ended: with admins on both databases every fire would"
                " run twice. To come back, move the installation from there to an empty database"
            )
        database.run_sync(mark_move, None)
    finally:
        database.close_sync()
    print("The move is given up. Start the admins again, with the database as it was.")
    return 0


class _Moving:
    """One move, from the mark in the old database to its end."""

    def __init__(self, config: Config, database: Database, target: str, stack: ExitStack) -> None:
        self._config = config
        self._database = database
        self._target = target
        self._stack = stack
        self._to = sa.make_url(target).render_as_string(hide_password=True)

    def arrived_before(self) -> bool:
        """Whether a move that was cut off had copied everything; it is ended now."""
        found = self._database.read_sync(read_move)
        if found is None or found.to != self._to:
            return False
        with snapshot(self._target) as conn:
            arrived = has_arrived(conn, found)
        if arrived:
            self._end(found)
        return arrived

    def run(self, *, replace: bool) -> int:
        """How many rows were moved."""
        progress = TableProgress("copying")
        with self._given_up_on_failure():
            move, rows = copy_everything(
                self._config.database_url,
                self._target,
                stop_admins=self._stop_admins,
                replace=replace,
                told=progress,
            )
        progress.end()
        self._end(move)
        return rows

    @contextmanager
    def _given_up_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:  # also of Ctrl-C
            self._give_up()
            raise

    def _give_up(self) -> None:
        """Let the old database go on, for the new one has nothing; unless it is not known."""
        found = self._database.read_sync(read_move)
        if found is None or found.done:
            return
        try:
            with snapshot(self._target) as conn:
                arrived = has_arrived(conn, found)
        except sa.exc.DBAPIError:
            print("It is not known whether the new database has everything: run this again.")
            return
        if arrived:  # only the answer to the commit was lost
            self._end(found)
        else:
            self._database.run_sync(mark_move, None)

    def _stop_admins(self) -> DatabaseMove:
        token = secrets.token_hex(16)
        move = self._database.run_sync(begin_move, to=self._to, token=token)
        print("The admins of the old database stop …", flush=True)
        wait_for_admins(lambda: self._database.read_sync(admins_left), sleep=time.sleep)
        if self._config.is_embedded:
            self._hold_data_directory()
        self._database.run_sync(fence)
        return move

    def _hold_data_directory(self) -> None:
        """The admin of an embedded database holds this lock until its process has ended."""
        taken = f"an admin still runs on {self._config.data_dir}"
        until = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                lock = held(self._config.data_dir, name="admin.lock", taken=taken)
                self._stack.enter_context(lock)
                return
            except Failure as failure:
                if time.monotonic() > until:
                    raise MoveFailed(str(failure)) from None
                time.sleep(0.2)

    def _end(self, move: DatabaseMove) -> None:
        self._database.run_sync(
            mark_move, DatabaseMove(to=move.to, token=move.token, at=move.at, done=True)
        )


def _target_url(to: str) -> str:
    try:
        url = sa.make_url(database_url(to))
    except ValueError as error:
        raise Failure(f"--move-to: {error}") from None
    password = os.environ.get(PASSWORD_VARIABLE)
    if password and url.password is None:
        url = url.set(password=password)
    return url.render_as_string(hide_password=False)


def _prepare_schema(url: str) -> None:
    engine = create_engine(url, connections=1)
    try:
        upgrade(engine)
        if problems := check(engine):
            raise Failure(f"the new database: {' '.join(problems)}")
    except SchemaError as error:
        raise Failure(f"the new database: {error}") from None
    except sa.exc.DBAPIError as error:
        # Of MariaDB a number comes before its words.
        words = error.orig.args[-1] if error.orig is not None and error.orig.args else error.orig
        raise Failure(f"the new database: {str(words).strip()}") from None
    finally:
        engine.dispose()


def _tell(config: Config, target: str, *, rows: int | None) -> int:
    place = sa.make_url(target).render_as_string(hide_password=True)
    counted = "Everything" if rows is None else f"All {rows:,} rows"
    print(f"{counted} moved to {place}.\n")
    print("Next, for every admin:")
    print(f"  1. set TICKWHEEL_DATABASE_URL to {place} (with its password)")
    key_file = config.data_dir / SECRET_KEY_FILE
    if config.is_embedded and key_file.exists() and not config.secret_key:
        print(f"  2. set TICKWHEEL_SECRET_KEY_FILE to {key_file}: it decrypts the secrets")
        print("  3. start it again")
    else:
        print("  2. start it again")
    print("\nThe old database keeps its rows, and no admin starts on it any more.")
    return 0
