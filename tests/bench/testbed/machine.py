"""The machine that was measured on, as far as figures depend on it (Linux)."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster import ROOT

_FSYNCS = 100
_BLOCK = b"\0" * 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Facts at the beginning of a bench."""

    processor: str
    cores: int
    memory_mebibytes: int
    python: str
    system: str
    fsync_ms: float  # median time of writing 4 KiB and fsync, where the databases have their data
    busy_before: float  # share of all cores that other work used just before
    at: str  # UTC
    commit: str  # with "+" when files differ from it


def machine() -> Machine:
    """Look, for a second; and write a small file again and again, for half a second at most."""
    return Machine(
        processor=_line_of("/proc/cpuinfo", "model name"),
        cores=os.cpu_count() or 1,
        memory_mebibytes=int(_line_of("/proc/meminfo", "MemTotal").split()[0]) // 1024,
        python=platform.python_version(),
        system=platform.platform(),
        fsync_ms=fsync_ms(Path(tempfile.gettempdir())),
        busy_before=busy_share(1.0),
        at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        commit=_git("rev-parse", "--short", "HEAD") + ("+" if _git("status", "-s", "-uno") else ""),
    )


def fsync_ms(directory: Path) -> float:
    """How long it takes until 4 KiB are on this disk; every commit waits for that at least once."""
    took = []
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        for _ in range(_FSYNCS):
            begun = time.perf_counter()
            file.write(_BLOCK)
            file.flush()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - begun)
            if sum(took) > 0.5:
                break
    return round(statistics.median(took) * 1000, 2)


def busy_share(seconds: float) -> float:
    """How much of all cores was used meanwhile, by whatever it was."""
    busy, whole = _ticks()
    time.sleep(seconds)
    busy_after, whole_after = _ticks()
    return round((busy_after - busy) / max(1, whole_after - whole), 3)


def _ticks() -> tuple[int, int]:
    """Of all cores since the machine started: busy ones, and all."""
    user, nice, system, idle, waiting, *others = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    )
    busy = user + nice + system + sum(others)
    return busy, busy + idle + waiting


def _line_of(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "0"  # some processors have no name


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
