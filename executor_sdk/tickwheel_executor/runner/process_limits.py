"""Limits on the memory and the CPU time of one run, in its pool process."""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ENFORCES_MEMORY = sys.platform == "linux"  # elsewhere RLIMIT_AS is taken and not looked at

_MIB = 1024 * 1024


@contextmanager
def limited(*, memory_mb: int | None, cpu_seconds: float | None) -> Iterator[None]:
    """Hold what runs in here to these limits.

    Beyond the one on memory, allocations fail (MemoryError); beyond the one on CPU time, the kernel
    ends the process with SIGXCPU.

    Args:
        memory_mb: MiB of address space that it may take beyond what the process has already.
        cpu_seconds: CPU time of all its threads; the kernel counts whole seconds.
    """
    limits: list[tuple[int, int]] = []
    if memory_mb is not None and ENFORCES_MEMORY:
        limits.append((resource.RLIMIT_AS, _address_space() + memory_mb * _MIB))
    if cpu_seconds is not None:
        limits.append((resource.RLIMIT_CPU, math.ceil(time.process_time() + cpu_seconds)))
        limits.append((resource.RLIMIT_CORE, 0))  # ended on purpose: nothing to look into
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
