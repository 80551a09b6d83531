"""What `import tickwheel_executor` costs a process that has aiohttp anyway."""

from __future__ import annotations

import statistics
import subprocess
import sys
from dataclasses import dataclass

_SCRIPT = """
import time
import aiohttp

def resident():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1])

before, began = resident(), time.perf_counter()
import tickwheel_executor
print(time.perf_counter() - began, resident() - before, before)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imports:
    """Medians of fresh processes."""

    milliseconds: float
    mebibytes: float  # resident memory
    bare_mebibytes: float  # of the interpreter with aiohttp, before the import


def imports(*, repeats: int) -> Imports:
    """Measure it; one process before, so that the compiled files are there (Linux)."""
    measured = [_once() for _ in range(repeats + 1)][1:]
    seconds, more, bare = (statistics.median(column) for column in zip(*measured, strict=True))
    return Imports(
        milliseconds=round(seconds * 1000, 1),
        mebibytes=round(more / 1024, 1),
        bare_mebibytes=round(bare / 1024, 1),
    )


def _once() -> tuple[float, float, float]:
    output = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True
    ).stdout
    seconds, more, bare = map(float, output.split())
    return seconds, more, bare
