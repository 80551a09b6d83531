"""What attempts receive and leave: the state of their job, and the checkpoint of their run.

The claim hands both out, and the recording transaction stores what attempts leave, each in the
transaction of the move that it belongs to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from tickwheel_admin.domain.executors import reports
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs.run import Move, Run
from tickwheel_admin.store.jobs.kept_state import StateHolder, assign_states, write_states
from tickwheel_admin.store.runs.attempts import lost_before
from tickwheel_admin.store.runs.checkpoints import (
    LAST,
    StoredCheckpoint,
    read_checkpoints,
    save_checkpoints,
)
from tickwheel_shared import protocol
from tickwheel_shared.protocol import Outcome, Result

NULL = b"null"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptInputs:
    """What claimed attempts start with, as JSON text."""

    states: Mapping[int, str] = field(default_factory=dict)  # by run
    checkpoints: Mapping[int, str] = field(default_factory=dict)  # by run
    recovering: Collection[int] = frozenset()  # runs that have lost an attempt

    def state_of(self, run: Run) -> str | None:
        """None: the job keeps no state."""
        return self.states.get(run.id)

    def checkpoint_of(self, run: Run) -> str | None:
        """None: no earlier attempt has left one."""
        return self.checkpoints.get(run.id)


def prepare_inputs(
    conn: sa.Connection, claimed: Sequence[Run], configs: Mapping[tuple[int, int], JobConfig]
) -> AttemptInputs:
    """Assign the states of their jobs to the claimed attempts; read what earlier ones left."""
    holders = [
        _state_holder(run) for run in claimed if configs[run.job_id, run.job_revision].keeps_state
    ]
    states = assign_states(conn, holders)
    again = [run.id for run in claimed if run.attempt > 1]
    return AttemptInputs(
        states={
            holder.run_id: states[holder.job_id] for holder in holders if holder.job_id in states
        },
        checkpoints=read_checkpoints(conn, again) if again else {},
        recovering=lost_before(conn, again) if again else frozenset(),
    )


class AttemptOutputs:
    """What the attempts in one batch of reports leave."""

    def __init__(self) -> None:
        self._states: dict[int, tuple[StateHolder, str]] = {}  # by run
        self._checkpoints: dict[int, StoredCheckpoint] = {}  # by run: the newest

    def checkpoint(self, run: Run, message: protocol.Checkpoint) -> None:
        """A current attempt saved a checkpoint."""
        self._keep(run, message.seq, message.data)

    def result(self, run: Run, result: Result, config: JobConfig, move: Move | None) -> None:
        """A current attempt ended.

        Args:
            move: what its result does to the run; None: the run was given up before.
        """
        if result.outcome not in (Outcome.SUCCEEDED, Outcome.SKIPPED):
            if bytes(result.checkpoint) != NULL:
                self._keep(run, LAST, result.checkpoint)
        elif move is not None and reports.leaves_state(result, config):
            self._states[run.id] = (_state_holder(run), bytes(result.state).decode())

    def write(self, conn: sa.Connection, *, now: int) -> Sequence[int]:
        """Store all of it; returns the runs whose state is not stored, as `write_states` does."""
        save_checkpoints(conn, self._checkpoints.values(), now=now)
        return sorted(write_states(conn, list(self._states.values()), now=now))

    def _keep(self, run: Run, seq: int, data: bytes | memoryview) -> None:
        left = StoredCheckpoint(
            run_id=run.id, attempt=run.attempt, seq=seq, data=bytes(data).decode()
        )
        earlier = self._checkpoints.get(run.id)
        if earlier is None or left.age > earlier.age:
            self._checkpoints[run.id] = left


def _state_holder(run: Run) -> StateHolder:
    return StateHolder(job_id=run.job_id, run_id=run.id, attempt=run.attempt)
