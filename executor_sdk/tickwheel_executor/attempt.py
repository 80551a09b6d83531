"""One attempt that a node holds, from accepted until its result is safe."""

from __future__ import annotations

import asyncio
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import msgspec

from tickwheel_shared.protocol import (
    MAX_MESSAGE_CHARS,
    MAX_RESULT_BYTES,
    Level,
    Outcome,
    Result,
    RunRequest,
)

from .context import Run, mark_cancelled
from .errors import RunCancelledError
from .link import Link
from .runner import End, Execution
from .text import clean, cut

_PACKAGE = str(Path(__file__).parent)
_encoder = msgspec.json.Encoder()
_NULL = msgspec.Raw(b"null")
_STOP_ERRORS = (asyncio.CancelledError, RunCancelledError)  # the handler did as it was told


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Why an attempt was told to end before its handler did."""

    outcome: Outcome
    message: str


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
        self.key = (request.run, request.attempt)
        self.link = link  # where it came from
        self.run = run
        self.started = asyncio.get_running_loop().time()
        self.execution: Execution | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.stop: Stop | None = None  # set once, by timeout, cancel or shutdown
        self.finished = False  # the handler has ended; the result is on its way to the disk

    def tell_to_stop(self, stop: Stop) -> None:
        """Make the handler end; the first reason given is the one that is reported."""
        if self.stop is not None or self.finished:
            return
        self.stop = stop
        mark_cancelled(self.run)
        self.run.log.warning("%s", stop.message)
        remark = self.execution.stop() if self.execution is not None else ""
        if remark:
            self.run.log.warning("%s", remark)

    def conclude(self, end: End) -> Result:
        """The result of an attempt whose handler has ended; writes tracebacks to its log."""
        outcome, value, message = self._judge(end)
        raw, problem = _encode(value)
        if problem:
            self.run.log.error("%s", problem)
            if outcome is Outcome.SUCCEEDED:
                outcome, message = Outcome.FAILED, problem
        return Result(
            run=self.request.run,
            attempt=self.request.attempt,
            token=self.request.token,
            outcome=outcome,
            duration_ms=round((asyncio.get_running_loop().time() - self.started) * 1000),
            result=raw,
            message=cut(clean(message), MAX_MESSAGE_CHARS),
        )

    def _judge(self, end: End) -> tuple[Outcome, object, str]:
        error = end.error
        if self.stop is not None:
            # Whatever the handler did after that, it was told to end; what it returned is kept.
            if error is not None and not isinstance(error, _STOP_ERRORS):
                self.run.log.write(Level.ERROR, _traceback(error))
            return self.stop.outcome, end.value, self.stop.message
        if error is None:
            return Outcome.SUCCEEDED, end.value, ""
        self.run.log.write(Level.ERROR, _traceback(error))
        return Outcome.FAILED, None, describe(error)


def describe(error: BaseException) -> str:
    """`Type: message`, as the last line of a traceback."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 (an exception whose __str__ fails is only a failed run)
        text = "(its text cannot be shown)"
    name = type(error).__qualname__
    return f"{name}: {text}" if text else name


def _traceback(error: BaseException) -> str:
    try:
        lines = traceback.format_exception(type(error), error, _own_frames(error.__traceback__))
    except Exception:  # noqa: BLE001 (the same: this calls the exception's own code)
        return describe(error)
    return "".join(lines)


def _own_frames(frames: TracebackType | None) -> TracebackType | None:
    """Without the frames of the SDK that called the handler."""
    first = frames
    while first is not None and first.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        first = first.tb_next
    return first or frames


def _encode(value: object) -> tuple[msgspec.Raw, str]:
    """JSON text of a handler's return value, or null and what is wrong with it."""
    if value is None:
        return _NULL, ""
    try:
        text = _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return _NULL, f"the handler's return value cannot be written as JSON: {error}"
    if len(text) > MAX_RESULT_BYTES:
        return _NULL, (
            f"the handler's return value is {len(text):,} bytes of JSON; "
            f"the limit is {MAX_RESULT_BYTES:,}"
        )
    return msgspec.Raw(text), ""
