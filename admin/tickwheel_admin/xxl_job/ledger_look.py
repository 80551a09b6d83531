"""What the ledger says of the runs on nodes of this admin: which have ended, and which are new."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from tickwheel_admin.domain.xxl_job.bridge import ExpectedLog
from tickwheel_admin.services.xxl_job.nodes import DatabaseUnavailable, XxlNodes
from tickwheel_admin.xxl_job.attempts import RemoteAttempt
from tickwheel_admin.xxl_job.node import XxlNode
from tickwheel_admin.xxl_job.registrar import XxlRegistrar

LEDGER_SECONDS = 5.0  # between two looks
KILL_TRIED_SECONDS = 60.0  # for which a run that has ended in the ledger is told to end


class LedgerLook:
    """Used from the event loop's thread only."""

    def __init__(
        self,
        nodes: XxlNodes,
        registrar: XxlRegistrar,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """Do what takes long in tasks made by `spawn`."""
        self._nodes = nodes
        self._registrar = registrar
        self._spawn = spawn

    async def look(self) -> None:
        """Forget what has ended, and adopt what others sent while they served a node, too.

        Raises DatabaseUnavailable.
        """
        nodes = [node for node in self._registrar if node.is_admitted]
        if not nodes:
            return
        try:
            for node in nodes:
                await self._forget_ended(node)
            await self._adopt_unknown(nodes)
        except DatabaseUnavailable:
            # Nor could any report be taken meanwhile: runs that have ended may be told of only now.
            for attempt in (each for node in nodes for each in node.attempts):
                attempt.idle_since = None
            raise

    async def _adopt_unknown(self, nodes: Sequence[XxlNode]) -> None:
        known = {each.run for node in nodes for each in node.attempts}
        by_id = {node.node_id: node for node in nodes}
        for facts in await self._nodes.live_runs_except(by_id, known):
            # Those of a moment ago are this admin's own, and about to be sent.
            if facts.age_seconds > LEDGER_SECONDS and facts.node_id is not None:
                by_id[facts.node_id].adopt([facts])

    async def _forget_ended(self, node: XxlNode) -> None:
        """Runs may have ended by a callback to another admin, or by the ledger's own rules."""
        old = [each for each in node.attempts if _now() - each.began_at > LEDGER_SECONDS]
        if not old:
            return
        facts = await self._nodes.facts(each.run for each in old)
        ended: list[ExpectedLog] = []
        for each in old:
            known = facts.get(each.run)
            if known is not None and known.is_live and known.attempt == each.attempt:
                continue
            if _is_to_be_killed(each):
                self._spawn(node.runs.kill(each, is_over=True))
                continue
            node.attempts.remove(each)
            expected = each.expected_log(node.node_id)
            if expected is not None:
                ended.append(expected)
        if ended:
            await self._nodes.expect_logs(ended)


def _is_to_be_killed(attempt: RemoteAttempt) -> bool:
    """Whether an attempt that has ended in the ledger may still run, and somebody wants its end."""
    wanted_at = attempt.kill_wanted_at
    return (
        wanted_at is not None
        and attempt.killed_at is None
        and _now() - wanted_at < KILL_TRIED_SECONDS
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
