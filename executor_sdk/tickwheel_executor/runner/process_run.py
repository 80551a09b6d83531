"""One run, inside a pool process."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress

import msgspec

from tickwheel_executor.errors import Fail, RunCancelledError
from tickwheel_executor.handlers.decoding import decode
from tickwheel_executor.handlers.handlers import Handler
from tickwheel_executor.handlers.invoke import invoke, invoke_async
from tickwheel_executor.logs.lines import pieces
from tickwheel_executor.run.context import Run, RunInput, Stop, mark_cancelled, running
from tickwheel_executor.run.log import RunLog
from tickwheel_executor.run.outcome import AttemptOutcome, Completion, fitting, outcome_of
from tickwheel_executor.text import clean, describe
from tickwheel_shared.protocol import Level, Outcome
from tickwheel_shared.secret_mask import mask_of

from .loaded_code import CannotLoadError, LoadedCode
from .node_connection import Interrupt, NodeConnection
from .process_limits import limited
from .process_wire import CheckpointData, LogText, ProgressReport, RunAssignment, RunEnd


class _LogForwarder:
    """Sends what `run.log` writes to the node, which treats it like lines written there."""

    def __init__(self, node: NodeConnection) -> None:
        self._node = node

    def add(self, log: RunLog, level: Level, text: str, at: int | None = None) -> None:
        """Forward it; waits while the node has no room."""
        if not log.closed:
            for piece in pieces(text):
                # Cleaned here, because text such as a file name may not be valid UTF-8.
                self._node.send(LogText(time.time_ns() // 1_000_000, level, clean(piece)))


class ProcessRun:
    """Executes one assignment; made and executed in the main thread."""

    def __init__(
        self,
        assignment: RunAssignment,
        code: LoadedCode,
        node: NodeConnection,
        interrupt: Interrupt,
    ) -> None:
        self._assignment = assignment
        self._interrupt = interrupt
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[AttemptOutcome] | None = None
        self._threads = threading.active_count()
        request = assignment.request
        self._log = RunLog(
            _LogForwarder(node),
            None,
            run=request.run,
            attempt=request.attempt,
            token=request.token,
            mask=mask_of(request),
        )

        def report(fraction: float, text: str) -> None:
            node.send(ProgressReport(fraction, text))

        def save(data: msgspec.Raw) -> None:
            node.send(CheckpointData(data))

        run_input = RunInput()
        self._handler: Handler | None = None
        self._problem: Exception | None = None
        try:
            self._handler = code.handler(request.handler)
            run_input = decode(request, self._handler.signature)
        except (CannotLoadError, Fail, ValueError) as error:
            self._problem = error
        run_input.deadline_at = assignment.deadline_at
        self._run = Run(request, run_input, log=self._log, report=report, save=save)

    def stop(self, stop: Stop) -> None:
        """Interrupt the handler; called by the listening thread."""
        mark_cancelled(self._run, stop)
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):  # the loop has ended, and with it the handler
                self._loop.call_soon_threadsafe(self._task.cancel)
        else:
            self._interrupt.set_off()

    def execute(self) -> RunEnd:
        """Run the handler to its end."""
        handler, problem = self._handler, self._problem
        if handler is None or problem is not None:
            outcome = self._not_begun(problem)
        else:
            outcome = self._limited(handler)
        if outcome.message.startswith("MemoryError") and self._assignment.memory_mb is not None:
            hint = f"{outcome.message} (it may take {self._assignment.memory_mb} MB: memory_mb)"
            outcome = msgspec.structs.replace(outcome, message=hint)
        self._log.finish_prints()
        self._log.closed = True
        return RunEnd(outcome, self._is_spent(outcome))

    def _not_begun(self, error: Exception | None) -> AttemptOutcome:
        if isinstance(error, CannotLoadError):
            self._log.write(Level.ERROR, error.details)
            return AttemptOutcome(kind=Outcome.FAILED, message=fitting(str(error)))
        return outcome_of(self._run, Completion(error=error))

    def _limited(self, handler: Handler) -> AttemptOutcome:
        token = running.set(self._run)
        try:
            with limited(
                memory_mb=self._assignment.memory_mb, cpu_seconds=self._assignment.cpu_seconds
            ):
                if handler.is_async:
                    return asyncio.run(self._execute_async(handler))
                return self._execute(handler)
        except BaseException as error:  # noqa: BLE001 (no memory for an outcome, say)
            return AttemptOutcome(
                kind=Outcome.FAILED, message=fitting(describe(error), self._log.mask)
            )
        finally:
            running.reset(token)

    def _execute(self, handler: Handler) -> AttemptOutcome:
        try:
            self._interrupt.arm()
            try:
                self._run.raise_if_cancelled()
                return invoke(handler, self._run)
            finally:
                self._interrupt.disarm()
        except RunCancelledError as error:  # raised before it began, or after it had ended
            return outcome_of(self._run, Completion(error=error))

    async def _execute_async(self, handler: Handler) -> AttemptOutcome:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(invoke_async(handler, self._run))
        if self._run.cancelled:
            self._task.cancel()
        try:
            return await self._task
        except asyncio.CancelledError as error:  # cancelled before it began
            return outcome_of(self._run, Completion(error=error))

    def _is_spent(self, outcome: AttemptOutcome) -> bool:
        """Whether the process must not be reused, because the handler may have left something."""
        return (
            self._run.cancelled
            or threading.active_count() > self._threads
            or (self._assignment.memory_mb is not None and outcome.kind is Outcome.FAILED)
        )
