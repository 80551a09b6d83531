"""One handler that runs in a pool process: its messages, and how it is stopped."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from tickwheel_executor.run.context import Run, Stop, stop_of
from tickwheel_executor.run.outcome import AttemptOutcome
from tickwheel_shared.protocol import Outcome

from . import OnEnd
from .pool_process import PoolProcess
from .process_wire import CheckpointData, LogText, ProgressReport, RunAssignment, RunEnd, StopRun

_KILLED = "; its process was killed"


class ProcessExecution:
    """One process handler that was started."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        run: Run,
        assignment: RunAssignment,
        on_end: OnEnd,
        on_withdrawn: Callable[[ProcessExecution, AttemptOutcome], None],
    ) -> None:
        self._loop = loop
        self._run = run
        self._assignment = assignment
        self._on_end: OnEnd | None = on_end
        self._on_withdrawn = on_withdrawn  # called if it is stopped before it has a process
        self._lock = threading.Lock()  # guards the start in the process against a stop
        self._process: PoolProcess | None = None
        self._is_claimed = False  # its thread has taken it; before, it can be withdrawn
        self._is_withdrawn = False
        self._is_sent = False  # the process has received the assignment
        self._timer: asyncio.TimerHandle | None = None
        self._killed = False
        self.has_ended = False  # set by the thread of the process

    # --- on the loop ------------------------------------------------------------------------------

    def stop(self) -> str:
        """Interrupt the handler by an exception; kill its process if that takes too long."""
        stop = stop_of(self._run)
        assert stop is not None  # noqa: S101 (marked before this is called)
        with self._lock:
            if not self._is_claimed:
                self._withdraw(stop)
                return ""
            if self._is_sent and self._process is not None:
                self._process.send_now(StopRun(outcome=stop.outcome, message=stop.message))
        if self._timer is None:
            self._timer = self._loop.call_later(stop.grace_seconds, self._kill)
        return ""

    def _withdraw(self, stop: Stop) -> None:
        """The process is still starting: do not wait for it."""
        if not self._is_withdrawn:
            self._is_withdrawn = self.has_ended = True
            outcome = AttemptOutcome(kind=stop.outcome, message=stop.message)
            self._loop.call_soon(self._on_withdrawn, self, outcome)

    def _kill(self) -> None:
        self._killed = True
        with self._lock:
            process = self._process
        if process is not None and not self.has_ended:
            process.kill()

    def abandon(self) -> None:
        """The node has ended, and with it the process."""
        self._on_end = None
        self._kill()

    def report(self, outcome: AttemptOutcome) -> None:
        """Report the end."""
        if self._timer is not None:
            self._timer.cancel()
        on_end, self._on_end = self._on_end, None  # as in AsyncExecution: no reference cycle
        if on_end is not None:
            on_end(outcome)

    # --- in the thread of the process -------------------------------------------------------------

    def claim(self, process: PoolProcess | None = None) -> bool:
        """Take it, with this process or without one; returns False if it was withdrawn."""
        with self._lock:
            self._is_claimed = not self._is_withdrawn
            self._process = process
            return self._is_claimed

    def talk(self, process: PoolProcess) -> tuple[AttemptOutcome | None, bool]:
        """Run it there; returns the outcome, None if the process died, and whether to reuse it."""
        process.send(self._assignment)
        with self._lock:
            self._is_sent = True
            stop = stop_of(self._run)
        if stop is not None:
            process.send_now(StopRun(outcome=stop.outcome, message=stop.message))
        while (message := process.receive()) is not None:
            match message:
                case LogText():
                    self._run.log.write(message.level, message.text, at=message.at)
                case ProgressReport():
                    self._run.progress(message.fraction, message.text)
                case CheckpointData():
                    self._run.save_checkpoint(message.data)
                case RunEnd():
                    return message.outcome, not message.spent and not self._killed
        return None, False

    def died(self, how: str) -> AttemptOutcome:
        """The outcome when the process has died."""
        stop = stop_of(self._run)
        if stop is not None:
            seconds = stop.grace_seconds
            text = f"{_KILLED} {seconds:g} s later" if self._killed else ""
            return AttemptOutcome(kind=stop.outcome, message=f"{stop.message}{text}")
        if "SIGXCPU" in how and self._assignment.cpu_seconds is not None:
            how += (
                f": it used more than {self._assignment.cpu_seconds:g} s of CPU time (cpu_seconds)"
            )
        return self.failed(how)

    def failed(self, how: str) -> AttemptOutcome:
        """The outcome of a failure of the process."""
        message = f"the handler's process {how}"
        self._run.log.error("%s", message)
        return AttemptOutcome(kind=Outcome.FAILED, message=message)
