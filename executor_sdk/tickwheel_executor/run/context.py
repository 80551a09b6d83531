"""The run as its handler sees it."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tickwheel_executor.as_json import NULL, encode
from tickwheel_executor.errors import (
    CheckpointError,
    OutsideRunError,
    RunCancelledError,
    StateUnavailableError,
)
from tickwheel_executor.text import clean, cut
from tickwheel_shared.protocol import (
    MAX_CHECKPOINT_BYTES,
    MAX_MESSAGE_CHARS,
    MAX_STATE_BYTES,
    Outcome,
    RunRequest,
)

from .log import RunLog

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# The run whose handler is executing in this context; asyncio copies it into everything the
# handler starts, and the thread runner carries it over.
running: ContextVar[Run] = ContextVar("tickwheel_run")


def current_run() -> Run:
    """The run whose handler is executing here, for code that is not passed the run.

    Raises:
        OutsideRunError: no handler is executing here.
    """
    run = running.get(None)
    if run is None:
        raise OutsideRunError("no run is going on here")
    return run


@dataclass(slots=True, kw_only=True)
class RunInput:
    """What a run request gives its handler, decoded (handlers/decoding.py)."""

    parameters: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)  # these, as the handler takes them
    state: dict[str, Any] | None = None  # None: the job keeps none
    checkpoint: Any = None  # what an earlier try left
    deadline_at: int | None = None  # UTC epoch ms; None: it has no timeout


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Why an attempt has to end before its handler returns, and what is reported then."""

    outcome: Outcome
    message: str
    grace_seconds: float = 5.0  # for the handler to clean up, before its process is killed


class Run:
    """One attempt of a run, as its handler sees it. Safe to use from threads."""

    __slots__ = (
        "_arguments",
        "_checkpoint",
        "_deadline_at",
        "_report",
        "_request",
        "_save",
        "_state",
        "_stop",
        "log",
        "parameters",
    )

    def __init__(
        self,
        request: RunRequest,
        run_input: RunInput,
        *,
        log: RunLog,
        report: Callable[[float, str], None],
        save: Callable[[msgspec.Raw], None],
    ) -> None:
        self._request = request
        self._arguments = run_input.arguments
        self._report = report
        self._state = run_input.state
        self._checkpoint = run_input.checkpoint
        self._deadline_at = run_input.deadline_at
        self._save = save
        self._stop: Stop | None = None
        self.parameters = run_input.parameters
        """The run's parameters, as the job or whoever started the run gave them."""
        self.log = log
        """Lines for the run's log: `run.log.info("sent %d", n)`."""

    @property
    def id(self) -> int:
        """Number of the run; the same for all its attempts."""
        return self._request.run

    @property
    def attempt(self) -> int:
        """Number of this attempt; (id, attempt) never starts twice."""
        return self._request.attempt

    @property
    def try_number(self) -> int:
        """Which try this is, from 1."""
        return self._request.try_number

    @property
    def max_tries(self) -> int:
        """How many tries the run has in all."""
        return self._request.max_tries

    @property
    def job(self) -> str:
        """Name of the job."""
        return self._request.job

    @property
    def origin(self) -> str:
        """What started the run: schedule, misfire, manual, api, retry or child."""
        return self._request.origin

    @property
    def scheduled_at(self) -> datetime:
        """The instant it works for, in UTC: the one it fired for, and not when it started.

        A retry by hand has that of the run that it does again; `due_at` says when it was to start
        itself.
        """
        return _EPOCH + timedelta(milliseconds=self._request.scheduled_at)

    @property
    def due_at(self) -> datetime:
        """When this try was to start, in UTC: `scheduled_at` with the trigger's jitter.

        Later for a missed fire that was made up for, for a retry by hand, and for another try after
        its pause. An admin of an earlier version does not say it; then it is `scheduled_at`.
        """
        due_at = self._request.due_at
        if isinstance(due_at, msgspec.UnsetType):
            return self.scheduled_at
        return _EPOCH + timedelta(milliseconds=due_at)

    @property
    def deadline(self) -> datetime | None:
        """When its timeout ends it, in UTC and by this machine's clock; None: it has no timeout."""
        if self._deadline_at is None:
            return None
        return _EPOCH + timedelta(milliseconds=self._deadline_at)

    @property
    def recovering(self) -> bool:
        """Whether an earlier attempt was lost: the machine died, say, and what it did is unknown.

        Its work may be done in part or in whole, and it may even go on somewhere, cut off.
        """
        return self._request.recovering

    @property
    def shard_index(self) -> int:
        """Which shard of the run this is, from 0."""
        return self._request.shard_index

    @property
    def shard_total(self) -> int:
        """Into how many shards the run is cut."""
        return self._request.shard_total

    def progress(self, fraction: float, text: str = "") -> None:
        """Show how far it is, `fraction` from 0 to 1. Only the newest counts: call it freely."""
        fraction = float(fraction)
        if math.isnan(fraction):
            raise ValueError("progress is not a number")
        message = cut(clean(text), MAX_MESSAGE_CHARS)
        self._report(min(max(fraction, 0.0), 1.0), message)

    @property
    def state(self) -> dict[str, Any]:
        """What the job's last run left, `{}` at first: change it, or assign another dict.

        As it is when the handler returns, or raises `Skip`, the next run gets it. What a run
        leaves that does not succeed is forgotten. JSON of at most 64 KiB, else the run fails.

        Raises:
            StateUnavailableError: this job keeps none: its runs may go on side by side.
        """
        if self._state is None:
            raise StateUnavailableError(self.job)
        return self._state

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        if self._state is None:
            raise StateUnavailableError(self.job)
        if not isinstance(state, dict):
            raise TypeError(f"a job's state is a dict, not {type(state).__name__}")
        self._state = state

    @property
    def checkpoint(self) -> Any:
        """What an earlier try of this run saved last; None when it is the first, or saved none."""
        return self._checkpoint

    def save_checkpoint(self, value: Any) -> None:
        """Leave this for the next try of the run, in case this one does not succeed.

        Only the newest counts: call it after every step. It leaves within a second, so a process
        that dies at once may have saved only the one before; do a step's work again if need be.

        Args:
            value: anything that can be written as JSON of at most 64 KiB; None takes back what
                was saved.

        Raises:
            CheckpointError: it cannot; what was saved before stays.
        """
        data, problem = encode(value, what="the checkpoint", limit=MAX_CHECKPOINT_BYTES)
        if problem:
            raise CheckpointError(problem)
        self._save(data)

    @property
    def cancelled(self) -> bool:
        """Whether the run was told to end: by a cancel, say. A plain `def` handler polls this."""
        return self._stop is not None

    def raise_if_cancelled(self) -> None:
        """Leave the handler when the run was told to end.

        Raises:
            RunCancelledError: it was; let it pass through.
        """
        if self._stop is not None:
            raise RunCancelledError(f"run {self.id} was cancelled")

    def __repr__(self) -> str:
        return f"<Run {self.id} attempt {self.attempt} of job {self.job!r}>"


def mark_cancelled(run: Run, stop: Stop) -> None:
    """Let the handler see that its run is to end. For the node only."""
    run._stop = stop


def stop_of(run: Run) -> Stop | None:
    """Why the run was told to end, if it was."""
    return run._stop


def deadline_of(run: Run) -> int | None:
    """What `run.deadline` shows, in UTC epoch ms."""
    return run._deadline_at


def arguments_of(run: Run) -> dict[str, Any]:
    """The run's parameters as its handler takes them, by name."""
    return run._arguments


def state_left_by(run: Run) -> tuple[msgspec.Raw, str]:
    """JSON of the state if the handler changed it, else null; and what is wrong with it."""
    if run._state is None:
        return NULL, ""
    state, problem = encode(run._state, what="the state", limit=MAX_STATE_BYTES)
    if not problem and bytes(state) == msgspec.json.encode(msgspec.json.decode(run._request.state)):
        return NULL, ""
    return state, problem
