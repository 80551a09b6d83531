"""What is known of runs without asking the ledger: of those that this admin started itself."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.xxl_job.bridge import RunFacts
from tickwheel_admin.xxl_job.attempts import RemoteAttempt
from tickwheel_admin.xxl_job.dialects import LogId
from tickwheel_admin.xxl_job.node import XxlNode
from tickwheel_admin.xxl_job.registrar import XxlRegistrar


def known_runs(
    registrar: XxlRegistrar, ids: Iterable[LogId | None], executors: Collection[int]
) -> dict[int, RunFacts]:
    """Facts of those attempts that this admin started, and that nobody was told to end.

    Why one was told to end is in the ledger. If the ledger says otherwise by now, that counts when
    the attempt's result is recorded.

    Args:
        ids: the attempts in question; None stands for none.
        executors: only their attempts are looked for.
    """
    nodes = [node for node in registrar if node.executor_id in executors]
    now = asyncio.get_running_loop().time()
    found: dict[int, RunFacts] = {}
    for each in ids:
        if each is None:
            continue
        for node in nodes:
            attempt = node.attempts.of_log_id(each)
            if attempt is not None and _is_known(attempt):
                found[attempt.run] = _facts(attempt, node, now=now)
    return found


def _is_known(attempt: RemoteAttempt) -> bool:
    was_adopted = not attempt.handler
    return not was_adopted and attempt.kill_wanted_at is None


def _facts(attempt: RemoteAttempt, node: XxlNode, *, now: float) -> RunFacts:
    """Its instants are told by the event loop's clock, from the time of its claim on."""

    def at_ms(seconds: float) -> int:
        return attempt.time_ms + round((seconds - attempt.began_at) * 1000)

    running_at = attempt.running_at
    return RunFacts(
        run=attempt.run,
        executor_id=node.executor_id,
        job_id=attempt.job_id,
        node_id=node.node_id,
        attempt=attempt.attempt,
        token=attempt.token,
        state=RunState.DISPATCHED if running_at is None else RunState.RUNNING,
        dispatched_at=attempt.time_ms,
        started_at=None if running_at is None else at_ms(running_at),
        cancel_requested=False,
        cancel_reason=None,
        now=at_ms(now),
        mask=attempt.mask,
    )
