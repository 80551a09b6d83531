"""What a node says about an attempt when an admin sends, asks for or cancels it."""

from __future__ import annotations

from tickwheel_shared.protocol import (
    Accepted,
    Cancel,
    CancelReason,
    Outcome,
    Query,
    Refusal,
    Refused,
    Result,
    RunRequest,
)

from .attempt import Stop

Asked = RunRequest | Query | Cancel

STOPS = {
    CancelReason.OPERATOR: Stop(outcome=Outcome.CANCELLED, message="cancelled by an operator"),
    CancelReason.TIMEOUT: Stop(outcome=Outcome.TIMED_OUT, message="past its timeout"),
    CancelReason.STALE: Stop(
        outcome=Outcome.CANCELLED, message="cancelled: this attempt is no longer current"
    ),
}


def accepted(message: Asked) -> Accepted:
    """It is held here."""
    return Accepted(run=message.run, attempt=message.attempt, token=message.token)


def refused(message: Asked, reason: Refusal, text: str = "") -> Refused:
    """It was not started here and never will be."""
    return Refused(
        run=message.run,
        attempt=message.attempt,
        token=message.token,
        reason=reason,
        message=text,
    )


def ended_before(message: Asked, outcome: Outcome) -> Result:
    """It ended, and its result had its receipt: how it ended is all that is kept."""
    return Result(
        run=message.run,
        attempt=message.attempt,
        token=message.token,
        outcome=outcome,
        duration_ms=0,
        message="delivered before",
    )
