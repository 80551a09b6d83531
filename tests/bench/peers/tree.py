"""A program with all that it started: processor time, and an end to what it leaves (Linux)."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from tests.bench.testbed.measure import stat_fields

_TICKS = os.sysconf("SC_CLK_TCK")


def processes_of(root: int) -> list[int]:
    """The process and all that descend from it and still have their parents."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").glob("[0-9]*"):
        if (fields := stat_fields(int(entry.name))) is not None:
            children[int(fields[1])].append(int(entry.name))
    found, open_ends = [], [root]
    while open_ends:
        pid = open_ends.pop()
        found.append(pid)
        open_ends += children[pid]
    return found


def tree_cpu_seconds(root: int) -> float:
    """User and system time of them all, with that of children which ended and were waited for."""
    stats = (stat_fields(pid) for pid in processes_of(root))
    ticks = (sum(map(int, fields[11:15])) for fields in stats if fields is not None)
    return sum(ticks) / _TICKS


def kill_all(pids: list[int]) -> None:
    """End those that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
