"""One agent against an admin that costs little: commands per second, latency, a flood of output."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tests.bench.scenarios.node_admin import NodeAdmin
from tests.bench.testbed.measure import (
    cpu_seconds,
    peak_mebibytes,
    percentile,
    resident_mebibytes,
)
from tests.executor_sdk.offers.running import children_of

AT_ONCE = 8
REPEATS = 3
FLOOD_BYTES = 1_000_000_000
_PAUSE_SECONDS = 0.02  # between runs that come alone
_CONFIG = """
[agent]
admins = ["{url}"]
executor = "bench"
token = "{token}"
slots = {slots}
spool_dir = "{directory}"
[children]
directory = "{directory}"
memory_mb = 1024
processes = 1000
[command]
programs = ["*"]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFigures:
    """What one agent does. A run is `/bin/true`, with everything on that the machine allows."""

    runs_per_second: int
    runs_per_second_all: list[int]
    cpu_us_per_run: int  # of the agent, its keeper and supervisors, and the commands
    request_to_result_p50_us: int  # of runs that come alone
    request_to_result_p99_us: int
    idle_mebibytes: float  # resident memory of an agent that has done nothing yet
    flood_peak_mebibytes: int  # the most while a command wrote a gigabyte of short lines
    flood_mb_per_second: int


def agent_figures(*, quick: bool) -> AgentFigures:
    """Measure one agent."""
    return asyncio.run(_measure(quick))


async def _measure(quick: bool) -> AgentFigures:
    runs = 300 if quick else 2_000
    async with NodeAdmin().listening() as admin, _agent(admin) as pid:
        idle = resident_mebibytes(pid)
        admin.parameters = _argv("/bin/true")
        await admin.flood("command", runs=AT_ONCE * 4, at_once=AT_ONCE)  # starts supervisors
        parts = [pid, *children_of(pid)]
        before = cpu_seconds(parts)
        seconds = [
            await admin.flood("command", runs=runs, at_once=AT_ONCE)
            for _ in range(1 if quick else REPEATS)
        ]
        spent = cpu_seconds(parts) - before
        alone = []
        for _ in range(100 if quick else 500):
            await asyncio.sleep(_PAUSE_SECONDS)
            sent_at, _ = await admin.one("command")
            alone.append((time.perf_counter_ns() - sent_at) // 1000)
        admin.parameters = _argv("sh", "-c", f"yes 0123456789 | head -c {FLOOD_BYTES}")
        began = time.perf_counter()
        await admin.one("command")
        flood_seconds = time.perf_counter() - began
        peak = peak_mebibytes(pid)
    rates = [round(runs / each) for each in seconds]
    return AgentFigures(
        runs_per_second=round(statistics.median(rates)),
        runs_per_second_all=rates,
        cpu_us_per_run=round(spent / (runs * len(seconds)) * 1e6),
        request_to_result_p50_us=percentile(alone, 0.5),
        request_to_result_p99_us=percentile(alone, 0.99),
        idle_mebibytes=idle,
        flood_peak_mebibytes=peak,
        flood_mb_per_second=round(FLOOD_BYTES / 1e6 / flood_seconds),
    )


def _argv(*argv: str) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode({"argv": argv}))


def _write_config(directory: Path, url: str) -> Path:
    path = directory / "agent.toml"
    path.write_text(_CONFIG.format(url=url, token="t" * 40, slots=AT_ONCE, directory=directory))
    return path


@asynccontextmanager
async def _agent(admin: NodeAdmin) -> AsyncIterator[int]:
    """An agent that is connected; its process id."""
    with tempfile.TemporaryDirectory(prefix="tickwheel-bench") as directory:
        config = _write_config(Path(directory), admin.url)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tickwheel_executor.agent", "--config", str(config)),
            env=os.environ.copy(),
        )
        try:
            async with asyncio.timeout(20):
                await admin.ready.wait()
            yield process.pid
        finally:
            with suppress(ProcessLookupError):  # it could not even start
                process.terminate()
            await process.wait()
