"""The command `tickwheel`: serve, demo, db, user, token, cron, secret-key, version.

Exit codes: 0 done; 1 it could not be done, one sentence on stderr says why; 2 wrong usage or
configuration.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130  # as shells count a Ctrl-C
    except BrokenPipeError:
        # Whoever reads, `head` for example, has seen enough; nothing may be flushed to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(words: Sequence[str]) -> int:
    if words[:1] == ["cron"]:
        # It needs no server, and starts in a fraction of the time without one.
        from tickwheel_admin.cli import cron
        from tickwheel_admin.cli.parser import CommandParser

        parser: argparse.ArgumentParser = CommandParser(prog="tickwheel")
        cron.register(parser.add_subparsers(metavar="COMMAND", required=True))
        args = parser.parse_args(words)
        code: int = args.run(args)
        return code
    if words in (["--version"], ["version"]):
        from tickwheel_admin import __version__

        print(f"tickwheel {__version__}")
        return 0
    from tickwheel_admin.cli.client import commands as client

    if words and words[0] in client.GROUPS:
        return client.run(words)
    from tickwheel_admin.cli.commands import run

    return run(words)
