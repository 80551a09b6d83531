"""The command line of `tickwheel-agent`."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tickwheel_executor.errors import ConfigurationError, SpoolError
from tickwheel_executor.executor import REFUSED_EXIT_CODE
from tickwheel_executor.offers.children.keeper import KeeperError
from tickwheel_executor.version import VERSION

from .check import report
from .config import DEFAULT_PATH, AgentConfig, read_config
from .example import EXAMPLE

_DESCRIPTION = """\
Runs scripts, commands, HTTP calls, SQL statements and file housekeeping for Tickwheel on this
machine. It is a node of an executor: it connects to the admins and runs what their jobs say, but
only what its configuration file offers. Nothing is offered by default.
"""
_EPILOG = f"""\
first steps:
  1. In the console: Executors, New executor. It shows a token once.
  2. tickwheel-agent --example > agent.toml    and fill in admins, executor, token_file
  3. tickwheel-agent --config agent.toml --check
  4. tickwheel-agent --config agent.toml

environment (for what the file leaves out):
  TICKWHEEL_AGENT_CONFIG  the file; else {DEFAULT_PATH}
  TICKWHEEL_ADMINS        URLs of the admins, with commas between them
  TICKWHEEL_EXECUTOR      name of the executor
  TICKWHEEL_TOKEN         its token, or TICKWHEEL_TOKEN_FILE, a file with it

signals:
  SIGTERM, SIGINT         accept no new runs, let running ones finish, end; twice: end at once
  SIGHUP                  ignored: restart the agent to read its file again

exit codes:
  0   ended after a signal, with nothing left behind
  1   something was left behind, or children cannot be started (--check)
  78  the configuration is invalid, or no admin lets this agent in; do not restart it

All settings: docs/agent.md
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the agent; exits with one of the codes that the help lists."""
    parser = argparse.ArgumentParser(
        prog="tickwheel-agent",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file (TOML)")
    parser.add_argument(
        "--check", action="store_true", help="check it, say what would be offered, and exit"
    )
    parser.add_argument(
        "--example", action="store_true", help="print a configuration file to begin with, and exit"
    )
    parser.add_argument("--version", action="version", version=f"tickwheel-agent {VERSION}")
    asked = parser.parse_args(argv)
    if asked.example:
        print(EXAMPLE, end="")
        return
    path = asked.config or Path(os.environ.get("TICKWHEEL_AGENT_CONFIG") or DEFAULT_PATH)
    try:
        config = read_config(path)
        if asked.check:
            sys.exit(_check(config))
        _run(config)
    except ConfigurationError as error:
        print(f"tickwheel-agent: {error}", file=sys.stderr)
        sys.exit(REFUSED_EXIT_CODE)
    except (SpoolError, KeeperError) as error:
        print(f"tickwheel-agent: {error}", file=sys.stderr)
        sys.exit(1)


def _check(config: AgentConfig) -> int:
    lines, works = asyncio.run(report(config))
    print("\n".join(lines))
    return 0 if works else 1


def _run(config: AgentConfig) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    executor = config.make_executor()
    if config.has_children:
        config.children.keeper.start()  # before the first run needs it
    executor.run()
