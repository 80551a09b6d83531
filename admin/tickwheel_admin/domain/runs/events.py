"""Events of runs: what integrators are told of each change of a run's state.

An event is a fact of the ledger, written by the transaction that made it true. Its number rises
with every event of the installation and is not used twice, also after a restore.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from tickwheel_admin.domain.runs.run import Move, Origin, Run, RunState

# How long events are written and kept after the last reader was there.
WANTED_MS = 86_400_000
KEPT_MS = WANTED_MS + 3_600_000
MAX_KEPT = 10_000_000  # events; about 1 GiB
# Wanted anew within so long of its end, the feed begins anew: an admin may have missed the news.
LAPSE_MS = 60_000
FRESH_SECONDS = 6.0  # what an admin knows of the feed's readers is trusted for so long
# From the first reader on until every admin writes events: it has asked again by then, and no
# transaction that began before goes on.
READY_MS = 16_000
EVENTS_PER_ROW = 1_000

DELETED = "deleted"  # a fire that was planned ahead and taken back, as by an edit of its trigger


class EventState(StrEnum):
    """What a run is after an event."""

    QUEUED = RunState.QUEUED.value
    DISPATCHED = RunState.DISPATCHED.value
    RUNNING = RunState.RUNNING.value
    SUCCEEDED = RunState.SUCCEEDED.value
    FAILED = RunState.FAILED.value
    TIMED_OUT = RunState.TIMED_OUT.value
    CANCELLED = RunState.CANCELLED.value
    LOST = RunState.LOST.value
    SKIPPED = RunState.SKIPPED.value
    DELETED = DELETED


class RunEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One change; an array in JSON, to which later versions append."""

    run_id: int
    job_id: int
    executor_id: int
    attempt: int
    before: str | None  # its state until then; None: the run is new
    state: str  # an EventState
    reason: str | None
    node_id: int | None
    origin: str
    part: bool  # a shard, a step, or a try of a script: another run tells of it, or none


def of_new(runs: Iterable[Run]) -> list[RunEvent]:
    """Of runs that are inserted."""
    return [_event(run, None, run.state) for run in runs]


def of_moves(moves: Iterable[Move]) -> list[RunEvent]:
    """Of those moves that change a state."""
    return [
        _event(move.after, move.before.state, move.after.state)
        for move in moves
        if move.before.state is not move.after.state
    ]


def _event(run: Run, before: RunState | None, state: RunState) -> RunEvent:
    return RunEvent(
        run.id,
        run.job_id,
        run.executor_id,
        run.attempt,
        None if before is None else before.value,
        state.value,
        run.reason,
        run.node_id,
        run.origin.value,
        run.is_part,
    )


def of_deleted(*, run_id: int, job_id: int, executor_id: int, origin: str | Origin) -> RunEvent:
    """Of a queued run that is taken back."""
    return RunEvent(
        run_id, job_id, executor_id, 0, RunState.QUEUED.value, DELETED, None, None, str(origin),
        False,
    )  # fmt: skip


def events_to_json(events: Sequence[RunEvent]) -> str:
    """As a row keeps them."""
    return msgspec.json.encode(events).decode()


def events_from_json(text: str) -> tuple[RunEvent, ...]:
    """What a row of any version keeps."""
    return msgspec.json.decode(text, type=tuple[RunEvent, ...])
