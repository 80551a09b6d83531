"""What commands share: the configuration's flags, a prepared database, one-sentence failures."""

from __future__ import annotations

import argparse
import asyncio
import errno
import fcntl
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa

from tickwheel_admin.app.services import create_cipher, create_services
from tickwheel_admin.cli.failure import Failure as Failure
from tickwheel_admin.config import Config, load_config
from tickwheel_admin.domain.errors import UserError
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database.database import Database, DatabaseUnavailable
from tickwheel_admin.store.database.facts import TransactionMeter
from tickwheel_admin.store.database.migrate import SchemaError, prepare
from tickwheel_admin.store.system.moved import read_move
from tickwheel_admin.web.server import bind

T = TypeVar("T")


def add_config_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that every command with a database has."""
    # No flag for the database's URL: others could read its password in the process list.
    parser.add_argument("--config", metavar="FILE", help="TOML file with the settings")
    parser.add_argument("--data-dir", metavar="DIR", help="directory of the embedded database")


def config_of(args: argparse.Namespace, *flags: str) -> Config:
    """The configuration that the flags, environment and file make together.

    Args:
        flags: settings that the command has flags for, beside those of `add_config_flags`. What
            else it takes may be called like a setting: the `name` of a token is none.
    """
    given = {name: getattr(args, name) for name in ("data_dir", *flags)}
    return load_config(given, file=args.config)


def make_data_directory(config: Config) -> None:
    """Make the directory for the embedded database, for its owner only."""
    os.umask(0o077)  # whatever is made from here on, logs and sockets included
    if not config.is_embedded:
        return
    file = Path(sa.make_url(config.database_url).database or "")
    try:
        for directory in {config.data_dir, file.parent}:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600)
    except OSError as error:
        raise Failure(
            f"cannot write to {error.filename or file.parent}: {error.strerror};"
            " choose another directory with --data-dir"
        ) from None


def listen(config: Config) -> list[socket.socket]:
    """Bound sockets; what prevents them is told in a sentence."""
    return _bound(config.host, config.port, chosen_by="--port")


def listen_for_scrapers(config: Config) -> list[socket.socket]:
    """The same, for `/metrics` alone; none unless the configuration has a port for it."""
    if config.metrics_port is None:
        return []
    return _bound(config.metrics_host, config.metrics_port, chosen_by="TICKWHEEL_METRICS_PORT")


def _bound(host: str, port: int, *, chosen_by: str) -> list[socket.socket]:
    try:
        return bind(host, port)
    except socket.gaierror:
        raise Failure(f"{host} is not an address of this machine") from None
    except PermissionError:
        raise Failure(f"no permission to listen on port {port}; use one above 1023") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Failure(
                f"port {port} is in use by another program; choose one with {chosen_by}"
            ) from None
        raise Failure(f"cannot listen on {host}:{port}: {error.strerror}") from None


@contextmanager
def held(directory: Path, *, name: str, taken: str) -> Iterator[None]:
    """A lock on a directory for as long as this process lives; Failure(`taken`) when it is held."""
    try:
        file = (directory / name).open("a")
    except OSError as error:
        raise Failure(f"cannot write to {error.filename}: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure(taken) from None
        yield


@contextmanager
def opened(
    config: Config,
    *,
    threads: int = 8,
    for_people: int = 0,
    meter: TransactionMeter | None = None,
    ignores_move: bool = False,
) -> Iterator[Database]:
    """The database with a schema that this program can use, and whose installation it is.

    Args:
        ignores_move: also one whose installation was moved to another database.
    """
    database = Database(config.database_url, threads=threads, for_people=for_people, meter=meter)
    try:
        prepare(database.engine)
        if not ignores_move:
            _refuse_moved(database)
        yield database
    except SchemaError as error:
        raise Failure(str(error)) from None
    except sa.exc.DBAPIError as error:
        place = database.engine.url.render_as_string(hide_password=True)
        raise Failure(f"{place}: {str(error.orig).strip()}") from None
    finally:
        database.close_sync()


def _refuse_moved(database: Database) -> None:
    move = database.read_sync(read_move)
    if move is not None:
        raise Failure(move.sentence)


def with_services(config: Config, work: Callable[[Services], Awaitable[T]]) -> T:
    """Do something through the use cases, without a server."""

    async def run(database: Database) -> T:
        services = create_services(database, cipher=create_cipher(config))
        try:
            return await work(services)
        finally:
            services.close()

    make_data_directory(config)
    with opened(config, threads=2) as database:
        try:
            return asyncio.run(run(database))
        except UserError as error:
            raise Failure(str(error)) from None
        except DatabaseUnavailable as error:
            raise Failure(f"the database does not answer: {error}") from None


async def executors_by_name(services: Services) -> dict[str, int]:
    """Ids of executors, by name."""
    return {each.name: each.id for each in await services.executors.list(COMMAND_LINE)}


def executor_ids(known: Mapping[str, int], names: Sequence[str]) -> list[int]:
    """The ids of the executors named on the command line; Failure when there is no such one."""
    for name in names:
        if name not in known:
            raise Failure(f"there is no executor called {name}")
    return [known[name] for name in names]
