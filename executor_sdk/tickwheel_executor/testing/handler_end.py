"""The result of a run under test, in plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from tickwheel_executor.errors import TickwheelExecutorError
from tickwheel_shared.protocol import Refusal, Result, RunRequest


class LoggedLine(NamedTuple):
    """One line of a run's log; equal to the pair `("info", "3 sent")`."""

    level: str  # debug, info, warning, error
    text: str


class ReportedProgress(NamedTuple):
    """One call of `run.progress`; equal to the pair `(0.5, "half")`."""

    fraction: float  # 0 to 1
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerEnd:
    """Everything that an admin gets from a run that has ended."""

    outcome: str  # succeeded, failed, skipped, timed_out, cancelled, cut_off
    result: Any  # what the handler returned, converted through JSON
    message: str  # why it did not succeed: the error, or the message of Retry, Fail or Skip
    log: list[LoggedLine]
    progress: list[ReportedProgress]  # the last one counts; others may be left out
    state: dict[str, Any] | None  # for the job's next run; None: the job has no state
    checkpoint: Any  # for the next try; None: none, or the run succeeded
    retry_after: float | None  # delay of Retry in seconds
    final: bool  # Fail: no further try
    seconds: float  # duration of the handler
    spawned: list[Any] | None = None  # items of `run.spawn`; None: it was not called

    @property
    def succeeded(self) -> bool:
        """Whether it succeeded."""
        return self.outcome == "succeeded"

    def lines(self, level: str | None = None) -> list[str]:
        """Texts of the log lines: of one level, or all."""
        return [line.text for line in self.log if level is None or line.level == level]


class RunRefusedError(TickwheelExecutorError):
    """The node did not start the run; `reason` is such as `unknown_handler`, `full`, `draining`."""

    def __init__(self, reason: Refusal, message: str) -> None:
        self.reason = reason.value
        super().__init__(f"the node refused the run ({reason}){': ' if message else ''}{message}")


def end_of(
    request: RunRequest,
    result: Result,
    *,
    log: list[LoggedLine],
    progress: list[ReportedProgress],
    checkpoint: bytes | None,
) -> HandlerEnd:
    """Build it from messages. `checkpoint` is the latest checkpoint message, as JSON."""
    good = result.outcome in ("succeeded", "skipped")
    left = None if good else _decoded(result.checkpoint)
    if left is None and not good:  # an earlier checkpoint stays until it is replaced
        left = msgspec.json.decode(checkpoint or request.checkpoint)
    state = _decoded(result.state)
    return HandlerEnd(
        outcome=result.outcome.value,
        result=_decoded(result.result),
        message=result.message,
        log=log,
        progress=progress,
        state=_decoded(request.state) if state is None else state,
        checkpoint=left,
        retry_after=None if result.retry_after_ms is None else result.retry_after_ms / 1000,
        final=result.final,
        seconds=result.duration_ms / 1000,
        spawned=None if isinstance(result.spawn, msgspec.UnsetType) else _decoded(result.spawn),
    )


def _decoded(text: msgspec.Raw) -> Any:
    return msgspec.json.decode(text)
