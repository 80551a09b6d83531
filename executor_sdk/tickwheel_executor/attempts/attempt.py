"""One attempt in flight: from accepted until its result is safe."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from tickwheel_executor.as_json import NULL
from tickwheel_executor.attempt_key import key_of
from tickwheel_executor.handlers.handlers import Handler
from tickwheel_executor.link.link import Link
from tickwheel_executor.run.context import Run, Stop, mark_cancelled
from tickwheel_executor.run.outcome import AttemptOutcome
from tickwheel_executor.runner import Execution
from tickwheel_shared.protocol import Outcome, Result, RunRequest

if TYPE_CHECKING:
    from tickwheel_executor.tracing.spans import AttemptSpan


class InFlightAttempt:
    """State of an attempt in flight. It only moves forward."""

    __slots__ = (
        "execution",
        "finished",
        "handler",
        "is_lost",
        "key",
        "link",
        "request",
        "run",
        "span",
        "started",
        "stop",
        "timer",
    )

    def __init__(
        self,
        request: RunRequest,
        link: Link,
        run: Run,
        handler: Handler,
        *,
        span: AttemptSpan | None = None,
    ) -> None:
        self.request = request
        self.key = key_of(request)
        self.link = link  # where it came from
        self.run = run
        self.handler = handler
        self.span = span  # None: this node does not trace
        self.started = asyncio.get_running_loop().time()
        self.execution: Execution | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.stop: Stop | None = None  # set once, by timeout, cancel, lease guard or shutdown
        self.is_lost = False  # it no longer counts, whatever its handler does
        self.finished = False  # the handler has ended; the result is being written to disk

    def request_stop(self, stop: Stop) -> None:
        """Make the handler end; the first reason is the one that is reported."""
        if self.stop is not None or self._has_ended:
            return
        self.stop = stop
        mark_cancelled(self.run, stop)
        self.run.log.warning("%s", stop.message)
        remark = self.execution.stop() if self.execution is not None else ""
        if remark:
            self.run.log.warning("%s", remark)

    def stop_again(self) -> None:
        """Cancel it again now: it was cancelled before and has not ended."""
        if self.execution is not None and not self._has_ended:
            self.execution.stop()

    @property
    def _has_ended(self) -> bool:
        return self.finished or (self.execution is not None and self.execution.has_ended)

    def mark_lost(self) -> None:
        """It no longer counts: call the hooks, once."""
        if not self.is_lost:
            self.is_lost = True
            self.handler.hooks.call_lost(self.run)

    def make_result(
        self, outcome: AttemptOutcome, *, checkpoint: msgspec.Raw, log_lines: int
    ) -> Result:
        """The result of an attempt whose handler has ended; a success leaves no checkpoint."""
        is_good = outcome.kind in (Outcome.SUCCEEDED, Outcome.SKIPPED)
        return Result(
            run=self.request.run,
            attempt=self.request.attempt,
            token=self.request.token,
            outcome=outcome.kind,
            duration_ms=round((asyncio.get_running_loop().time() - self.started) * 1000),
            result=outcome.result,
            message=outcome.message,
            retry_after_ms=outcome.retry_after_ms,
            final=outcome.final,
            spawn=outcome.spawn,
            state=outcome.state,
            log_lines=log_lines,
            checkpoint=NULL if is_good else checkpoint,
        )
