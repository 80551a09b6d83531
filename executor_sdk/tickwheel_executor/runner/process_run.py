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
from tickwheel_executor.handlers.invoke import perform, perform_async
from tickwheel_executor.logs.lines import pieces
from tickwheel_executor.run.context import Run, mark_cancelled, running
from tickwheel_executor.run.input import Given
from tickwheel_executor.run.log import RunLog
from tickwheel_executor.run.outcome import End, Verdict, fitting, judge
from tickwheel_executor.run.stop import Stop
from tickwheel_executor.text import clean, describe
from tickwheel_shared.protocol import Level, Outcome

from .process_code import CannotLoadError, LoadedCode
from .process_limits import limited
from .process_line import Interrupt, Line
from .process_wire import Ended, Logged, Reported, Saved, Work


class _Lines:
    """Where `run.log` writes to: the node, which keeps the lines as if they were written there."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def add(self, log: RunLog, level: Level, text: str, at: int | None = None) -> None:
        """Send it on; waits while the node has no room."""
        if not log.closed:
            for piece in pieces(text):
                # Clean already: what came from a name of a file, say, may not be fit to be sent.
                self._line.send(Logged(time.time_ns() // 1_000_000, level, clean(piece)))


class ProcessRun:
    """Performs one piece of work; made and performed in the main thread."""

    def __init__(self, work: Work, code: LoadedCode, line: Line, interrupt: Interrupt) -> None:
        self._work = work
        self._interrupt = interrupt
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Verdict] | None = None
        self._threads = threading.active_count()
        request = work.request
        self._log = RunLog(
            _Lines(line), None, run=request.run, attempt=request.attempt, token=request.token
        )

        def report(fraction: float, text: str) -> None:
            line.send(Reported(fraction, text))

        def save(data: msgspec.Raw) -> None:
            line.send(Saved(data))

        given = Given()
        self._handler: Handler | None = None
        self._problem: Exception | None = None
        try:
            self._handler = code.handler(request.handler)
            given = decode(request, self._handler.signature)
        except (CannotLoadError, Fail, ValueError) as error:
            self._problem = error
        given.deadline_at = work.deadline_at
        self._run = Run(request, given, log=self._log, report=report, save=save)

    def stop(self, stop: Stop) -> None:
        """End the handler; from the listening thread."""
        mark_cancelled(self._run, stop)
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):  # the loop has ended, and with it the handler
                self._loop.call_soon_threadsafe(self._task.cancel)
        else:
            self._interrupt.set_off()

    def perform(self) -> Ended:
        """Run the handler to its end."""
        handler, problem = self._handler, self._problem
        if handler is None or problem is not None:
            verdict = self._not_begun(problem)
        else:
            verdict = self._limited(handler)
        if verdict.message.startswith("MemoryError") and self._work.memory_mb is not None:
            hint = f"{verdict.message} (it may take {self._work.memory_mb} MB: memory_mb)"
            verdict = msgspec.structs.replace(verdict, message=hint)
        self._log.finish_prints()
        self._log.closed = True
        return Ended(verdict, self._is_spent(verdict))

    def _not_begun(self, error: Exception | None) -> Verdict:
        if isinstance(error, CannotLoadError):
            self._log.write(Level.ERROR, error.details)
            return Verdict(outcome=Outcome.FAILED, message=fitting(str(error)))
        return judge(self._run, End(error=error))

    def _limited(self, handler: Handler) -> Verdict:
        token = running.set(self._run)
        try:
            with limited(memory_mb=self._work.memory_mb, cpu_seconds=self._work.cpu_seconds):
                if handler.is_async:
                    return asyncio.run(self._execute_async(handler))
                return self._execute(handler)
        except BaseException as error:  # noqa: BLE001 (no memory for a verdict, say)
            return Verdict(outcome=Outcome.FAILED, message=fitting(describe(error)))
        finally:
            running.reset(token)

    def _execute(self, handler: Handler) -> Verdict:
        try:
            self._interrupt.arm()
            try:
                self._run.raise_if_cancelled()
                return perform(handler, self._run)
            finally:
                self._interrupt.disarm()
        except RunCancelledError as error:  # before it began, or after it had ended
            return judge(self._run, End(error=error))

    async def _execute_async(self, handler: Handler) -> Verdict:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(perform_async(handler, self._run))
        if self._run.cancelled:
            self._task.cancel()
        try:
            return await self._task
        except asyncio.CancelledError as error:  # before it had begun
            return judge(self._run, End(error=error))

    def _is_spent(self, verdict: Verdict) -> bool:
        """Whether what the handler leaves behind may disturb another one."""
        return (
            self._run.cancelled
            or threading.active_count() > self._threads
            or (self._work.memory_mb is not None and verdict.outcome is Outcome.FAILED)
        )
