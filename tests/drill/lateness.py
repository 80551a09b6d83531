"""How late fires start under each kind of pressure, and under all of it, beside peace.

Each figure is the 99th percentile of five fires a second, from the due instant to the start in the
node. A busy machine makes fires late as well: compare with peace, measured in the same run. So does
a disk that takes long to write: the longest write that was measured beside it is `disk_max`.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.drill.pressed import Pressed, pressed
from tests.drill.pressure import LATE
from tests.drill.report import Outcome, percentile
from tests.e2e.ledger import Kind, Problem

SETTLE_SECONDS = 3.0  # until what was sent last is dealt with
WRITE_EVERY_SECONDS = 0.1
LOST_SECONDS = 30.0  # a fire that is so late is not late, but lost


def lateness(kind: str, *, seconds: float) -> Iterator[Outcome]:
    """One outcome for peace, for each kind of pressure, and for all at once."""
    with pressed(kind) as bed:
        time.sleep(SETTLE_SECONDS)
        for name, kinds in (
            ("peace", ()),
            *((each, (each,)) for each in LATE),
            ("everything at once", LATE),
        ):
            yield _measured(bed, kind, name, kinds, seconds)


def _measured(
    bed: Pressed, database: str, name: str, kinds: tuple[str, ...], seconds: float
) -> Outcome:
    outcome = Outcome(database=database, drill=f"late: {name}")
    begun, since = time.monotonic(), time.time()
    pressing = bed.press(kinds, seconds) if kinds else None
    slowest_write = _slowest_write(bed.cluster.directory, seconds)
    until = time.time()
    if pressing is not None:
        pressing.communicate(timeout=60)
    time.sleep(SETTLE_SECONDS)
    late = [each / 1000 for each in bed.lateness(since, until)]
    outcome.runs, outcome.seconds = len(late), time.monotonic() - begun
    if not late:
        outcome.problems.append(Problem(Kind.LOST, "nothing fired"))
        return outcome
    outcome.figures = {
        f"late_p50_{'peace' if not kinds else 'pressed'}": percentile(late, 0.5),
        f"late_p99_{'peace' if not kinds else 'all' if len(kinds) > 1 else 'pressed'}": percentile(
            late, 0.99
        ),
        "disk_max": slowest_write,
    }
    if max(late) > LOST_SECONDS:
        outcome.problems.append(Problem(Kind.LOST, f"a fire was {max(late):.0f} s late"))
    return outcome


def _slowest_write(directory: Path, seconds: float) -> float:
    """Seconds that the slowest of many small durable writes took, all for so long."""
    slowest, end = 0.0, time.monotonic() + seconds
    with tempfile.TemporaryFile(dir=directory) as file:
        while (begun := time.monotonic()) < end:
            os.pwrite(file.fileno(), b"x" * 4096, 0)
            os.fdatasync(file.fileno())
            slowest = max(slowest, time.monotonic() - begun)
            time.sleep(WRITE_EVERY_SECONDS)
    return slowest
