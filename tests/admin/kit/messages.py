"""What nodes answer to a request."""

from __future__ import annotations

from typing import Any

import msgspec

from tickwheel_shared.protocol import Accepted, Outcome, Result, RunRequest


def accepted(request: RunRequest, **changes: Any) -> Accepted:
    values = {"run": request.run, "attempt": request.attempt, "token": request.token}
    return Accepted(**(values | changes))


def result(
    request: RunRequest,
    outcome: Outcome = Outcome.SUCCEEDED,
    *,
    value: object = None,
    **changes: Any,
) -> Result:
    values: dict[str, Any] = {
        "run": request.run,
        "attempt": request.attempt,
        "token": request.token,
        "outcome": outcome,
        "duration_ms": 5,
        "result": msgspec.Raw(msgspec.json.encode(value)),
    }
    return Result(**(values | changes))
