"""The outcome of an attempt, determined where the handler ran and reported by its node."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from tickwheel_executor.as_json import NULL, encode
from tickwheel_executor.errors import (
    AlreadyDone,
    Fail,
    Failed,
    Retry,
    RunCancelledError,
    Skip,
)
from tickwheel_executor.text import clean, cut, describe, exception_text, traceback_of
from tickwheel_shared.protocol import (
    MAX_MESSAGE_CHARS,
    MAX_RESULT_BYTES,
    MAX_STATE_BYTES,
    Level,
    Outcome,
)
from tickwheel_shared.secret_mask import SecretMask, hidden

from .context import Run, spawned_by, state_left_by, stop_of

_STOP_ERRORS = (asyncio.CancelledError, RunCancelledError)  # the handler stopped as requested
_GOOD_ENDS = (Outcome.SUCCEEDED, Outcome.SKIPPED)  # after these the state is saved
_SIGNALS = (Retry, Fail, Failed, Skip, AlreadyDone)  # raised on purpose: no traceback


class Completion(msgspec.Struct, frozen=True):
    """How a handler ended: with a value or an exception."""

    value: Any = None
    error: BaseException | None = None


class AttemptOutcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of an attempt, for its result."""

    kind: Outcome
    message: str = ""
    retry_after_ms: int | None = None
    final: bool = False
    result: msgspec.Raw = NULL
    state: msgspec.Raw = NULL
    spawn: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # items of a workflow's step


def outcome_of(run: Run, completion: Completion) -> AttemptOutcome:
    """The outcome of the run. Writes an exception of the handler to the run's log."""
    stop, error = stop_of(run), completion.error
    if stop is not None:
        # It was told to stop, whatever it did then; its return value is kept.
        if error is not None and not isinstance(error, _STOP_ERRORS):
            _write(run, error)
        outcome = AttemptOutcome(kind=stop.outcome, message=stop.message)
    elif error is None:
        outcome = AttemptOutcome(kind=Outcome.SUCCEEDED)
    else:
        _write(run, error)
        if isinstance(error, AlreadyDone):
            return _presentable(run, _settled(error))
        outcome = _of(error)
    return _presentable(run, _kept(run, completion.value, outcome))


def _of(error: BaseException) -> AttemptOutcome:
    if isinstance(error, Retry):
        return _failed(exception_text(error), retry_after_ms=error.after_ms)
    if isinstance(error, Fail):
        return _failed(exception_text(error), final=True)
    if isinstance(error, Skip):
        return AttemptOutcome(kind=Outcome.SKIPPED, message=exception_text(error))
    return _failed(exception_text(error) if isinstance(error, Failed) else describe(error))


def _settled(error: AlreadyDone) -> AttemptOutcome:
    """An earlier attempt has succeeded and could not say so; this one has left no state."""
    result, _ = encode(error.result, what="the result of the receipt", limit=MAX_RESULT_BYTES)
    return AttemptOutcome(kind=Outcome.SUCCEEDED, message=exception_text(error), result=result)


def _failed(
    message: str, *, retry_after_ms: int | None = None, final: bool = False
) -> AttemptOutcome:
    return AttemptOutcome(
        kind=Outcome.FAILED,
        message=message,
        retry_after_ms=retry_after_ms,
        final=final,
    )


def fitting(message: str, mask: SecretMask | None = None) -> str:
    """A message for a result: clean, without secrets, and cut to the allowed length."""
    return clean(cut(hidden(mask, message), MAX_MESSAGE_CHARS))


def _presentable(run: Run, outcome: AttemptOutcome) -> AttemptOutcome:
    """As it may be sent: without the run's secrets."""
    mask = run.log.mask
    if outcome.message:
        message = fitting(outcome.message, mask)
        outcome = msgspec.structs.replace(outcome, message=message)
    if mask is None or (outcome.result is NULL and outcome.state is NULL):
        return outcome
    result = mask.hide_json(outcome.result, limit=MAX_RESULT_BYTES)
    state = mask.hide_json(outcome.state, limit=MAX_STATE_BYTES)
    for what, before, after in (
        ("result", outcome.result, result),
        ("state", outcome.state, state),
    ):
        if bytes(after) == bytes(NULL) != bytes(before):
            run.log.warning("the %s is too large with its secrets hidden, and is not kept", what)
    return msgspec.structs.replace(outcome, result=result, state=state)


def _kept(run: Run, value: object, outcome: AttemptOutcome) -> AttemptOutcome:
    """Add result and state; a success becomes a failure if they cannot be stored."""
    result, problem = encode(value, what="the handler's return value", limit=MAX_RESULT_BYTES)
    if problem:
        run.log.error("%s", problem)
        if outcome.kind is Outcome.SUCCEEDED:
            return _failed(problem)
    state = NULL
    if outcome.kind in _GOOD_ENDS:
        state, problem = state_left_by(run)
        if problem:  # the next run would continue from a wrong state
            run.log.error("%s", problem)
            return _failed(problem)
    if outcome.kind is Outcome.SUCCEEDED:
        outcome = msgspec.structs.replace(outcome, spawn=spawned_by(run))
    if result is NULL and state is NULL:
        return outcome
    return msgspec.structs.replace(outcome, result=result, state=state)


def _write(run: Run, error: BaseException) -> None:
    """Log an exception of the handler: with traceback, unless it was raised on purpose."""
    if not isinstance(error, _SIGNALS):
        run.log.write(Level.ERROR, traceback_of(error))
        return
    level = Level.INFO if isinstance(error, Skip | AlreadyDone) else Level.ERROR
    cause = f" ({describe(error.__cause__)})" if error.__cause__ is not None else ""
    plain = isinstance(error, Failed | AlreadyDone)
    text = exception_text(error) if plain else describe(error)
    run.log.write(level, f"{text}{cause}")
