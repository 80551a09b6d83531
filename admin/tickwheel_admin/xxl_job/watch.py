"""Looks after runs on nodes that do not speak by themselves.

An unanswered call is asked about, lines of the log are fetched, and a run that its executor neither
runs any more nor has reported is noticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from tickwheel_admin.domain.xxl_job.bridge import ExpectedLog
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.services.xxl_job.nodes import DatabaseUnavailable, XxlNodes
from tickwheel_admin.xxl_job import dialects
from tickwheel_admin.xxl_job.attempts import RemoteAttempt, Stage
from tickwheel_admin.xxl_job.caller import ConnectionRefused, NoAnswer, NotSent
from tickwheel_admin.xxl_job.dialects import BadAnswer, Meaning, wire_job_id
from tickwheel_admin.xxl_job.log_reader import LogReader
from tickwheel_admin.xxl_job.node import XxlNode
from tickwheel_admin.xxl_job.registrar import XxlRegistrar
from tickwheel_admin.xxl_job.runs import DENY_SECONDS
from tickwheel_shared.protocol import Outcome

PROBE_SECONDS = 1.0  # between two questions about a run that is not confirmed
ABSENT_SECONDS = 2.0  # for which a node denies a run before that is believed
BUSY_SECONDS = 10.0  # for which a job is busy without a log before that is believed
LEDGER_SECONDS = 5.0  # between two looks at which runs have ended
LOG_SECONDS = 2.0  # between two looks at the log of a run
IDLE_SECONDS = 10.0  # between two questions whether a job still runs
IDLE_AGAIN_SECONDS = 2.5  # the same, after it did not
LOST_SECONDS = 45.0  # executors send a callback again after 30 s
REPLACED_SECONDS = 5.0  # … a new process at once, if the one before it has left any
KILLED_SECONDS = 60.0  # some executors never report what was killed
KILL_TRIED_SECONDS = 60.0  # for which a run that has ended in the ledger is told to end
ASKED_AT_ONCE = 50  # runs that are asked about in one pass, over all nodes
ASKED_OF_NODE = 4  # the same, of one node: one that hangs must not hold up the others

_NO_ANSWER = (ConnectionRefused, NotSent, NoAnswer, BadAnswer)


class XxlWatch(Loop):
    """One pass asks some nodes about some runs; those asked longest ago come first."""

    interval_seconds = 0.5

    def __init__(self, nodes: XxlNodes, registrar: XxlRegistrar, logs: LogReader) -> None:
        super().__init__()
        self._nodes = nodes
        self._registrar = registrar
        self._logs = logs
        self._looked_at = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    async def run_once(self) -> bool:
        now = _now()
        if now - self._looked_at >= LEDGER_SECONDS:
            self._looked_at = now
            await self._look_at_ledger()
        for node in self._registrar:
            for attempt in node.attempts:
                if attempt.timeout_at is not None and attempt.timeout_at <= now:
                    await self._time_out(attempt)
        for node, attempt in self._due(now):
            attempt.is_asked = True
            self._spawn(self._ask(node, attempt))
        return False

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="xxl-watch")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_at_ledger(self) -> None:
        """Forget what has ended, and adopt what others sent while they served a node, too."""
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

    async def settle(self) -> None:
        """Wait for the questions under way; for tests."""
        while self._tasks:
            await asyncio.gather(*self._tasks)

    async def _time_out(self, attempt: RemoteAttempt) -> None:
        if attempt.stage is Stage.RUNNING:
            attempt.timeout_at = None
            await self._nodes.timed_out(attempt.run, attempt.attempt, attempt.token)

    def _due(self, now: float) -> list[tuple[XxlNode, RemoteAttempt]]:
        found: list[tuple[float, XxlNode, RemoteAttempt]] = []
        for node in self._registrar:
            if not node.is_admitted:
                continue
            asked = sum(each.is_asked for each in node.attempts)
            due = [
                (when, each)
                for each in node.attempts
                if not each.is_asked and (when := _due_at(each, node.is_restarted)) <= now
            ]
            node.is_restarted = False
            due.sort(key=lambda pair: pair[0])
            found += [(when, node, each) for when, each in due[: max(ASKED_OF_NODE - asked, 0)]]
        found.sort(key=lambda each: each[0])
        return [(node, attempt) for _, node, attempt in found[:ASKED_AT_ONCE]]

    async def _ask(self, node: XxlNode, attempt: RemoteAttempt) -> None:
        try:
            if attempt.stage is Stage.UNCONFIRMED:
                await self._probe(node, attempt)
                return
            is_located = await self._locate(node, attempt)
            now = _now()
            if now >= _idle_due_at(attempt):
                await self._look_whether_idle(node, attempt)
            if not is_located:
                attempt.log_asked_at = now
            elif now >= attempt.log_asked_at + LOG_SECONDS and not attempt.full:
                attempt.log_asked_at = now
                if attempt.is_adopted:
                    lines = await self._nodes.stored_lines(attempt.run, attempt.attempt)
                    attempt.lines, attempt.is_adopted = max(lines, attempt.lines), False
                await self._logs.follow(node, attempt)
        except _NO_ANSWER:
            attempt.log_asked_at = attempt.idle_asked_at = _now()  # counted by the caller
        except DatabaseUnavailable:
            attempt.log_asked_at = _now()
        finally:
            attempt.is_asked = False

    async def _probe(self, node: XxlNode, attempt: RemoteAttempt) -> None:
        """Find out whether an attempt whose call was not answered has begun."""
        attempt.idle_asked_at = _now()
        has_log = await self._has_log(node, attempt)
        if has_log:
            node.runs.confirm(attempt)
            return
        busy = await self._busy_copy(node, attempt)
        now = _now()
        if busy is not None:
            attempt.absent_since = None
            attempt.busy_since = now if attempt.busy_since is None else attempt.busy_since
            # A wire job that was free before the call is busy with this attempt. One that was
            # adopted may be another's: its log would tell within a moment.
            if attempt.copy is not None or now - attempt.busy_since >= BUSY_SECONDS:
                node.attempts.found(attempt, busy)
                node.runs.confirm(attempt)
            return
        attempt.busy_since = None
        attempt.absent_since = now if attempt.absent_since is None else attempt.absent_since
        absent = now - max(attempt.absent_since, attempt.known_at + DENY_SECONDS)
        if has_log is None:
            # It may have run and ended, or never begun: nothing there tells.
            if absent >= LOST_SECONDS:
                text = "Its executor did not answer, and does not tell whether it ran it."
                node.runs.end(attempt, Outcome.CUT_OFF, text)
        elif absent >= ABSENT_SECONDS:
            node.runs.deny(attempt)

    async def _locate(self, node: XxlNode, attempt: RemoteAttempt) -> bool:
        """Whether it is known which copy of its job an attempt is; its log tells."""
        if attempt.copy is None:
            attempt.is_untold = await self._has_log(node, attempt) is None
        return attempt.copy is not None

    async def _has_log(self, node: XxlNode, attempt: RemoteAttempt) -> bool | None:
        """As `NodeRuns.has_log`; which copy it is is noted when a log tells."""
        if attempt.copy is not None:
            return await node.runs.has_log(attempt, attempt.copy)
        for copy in range(node.attempts.copies_of(attempt.job_id)):
            found = await node.runs.has_log(attempt, copy)
            if found is None:
                return None
            if found:
                node.attempts.found(attempt, copy)
                return True
        return False

    async def _look_whether_idle(self, node: XxlNode, attempt: RemoteAttempt) -> None:
        busy = await self._busy_copy(node, attempt)
        if busy is None:
            self._note_idle(node, attempt)
        else:
            attempt.idle_since = None
            attempt.busy_at = _now()
            if attempt.copy is None and attempt.is_untold:
                # Without logs the busy one is the best guess: else it could never be killed.
                node.attempts.found(attempt, busy)
        attempt.idle_asked_at = _now()

    async def _busy_copy(self, node: XxlNode, attempt: RemoteAttempt) -> int | None:
        """The copy that runs and may be this attempt; None: the node does not run it.

        While it is not known which copy it is, it may be any that is no other attempt's.
        """
        if attempt.copy is not None:
            copies = [attempt.copy] if node.attempts.owns(attempt) else []
        else:
            most = node.attempts.copies_of(attempt.job_id)
            copies = node.attempts.free_copies(attempt, most)
        for copy in copies:
            call = dialects.idle_beat(wire_job_id(attempt.job_id, copy))
            if dialects.meaning(await node.calls.ask(call)) is not Meaning.OK:
                return copy
        return None

    def _note_idle(self, node: XxlNode, attempt: RemoteAttempt) -> None:
        now = attempt.idle_asked_at = _now()
        if attempt.idle_since is None:
            attempt.idle_since = now
        if _was_replaced(node, attempt):
            # The process that ran it is gone, so that it cannot run any more; if it had ended, and
            # was not reported, the new process tells at its start.
            if now - max(attempt.idle_since, node.runs.replaced_at) >= REPLACED_SECONDS:
                is_killed = attempt.killed_at is not None
                outcome = Outcome.CANCELLED if is_killed else Outcome.CUT_OFF
                node.runs.end(attempt, outcome, "Its executor was restarted while it ran it.")
        elif attempt.killed_at is not None:
            if now - max(attempt.idle_since, attempt.killed_at) >= KILLED_SECONDS:
                text = "It was stopped; its executor did not report that."
                node.runs.end(attempt, Outcome.CANCELLED, text)
        elif now - attempt.idle_since >= LOST_SECONDS:
            text = "Its executor does not run it any more, and did not report its end."
            node.runs.end(attempt, Outcome.CUT_OFF, text)

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
                self._spawn(node.runs.kill(each))
                continue
            node.attempts.remove(each)
            if each.stage is Stage.RUNNING and each.copy is not None and not each.full:
                ended.append(expected_log(each, node.node_id))
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


def _was_replaced(node: XxlNode, attempt: RemoteAttempt) -> bool:
    """Whether another process answers than the one that ran this."""
    return node.runs.replaced_at > max(attempt.known_at, attempt.busy_at)


def expected_log(attempt: RemoteAttempt, node_id: int) -> ExpectedLog:
    """The rest of the log of an attempt that has ended."""
    return ExpectedLog(
        run=attempt.run,
        attempt=attempt.attempt,
        token=attempt.token,
        node_id=node_id,
        log_id=attempt.log_id,
        time_ms=attempt.time_ms,
    )


def _due_at(attempt: RemoteAttempt, is_restarted: bool) -> float:
    if attempt.stage is Stage.SENDING:
        return float("inf")
    if attempt.stage is Stage.UNCONFIRMED:
        return attempt.idle_asked_at + PROBE_SECONDS
    if is_restarted:
        attempt.idle_asked_at = 0.0
        return 0.0
    idle = _idle_due_at(attempt)
    return (
        idle
        if attempt.full
        else min(idle, max(attempt.log_asked_at, attempt.began_at) + LOG_SECONDS)
    )


def _idle_due_at(attempt: RemoteAttempt) -> float:
    again = IDLE_SECONDS if attempt.idle_since is None else IDLE_AGAIN_SECONDS
    return max(attempt.idle_asked_at, attempt.began_at) + again


def _now() -> float:
    return asyncio.get_running_loop().time()
