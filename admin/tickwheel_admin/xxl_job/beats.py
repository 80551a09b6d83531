"""Asks every node of this admin whether it lives."""

from __future__ import annotations

import asyncio
from collections import Counter

from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.xxl_job.node import XxlNode
from tickwheel_admin.xxl_job.registrar import XxlRegistrar

MISSING_AT_ONCE = 20  # beats of one executor to addresses where nobody answered the last one


class XxlBeats(Loop):
    """Starts the beats that are due; no node waits for the answer of another."""

    interval_seconds = 0.25

    def __init__(self, nodes: XxlRegistrar) -> None:
        super().__init__()
        self._nodes = nodes

    async def run_once(self) -> bool:
        now = asyncio.get_running_loop().time()
        nodes = list(self._nodes)
        # An executor may have registered a thousand addresses where nobody is.
        missing = Counter(each.executor_id for each in nodes if each.is_missing and each.is_beating)
        for node in sorted((each for each in nodes if each.is_beat_due(now)), key=_beat_at):
            if node.is_missing:
                if missing[node.executor_id] >= MISSING_AT_ONCE:
                    continue
                missing[node.executor_id] += 1
            node.beat(now)
        return False


def _beat_at(node: XxlNode) -> float:
    return node.beat_at
