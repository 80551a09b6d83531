"""One node process against an admin that costs little: runs per second, latency, and its price."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tests.bench.scenarios.imports import Imports, imports
from tests.bench.scenarios.node_admin import NodeAdmin
from tests.bench.testbed.measure import cpu_seconds, percentile, resident_mebibytes

SERVICE = Path(__file__).with_name("node_service.py")
SLOTS = 500
REPEATS = 3
KINDS = {"async": 30_000, "thread": 20_000, "process": 10_000}  # handlers, and runs in a flood
AT_ONCE = {"process": 16}  # each of these is a whole interpreter; of the others as many as slots
_PAUSE_SECONDS = 0.005  # between runs that come alone


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFigures:
    """What one node process does."""

    runs_per_second: dict[str, int]  # by kind of handler; median of the repeats
    runs_per_second_all: dict[str, list[int]]
    cpu_us_per_run: dict[str, int]  # processor time of the node, its pool's included
    # of runs that come alone:
    frame_to_handler_p50_us: int  # from the bytes of the frame at the node until its handler begins
    frame_to_handler_p99_us: int
    request_to_handler_p50_us: int  # … from the sending in the admin's process on
    request_to_result_p50_us: int  # … until the result is on disk and back at the admin
    idle_mebibytes: float  # resident memory of a node that is connected and has done nothing yet
    busy_mebibytes: float  # … after all that
    imports: Imports


def node_figures(*, quick: bool) -> NodeFigures:
    """Measure one node."""
    return asyncio.run(_measure(quick))


async def _measure(quick: bool) -> NodeFigures:
    share = 5 if quick else 1
    rates: dict[str, list[int]] = {}
    costs: dict[str, int] = {}
    async with NodeAdmin().listening() as admin, _node(admin) as pid:
        idle = resident_mebibytes(pid)
        alone = await _alone(admin, 1_000 // share)
        for kind, runs in KINDS.items():
            at_once = AT_ONCE.get(kind, SLOTS)
            await admin.flood(kind, runs=runs // 10, at_once=at_once)  # warms pools and caches
            cpu = cpu_seconds([pid])
            seconds = [
                await admin.flood(kind, runs=runs // share, at_once=at_once)
                for _ in range(1 if quick else REPEATS)
            ]
            spent = cpu_seconds([pid]) - cpu
            rates[kind] = [round(runs // share / each) for each in seconds]
            costs[kind] = round(spent / (runs // share * len(seconds)) * 1e6)
        busy = resident_mebibytes(pid)
    return NodeFigures(
        runs_per_second={kind: round(statistics.median(all_)) for kind, all_ in rates.items()},
        runs_per_second_all=rates,
        cpu_us_per_run=costs,
        frame_to_handler_p50_us=percentile(alone.in_node, 0.5),
        frame_to_handler_p99_us=percentile(alone.in_node, 0.99),
        request_to_handler_p50_us=percentile(alone.with_the_way, 0.5),
        request_to_result_p50_us=percentile(alone.and_back, 0.5),
        idle_mebibytes=idle,
        busy_mebibytes=busy,
        imports=imports(repeats=5 if quick else 15),
    )


@dataclass(frozen=True, slots=True)
class _Alone:
    """Microseconds of each run."""

    in_node: list[int] = field(default_factory=list)
    with_the_way: list[int] = field(default_factory=list)
    and_back: list[int] = field(default_factory=list)


async def _alone(admin: NodeAdmin, runs: int) -> _Alone:
    alone = _Alone()
    for _ in range(runs):
        await asyncio.sleep(_PAUSE_SECONDS)
        sent_at, result = await admin.one("stamp")
        alone.and_back.append((time.perf_counter_ns() - sent_at) // 1000)
        read_at, began_at = msgspec.json.decode(result.result)
        alone.in_node.append((began_at - read_at) // 1000)
        alone.with_the_way.append((began_at - sent_at) // 1000)
    return alone


@asynccontextmanager
async def _node(admin: NodeAdmin) -> AsyncIterator[int]:
    """A node that is connected; its process id."""
    with tempfile.TemporaryDirectory(prefix="tickwheel-bench") as directory:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(SERVICE),
            str(SLOTS),
            directory,
            env={**os.environ, "TICKWHEEL_ADMINS": admin.url, "TICKWHEEL_TOKEN": "t" * 40},
        )
        try:
            async with asyncio.timeout(20):
                await admin.ready.wait()
            yield process.pid
        finally:
            with suppress(ProcessLookupError):  # it could not even start
                process.terminate()
            await process.wait()
