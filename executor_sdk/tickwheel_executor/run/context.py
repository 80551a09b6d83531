"""The run as its handler sees it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tickwheel_executor.as_json import NULL, encode
from tickwheel_executor.errors import (
    CheckpointError,
    OutsideRunError,
    ReceiptError,
    RunCancelledError,
    SpawnError,
    StateUnavailableError,
)
from tickwheel_executor.receipts.databases import database_of
from tickwheel_executor.receipts.receipt import (
    AsyncReceipt,
    AttemptEffect,
    Receipt,
    effect_of,
    write_receipt,
)
from tickwheel_executor.text import clean, cut
from tickwheel_shared.protocol import (
    MAX_CHECKPOINT_BYTES,
    MAX_MESSAGE_CHARS,
    MAX_SPAWNED_BYTES,
    MAX_SPAWNED_ITEMS,
    MAX_STATE_BYTES,
    Outcome,
    RunRequest,
    RunScript,
)
from tickwheel_shared.secret_mask import hidden
from tickwheel_shared.trace_context import TraceContext, read_trace_context

from .log import RunLog

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_BOTH = "a run that is settled by its receipt would spawn nothing; use one or the other"
_STOP_SECONDS = 10.0  # for an async handler that was cancelled, before it is cancelled again

# The run whose handler executes in this context. asyncio copies it into every task that the handler
# starts, and the thread runner sets it in the thread.
running: ContextVar[Run] = ContextVar("tickwheel_run")


def current_run() -> Run:
    """The run whose handler is executing, for code that does not receive it as an argument.

    Raises:
        OutsideRunError: not called from a handler.
    """
    run = running.get(None)
    if run is None:
        raise OutsideRunError("no run is going on here")
    return run


@dataclass(slots=True, kw_only=True)
class RunInput:
    """What a run request gives its handler, decoded (handlers/decoding.py)."""

    # Not printed: they may hold secrets.
    parameters: dict[str, Any] = field(default_factory=dict, repr=False)
    # These, as the handler takes them.
    arguments: dict[str, Any] = field(default_factory=dict, repr=False)
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
        "_has_receipt",
        "_report",
        "_request",
        "_save",
        "_spawned",
        "_state",
        "_stop",
        "_stop_seconds",
        "_trace",
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
        trace: TraceContext | None = None,
    ) -> None:
        """`trace`: of the attempt; None: that of the request, if it has one."""
        self._request = request
        self._arguments = run_input.arguments
        self._report = report
        self._state = run_input.state
        self._checkpoint = run_input.checkpoint
        self._deadline_at = run_input.deadline_at
        self._save = save
        self._spawned: list[msgspec.Raw] | None = None  # None: spawn was not called
        self._trace = _trace_of(request) if trace is None else trace
        self._has_receipt = False
        self._stop: Stop | None = None
        self._stop_seconds = _STOP_SECONDS
        self.parameters = run_input.parameters
        """The run's parameters, from the job or from the caller that started the run."""
        self.log = log
        """The run's log: `run.log.info("sent %d", n)`."""

    @property
    def id(self) -> int:
        """Id of the run; the same for all its attempts."""
        return self._request.run

    @property
    def attempt(self) -> int:
        """Number of this attempt; the pair (id, attempt) never starts twice."""
        return self._request.attempt

    @property
    def try_number(self) -> int:
        """Which try this is, from 1."""
        return self._request.try_number

    @property
    def max_tries(self) -> int:
        """How many tries the run has in total."""
        return self._request.max_tries

    @property
    def job(self) -> str:
        """Name of the job."""
        return self._request.job

    @property
    def origin(self) -> str:
        """What started the run: schedule, misfire, manual, api, retry, child or backfill."""
        return self._request.origin

    @property
    def scheduled_at(self) -> datetime:
        """The time that the run was scheduled for, in UTC; not the time when it started.

        A manual retry keeps that of the run it repeats; see `due_at`.
        """
        return _EPOCH + timedelta(milliseconds=self._request.scheduled_at)

    @property
    def due_at(self) -> datetime:
        """When this try was due, in UTC.

        Later than `scheduled_at` after jitter, a misfire, a manual retry or a retry delay. Equal to
        it when the admin has an older version, which does not send it.
        """
        due_at = self._request.due_at
        if isinstance(due_at, msgspec.UnsetType):
            return self.scheduled_at
        return _EPOCH + timedelta(milliseconds=due_at)

    @property
    def interval_start(self) -> datetime | None:
        """Where the time begins that the run is about, in UTC: its schedule's instant before.

        None for runs that no schedule asked for, for those of a fixed delay, for the first one of a
        schedule, and when the admin has an older version.
        """
        start = self._request.interval_start
        if isinstance(start, msgspec.UnsetType):
            return None
        return _EPOCH + timedelta(milliseconds=start)

    @property
    def interval_end(self) -> datetime | None:
        """Where that time ends: `scheduled_at`; None when there is no `interval_start`."""
        return None if self.interval_start is None else self.scheduled_at

    @property
    def deadline(self) -> datetime | None:
        """When its timeout expires, in UTC by this machine's clock; None without a timeout."""
        if self._deadline_at is None:
            return None
        return _EPOCH + timedelta(milliseconds=self._deadline_at)

    @property
    def recovering(self) -> bool:
        """Whether an earlier attempt was lost, for example because its machine died.

        Its work may be done in part or in whole, and it may even still run on a node without
        network.
        """
        return self._request.recovering

    @property
    def shard_index(self) -> int:
        """Which shard of the run this is, from 0."""
        return self._request.shard_index

    @property
    def shard_total(self) -> int:
        """How many shards the run has."""
        return self._request.shard_total

    @property
    def script(self) -> RunScript | None:
        """The script of a script job, as the run's revision of the job has it; else None.

        Its hash is not compared yet.
        """
        script = self._request.script
        return None if isinstance(script, msgspec.UnsetType) else script

    @property
    def item(self) -> Any:
        """The item that this run is about, of those that `spawn` was given; else None."""
        item = self._request.item
        return None if isinstance(item, msgspec.UnsetType) else msgspec.json.decode(item)

    def spawn(self, items: Iterable[Any]) -> None:
        """Spread the work of a workflow's step: each item becomes a run of it, with `run.item`.

        They are handed over with the result when the handler returns, and begin then; a run that
        does not succeed spawns nothing, and its next try anew. The step ends with the last of them,
        and its result is the list of theirs, in the order of the items. May be called several
        times.

        Args:
            items: any JSON but None; at most 10,000 and 256 KiB in all.

        Raises:
            SpawnError: this run may not spawn, there are too many items, or one is not JSON.
        """
        if self._request.may_spawn is not True:
            raise SpawnError(_why_not_spawn(self._request))
        if self._has_receipt:
            raise SpawnError(f"this run has a receipt: {_NOT_BOTH}")
        found = [] if self._spawned is None else list(self._spawned)
        for each in items:
            data, problem = encode(each, what=f"item {len(found)}", limit=MAX_SPAWNED_BYTES)
            if problem or each is None:
                raise SpawnError(problem or f"item {len(found)} is None, which is no item")
            if self.log.mask is not None:
                data = self.log.mask.hide_json(data, limit=MAX_SPAWNED_BYTES)
                if bytes(data) == b"null":
                    raise SpawnError(f"item {len(found)} is too large with its secrets hidden")
            found.append(data)
            if len(found) > MAX_SPAWNED_ITEMS:
                raise SpawnError(f"more than {MAX_SPAWNED_ITEMS:,} items; let an item be several")
        size = sum(len(bytes(each)) + 1 for each in found) + 1
        if size > MAX_SPAWNED_BYTES:
            raise SpawnError(
                f"the items are {size:,} bytes of JSON; the limit is {MAX_SPAWNED_BYTES:,}: pass "
                "the addresses of their data instead"
            )
        self._spawned = found

    @property
    def trace_headers(self) -> dict[str, str]:
        """W3C headers for calls of other services; empty if the run is part of no trace.

        They work without OpenTelemetry, too: `session.get(url, headers=run.trace_headers)`.
        """
        trace = self._trace
        if trace is None:
            return {}
        headers = {"traceparent": trace.traceparent}
        return headers | {"tracestate": trace.state} if trace.state else headers

    def progress(self, fraction: float, text: str = "") -> None:
        """Report progress, `fraction` from 0 to 1. Only the latest counts: call it freely."""
        fraction = float(fraction)
        if math.isnan(fraction):
            raise ValueError("progress is not a number")
        message = cut(clean(hidden(self.log.mask, text)), MAX_MESSAGE_CHARS)
        self._report(min(max(fraction, 0.0), 1.0), message)

    @property
    def state(self) -> dict[str, Any]:
        """The state that the job's last run saved, `{}` at first: change it, or assign a dict.

        It is saved for the next run when the handler returns or raises `Skip`, and discarded when
        the run does not succeed. JSON of at most 64 KiB, else the run fails.

        Raises:
            StateUnavailableError: this job has no state, because its runs may overlap.
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
        """The last checkpoint of an earlier try of this run; None if there is none."""
        return self._checkpoint

    def save_checkpoint(self, value: Any) -> None:
        """Save this for the next try of the run, in case this one does not succeed.

        Only the latest counts: call it after every step. It is sent within a second, so a process
        that dies may lose the latest one; its step is then done again.

        Args:
            value: anything that can be written as JSON of at most 64 KiB; None removes the
                checkpoint.

        Raises:
            CheckpointError: not JSON, or too large; the previous checkpoint stays.
        """
        data, problem = encode(value, what="the checkpoint", limit=MAX_CHECKPOINT_BYTES)
        if problem:
            raise CheckpointError(problem)
        if self.log.mask is not None:
            data = self.log.mask.hide_json(data, limit=MAX_CHECKPOINT_BYTES)
        self._save(data)

    def receipt(self, connection: Any, *, key: str | None = None) -> Receipt:
        """Write into this connection's transaction that the run's work is done, before doing it.

        Work and receipt commit together, or neither: the run's effect on this database happens
        exactly once, whatever dies and however often the run is delivered (docs/receipts.md).

            with engine.begin() as connection:
                receipt = run.receipt(connection)
                move_money(connection)
                return receipt.save_result({"moved": 100})

        Args:
            connection: a Connection or Session of SQLAlchemy, a connection of Django, or a DB-API
                connection, in a transaction; to PostgreSQL, MariaDB, MySQL or SQLite, with the
                table `tickwheel_receipt`.
            key: A name of the effect, at most 180 characters, if it is not that of this one run:
                whichever run has committed it, no other one does it again.

        Raises:
            AlreadyDone: an earlier attempt has committed it; leave the handler with this.
            StaleAttemptError: a later attempt has begun; leave the transaction with this.
            ReceiptError: no transaction, another kind of connection, or called twice.
            RunCancelledError: the run has to end.
        """
        return write_receipt(database_of(connection), self._effect(key))

    async def receipt_async(self, connection: Any, *, key: str | None = None) -> AsyncReceipt:
        """The same on an AsyncConnection or AsyncSession of SQLAlchemy."""
        if not hasattr(connection, "run_sync"):
            raise ReceiptError(
                f"{type(connection).__qualname__} is not asynchronous: run.receipt()"
            )
        effect = self._effect(key)
        receipt = await connection.run_sync(lambda each: write_receipt(database_of(each), effect))
        return AsyncReceipt(connection, receipt)

    def _effect(self, key: str | None) -> AttemptEffect:
        self.raise_if_cancelled()
        if self._spawned is not None:
            raise ReceiptError(f"this run has spawned items: {_NOT_BOTH}")
        self._has_receipt = True
        return effect_of(self._request, key)

    @property
    def cancelled(self) -> bool:
        """Whether the run has to end, say after a cancel. A plain `def` handler polls this."""
        return self._stop is not None

    def raise_if_cancelled(self) -> None:
        """Leave the handler if the run has to end.

        Raises:
            RunCancelledError: it has to; do not catch it.
        """
        if self._stop is not None:
            raise RunCancelledError(f"run {self.id} was cancelled")

    def __repr__(self) -> str:
        return f"<Run {self.id} attempt {self.attempt} of job {self.job!r}>"


def _trace_of(request: RunRequest) -> TraceContext | None:
    parent, state = request.traceparent, request.tracestate
    if isinstance(parent, msgspec.UnsetType):
        return None
    return read_trace_context(parent, "" if isinstance(state, msgspec.UnsetType) else state)


def _why_not_spawn(request: RunRequest) -> str:
    if not isinstance(request.item, msgspec.UnsetType):
        return "this run is about an item that was spawned itself: it may not spawn further"
    if request.origin != "step":
        return "only the run of a workflow's step may spawn; for others, declare a workflow"
    return (
        "this run may not spawn: it is an item of a for_each or a shard, or its admin is too old "
        "to take items"
    )


def spawned_by(run: Run) -> msgspec.Raw | msgspec.UnsetType:
    """JSON list of the items that the handler has spawned; UNSET: it did not."""
    if run._spawned is None:
        return msgspec.UNSET
    return msgspec.Raw(msgspec.json.encode(run._spawned))


def own_effect_of(run: Run) -> AttemptEffect:
    """What this run's receipt stands for, without a key."""
    return effect_of(run._request)


def mark_cancelled(run: Run, stop: Stop) -> None:
    """Tell the handler that its run has to end. For the node only."""
    run._stop = stop


def stop_of(run: Run) -> Stop | None:
    """Why the run has to end; None if it does not."""
    return run._stop


def expect_stop_within(run: Run, seconds: float) -> None:
    """An async handler may take this long to end after it was cancelled; 10 s at least.

    Then it is cancelled again.
    """
    run._stop_seconds = max(_STOP_SECONDS, seconds)


def stop_seconds_of(run: Run) -> float:
    """How long its handler may take to end after it was cancelled."""
    return run._stop_seconds


def has_state(run: Run) -> bool:
    """Whether its job keeps a state."""
    return run._state is not None


def deadline_of(run: Run) -> int | None:
    """The value of `run.deadline`, in UTC epoch ms."""
    return run._deadline_at


def arguments_of(run: Run) -> dict[str, Any]:
    """The run's parameters as its handler takes them, by name."""
    return run._arguments


def state_left_by(run: Run) -> tuple[msgspec.Raw, str]:
    """JSON of the state if the handler changed it, else null; and what is wrong with it, or ""."""
    if run._state is None:
        return NULL, ""
    state, problem = encode(run._state, what="the state", limit=MAX_STATE_BYTES)
    if not problem and bytes(state) == msgspec.json.encode(msgspec.json.decode(run._request.state)):
        return NULL, ""
    return state, problem
