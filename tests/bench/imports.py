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
print(time.perf_counter() - began, resident() - before)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imports:
    """Medians of fresh processes."""

    milliseconds: float
    mebibytes: float  # resident memory


def imports(*, repeats: int) -> Imports:
    """Measure it; one process before, so that the compiled files are there (Linux)."""
    measured = [_once() for _ in range(repeats + 1)][1:]
    return Imports(
        milliseconds=round(statistics.median(seconds for seconds, _ in measured) * 1000, 1),
        mebibytes=round(statistics.median(kibibytes for _, kibibytes in measured) / 1024, 1),
    )


def _once() -> tuple[float, int]:
    output = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True
    ).stdout
    seconds, kibibytes = output.split()
    return float(seconds), int(kibibytes)
