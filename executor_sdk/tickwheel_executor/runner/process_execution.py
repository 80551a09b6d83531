"""One handler that runs in a pool process: its talk with the process, and how it is ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from tickwheel_executor.run.context import Run, stop_of
from tickwheel_executor.run.outcome import Verdict
from tickwheel_executor.run.stop import Stop
from tickwheel_shared.protocol import Outcome

from . import OnEnd
from .pool_process import PoolProcess
from .process_wire import Ended, Logged, Reported, Saved, StopRun, Work

_KILLED = "; its process was killed"


class ProcessExecution:
    """One process handler that was started."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        run: Run,
        work: Work,
        on_end: OnEnd,
        on_withdrawn: Callable[[ProcessExecution, Verdict], None],
    ) -> None:
        self._loop = loop
        self._run = run
        self._work = work
        self._on_end: OnEnd | None = on_end
        self._on_withdrawn = on_withdrawn  # it was told to stop before any process was claimed
        self._lock = threading.Lock()  # between the first word to the process and a stop
        self._process: PoolProcess | None = None
        self._is_claimed = False  # its thread goes on with it; before, it can be withdrawn
        self._is_withdrawn = False
        self._is_given = False  # the process has the work
        self._timer: asyncio.TimerHandle | None = None
        self._killed = False
        self.has_ended = False  # set by the thread of the process

    # --- on the loop -----------------------------------------------------------------------------

    def stop(self) -> str:
        """Let an exception end the handler; kill its process when that takes too long."""
        stop = stop_of(self._run)
        assert stop is not None  # noqa: S101 (marked before this is called)
        with self._lock:
            if not self._is_claimed:
                self._withdraw(stop)
                return ""
            if self._is_given and self._process is not None:
                self._process.send_now(StopRun(outcome=stop.outcome, message=stop.message))
        if self._timer is None:
            self._timer = self._loop.call_later(stop.grace_seconds, self._kill)
        return ""

    def _withdraw(self, stop: Stop) -> None:
        """The process still starts: nobody has to wait for that."""
        if not self._is_withdrawn:
            self._is_withdrawn = self.has_ended = True
            verdict = Verdict(outcome=stop.outcome, message=stop.message)
            self._loop.call_soon(self._on_withdrawn, self, verdict)

    def _kill(self) -> None:
        self._killed = True
        with self._lock:
            process = self._process
        if process is not None and not self.has_ended:
            process.kill()

    def abandon(self) -> None:
        """The node is gone, and with it the process."""
        self._on_end = None
        self._kill()

    def report(self, verdict: Verdict) -> None:
        """It has ended."""
        if self._timer is not None:
            self._timer.cancel()
        on_end, self._on_end = self._on_end, None  # as in AsyncExecution: no ring is left
        if on_end is not None:
            on_end(verdict)

    # --- in the thread of the process ------------------------------------------------------------

    def claim(self, process: PoolProcess | None = None) -> bool:
        """Go on with it, in this process or without one; returns False when it was withdrawn."""
        with self._lock:
            self._is_claimed = not self._is_withdrawn
            self._process = process
            return self._is_claimed

    def talk(self, process: PoolProcess) -> tuple[Verdict | None, bool]:
        """Have the handler run there; how it ended, None: with its process; whether to go on."""
        process.send(self._work)
        with self._lock:
            self._is_given = True
            stop = stop_of(self._run)
        if stop is not None:
            process.send_now(StopRun(outcome=stop.outcome, message=stop.message))
        while (message := process.receive()) is not None:
            match message:
                case Logged():
                    self._run.log.write(message.level, message.text, at=message.at)
                case Reported():
                    self._run.progress(message.fraction, message.text)
                case Saved():
                    self._run.save_checkpoint(message.data)
                case Ended():
                    return message.verdict, not message.spent and not self._killed
        return None, False

    def died(self, how: str) -> Verdict:
        """What it means that the process is dead."""
        stop = stop_of(self._run)
        if stop is not None:
            seconds = stop.grace_seconds
            text = f"{_KILLED} {seconds:g} s later" if self._killed else ""
            return Verdict(outcome=stop.outcome, message=f"{stop.message}{text}")
        if "SIGXCPU" in how and self._work.cpu_seconds is not None:
            how += f": it used more than {self._work.cpu_seconds:g} s of CPU time (cpu_seconds)"
        return self.failed(how)

    def failed(self, how: str) -> Verdict:
        """It failed with its process."""
        message = f"the handler's process {how}"
        self._run.log.error("%s", message)
        return Verdict(outcome=Outcome.FAILED, message=message)
