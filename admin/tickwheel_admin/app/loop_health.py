"""Whether the loops of an admin go on, and its figures for `/metrics`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.services.metrics.figures import LoopFigures

STANDSTILL_SECONDS = 30  # a loop without a pass for so long, beyond its interval, is not healthy


class LoopHealth:
    """The passes of some loops, held against the clock of the event loop."""

    def __init__(self) -> None:
        """There are no loops yet."""
        self._loops: Sequence[Loop] = ()
        self._started_at = 0.0  # event loop time
        self.is_stopping = False

    def start(self, loops: Sequence[Loop]) -> None:
        """These loops start now."""
        self._loops = loops
        self._started_at = asyncio.get_running_loop().time()

    def figures(self) -> list[LoopFigures]:
        """Of each loop, how old its last pass is."""
        now = asyncio.get_running_loop().time()
        return [
            LoopFigures(
                name=loop.name,
                age_seconds=now - (loop.last_pass_at or self._started_at),
                interval_seconds=loop.interval_seconds,
                failing=loop.failing,
            )
            for loop in self._loops
        ]

    async def check(self) -> str:
        """Say "ok", or what is wrong."""
        if self.is_stopping:
            return "stopping"
        now = asyncio.get_running_loop().time()
        for loop in self._loops:
            name = loop.name
            if loop.failing:
                return f"the {name} fails"
            late = STANDSTILL_SECONDS + loop.interval_seconds
            if now - (loop.last_pass_at or self._started_at) > late:
                return f"the {name} stands still"
        return "ok"
