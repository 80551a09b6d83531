"""What executors report: recorded first, answered then."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec
import structlog

from tickwheel_admin.domain.xxl_job.bridge import ClientKind, ExpectedLog, RunFacts
from tickwheel_admin.engine.batching import Coalescer
from tickwheel_admin.engine.ports import StoredFirst
from tickwheel_admin.engine.recorder.loop import Recorder
from tickwheel_admin.services.xxl_job.nodes import XxlNodes, store_expected_logs
from tickwheel_admin.xxl_job.dialects import Callback, read_log_id
from tickwheel_admin.xxl_job.known_runs import known_runs
from tickwheel_admin.xxl_job.registrar import XxlRegistrar
from tickwheel_shared.protocol import (
    MAX_RESULT_BYTES,
    Message,
    Outcome,
    Result,
    ResultReceipt,
)
from tickwheel_shared.secret_mask import hidden

log = structlog.get_logger(__name__)

# An executor that gets no answer sends its report again, or has given up waiting long before.
RECEIPT_SECONDS = 20.0
CALLBACKS_PER_BATCH = 2_000
SUCCEEDED, TIMED_OUT = 200, 502
_TIMEOUT = "timeout"  # why a run was told to stop


class NotRecorded(Exception):
    """What was said is not stored, or not by this admin; it is to be sent again."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of the reports of one request."""

    recorded: int
    unknown: int  # of runs that nobody knows, or that were deleted
    foreign: int  # of runs of executors that the caller may not speak for
    foreign_executors: frozenset[int] = frozenset()  # these executors


class Callbacks:
    """Turns reports into results of attempts. Any admin takes those of any executor."""

    def __init__(self, nodes: XxlNodes, recorder: Recorder, registrar: XxlRegistrar) -> None:
        self._nodes = nodes
        self._recorder = recorder
        self._registrar = registrar
        self._sessions: dict[int, _ReportSession] = {}  # by executor
        self._facts = Coalescer(self._read_facts, limit=CALLBACKS_PER_BATCH)

    async def take(
        self, callbacks: Sequence[Callback], *, executors: Collection[int], client: ClientKind
    ) -> Taken:
        """Record reports.

        Args:
            client: whose library reports.
            executors: ids of those that the caller has shown to be.

        Raises:
            NotRecorded: not all of them are stored.
            DatabaseUnavailable: none is.
        """
        results: defaultdict[int, list[Result]] = defaultdict(list)
        unknown = 0
        foreign: list[int] = []  # executors
        ids = [read_log_id(each.log_id) for each in callbacks]
        by_run = known_runs(self._registrar, ids, executors)
        facts = await asyncio.gather(
            *(
                self._facts.submit(each.run)
                for each in ids
                if each is not None and each.run not in by_run
            )
        )
        by_run.update({each.run: each for each in facts if each is not None})
        expected: defaultdict[int, list[ExpectedLog]] = defaultdict(list)  # by executor
        for callback, named in zip(callbacks, ids, strict=True):
            known = by_run.get(named.run) if named is not None else None
            if named is None or known is None:
                unknown += 1
                continue
            if known.executor_id not in executors:
                foreign.append(known.executor_id)
                continue
            attempt = _full_number(named.attempt_low, known.attempt)
            token: str | None = known.token
            if attempt != known.attempt:
                token = (await self._nodes.older_tokens([(known.run, attempt)])).get(
                    (known.run, attempt)
                )
            if token is None or _is_of_another_claim(callback, known, attempt, client):
                unknown += 1
                continue
            results[known.executor_id].append(_result(callback, known, attempt, token, client))
            if known.node_id is not None and attempt == known.attempt:
                expected[known.executor_id].append(
                    ExpectedLog(
                        run=known.run,
                        attempt=attempt,
                        token=token,
                        node_id=known.node_id,
                        log_id=callback.log_id,
                        time_ms=known.dispatched_at or callback.time_ms or 0,
                    )
                )
        for executor_id, of_executor in results.items():
            logs = expected[executor_id]
            await self._session(executor_id).record(of_executor, logs)
            self._forget(logs)
        if unknown:
            log.info("xxl.callbacks_unknown", count=unknown)
        recorded = sum(map(len, results.values()))
        return Taken(recorded, unknown, len(foreign), frozenset(foreign))

    def _session(self, executor_id: int) -> _ReportSession:
        if executor_id not in self._sessions:
            self._sessions[executor_id] = _ReportSession(executor_id, self._recorder)
        return self._sessions[executor_id]

    def _forget(self, ended: Sequence[ExpectedLog]) -> None:
        """Their nodes may give what they used to other runs at once."""
        nodes = {node.node_id: node for node in self._registrar}
        for each in ended:
            node = nodes.get(each.node_id)
            attempt = node.attempts.get(each.run, each.attempt) if node is not None else None
            if node is not None and attempt is not None:
                node.attempts.remove(attempt)

    async def _read_facts(self, run_ids: Sequence[int]) -> list[RunFacts | None]:
        found = await self._nodes.facts(run_ids)
        return [found.get(run_id) for run_id in run_ids]


class _ReportSession:
    """Towards the recorder: whoever reports for an executor, and waits for receipts."""

    def __init__(self, executor_id: int, recorder: Recorder) -> None:
        self.node_id = 0
        self.executor_id = executor_id
        self._recorder = recorder
        self._waiting: dict[tuple[int, int], list[asyncio.Future[None]]] = {}

    def send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if isinstance(message, ResultReceipt):
                for waiting in self._waiting.pop((message.run, message.attempt), ()):
                    if not waiting.done():
                        waiting.set_result(None)

    def opened(self) -> None:
        """It never is: it says nothing but results."""

    async def record(self, results: Sequence[Result], logs: Sequence[ExpectedLog]) -> None:
        """Return once all are committed, or refused for good; raises NotRecorded.

        Args:
            logs: of these attempts, to be noted for reading with their results.
        """
        loop = asyncio.get_running_loop()
        futures = []
        for result in results:
            future: asyncio.Future[None] = loop.create_future()
            self._waiting.setdefault((result.run, result.attempt), []).append(future)
            futures.append(future)
        try:
            async with asyncio.timeout(RECEIPT_SECONDS):
                await self._recorder.room(self)
                first = [StoredFirst(store_expected_logs, logs)] if logs else []
                self._recorder.receive(self, [*first, *results])
                await asyncio.gather(*futures)
        except TimeoutError:
            raise NotRecorded from None


def _result(
    callback: Callback, known: RunFacts, attempt: int, token: str, client: ClientKind
) -> Result:
    is_stopped = known.cancel_requested and attempt == known.attempt
    outcome = Outcome.FAILED
    # Of what was killed, Java reports a failure; Go and Node a success, when the handler returns.
    if callback.code == SUCCEEDED and not (is_stopped and client is not ClientKind.JAVA):
        outcome = Outcome.SUCCEEDED
    elif callback.code == TIMED_OUT:
        outcome = Outcome.TIMED_OUT
    elif is_stopped:
        outcome = Outcome.TIMED_OUT if known.cancel_reason == _TIMEOUT else Outcome.CANCELLED
    began_at = known.started_at or known.dispatched_at or known.now
    said = hidden(known.mask, callback.message.replace("\0", "�"))
    text = json.dumps(said, ensure_ascii=False).encode() if said else b"null"
    return Result(
        run=known.run,
        attempt=attempt,
        token=token,
        outcome=outcome,
        duration_ms=max(known.now - began_at, 0),
        result=_raw(text if outcome is Outcome.SUCCEEDED else b"null"),
        message="" if outcome is Outcome.SUCCEEDED else said,
    )


def _is_of_another_claim(
    callback: Callback, known: RunFacts, attempt: int, client: ClientKind
) -> bool:
    """Whether it names the current attempt and was started by another claim.

    Numbers are given twice after a backup was restored, and their last eight bits again and again.
    Java repeats the time that it was told; some others send one of their own.
    """
    is_told = client is ClientKind.JAVA and callback.time_ms and known.dispatched_at
    return bool(is_told) and attempt == known.attempt and callback.time_ms != known.dispatched_at


def _full_number(low: int, newest: int) -> int:
    """The newest attempt whose number ends in these eight bits."""
    return newest - ((newest - low) & 0xFF)


def _raw(text: bytes) -> msgspec.Raw:
    return msgspec.Raw(text if len(text) <= MAX_RESULT_BYTES else b"null")
