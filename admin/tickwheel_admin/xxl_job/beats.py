"""Asks every node of this admin whether it lives."""

from __future__ import annotations

import asyncio

from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.xxl_job.registrar import XxlRegistrar


class XxlBeats(Loop):
    """Starts the beats that are due; no node waits for the answer of another."""

    interval_seconds = 0.25

    def __init__(self, nodes: XxlRegistrar) -> None:
        super().__init__()
        self._nodes = nodes

    async def run_once(self) -> bool:
        now = asyncio.get_running_loop().time()
        for node in self._nodes:
            node.beat_if_due(now)
        return False
