"""What attempts hand on: a job's state to its next run, a checkpoint to the next try of a run.

Given out by the claim, taken back by the recording transaction, each in the transaction of the
move it belongs to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from tickwheel_admin.domain.executors import reports
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs.run import Move, Run
from tickwheel_admin.store.jobs.kept_state import Loan, lend_states, write_states
from tickwheel_admin.store.runs.checkpoints import (
    LAST,
    Checkpoint,
    read_checkpoints,
    save_checkpoints,
)
from tickwheel_admin.store.runs.runs import lost_before
from tickwheel_shared import protocol
from tickwheel_shared.protocol import Outcome, Result

NULL = b"null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What claimed attempts begin from, as JSON text."""

    states: Mapping[int, str] = field(default_factory=dict)  # by run
    checkpoints: Mapping[int, str] = field(default_factory=dict)  # by run
    recovering: Collection[int] = frozenset()  # runs that have lost an attempt

    def state_of(self, run: Run) -> str | None:
        """None: its job keeps none."""
        return self.states.get(run.id)

    def checkpoint_of(self, run: Run) -> str | None:
        """None: no attempt before has left one."""
        return self.checkpoints.get(run.id)


def hand_over(
    conn: sa.Connection, claimed: Sequence[Run], configs: Mapping[tuple[int, int], JobConfig]
) -> Given:
    """Lend the claimed attempts the states of their jobs, and read what earlier ones left."""
    loans = [_loan(run) for run in claimed if configs[run.job_id, run.job_revision].keeps_state]
    lent = lend_states(conn, loans)
    again = [run.id for run in claimed if run.attempt > 1]
    return Given(
        states={loan.run_id: lent[loan.job_id] for loan in loans if loan.job_id in lent},
        checkpoints=read_checkpoints(conn, again) if again else {},
        recovering=lost_before(conn, again) if again else frozenset(),
    )


class Left:
    """What the attempts of one batch of reports leave."""

    def __init__(self) -> None:
        self._states: dict[int, tuple[Loan, str]] = {}  # by run
        self._checkpoints: dict[int, Checkpoint] = {}  # by run: the newest

    def checkpoint(self, run: Run, message: protocol.Checkpoint) -> None:
        """A current attempt saved one."""
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
            self._states[run.id] = (_loan(run), bytes(result.state).decode())

    def write(self, conn: sa.Connection, *, now: int) -> Sequence[int]:
        """Keep all of it; returns the runs whose state could not be, as `write_states` says."""
        save_checkpoints(conn, self._checkpoints.values(), now=now)
        return sorted(write_states(conn, list(self._states.values()), now=now))

    def _keep(self, run: Run, seq: int, data: bytes | memoryview) -> None:
        left = Checkpoint(run_id=run.id, attempt=run.attempt, seq=seq, data=bytes(data).decode())
        earlier = self._checkpoints.get(run.id)
        if earlier is None or left.age > earlier.age:
            self._checkpoints[run.id] = left


def _loan(run: Run) -> Loan:
    return Loan(job_id=run.job_id, run_id=run.id, attempt=run.attempt)
