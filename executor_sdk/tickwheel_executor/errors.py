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
├── ClientError             an admin refuses what a Client asks; code, status and problems
│   ├── TokenRefusedError   the API token is unknown, or may not do this
│   ├── NotFoundError       no such job or run, or the token may not see it
│   ├── NoAdminError        none of the admins answers
│   ├── RunNotSucceededError  the run that was waited for ended otherwise
│   └── WaitTimeoutError    it goes on (a TimeoutError, too)
└── ConnectError            an admin cannot be reached (internal: the node retries for ever)
    └── UnauthorizedError   it can, but it does not know our token
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta

from tickwheel_shared.protocol import MAX_RETRY_AFTER_MS

from .run_status import RunStatus


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


class ClientError(TickwheelExecutorError):
    """An admin refuses what a Client asks, or cannot be asked."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int | None = None,
        problems: Sequence[Mapping[str, str]] = (),
    ) -> None:
        self.code = code  # stable, for programs: "invalid_input"
        self.status = status  # of HTTP; None: no admin was asked, or none answered
        self.problems = tuple(problems)  # each with "field", "code" and "message"
        told = (f"{each.get('field')}: {each.get('message')}" for each in self.problems)
        super().__init__("\n- ".join((message, *told)))


class TokenRefusedError(ClientError):
    """The API token is unknown, expired or revoked, or its person may not do this."""


class NotFoundError(ClientError):
    """There is no such job or run, or the token may not see it."""


class NoAdminError(ClientError):
    """None of the admins answers; `reasons` says why, by URL. What was asked may have been done."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        told = "; ".join(f"{url}: {reason}" for url, reason in self.reasons.items())
        super().__init__(f"no admin answers: {told}", code="no_admin")


class RunNotSucceededError(ClientError):
    """A run that was waited for has ended and did not succeed; `run` is how it stands."""

    def __init__(self, run: RunStatus) -> None:
        self.run = run
        why = run.message or run.reason
        super().__init__(
            f"run {run.id} of {run.job!r} is {run.state}" + (f": {why}" if why else ""),
            code=f"run.{run.state}",
        )


class WaitTimeoutError(ClientError, TimeoutError):
    """A run that was waited for goes on; it is not stopped by that."""

    def __init__(self, run_id: int, seconds: float, state: str | None) -> None:
        self.run_id = run_id
        stands = f"is still {state}" if state else "could not be asked about"
        super().__init__(f"after {seconds:g} s run {run_id} {stands}", code="wait.timeout")


class ConnectError(TickwheelExecutorError):
    """An admin cannot be reached. The node tries again, for as long as it lives."""


class UnauthorizedError(ConnectError):
    """The admin refused the executor token."""
