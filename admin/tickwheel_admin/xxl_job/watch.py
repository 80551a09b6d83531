"""Looks after runs on nodes that do not speak by themselves.

An unanswered call is asked about, lines of the log are fetched, and a run that its executor neither
runs any more nor has reported is noticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.services.xxl_job.nodes import DatabaseUnavailable, XxlNodes
from tickwheel_admin.xxl_job import dialects
from tickwheel_admin.xxl_job.agenda import Agenda
from tickwheel_admin.xxl_job.attempts import (
    IDLE_SECONDS,
    LOG_SECONDS,
    MAX_COPIES,
    RemoteAttempt,
    RemoteAttempts,
    Stage,
)
from tickwheel_admin.xxl_job.caller import ConnectionRefused, NoAnswer, NotSent
from tickwheel_admin.xxl_job.dialects import BadAnswer, Meaning, wire_job_id
from tickwheel_admin.xxl_job.ledger_look import LEDGER_SECONDS, LedgerLook
from tickwheel_admin.xxl_job.log_reader import LogReader
from tickwheel_admin.xxl_job.node import XxlNode
from tickwheel_admin.xxl_job.registrar import XxlRegistrar
from tickwheel_admin.xxl_job.runs import DENY_SECONDS
from tickwheel_shared.protocol import Outcome

PROBE_SECONDS = 1.0  # between two questions about a run that is not confirmed
ABSENT_SECONDS = 2.0  # for which a node denies a run before that is believed
BUSY_SECONDS = 10.0  # for which a job is busy without a log before that is believed
IDLE_AGAIN_SECONDS = 2.5  # between two questions whether a job runs, when it did not
LOST_SECONDS = 45.0  # executors send a callback again after 30 s
REPLACED_SECONDS = 5.0  # … a new process at once, if the one before it has left any
KILLED_SECONDS = 60.0  # some executors never report what was killed
# Questions of one kind that are under way at the same time, over all nodes: none holds up another.
PROBES_AT_ONCE = 50
QUESTIONS_AT_ONCE = 100
LOGS_AT_ONCE = 50
ASKED_OF_NODE = 4  # the same, of one node: one that hangs must not hold up the others
SILENT_AT_ONCE = 20  # of any kind, to nodes whose last call was not answered

_NO_ANSWER = (ConnectionRefused, NotSent, NoAnswer, BadAnswer)


@dataclass(slots=True, kw_only=True)
class _Lane:
    """One kind of question."""

    stage: Stage  # of the attempts that it is asked about
    most: int  # under way at the same time, over all nodes
    of_silent: int  # the same, of a node whose last call was not answered
    agenda: Callable[[RemoteAttempts], Agenda[RemoteAttempt]]
    ask: Callable[[XxlNode, RemoteAttempt], Coroutine[Any, Any, None]]
    again: Callable[[RemoteAttempt], float]  # seconds until the next time
    under_way: int = 0


class XxlWatch(Loop):
    """One pass asks about the runs for which that is due, as far as the bounds allow."""

    interval_seconds = 0.5

    def __init__(self, nodes: XxlNodes, registrar: XxlRegistrar, logs: LogReader) -> None:
        super().__init__()
        self._nodes = nodes
        self._registrar = registrar
        self._logs = logs
        self._ledger = LedgerLook(nodes, registrar, spawn=self._spawn)
        self._looked_at = 0.0
        self._first = 0  # the node that a pass begins with
        self._silent_under_way = 0
        self._lanes = (
            _Lane(
                stage=Stage.UNCONFIRMED,
                most=PROBES_AT_ONCE,
                of_silent=1,
                agenda=lambda attempts: attempts.probes,
                ask=self._probe,
                again=lambda _: PROBE_SECONDS,
            ),
            _Lane(
                stage=Stage.RUNNING,
                most=QUESTIONS_AT_ONCE,
                of_silent=1,
                agenda=lambda attempts: attempts.questions,
                ask=self._look_after,
                again=lambda each: IDLE_SECONDS if each.idle_since is None else IDLE_AGAIN_SECONDS,
            ),
            _Lane(
                stage=Stage.RUNNING,
                most=LOGS_AT_ONCE,
                of_silent=0,
                agenda=lambda attempts: attempts.logs,
                ask=self._follow_log,
                again=lambda _: LOG_SECONDS,
            ),
        )
        self._tasks: set[asyncio.Task[None]] = set()

    async def run_once(self) -> bool:
        now = _now()
        if now - self._looked_at >= LEDGER_SECONDS:
            self._looked_at = now
            await self._ledger.look()
        nodes = [node for node in self._registrar if node.is_admitted]
        for node in nodes:
            if node.is_restarted:
                node.is_restarted = False
                node.attempts.ask_at_once()
            while (attempt := node.attempts.deadlines.take(now)) is not None:
                await self._time_out(node, attempt)
        # Each pass begins with another node: the bounds are met by all of them in turn.
        self._first = (self._first + 1) % len(nodes) if nodes else 0
        for node in (*nodes[self._first :], *nodes[: self._first]):
            for lane in self._lanes:
                self._ask_some(node, lane, now)
        return False

    def _ask_some(self, node: XxlNode, lane: _Lane, now: float) -> None:
        agenda = lane.agenda(node.attempts)
        while agenda.under_way < ASKED_OF_NODE and lane.under_way < lane.most:
            if node.calls.is_silent and not self._may_ask_silent(lane, agenda):
                return
            attempt = agenda.take(now)
            if attempt is None:
                return
            self._silent_under_way += node.calls.is_silent
            agenda.under_way += 1
            lane.under_way += 1
            self._spawn(self._ask(node, lane, attempt, is_silent=node.calls.is_silent))

    def _may_ask_silent(self, lane: _Lane, agenda: Agenda[RemoteAttempt]) -> bool:
        """Whether to ask a node whose last call was not answered: its beats tell when it is back"""
        return lane.of_silent > agenda.under_way and self._silent_under_way < SILENT_AT_ONCE

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="xxl-watch")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settle(self) -> None:
        """Wait for the questions under way; for tests."""
        while self._tasks:
            await asyncio.gather(*self._tasks)

    async def _time_out(self, node: XxlNode, attempt: RemoteAttempt) -> None:
        try:
            await self._nodes.timed_out(attempt.run, attempt.attempt, attempt.token)
        except DatabaseUnavailable:
            node.attempts.deadlines.put(attempt, 0.0)
            raise

    async def _ask(
        self, node: XxlNode, lane: _Lane, attempt: RemoteAttempt, *, is_silent: bool
    ) -> None:
        agenda = lane.agenda(node.attempts)
        try:
            await lane.ask(node, attempt)
        except (*_NO_ANSWER, DatabaseUnavailable):
            pass  # counted by the caller; it is asked again
        finally:
            self._silent_under_way -= is_silent
            agenda.under_way -= 1
            lane.under_way -= 1
            if node.attempts.is_current(attempt) and attempt.stage is lane.stage:
                agenda.put(attempt, _now() + lane.again(attempt))

    async def _look_after(self, node: XxlNode, attempt: RemoteAttempt) -> None:
        await self._locate(node, attempt)
        await self._look_whether_idle(node, attempt)

    async def _follow_log(self, node: XxlNode, attempt: RemoteAttempt) -> None:
        if attempt.full or not await self._locate(node, attempt):
            return
        if attempt.is_adopted:
            lines = await self._nodes.stored_lines(attempt.run, attempt.attempt)
            attempt.lines, attempt.is_adopted = max(lines, attempt.lines), False
        await self._logs.follow(node, attempt)

    async def _probe(self, node: XxlNode, attempt: RemoteAttempt) -> None:
        """Find out whether an attempt whose call was not answered has begun."""
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
                await node.runs.end(attempt, Outcome.CUT_OFF, text)
        elif absent >= ABSENT_SECONDS:
            # Who sent it may have had more copies under way than are to be seen here.
            if await self._has_log(node, attempt, everywhere=True):
                node.runs.confirm(attempt)
            elif node.attempts.is_current(attempt):
                await node.runs.deny(attempt)

    async def _locate(self, node: XxlNode, attempt: RemoteAttempt) -> bool:
        """Whether it is known which copy of its job an attempt is; its log tells."""
        if attempt.copy is None:
            everywhere = not attempt.was_sought
            attempt.is_untold = await self._has_log(node, attempt, everywhere=everywhere) is None
            attempt.was_sought = True
        return attempt.copy is not None

    async def _has_log(
        self, node: XxlNode, attempt: RemoteAttempt, *, everywhere: bool = False
    ) -> bool | None:
        """As `NodeRuns.has_log`; which copy it is is noted when a log tells.

        Args:
            everywhere: look at every copy that there may be, not only at the likely ones.
        """
        if attempt.copy is not None:
            return await node.runs.has_log(attempt, attempt.copy)
        for copy in range(MAX_COPIES) if everywhere else node.attempts.likely(attempt.job_id):
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
            await self._note_idle(node, attempt)
        else:
            attempt.idle_since = None
            attempt.busy_at = _now()
            if attempt.copy is None and attempt.is_untold:
                # Without logs the busy one is the best guess: else it could never be killed.
                node.attempts.found(attempt, busy)

    async def _busy_copy(self, node: XxlNode, attempt: RemoteAttempt) -> int | None:
        """The copy that runs and may be this attempt; None: the node does not run it.

        While it is not known which copy it is, it may be any that is no other attempt's.
        """
        if attempt.copy is not None:
            copies = [attempt.copy] if node.attempts.owns(attempt) else []
        else:
            copies = node.attempts.free_copies(attempt)
        for copy in copies:
            call = dialects.idle_beat(wire_job_id(attempt.job_id, copy))
            if dialects.meaning(await node.calls.ask(call)) is not Meaning.OK:
                return copy
        return None

    async def _note_idle(self, node: XxlNode, attempt: RemoteAttempt) -> None:
        now = _now()
        if attempt.idle_since is None:
            attempt.idle_since = now
        if _was_replaced(node, attempt):
            # The process that ran it is gone, so that it cannot run any more; if it had ended, and
            # was not reported, the new process tells at its start.
            if now - max(attempt.idle_since, node.runs.replaced_at) >= REPLACED_SECONDS:
                is_killed = attempt.killed_at is not None
                outcome = Outcome.CANCELLED if is_killed else Outcome.CUT_OFF
                await node.runs.end(attempt, outcome, "Its executor was restarted while it ran it.")
        elif attempt.killed_at is not None:
            if now - max(attempt.idle_since, attempt.killed_at) >= KILLED_SECONDS:
                text = "It was stopped; its executor did not report that."
                await node.runs.end(attempt, Outcome.CANCELLED, text)
        elif now - attempt.idle_since >= LOST_SECONDS:
            text = "Its executor does not run it any more, and did not report its end."
            await node.runs.end(attempt, Outcome.CUT_OFF, text)


def _was_replaced(node: XxlNode, attempt: RemoteAttempt) -> bool:
    """Whether another process answers than the one that ran this."""
    return node.runs.replaced_at > max(attempt.known_at, attempt.busy_at)


def _now() -> float:
    return asyncio.get_running_loop().time()
