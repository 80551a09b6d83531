"""Kills the pool processes of a node that died, with everything they started; a separate program.

A pool process normally notices the end of its node and exits, but not if it hangs in foreign code.
This program reads process groups that begin and end, "+123" and "-123", from its standard input.
When the input ends, the node has ended, in whatever way: it kills the groups that are left.
It runs with `python -I -S`, imports almost nothing and takes a few megabytes.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Read until the node has ended."""
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
            continue  # it has ended by itself


if __name__ == "__main__":
    main()
