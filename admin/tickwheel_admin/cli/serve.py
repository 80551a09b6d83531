"""`tickwheel serve`: run an admin."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import resource
import signal
import socket
import sys
from typing import TYPE_CHECKING

from tickwheel_admin.app.admin import Admin
from tickwheel_admin.cli.common import (
    Failure,
    add_config_flags,
    config_of,
    held,
    listen,
    listen_for_scrapers,
    make_data_directory,
    opened,
)
from tickwheel_admin.cli.memory import Trimmer, use_few_arenas
from tickwheel_admin.config import Config, LogFormat, LogLevel
from tickwheel_admin.engine import fault_points
from tickwheel_admin.log_setup import configure_logging
from tickwheel_admin.services.metrics.meter import Meter
from tickwheel_admin.services.users.administration import FIRST_ADMIN
from tickwheel_admin.store.database.database import DatabaseUnavailable
from tickwheel_shared.otel import TracingError

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_DESCRIPTION = """\
Run an admin: console, API, and the address that executor nodes connect to.

Without any setting it keeps everything in an embedded database and listens on this machine only.
The first start prints the one-time password of the person "admin".
"""

_EXAMPLES = """\
examples:
  tickwheel serve
  tickwheel serve --host 0.0.0.0 --public-url https://tickwheel.example
  TICKWHEEL_DATABASE_URL=postgresql+psycopg://user:password@db/tickwheel tickwheel serve
"""

# The settings that have flags here.
_SETTINGS = (
    *("host", "port", "name", "public_url"),
    *("retention_days", "log_format", "log_level"),
)
PEOPLES_THREADS = 4  # for what people and programs read and change; the engine has its own
# A thread that computes is asked so often to let others go on. The loop waits for so long each time
# that it comes back from a socket while somebody's page is computed.
SWITCH_SECONDS = 0.001
# The garbage collector goes through all objects once in so many collections of younger ones;
# Python's own number is 10. Nothing goes on meanwhile: with 1,000 connected nodes it took 60 ms,
# more than once in two seconds, and found nothing.
COLLECTIONS_PER_FULL_ONE = 100


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "serve",
        help="run an admin",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_config_flags(parser)
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", help="port to listen on (default 8500)")
    parser.add_argument("--name", help="what this admin is called (default: the host's name)")
    parser.add_argument("--public-url", metavar="URL", help="where nodes and browsers reach it")
    parser.add_argument("--retention-days", metavar="N", help="how long ended runs are kept")
    parser.add_argument("--log-format", metavar="FORMAT", help=" or ".join(LogFormat))
    parser.add_argument("--log-level", metavar="LEVEL", help=", ".join(LogLevel))
    parser.set_defaults(run=_serve)


def _serve(args: argparse.Namespace) -> int:
    config = config_of(args, *_SETTINGS)
    make_data_directory(config)
    configure_logging(config.log_format, config.log_level)
    allow_sockets()
    sys.setswitchinterval(SWITCH_SECONDS)
    use_few_arenas()
    try:
        fault_points.arm(os.environ)
    except fault_points.FaultPointError as error:
        raise Failure(str(error)) from None
    # Bound before anything else: a taken port must not leave traces in the database.
    sockets, meter = listen(config), Meter()
    with contextlib.ExitStack() as stack:
        for sock in sockets:
            stack.enter_context(sock)
        for sock in (metrics_sockets := listen_for_scrapers(config)):
            stack.enter_context(sock)
        if config.is_embedded:
            # The embedded database relies on being one admin's alone.
            taken = f"another admin already runs on {config.data_dir}; give this one a --data-dir"
            stack.enter_context(held(config.data_dir, name="admin.lock", taken=taken))
        database = stack.enter_context(opened(config, for_people=PEOPLES_THREADS, meter=meter))
        admin = Admin(config, database, meter)
        try:
            asyncio.run(_run(config, admin, sockets, metrics_sockets))
        except DatabaseUnavailable as error:
            raise Failure(f"the database does not answer: {error}") from None
        except TracingError as error:
            raise Failure(str(error)) from None
        if admin.move is not None:
            raise Failure(admin.move.sentence)
    return 0


def allow_sockets() -> None:
    """Let this process hold as many sockets as the system allows it: every node takes one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # macOS names a limit that it then refuses
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _run(
    config: Config,
    admin: Admin,
    sockets: list[socket.socket],
    metrics_sockets: list[socket.socket],
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _on_signal, stop)
    password = await admin.services.users.ensure_first_admin()

    async def announce() -> None:
        # What is there by now stays until the end. Left to the collector, it would be gone through
        # again and again, and everything waits for 0.2 s each time.
        gc.collect()
        gc.freeze()
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, COLLECTIONS_PER_FULL_ONE)
        if password is not None:
            _print_password(config, password)

    trimming = asyncio.create_task(Trimmer().run(), name="trimmer")
    try:
        await admin.run(sockets, stop=stop, ready=announce, metrics_sockets=metrics_sockets)
    finally:
        trimming.cancel()
        await admin.close()


def _on_signal(stop: asyncio.Event) -> None:
    if stop.is_set():
        # Asked twice: somebody does not want to wait. Nodes and other admins cope with that.
        os._exit(1)
    stop.set()


def _print_password(config: Config, password: str) -> None:
    # On stdout and not through the log: logs are kept and shipped elsewhere.
    print(
        f"\n  Tickwheel is ready: {config.public_url}\n\n"
        f"  Log in as      {FIRST_ADMIN}\n"
        f"  with password  {password}\n\n"
        "  It is shown only now and must be changed at the first login.\n",
        flush=True,
        file=sys.stdout,
    )
