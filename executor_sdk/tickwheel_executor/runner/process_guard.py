"""Kills the pool processes of a node that died, and all they started; a program of its own.

A process that sees the end of its node ends itself, but one that hangs in foreign code sees
nothing. This program waits on its standard input for "+123" and "-123", process groups that began
and ended, and kills those that are left at the end of it: the end of the node, however it came.
It is run with `python -I -S`, imports next to nothing and takes a few megabytes.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Read until the node is gone."""
    living: set[int] = set()
    for line in sys.stdin:
        number = int(line[1:])
        if line.startswith("+"):
            living.add(number)
        else:
            living.discard(number)
    for number in living:
        try:
            os.killpg(number, signal.SIGKILL)
        except OSError:
            continue  # it saw the end itself


if __name__ == "__main__":
    main()
