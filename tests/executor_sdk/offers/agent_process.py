"""A node with the offer `command`, as a process of its own: URL, TOKEN, DIRECTORY."""

from __future__ import annotations

import sys
from pathlib import Path

from tickwheel_executor import Executor
from tickwheel_executor.offers.children.settings import Children
from tickwheel_executor.offers.command import Command

if __name__ == "__main__":
    url, token, directory = sys.argv[1:]
    Executor(
        "agent",
        admins=[url],
        token=token,
        spool_dir=Path(directory, "spool"),
        offers=[Command(children=Children(directory=Path(directory)))],
    ).run()
