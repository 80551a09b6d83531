"""All exceptions of the SDK, including those that handlers raise.

TickwheelExecutorError
├── Retry                   raised by a handler: this try failed, try again (after a delay)
├── Fail                    raised by a handler: it failed, and another try would not help
├── Skip                    raised by a handler: there was nothing to do
├── AlreadyDone             raised by Run.receipt(): an earlier attempt has committed the effect
├── Failed                  raised by a ready-made handler: this try failed; the job decides on more
├── ConfigurationError      invalid settings; lists every problem
├── HandlerError            a handler that cannot be registered
├── OutsideRunError         current_run() outside of a handler
├── StateUnavailableError   run.state of a job that has no state
├── SpawnError              run.spawn() where it may not be, or of what cannot be an item
├── ReceiptError            a receipt that cannot be written
│   └── StaleAttemptError   a later attempt of the run has begun
├── CheckpointError         a checkpoint that is not JSON or too large
├── RunCancelledError       raised by Run.raise_if_cancelled() to leave a handler
├── SpoolError              results cannot be written to disk
├── ClientError             an admin refused a request of Client; code, status and problems
│   ├── TokenRefusedError   the API token is unknown, or may not do this
│   ├── NotFoundError       no such job or run, or the token may not see it
│   ├── NoAdminError        no admin answers
│   ├── RunNotSucceededError  the awaited run ended without success
│   └── WaitTimeoutError    the awaited run has not ended (also a TimeoutError)
└── ConnectError            an admin cannot be reached (internal: the node retries for ever)
    └── UnauthorizedError   it answers, but refuses the token
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tickwheel_shared.protocol import MAX_RETRY_AFTER_MS

from .run_status import RunStatus


class TickwheelExecutorError(Exception):
    """Base of every error of this package."""


class Retry(TickwheelExecutorError):
    """Raise it in a handler: this try failed for a temporary reason.

    The run fails, without a traceback, and is retried if it has tries left, even if its job does
    not retry failures.

    Args:
        message: What went wrong.
        after: Delay before the next try, in seconds or as a timedelta, counted from the end of this
            one; limited to 0 to 7 days. When omitted, the job's retry policy decides.

    Raises:
        ValueError: `after` is not a number.
    """

    def __init__(self, message: str = "", *, after: float | timedelta | None = None) -> None:
        super().__init__(message or "the handler asks for another try")
        self.after_ms = None if after is None else _milliseconds(after)


class Fail(TickwheelExecutorError):
    """Raise it in a handler: the run fails without a traceback and without a retry."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class Skip(TickwheelExecutorError):
    """Raise it in a handler: there was nothing to do. The run is skipped, which is no failure."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class AlreadyDone(TickwheelExecutorError):
    """Raised by `run.receipt()`: the effect is committed, by an earlier attempt.

    Let it leave the handler: the run succeeds with the stored result. A handler with several
    effects, each with a key, may catch it and go on with the next one.
    """

    def __init__(self, *, attempt: int, written_at_ms: int, result: Any) -> None:
        self.attempt = attempt  # which attempt did it
        self.written_at = datetime.fromtimestamp(written_at_ms / 1000, UTC)  # by its node's clock
        self.result = result  # of Receipt.save_result(); None: it was not called
        at = self.written_at.isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")
        super().__init__(f"settled by its receipt: attempt {attempt} has done the work at {at} UTC")


class Failed(TickwheelExecutorError):
    """Raised by a ready-made handler: this try failed, as the message says.

    The run fails without a traceback, and the job's retry policy decides whether there is another
    try, as for any other exception. Not part of the public interface.
    """


def _milliseconds(after: float | timedelta) -> int:
    seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
    if math.isnan(seconds):
        raise ValueError("after is not a number of seconds")
    return math.ceil(min(max(seconds * 1000, 0.0), MAX_RETRY_AFTER_MS))


class ConfigurationError(TickwheelExecutorError):
    """Invalid settings. `problems` has one sentence for each of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(f"- {problem}" for problem in ("cannot start:", *problems))[2:])


class HandlerError(TickwheelExecutorError):
    """A handler or job that cannot be registered; the message says why."""


class OutsideRunError(TickwheelExecutorError):
    """`current_run()` was called outside of a handler."""


class StateUnavailableError(TickwheelExecutorError):
    """`run.state` was used in a run of a job that has no state."""

    def __init__(self, job: str) -> None:
        super().__init__(
            f"the job {job!r} keeps no state, because its runs may go on side by side: let it run "
            "one after another (blocking “serial” or another one, concurrency 1, not cut into "
            "shards)"
        )


class SpawnError(TickwheelExecutorError):
    """The items cannot be spawned; those of earlier calls are."""


class ReceiptError(TickwheelExecutorError):
    """A receipt that cannot be written: no transaction, no known connection, an invalid key."""


class StaleAttemptError(ReceiptError):
    """A later attempt of this run has begun: this one must not commit its work."""

    def __init__(self, attempt: int, later: int) -> None:
        super().__init__(
            f"attempt {attempt} is stale: attempt {later} has begun, and this one may not commit "
            "its work any more"
        )


class CheckpointError(TickwheelExecutorError):
    """A checkpoint that cannot be written as JSON, or is too large; the one before stays."""


class RunCancelledError(TickwheelExecutorError):
    """The run was cancelled or timed out; do not catch it, so that the handler ends."""


class SpoolError(TickwheelExecutorError):
    """Results cannot be written to disk: it is full, read-only, or not writable by this user."""


class ClientError(TickwheelExecutorError):
    """An admin refused a request, or could not be asked."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int | None = None,
        problems: Sequence[Mapping[str, str]] = (),
    ) -> None:
        self.code = code  # stable, for programs: "invalid_input"
        self.status = status  # HTTP status; None: no admin was asked, or none answered
        self.problems = tuple(problems)  # each with "field", "code" and "message"
        details = (f"{each.get('field')}: {each.get('message')}" for each in self.problems)
        super().__init__("\n- ".join((message, *details)))


class TokenRefusedError(ClientError):
    """The API token is unknown, expired, revoked or lacks the permission."""


class NotFoundError(ClientError):
    """There is no such job or run, or the token may not see it."""


class NoAdminError(ClientError):
    """No admin answers; `reasons` says why, by URL. The request may still have been processed."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        details = "; ".join(f"{url}: {reason}" for url, reason in self.reasons.items())
        super().__init__(f"no admin answers: {details}", code="no_admin")


class RunNotSucceededError(ClientError):
    """The awaited run ended without success; `run` is its status."""

    def __init__(self, run: RunStatus) -> None:
        self.run = run
        why = run.message or run.reason
        super().__init__(
            f"run {run.id} of {run.job!r} is {run.state}" + (f": {why}" if why else ""),
            code=f"run.{run.state}",
        )


class WaitTimeoutError(ClientError, TimeoutError):
    """The awaited run has not ended in time; it is not stopped."""

    def __init__(self, run_id: int, seconds: float, state: str | None) -> None:
        self.run_id = run_id
        stands = f"is still {state}" if state else "could not be asked about"
        super().__init__(f"after {seconds:g} s run {run_id} {stands}", code="wait.timeout")


class ConnectError(TickwheelExecutorError):
    """An admin cannot be reached. The node keeps trying."""


class UnauthorizedError(ConnectError):
    """The admin refused the executor token."""
