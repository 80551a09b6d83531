"""How a run under test ended, in plain values."""

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
    """What an admin learns of a run that has ended."""

    outcome: str  # succeeded, failed, skipped, timed_out, cancelled, cut_off
    result: Any  # what the handler returned, after its way through JSON
    message: str  # why it did not succeed: the error, or what Retry, Fail and Skip say
    log: list[LoggedLine]
    progress: list[ReportedProgress]  # the last one counts; those in between may be left out
    state: dict[str, Any] | None  # what the job's next run gets; None: the job keeps none
    checkpoint: Any  # what the next try gets; None: nothing, or no try follows a good end
    retry_after: float | None  # seconds that Retry asked for
    final: bool  # Fail: no further try
    seconds: float  # how long the handler took

    @property
    def succeeded(self) -> bool:
        """Whether it ended well."""
        return self.outcome == "succeeded"

    def lines(self, level: str | None = None) -> list[str]:
        """Texts of the log: of one level, or of all."""
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
    """What these messages say. `checkpoint` is the newest one that came by itself, as JSON."""
    good = result.outcome in ("succeeded", "skipped")
    left = None if good else _decoded(result.checkpoint)
    if left is None and not good:  # as an admin: what an earlier try left stays until it is renewed
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
    )


def _decoded(text: msgspec.Raw) -> Any:
    return msgspec.json.decode(text)
