"""Handlers with isolation="process": a pool of warm processes that grows on demand.

Each process has a thread in the node that talks to it. The thread writes what the handler logs to
the run's log; when the log has no room, the thread waits, and so does the handler. Everything else
happens on the node's loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any

from tickwheel_executor.handlers.handlers import Handler, Handlers
from tickwheel_executor.run.context import Run, deadline_of
from tickwheel_executor.run.outcome import AttemptOutcome
from tickwheel_shared.protocol import RunRequest

from . import OnEnd
from .guard import ProcessGuard
from .pool_process import NotStartedError, PoolProcess
from .process_execution import ProcessExecution
from .process_wire import LeaseRenewal, RunAssignment, Setup

_logger = logging.getLogger("tickwheel.executor")

IDLE_SECONDS = 60.0  # a process without work ends after this; one always stays
_JOIN_SECONDS = 4.0  # longer than a process takes to exit


class ProcessRunner:
    """Starts process handlers. The node's slots limit them, so none waits for a process."""

    def __init__(
        self,
        handlers: Handlers,
        loop: asyncio.AbstractEventLoop,
        *,
        title: str,
        traces_as: tuple[str, str] | None = None,
    ) -> None:
        """`traces_as`: names of service and instance in traces; None: the node does not trace."""
        self.loop = loop
        self.context = copy_context()
        self.guard = ProcessGuard()
        # Starting takes CPU time: hundreds at once would delay heartbeats.
        self.starting = threading.BoundedSemaphore(os.cpu_count() or 1)
        self.setup = _setup(handlers, traces_as)
        self.title = title
        self._idle: list[_PoolMember] = []
        self._all: dict[_PoolMember, None] = {}
        self._started = 0
        self._closed = False

    def warm_up(self) -> None:
        """Start a process in advance for the first run."""
        if not self._all and not self._closed:
            self._idle.append(self._grow())

    def start(
        self, handler: Handler, run: Run, request: RunRequest, on_end: OnEnd, *,
        cut_off_at: float | None = None,
    ) -> ProcessExecution:  # fmt: skip
        """Give the handler to a process, a new one if none is idle.

        Args:
            cut_off_at: when it must end by itself, unless `renew_lease` extends it; None: never.
        """
        assignment = RunAssignment(
            request=request,
            deadline_at=deadline_of(run),
            memory_mb=handler.memory_mb,
            cpu_seconds=handler.cpu_seconds,
            cut_off_at=cut_off_at,
        )
        member = self._idle.pop() if self._idle else self._grow()
        member.keep()
        execution = ProcessExecution(
            self.loop, run, assignment, on_end, partial(self.returned, member)
        )
        member.work.put(execution)
        return execution

    def _grow(self) -> _PoolMember:
        self._started += 1
        member = _PoolMember(self, self._started)
        self._all[member] = None
        return member

    def renew_lease(self, cut_off_at: float) -> None:
        """The lease was renewed: no handler has to end before this instant of the loop's time."""
        for member in self._all:
            member.tell(LeaseRenewal(cut_off_at=cut_off_at))

    def returned(
        self, member: _PoolMember, execution: ProcessExecution, outcome: AttemptOutcome
    ) -> None:
        """A handler has ended, and its process can be reused."""
        if not self._closed:
            self._idle.append(member)
            member.leave_after(self.loop.call_later(IDLE_SECONDS, self._shrink, member))
        execution.report(outcome)

    def lost(
        self, member: _PoolMember, execution: ProcessExecution, outcome: AttemptOutcome
    ) -> None:
        """A handler has ended, and so has its process."""
        self._all.pop(member, None)
        self.warm_up()
        execution.report(outcome)

    def _shrink(self, member: _PoolMember) -> None:
        if len(self._idle) > 1 and member in self._idle:
            self._idle.remove(member)
            self._all.pop(member, None)
            member.work.put(None)

    def close(self) -> None:
        """The node has ended: end all processes."""
        if self._closed:
            return
        self._closed = True
        for member in self._all:
            member.close(gently=member in self._idle)
        for member in self._all:
            member.join()
        self.guard.close()


class _PoolMember:
    """A member of the pool: one process after another, and the thread that talks to it."""

    def __init__(self, runner: ProcessRunner, number: int) -> None:
        self.work: queue.SimpleQueue[ProcessExecution | None] = queue.SimpleQueue()
        self._runner = runner
        self._process: PoolProcess | None = None
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._thread = threading.Thread(
            target=self._serve, name=f"tickwheel-process-{number}", daemon=True
        )
        self._thread.start()

    # --- on the loop ------------------------------------------------------------------------------

    def keep(self) -> None:
        """There is work: do not end the process."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def leave_after(self, timer: asyncio.TimerHandle) -> None:
        """Let this timer end the process, unless there is work before."""
        self.keep()
        self._timer = timer

    def tell(self, message: Any) -> None:
        """Send a message to the process, if there is one."""
        if (process := self._process) is not None:
            process.send_now(message)

    def close(self, *, gently: bool) -> None:
        """End it at once, or let it exit if it is idle; one that is starting is killed."""
        self.keep()
        process = self._process
        self._closed = not gently or process is None or not process.is_ready
        self.work.put(None)
        if self._closed and process is not None:
            process.kill()

    def join(self) -> None:
        """Wait for the end of the process, so that nothing outlives the node."""
        self._thread.join(_JOIN_SECONDS)

    # --- in its thread ----------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            self._try_to_begin()
            while (execution := self.work.get()) is not None:
                if not self._execute(execution):
                    return
        finally:
            self._end(gently=not self._closed)

    def _try_to_begin(self) -> None:
        try:
            self._begin()
        except NotStartedError as error:
            if not self._closed:
                _logger.warning("a process for handlers could not be started: %s", error)
        except Exception:  # the thread must survive: it retries when there is work
            _logger.exception("a process for handlers could not be started")

    def _begin(self) -> PoolProcess:
        runner = self._runner
        with runner.starting:
            if self._closed:
                raise NotStartedError("the node has ended")
            self._process = process = PoolProcess(runner.guard, title=runner.title)
            if self._closed:
                process.kill()  # `close` was called before there was a process to kill
            try:
                is_ready = process.begin(runner.setup)
            except BaseException:
                self._end()
                raise
        if not is_ready:
            raise NotStartedError(process.why_not_ready(self._end()))
        return process

    def _execute(self, execution: ProcessExecution) -> bool:
        """Run one handler; returns whether the process can be reused."""
        runner = self._runner
        try:
            process = self._process
            if process is None or process.is_dead:  # nothing had been started in it
                self._end()
                process = self._begin()
            if not execution.claim(process):
                return True  # stopped meanwhile: the runner has this member back
            outcome, reusable = execution.talk(process)
        except NotStartedError as error:
            if not execution.claim():
                return True
            outcome, reusable = execution.failed(f"could not be started: {error}"), False
        except Exception as error:  # a bug of ours must not leave the run in flight for ever
            _logger.exception("lost touch with the process of a handler")
            if not execution.claim():
                return True
            outcome, reusable = execution.failed(f"cannot be talked with: {error!r}"), False
        if not reusable:
            how = self._end()
            outcome = outcome or execution.died(how)
        assert outcome is not None  # noqa: S101 (without one it is not reusable)
        self._tell_runner(runner.returned if reusable else runner.lost, execution, outcome)
        return reusable

    def _end(self, *, gently: bool = False) -> str:
        process, self._process = self._process, None
        return process.end(gently=gently) if process is not None else "was never started"

    def _tell_runner(
        self,
        what: Callable[[_PoolMember, ProcessExecution, AttemptOutcome], None],
        execution: ProcessExecution,
        outcome: AttemptOutcome,
    ) -> None:
        execution.has_ended = True
        with suppress(RuntimeError):  # the loop has ended
            self._runner.loop.call_soon_threadsafe(
                what, self, execution, outcome, context=self._runner.context
            )


def _setup(handlers: Handlers, traces_as: tuple[str, str] | None) -> Setup:
    pickled = handlers.pickled
    assert pickled is not None  # noqa: S101 (else there is no pool)
    main: Any = sys.modules.get("__main__")
    wanted = any(b"__main__" in each for each in (*pickled.handlers.values(), pickled.hooks))
    spec = getattr(main, "__spec__", None)
    path = getattr(main, "__file__", None)
    return Setup(
        argv=[os.fsencode(each) for each in sys.argv if isinstance(each, str)],
        log_level=logging.getLogger().level,
        main_name=spec.name if wanted and spec is not None else None,
        main_path=str(Path(path).absolute()) if wanted and spec is None and path else None,
        handlers=dict(pickled.handlers),
        hooks=pickled.hooks,
        traces_as=traces_as,
    )
