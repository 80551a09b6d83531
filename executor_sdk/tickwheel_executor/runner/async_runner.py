"""Async handlers: one asyncio task each, slowed down when they log faster than lines are sent."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Generator
from contextvars import copy_context
from typing import Any

from tickwheel_executor.handlers.handlers import Handler
from tickwheel_executor.handlers.invoke import invoke_async
from tickwheel_executor.logs.shipper import LogShipper
from tickwheel_executor.process import forks
from tickwheel_executor.run.context import Run, running, stop_seconds_of
from tickwheel_executor.run.outcome import AttemptOutcome, Completion, outcome_of

from . import MustStop, OnEnd


class AsyncRunner:
    """Starts async handlers. Uses no threads, so that the simulator can run it."""

    def __init__(self, shipper: LogShipper) -> None:
        self._shipper = shipper
        self._loop = asyncio.get_running_loop()
        self._is_copy = False
        forks.watch(self)

    def forked(self) -> None:
        """In a child: there is no loop for a handler that forked and then awaits."""
        self._is_copy = True

    def start(
        self, handler: Handler, run: Run, on_end: OnEnd, *, must_stop: MustStop | None = None
    ) -> AsyncExecution:
        """Start the handler; it executes from the next turn of the loop on."""
        context = copy_context()
        context.run(running.set, run)
        task = self._loop.create_task(
            self._execute(handler, run, must_stop),
            context=context,
            name=f"tickwheel run {run.id}",
        )
        return AsyncExecution(task, run, on_end)

    async def _execute(
        self, handler: Handler, run: Run, must_stop: MustStop | None
    ) -> AttemptOutcome:
        return await self._paced(handler, run, must_stop)  # a task takes no generator (Python 3.12)

    @types.coroutine
    def _paced(
        self, handler: Handler, run: Run, must_stop: MustStop | None
    ) -> Generator[Any, Any, AttemptOutcome]:
        """Drive the handler; after each `await`, wait until its log has room."""
        log, shipper = run.log, self._shipper
        coroutine = invoke_async(handler, run)
        resume: Callable[[Any], Any] = coroutine.send
        value: Any = None
        while True:
            if must_stop is not None and must_stop():
                try:
                    yield  # the cancellation is raised here
                except BaseException as error:  # noqa: BLE001 (the handler's to deal with)
                    value, resume = error, coroutine.throw
            try:
                awaited = resume(value)
            except StopIteration as stop:
                outcome: AttemptOutcome = stop.value
                return outcome
            if self._is_copy:
                forks.exit_child(RuntimeError("a handler forked, and its child awaits something"))
            try:
                value = yield awaited
                resume = coroutine.send
                if shipper.must_wait(log):
                    yield from shipper.wait_for_room(log).__await__()
            except BaseException as error:  # noqa: BLE001 (the handler's to deal with)
                value, resume = error, coroutine.throw


class AsyncExecution:
    """The task of one async handler."""

    __slots__ = ("_on_end", "_run", "_task", "_timer")

    def __init__(self, task: asyncio.Task[AttemptOutcome], run: Run, on_end: OnEnd) -> None:
        self._task = task
        self._run = run
        self._on_end: OnEnd | None = on_end
        self._timer: asyncio.TimerHandle | None = None
        task.add_done_callback(self._ended)

    @property
    def has_ended(self) -> bool:
        """Whether the task is done."""
        return self._task.done()

    def stop(self) -> str:
        """Cancel the task, and again and again while the handler swallows it (every 10 s)."""
        self._task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        seconds = stop_seconds_of(self._run)
        self._timer = self._task.get_loop().call_later(seconds, self._stop_again)
        return ""

    def abandon(self) -> None:
        """Cancel it and do not report its end."""
        self._on_end = None
        if self._timer is not None:
            self._timer.cancel()
        self._task.cancel()

    def _stop_again(self) -> None:
        self._run.log.warning(
            "the handler did not end within %.0f s of being cancelled; cancelling it again",
            stop_seconds_of(self._run),
        )
        self.stop()

    def _ended(self, task: asyncio.Task[AttemptOutcome]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        # Cleared, because it refers to the attempt, which refers to us: thousands of such reference
        # cycles per second would keep the garbage collector busy.
        on_end, self._on_end = self._on_end, None
        if on_end is not None:  # an error: for example, cancelled before it began
            on_end(
                outcome_of(self._run, Completion(error=error))
                if error is not None
                else task.result()
            )
