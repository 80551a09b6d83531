"""What the bench reads off: processor time of processes, and percentiles."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pids: Sequence[int]) -> float:
    """User and system time of the processes and their children, ended ones included (Linux)."""
    return sum(_of_process(pid) for root in pids for pid in (root, *_children_of(root)))


def _of_process(pid: int) -> float:
    fields = stat_fields(pid)
    return 0.0 if fields is None else sum(int(value) for value in fields[11:15]) / _TICKS


def _children_of(pid: int) -> list[int]:
    """PostgreSQL has a process for every connection."""
    found = [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]
    return [child for child in found if (fields := stat_fields(child)) and int(fields[1]) == pid]


def stat_fields(pid: int) -> list[str] | None:
    """The fields after the process's name: state, parent, …"""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def peak_mebibytes(pid: int) -> int:
    """The most memory that the process has had resident so far (Linux)."""
    return _kibibytes(pid, "VmHWM:") // 1024


def resident_mebibytes(pid: int) -> float:
    """The memory that the process has resident now (Linux)."""
    return round(_kibibytes(pid, "VmRSS:") / 1024, 1)


def _kibibytes(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise AssertionError(f"no {name} in /proc: not Linux?")


def cpu_us_per_run(
    before: Mapping[str, float], after: Mapping[str, float], runs: int
) -> dict[str, int]:
    """Microseconds per run, from seconds before and after, by part."""
    return {name: round((after[name] - before[name]) / runs * 1e6) for name in before}


def percentile(values: Sequence[int], share: float) -> int:
    """The smallest value that at least this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * round(share * 1000) // 1000) - 1)]
