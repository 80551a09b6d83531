"""Forecasts in processes of their own: they compute for seconds, and are ended when nobody waits.

A thread would not do: Python that computes holds up the admin's loops, and a thread cannot be
ended. A process gets JSON, has limits of time and memory, no environment that could hold secrets,
and is killed when its reader leaves, when it takes too long, and when the admin stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process

import msgspec
import structlog

from tickwheel_admin.domain.errors import Unavailable
from tickwheel_admin.domain.forecast.comparison import ForecastComparison, ForecastRequest
from tickwheel_admin.domain.forecast.night_plan import NightPlan, PlanRequest
from tickwheel_admin.domain.forecast.windows import PlacementRequest
from tickwheel_admin.domain.triggers.placement import WindowPlacement

log = structlog.get_logger(__name__)

SECONDS = 30.0  # of one forecast, the start of the process included
MAX_PROBLEM_BYTES = 2_000  # of what a process that fails says, its end
_MODULE = "tickwheel_admin.services.forecast.worker"
_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "TZ")


class ForecastProcesses:
    """Starts one for each request. Used from the event loop's thread only."""

    def __init__(self, *, seconds: float = SECONDS) -> None:
        """Allow each forecast so many seconds."""
        self._seconds = seconds
        self._running: set[Process] = set()

    async def compare(self, request: ForecastRequest) -> ForecastComparison:
        """What the request asks for; whoever is cancelled leaves no process behind.

        Raises:
            Unavailable: forecast.too_long, or forecast.failed.
        """
        told = await self._answer("compare", request)
        return await asyncio.to_thread(msgspec.json.decode, told, type=ForecastComparison)

    async def plan(self, request: PlanRequest) -> NightPlan:
        """The plan of the next hours; raises as `compare`."""
        told = await self._answer("plan", request)
        return await asyncio.to_thread(msgspec.json.decode, told, type=NightPlan)

    async def place(self, request: PlacementRequest) -> dict[int, WindowPlacement]:
        """Where triggers should fire, those that stay left out; raises as `compare` does."""
        told = await self._answer("place", request)
        return msgspec.json.decode(told, type=dict[int, WindowPlacement])

    async def _answer(self, kind: str, request: msgspec.Struct) -> bytes:
        text = await asyncio.to_thread(msgspec.json.encode, request)
        environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            _MODULE,
            kind,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=environment,
            start_new_session=True,  # a Ctrl-C at the admin is the admin's to handle
        )
        self._running.add(process)
        try:
            async with asyncio.timeout(self._seconds):
                told, problem = await process.communicate(text)
        except TimeoutError:
            log.warning("forecast.took_too_long", seconds=self._seconds)
            raise Unavailable(
                "forecast.too_long",
                "This forecast takes longer than %(seconds)d s; ask for fewer days.",
                seconds=int(self._seconds),
            ) from None
        finally:
            self._running.discard(process)
            await _ended(process)
        if process.returncode != 0:
            log.error(
                "forecast.failed",
                status=process.returncode,
                problem=problem[-MAX_PROBLEM_BYTES:].decode(errors="replace"),
            )
            raise Unavailable("forecast.failed", "The process that forecasts failed.")
        return told

    def close(self) -> None:
        """End all of them."""
        for process in self._running:
            _kill(process)


async def _ended(process: Process) -> None:
    """Kill it if it still runs, and wait for its end, also while the caller is cancelled."""
    if process.returncode is None:
        _kill(process)
        await asyncio.shield(process.wait())


def _kill(process: Process) -> None:
    """With its child: it leads a session of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
