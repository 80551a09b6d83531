"""A run with a million lines: how soon its log is open at any place, and what that costs the admin.

    python -m tests.bench.scenarios.long_log [--database sqlite|mariadb|postgresql] [--lines N]

Fills one run, then asks as the run page does. Prints milliseconds (median of several) and the
growth of the process's memory while all lines are searched and downloaded; asserts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from tests.admin.kit.services import ADMIN, FAR, JOB, World
from tests.bench.testbed.bed import KINDS, SERVERS
from tests.bench.testbed.measure import peak_mebibytes
from tickwheel_admin.console.runs.log_text import log_text
from tickwheel_admin.services.runs.log_lines import LinesWanted
from tickwheel_admin.store.runs.logs import append_log_chunks
from tickwheel_shared.protocol import MAX_LINES_PER_CHUNK, Level, LogChunk, WireLine

REPEATS = 9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=KINDS, action="append")
    parser.add_argument("--lines", type=int, default=1_000_000)
    asked = parser.parse_args()
    for kind in asked.database or KINDS:
        print(f"{kind}, {asked.lines:,} lines")
        for name, told in asyncio.run(measure(kind, asked.lines)).items():
            print(f"  {name:34} {told}")


async def measure(kind: str, count: int) -> dict[str, str]:
    """What to print, by name."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tickwheel-bench")))
        url = f"sqlite:///{directory / 'tickwheel.db'}"
        if kind != "sqlite":
            server = stack.enter_context(SERVERS[kind](durable=True))
            server.create_database("tickwheel")
            url = server.url("tickwheel")
        world = World(url)
        stack.callback(world.close)
        executor_id = await world.executor()
        job_id = await world.jobs.create(ADMIN, executor_id, JOB)
        run_id = world.run(executor_id=executor_id, job_id=job_id, state="running", deadline_at=FAR)
        _fill(world, run_id, count)
        return await _ask(world, run_id, count)


def _fill(world: World, run_id: int, count: int) -> None:
    for first in range(1, count + 1, MAX_LINES_PER_CHUNK):
        lines = [
            WireLine(at=n, level=_level(n), text=f"line {n}: partition files=77 → 3 (2.6 GiB) ok")
            for n in range(first, min(first + MAX_LINES_PER_CHUNK, count + 1))
        ]
        chunk = LogChunk(run=run_id, attempt=1, token="t", first_seq=first, lines=lines)
        world.database.run_sync(append_log_chunks, [chunk])


def _level(number: int) -> Level:
    return Level.ERROR if number % 100_000 == 0 else Level.INFO


async def _ask(world: World, run_id: int, count: int) -> dict[str, str]:
    runs = world.runs
    told = {}

    async def timed(name: str, ask: Callable[[], Awaitable[Any]]) -> None:
        took = []
        for _ in range(REPEATS):
            begun = time.perf_counter()
            await ask()
            took.append(time.perf_counter() - begun)
        told[name] = f"{statistics.median(took) * 1000:.1f} ms, at most {max(took) * 1000:.1f}"

    places = {"at line 1": 0, "in the middle": count // 2, "behind the last line": count}
    for name, after in places.items():
        await timed(f"1,000 lines {name}", partial(runs.log, ADMIN, run_id, after=after))
    await timed("1,000 lines at the end", lambda: runs.log_before(ADMIN, run_id, before=None))
    await timed(
        "1,000 lines before the middle", lambda: runs.log_before(ADMIN, run_id, before=count // 2)
    )
    seldom = LinesWanted(text=f"line {count // 2 + 7}:")
    await timed("one page of a search", lambda: runs.log_before(ADMIN, run_id, wanted=seldom))

    memory = peak_mebibytes(os.getpid())
    begun, pages = time.perf_counter(), 1
    earlier = await runs.log_before(ADMIN, run_id, wanted=seldom)
    while earlier.first > 1:
        earlier = await runs.log_before(ADMIN, run_id, before=earlier.first, wanted=seldom)
        pages += 1
    told["search through all lines"] = f"{time.perf_counter() - begun:.2f} s, {pages} pages"
    begun, size = time.perf_counter(), 0
    page = await runs.log(ADMIN, run_id, limit=5_000)
    while page.lines:
        size += len(log_text(page.lines))
        page = await runs.log(ADMIN, run_id, after=page.next, limit=5_000)
    took = time.perf_counter() - begun
    told["download of all lines"] = f"{took:.2f} s, {size / 2**20:.0f} MiB"
    told["memory more by both"] = f"{peak_mebibytes(os.getpid()) - memory} MiB"
    return told


if __name__ == "__main__":
    main()
