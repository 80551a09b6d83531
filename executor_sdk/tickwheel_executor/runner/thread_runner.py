"""Plain `def` handlers: a pool of threads that grows on demand, up to the node's slots."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context

from tickwheel_executor.handlers.handlers import Handler
from tickwheel_executor.handlers.invoke import invoke
from tickwheel_executor.run.context import Run, running
from tickwheel_executor.run.outcome import AttemptOutcome

from . import OnEnd

IDLE_SECONDS = 60.0  # a thread without work ends after this


class ThreadRunner:
    """Starts plain handlers. The node's slots limit them, so none waits for a thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._context = copy_context()
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0  # waiting threads, minus the work queued for them
        self._started = 0
        self._ended: deque[tuple[ThreadExecution, AttemptOutcome]] = deque()  # not reported yet
        self._reporting = False  # the loop has been woken to report them

    def start(self, handler: Handler, run: Run, on_end: OnEnd) -> ThreadExecution:
        """Give the handler to a thread, a new one if none is idle."""
        context = copy_context()
        context.run(running.set, run)
        execution = ThreadExecution(on_end)
        self._work.put(lambda: self._execute(handler, run, context, execution))
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
                return execution
            self._started += 1
            name = f"tickwheel-{self._started}"
        # A daemon: a handler that never returns must not keep the process alive.
        threading.Thread(target=self._serve, name=name, daemon=True).start()
        return execution

    def _serve(self) -> None:
        while True:
            try:
                work = self._work.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if self._idle <= 0:
                        continue  # work was assigned to this thread just now
                    self._idle -= 1
                return
            work()
            del work  # keep no reference to a run while waiting

    def _execute(
        self, handler: Handler, run: Run, context: Context, execution: ThreadExecution
    ) -> None:
        outcome = context.run(invoke, handler, run)
        execution.has_ended = True
        with self._lock:
            self._idle += 1  # before the report, which may start the next handler
            self._ended.append((execution, outcome))
            if self._reporting:
                return  # waking the loop costs a system call
            self._reporting = True
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._report, context=self._context)

    def _report(self) -> None:
        with self._lock:
            self._reporting = False
            ended = list(self._ended)
            self._ended.clear()
        for execution, outcome in ended:
            self._loop.call_soon(execution.ended, outcome)  # separately: one may fail


class ThreadExecution:
    """One plain handler in its thread."""

    __slots__ = ("_on_end", "has_ended")

    def __init__(self, on_end: OnEnd) -> None:
        self._on_end: OnEnd | None = on_end
        self.has_ended = False  # set by the thread

    def stop(self) -> str:
        """Nothing can stop a thread; the handler itself has to check `run.cancelled`."""
        return (
            "this handler is a plain function, which cannot be stopped from outside: it keeps its "
            "slot until it returns; it can look at run.cancelled to end sooner"
        )

    def abandon(self) -> None:
        """Do not report its end."""
        self._on_end = None

    def ended(self, outcome: AttemptOutcome) -> None:
        """The handler has returned; called on the loop."""
        on_end, self._on_end = self._on_end, None  # as in AsyncExecution: no reference cycle
        if on_end is not None:
            on_end(outcome)
