"""How every background loop runs: its passes, waking it, and what a failed pass does."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import ClassVar

import structlog

from tickwheel_admin.store.database.database import DatabaseUnavailable

log = structlog.get_logger(__name__)


class Loop(ABC):
    """Call `run_once` every `interval_seconds`, sooner when woken, until cancelled."""

    interval_seconds: ClassVar[float]

    @property
    def name(self) -> str:
        """How health checks, the status of an admin and the console call this loop."""
        return type(self).__name__.lower()

    def __init__(self) -> None:
        self._wake = asyncio.Event()
        self._aim: float | None = None
        self._finished = False
        self.last_pass_at: float | None = None  # event loop time of the last pass that succeeded
        self.failing = False

    @abstractmethod
    async def run_once(self) -> bool:
        """Do one pass. True means that there may be more to do right now."""

    def wake(self) -> None:
        """Start the next pass at once."""
        self._wake.set()

    def aim_at(self, loop_time: float | None) -> None:
        """Start the next pass at this event loop time, if that is before the interval ends."""
        self._aim = loop_time

    def finish(self) -> None:
        """Make `run` return after the current pass, so that its work is not lost."""
        self._finished = True
        self._wake.set()

    async def run(self) -> None:
        """Run passes until finished or cancelled; a failed pass is logged."""
        while not self._finished:
            self._wake.clear()
            self._aim = None
            if not await self._pass():
                await self._rest()

    async def _pass(self) -> bool:
        try:
            more = await self.run_once()
        except DatabaseUnavailable as error:
            self._report_failure("loop.database_unavailable", cause=str(error))
            return False
        except Exception:
            # No error of one pass may end scheduling; it is logged with its traceback.
            log.exception("loop.pass_failed", loop=type(self).__name__)
            self.failing = True
            return False
        if self.failing:
            self.failing = False
            log.info("loop.recovered", loop=type(self).__name__)
        self.last_pass_at = asyncio.get_running_loop().time()
        return more

    def _report_failure(self, event: str, *, cause: str) -> None:
        if not self.failing:  # once, not every pass of an outage
            log.error(event, loop=type(self).__name__, cause=cause)
        self.failing = True

    async def _rest(self) -> None:
        seconds = self.interval_seconds
        if self._aim is not None and not self.failing:
            seconds = min(seconds, max(0.0, self._aim - asyncio.get_running_loop().time()))
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass
