"""One attempt that a node holds, from accepted until its result is safe."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tickwheel_shared.protocol import (
    MAX_MESSAGE_CHARS,
    MAX_RESULT_BYTES,
    Level,
    Outcome,
    Result,
    RunRequest,
)

from .as_json import NULL, encode
from .context import Run, mark_cancelled, state_left_by
from .errors import Fail, Retry, RunCancelledError, Skip
from .keys import key_of
from .link import Link
from .raised import describe, text_of, traceback_of
from .runner import End, Execution
from .text import clean, cut

_STOP_ERRORS = (asyncio.CancelledError, RunCancelledError)  # the handler did as it was told
_GOOD_ENDS = (Outcome.SUCCEEDED, Outcome.SKIPPED)  # after which the job keeps the state
_WORDS = (Retry, Fail, Skip)  # the handler says itself what its end means


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Why an attempt was told to end before its handler did."""

    outcome: Outcome
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """What the end of a handler means."""

    outcome: Outcome
    value: object = None
    message: str = ""
    retry_after_ms: int | None = None
    final: bool = False


class Attempt:
    """State of a held attempt. The node changes it; it only ever moves forward."""

    __slots__ = (
        "execution",
        "finished",
        "key",
        "link",
        "request",
        "run",
        "started",
        "stop",
        "timer",
    )

    def __init__(self, request: RunRequest, link: Link, run: Run) -> None:
        self.request = request
        self.key = key_of(request)
        self.link = link  # where it came from
        self.run = run
        self.started = asyncio.get_running_loop().time()
        self.execution: Execution | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.stop: Stop | None = None  # set once, by timeout, cancel, cut-off or shutdown
        self.finished = False  # the handler has ended; the result is on its way to the disk

    def tell_to_stop(self, stop: Stop) -> None:
        """Make the handler end; the first reason given is the one that is reported."""
        if self.stop is not None or self._is_through:
            return
        self.stop = stop
        mark_cancelled(self.run)
        self.run.log.warning("%s", stop.message)
        remark = self.execution.stop() if self.execution is not None else ""
        if remark:
            self.run.log.warning("%s", remark)

    def insist(self) -> None:
        """It was told to stop and has not ended: do not wait until it is told again anyway."""
        if self.execution is not None and not self._is_through:
            self.execution.stop()

    @property
    def _is_through(self) -> bool:
        return self.finished or (self.execution is not None and self.execution.has_ended)

    def conclude(self, end: End) -> Result:
        """The result of an attempt whose handler has ended; writes tracebacks to its log."""
        verdict = self._judge(end)
        outcome, message = verdict.outcome, verdict.message
        raw, problem = encode(
            verdict.value, what="the handler's return value", limit=MAX_RESULT_BYTES
        )
        if problem:
            self.run.log.error("%s", problem)
            if outcome is Outcome.SUCCEEDED:
                outcome, message = Outcome.FAILED, problem
        state = NULL
        if outcome in _GOOD_ENDS:
            state, problem = state_left_by(self.run)
            if problem:  # the next run would go on from the wrong one
                self.run.log.error("%s", problem)
                outcome, message, raw = Outcome.FAILED, problem, NULL
        return Result(
            run=self.request.run,
            attempt=self.request.attempt,
            token=self.request.token,
            outcome=outcome,
            duration_ms=round((asyncio.get_running_loop().time() - self.started) * 1000),
            result=raw,
            message=clean(cut(message, MAX_MESSAGE_CHARS)),
            retry_after_ms=verdict.retry_after_ms,
            final=verdict.final,
            state=state,
        )

    def _judge(self, end: End) -> _Verdict:
        error = end.error
        if self.stop is not None:
            # Whatever the handler did after that, it was told to end; what it returned is kept.
            if error is not None and not isinstance(error, _STOP_ERRORS):
                self._write(error)
            return _Verdict(outcome=self.stop.outcome, value=end.value, message=self.stop.message)
        if error is None:
            return _Verdict(outcome=Outcome.SUCCEEDED, value=end.value)
        self._write(error)
        if isinstance(error, Retry):
            return _Verdict(
                outcome=Outcome.FAILED, message=text_of(error), retry_after_ms=error.after_ms
            )
        if isinstance(error, Fail):
            return _Verdict(outcome=Outcome.FAILED, message=text_of(error), final=True)
        if isinstance(error, Skip):
            return _Verdict(outcome=Outcome.SKIPPED, message=text_of(error))
        return _Verdict(outcome=Outcome.FAILED, message=describe(error))

    def _write(self, error: BaseException) -> None:
        """What a handler raised, in its log: a traceback, unless it said in words what it means."""
        if not isinstance(error, _WORDS):
            self.run.log.write(Level.ERROR, traceback_of(error))
            return
        level = Level.INFO if isinstance(error, Skip) else Level.ERROR
        cause = f" ({describe(error.__cause__)})" if error.__cause__ is not None else ""
        self.run.log.write(level, f"{describe(error)}{cause}")
