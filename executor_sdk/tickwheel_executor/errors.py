"""Everything the SDK raises or lets handlers raise, on one page.

TickwheelExecutorError
├── Retry                   raised by a handler: this try failed, try again (after so long)
├── Fail                    raised by a handler: it failed, and another try would not help
├── Skip                    raised by a handler: there was nothing to do
├── ConfigurationError      settings that cannot work; lists every problem at once
├── HandlerError            a handler that cannot be registered
├── OutsideRunError         current_run() where no run is going on
├── StateUnavailableError   run.state of a job that keeps none
├── CheckpointError         a checkpoint that is not JSON, or too large
├── RunCancelledError       raised by Run.raise_if_cancelled() to leave a handler
├── SpoolError              results cannot be made safe on disk
└── ConnectError            an admin cannot be reached (internal: the node retries for ever)
    └── UnauthorizedError   it can, but it does not know our token
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta

from tickwheel_shared.protocol import MAX_RETRY_AFTER_MS


class TickwheelExecutorError(Exception):
    """Base of every error of this package."""


class Retry(TickwheelExecutorError):
    """Raise it in a handler: this try failed for a reason that will pass.

    The run fails, without a traceback, and is tried again if it has tries left, even where its job
    does not retry after failures.

    Args:
        message: What went wrong, for people.
        after: When the next try may start, in seconds or as a timedelta, counted from the end of
            this one; less than 0 is 0, more than 7 days is 7 days. When omitted, whether and when
            it is tried again is the job's retry policy's business.

    Raises:
        ValueError: `after` is not a number.
    """

    def __init__(self, message: str = "", *, after: float | timedelta | None = None) -> None:
        super().__init__(message or "the handler asks for another try")
        self.after_ms = None if after is None else _milliseconds(after)


class Fail(TickwheelExecutorError):
    """Raise it in a handler: the run fails for good, without a traceback and without a retry."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class Skip(TickwheelExecutorError):
    """Raise it in a handler: there was nothing to do. The run is skipped, which is no failure."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


def _milliseconds(after: float | timedelta) -> int:
    seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
    if math.isnan(seconds):
        raise ValueError("after is not a number of seconds")
    return math.ceil(min(max(seconds * 1000, 0.0), MAX_RETRY_AFTER_MS))


class ConfigurationError(TickwheelExecutorError):
    """Settings that cannot work. `problems` has one sentence for each of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(f"- {problem}" for problem in ("cannot start:", *problems))[2:])


class HandlerError(TickwheelExecutorError):
    """A handler that cannot be registered: the name is taken, or it wants other arguments."""


class OutsideRunError(TickwheelExecutorError):
    """`current_run()` was called where no handler is running."""


class StateUnavailableError(TickwheelExecutorError):
    """`run.state` was used in a run of a job that keeps no state."""

    def __init__(self, job: str) -> None:
        super().__init__(
            f"the job {job!r} keeps no state, because its runs may go on side by side: let it run "
            "one after another (blocking “serial” or another one, concurrency 1, not cut into "
            "shards)"
        )


class CheckpointError(TickwheelExecutorError):
    """A checkpoint that cannot be written as JSON, or is too large; the one before stays."""


class RunCancelledError(TickwheelExecutorError):
    """The run was cancelled or timed out; let it pass through to end the handler."""


class SpoolError(TickwheelExecutorError):
    """Results cannot be made safe on disk: it is full, read-only, or not ours."""


class ConnectError(TickwheelExecutorError):
    """An admin cannot be reached. The node tries again, for as long as it lives."""


class UnauthorizedError(ConnectError):
    """The admin refused the executor token."""
