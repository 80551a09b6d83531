"""Limits of memory and CPU time for one run in a pool process."""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ENFORCES_MEMORY = sys.platform == "linux"  # elsewhere RLIMIT_AS is accepted and ignored

_MIB = 1024 * 1024


@contextmanager
def limited(*, memory_mb: int | None, cpu_seconds: float | None) -> Iterator[None]:
    """Apply these limits to the code in the `with` block.

    Above the memory limit, allocations fail (MemoryError). Above the CPU limit, the kernel ends the
    process with SIGXCPU.

    Args:
        memory_mb: MiB of address space on top of what the process has already.
        cpu_seconds: CPU time of all threads; the kernel counts whole seconds.
    """
    limits: list[tuple[int, int]] = []
    if memory_mb is not None and ENFORCES_MEMORY:
        limits.append((resource.RLIMIT_AS, _address_space() + memory_mb * _MIB))
    if cpu_seconds is not None:
        limits.append((resource.RLIMIT_CPU, math.ceil(time.process_time() + cpu_seconds)))
        limits.append((resource.RLIMIT_CORE, 0))  # no core dump
    before = [(kind, *resource.getrlimit(kind)) for kind, _ in limits]
    try:
        for (kind, wanted), (_, _, hard) in zip(limits, before, strict=True):
            most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(kind, (most, hard))
        yield
    finally:
        for kind, soft, hard in before:
            resource.setrlimit(kind, (soft, hard))


def _address_space() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split(maxsplit=1)[0]
    return int(pages) * resource.getpagesize()
