"""The command `tickwheel`: serve, demo, db, user, token, cron, secret-key, version.

Exit codes: 0 done; 1 it could not be done, one sentence on stderr says why; 2 wrong usage or
configuration.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        command = _command_of(words) if argv is not None else _uncollected(words)
        code = command(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130  # as shells count a Ctrl-C
    except BrokenPipeError:
        # Whoever reads, `head` for example, has seen enough; nothing may be flushed to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _uncollected(words: Sequence[str]) -> Callable[[Sequence[str]], int]:
    """What runs this command; what was imported for it is left out of garbage collections.

    Two thousand modules make no garbage. Their classes were gone through again and again at the
    start, and once more at the end: two fifths of the time of a short command.
    """
    gc.disable()
    command = _command_of(words)
    gc.freeze()
    gc.enable()
    return command


def _command_of(words: Sequence[str]) -> Callable[[Sequence[str]], int]:
    """What runs this command. Nothing is imported that it does not need."""
    if words[:1] == ["cron"]:
        return _run_cron
    if words in (["--version"], ["version"]):
        return _print_version
    from tickwheel_admin.cli.client import commands as client

    if words and words[0] in client.GROUPS:
        return client.run
    from tickwheel_admin.cli.commands import run

    return run


def _run_cron(words: Sequence[str]) -> int:
    from tickwheel_admin.cli import cron
    from tickwheel_admin.cli.parser import CommandParser

    parser: argparse.ArgumentParser = CommandParser(prog="tickwheel")
    cron.register(parser.add_subparsers(metavar="COMMAND", required=True))
    args = parser.parse_args(words)
    code: int = args.run(args)
    return code


def _print_version(_words: Sequence[str]) -> int:
    from tickwheel_admin import __version__

    print(f"tickwheel {__version__}")
    return 0
