"""The database: one real SQLite file, a clock in virtual time, and a memory of every change.

SQL triggers write each change of a run, trigger, job or node into `sim_change`, and of a canary
retry into `sim_canary`, in the transaction of the change itself. So the checker sees every state a
run was ever in, whoever wrote it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import event

from tests.simulation.history import History
from tickwheel_admin.store.database.connections import create_engine
from tickwheel_admin.store.database.tables import metadata

T = TypeVar("T")

_MEMORY = """
CREATE TABLE sim_change (
    seq INTEGER PRIMARY KEY, at INTEGER, vt REAL, what TEXT, id INTEGER, job_id INTEGER,
    old_state TEXT, state TEXT, old_attempt INTEGER, attempt INTEGER, tries INTEGER,
    node_id INTEGER, node_state TEXT, node_lease INTEGER, due_at INTEGER, cancel_at INTEGER,
    reason TEXT, spec TEXT, next_fire_at INTEGER, revision INTEGER,
    trigger_id INTEGER, scheduled_at INTEGER, new_due_at INTEGER, old_tries INTEGER, result TEXT,
    node_is_over INTEGER, choice TEXT
);
CREATE TRIGGER sim_run_added AFTER INSERT ON run BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, job_id, state, attempt, tries, due_at, reason,
                            trigger_id, scheduled_at)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'run+', NEW.id, NEW.job_id, NEW.state,
            NEW.attempt, NEW.tries, NEW.due_at, NEW.reason, NEW.trigger_id, NEW.scheduled_at);
END;
CREATE TRIGGER sim_run_changed AFTER UPDATE ON run
WHEN OLD.state IS NOT NEW.state OR OLD.attempt IS NOT NEW.attempt OR OLD.due_at IS NOT NEW.due_at
     OR OLD.cancel_requested_at IS NOT NEW.cancel_requested_at
BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, job_id, old_state, state, old_attempt, attempt,
                            tries, node_id, node_state, node_lease, due_at, cancel_at, reason,
                            new_due_at, old_tries, result, choice, node_is_over)
    SELECT sim_seq(), tickwheel_now(), sim_time(), 'run', NEW.id, NEW.job_id, OLD.state, NEW.state,
           OLD.attempt, NEW.attempt, NEW.tries, NEW.node_id,
           (SELECT state FROM node WHERE id = NEW.node_id),
           (SELECT lease_expires_at FROM node WHERE id = NEW.node_id),
           OLD.due_at, OLD.cancel_requested_at, NEW.reason, NEW.due_at, OLD.tries, NEW.result,
           NEW.choice,
           (SELECT in_use > slots OR draining OR cordoned FROM node WHERE id = NEW.node_id);
END;
CREATE TRIGGER sim_poison BEFORE UPDATE ON run WHEN NEW.result LIKE '%"poison"%' BEGIN
    SELECT RAISE(ABORT, 'this result cannot be stored');
END;
CREATE TRIGGER sim_run_removed AFTER DELETE ON run BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, job_id, state, attempt, trigger_id,
                            scheduled_at)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'run-', OLD.id, OLD.job_id, OLD.state,
            OLD.attempt, OLD.trigger_id, OLD.scheduled_at);
END;
CREATE TRIGGER sim_step_changed AFTER UPDATE ON workflow_step
WHEN OLD.state IS NOT NEW.state OR OLD.reason IS NOT NEW.reason BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, attempt, old_state, state, reason, choice)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'step', NEW.workflow_run_id, NEW.step_index,
            OLD.state, NEW.state, NEW.reason, NEW.decided_by);
END;
CREATE TRIGGER sim_step_begun AFTER INSERT ON workflow_step
WHEN (SELECT state FROM run WHERE id = NEW.workflow_run_id) IS 'running' BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, attempt, old_state, state, reason, choice)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'step', NEW.workflow_run_id, NEW.step_index,
            'waiting', NEW.state, NEW.reason, NEW.decided_by);
END;
CREATE TRIGGER sim_step_taken AFTER INSERT ON workflow_step
WHEN (SELECT state FROM run WHERE id = NEW.workflow_run_id) IS NOT 'running' BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, attempt, state, reason, tries)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'step+', NEW.workflow_run_id, NEW.step_index,
            NEW.state, NEW.reason, NEW.items);
END;
CREATE TRIGGER sim_trigger_added AFTER INSERT ON "trigger" BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, job_id, state, spec, next_fire_at)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'trigger+', NEW.id, NEW.job_id, NEW.state,
            NEW.spec, NEW.next_fire_at);
END;
CREATE TRIGGER sim_trigger_edited AFTER UPDATE ON "trigger" WHEN OLD.version <> NEW.version BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, job_id, state, spec, next_fire_at)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'trigger', NEW.id, NEW.job_id, NEW.state,
            NEW.spec, NEW.next_fire_at);
END;
CREATE TRIGGER sim_trigger_removed AFTER DELETE ON "trigger" BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, job_id)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'trigger-', OLD.id, OLD.job_id);
END;
CREATE TRIGGER sim_calendar_added AFTER INSERT ON calendar BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, reason, spec, revision)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'calendar', NEW.id, NEW.name, NEW.spec,
            NEW.version);
END;
CREATE TRIGGER sim_calendar_changed AFTER UPDATE ON calendar WHEN OLD.version <> NEW.version BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, reason, spec, revision)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'calendar', NEW.id, NEW.name, NEW.spec,
            NEW.version);
END;
CREATE TRIGGER sim_job_revised AFTER UPDATE ON job WHEN OLD.revision <> NEW.revision BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, job_id, revision)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'job', NEW.id, NEW.id, NEW.revision);
END;
CREATE TRIGGER sim_job_deleted AFTER UPDATE ON job WHEN OLD.deleted_at <> NEW.deleted_at BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, job_id)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'job-', NEW.id, NEW.id);
END;
CREATE TRIGGER sim_executor_paused AFTER UPDATE ON executor WHEN OLD.paused_at IS NOT NEW.paused_at
BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, next_fire_at)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'pause', NEW.id, NEW.paused_at);
END;
CREATE TRIGGER sim_all_paused AFTER INSERT ON setting WHEN NEW.name = 'paused_at' BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, next_fire_at)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'pause', 0, CAST(NEW.value AS INTEGER));
END;
CREATE TRIGGER sim_all_resumed AFTER DELETE ON setting WHEN OLD.name = 'paused_at' BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'pause', 0);
END;
CREATE TRIGGER sim_state_written AFTER UPDATE ON job_state
WHEN OLD.state IS NOT NEW.state OR OLD.updated_at IS NOT NEW.updated_at BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, job_id, result)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'state', NEW.run_id, NEW.job_id, NEW.state);
END;
CREATE TRIGGER sim_state_set AFTER INSERT ON job_state WHEN NEW.updated_at IS NOT NULL BEGIN
    INSERT INTO sim_change (seq, at, vt, what, job_id, result)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'state', NEW.job_id, NEW.state);
END;
CREATE TRIGGER sim_state_cleared AFTER DELETE ON job_state BEGIN
    INSERT INTO sim_change (seq, at, vt, what, job_id, result)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'state', OLD.job_id, '{}');
END;
CREATE TRIGGER sim_checkpoint_added AFTER INSERT ON run_checkpoint BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, attempt, result)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'checkpoint', NEW.run_id, NEW.attempt,
            NEW.data);
END;
CREATE TRIGGER sim_checkpoint_changed AFTER UPDATE ON run_checkpoint BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, attempt, result)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'checkpoint', NEW.run_id, NEW.attempt,
            NEW.data);
END;
CREATE TRIGGER sim_node_changed AFTER UPDATE ON node WHEN OLD.state <> NEW.state BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, old_state, state, node_lease)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'node', NEW.id, OLD.state, NEW.state,
            OLD.lease_expires_at);
END;
CREATE TRIGGER sim_pool_claimed AFTER UPDATE ON pool WHEN OLD.claims <> NEW.claims BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, result, due_at)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'pool', NEW.id, NEW.reserved_run_id,
            NEW.reserved_until);
END;
CREATE TABLE sim_canary (
    seq INTEGER PRIMARY KEY, vt REAL, id INTEGER, group_id INTEGER, state TEXT, reason TEXT
);
CREATE TRIGGER sim_canary_added AFTER INSERT ON failure_canary BEGIN
    INSERT INTO sim_canary VALUES (sim_seq(), sim_time(), NEW.id, NEW.group_id, NEW.state,
                                   NEW.reason);
END;
CREATE TRIGGER sim_canary_changed AFTER UPDATE ON failure_canary BEGIN
    INSERT INTO sim_canary VALUES (sim_seq(), sim_time(), NEW.id, NEW.group_id, NEW.state,
                                   NEW.reason);
END;
CREATE TRIGGER sim_lease_shortened AFTER UPDATE ON node
WHEN NEW.lease_expires_at < OLD.lease_expires_at BEGIN
    INSERT INTO sim_change (seq, at, vt, what, id, state, node_lease)
    VALUES (sim_seq(), tickwheel_now(), sim_time(), 'lease', NEW.id, NEW.state,
            NEW.lease_expires_at);
END;
"""

_MISCOUNTED = """
SELECT n.id, n.name, n.in_use, n.slots, (
    SELECT count(*) FROM run r WHERE r.state IN ('dispatched', 'running') AND r.node_id = n.id
) AS live FROM node n WHERE n.in_use <> live
"""


class SimDatabase:
    """One file that is used for one simulation after the other: SQL is compiled only once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory  # for everything that a simulation puts on a disk
        self._clock: Callable[[], int] = lambda: 0
        self._offset_ms = 0  # of its clock; somebody or something sets it
        self.latest_ms = 0  # the furthest that its clock ever was
        self.went_back = False  # whether it was ever set back
        self._history: History | None = None
        self._idle_seq = 0
        self.is_down = False
        self.is_slow = False
        url = f"sqlite:///{directory / 'simulation.db'}"
        engine = create_engine(url, connections=1, clock=self.now)

        @event.listens_for(engine, "connect")
        def hurry(connection: sqlite3.Connection, _record: object) -> None:
            # Nothing here has to survive this process.
            connection.execute("PRAGMA journal_mode=MEMORY")
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            connection.create_function("sim_seq", 0, self._next_seq)
            connection.create_function("sim_time", 0, self._virtual_time)

        self.engine = engine
        self._conn = engine.connect()
        with self._conn.begin():
            metadata.create_all(self._conn)
        self._raw: Any = self._conn.connection.driver_connection
        self._raw.executescript(_MEMORY)

    def begin_simulation(self, history: History, clock: Callable[[], int]) -> None:
        """Empty every table, and tell time by this clock from now on."""
        self._history = None
        self.is_down = self.is_slow = False
        self._clock = clock
        self._offset_ms = self.latest_ms = 0
        self.went_back = False
        for table in metadata.tables.values():
            self._raw.execute(f'DELETE FROM "{table.name}"')
        self._raw.execute("DELETE FROM sim_change")
        self._raw.execute("DELETE FROM sim_canary")
        self._history = history

    def now(self) -> int:
        """The database's time, epoch ms."""
        now = self._clock() + self._offset_ms
        self.latest_ms = max(self.latest_ms, now)
        return now

    def latest(self) -> int:
        """The latest that its clock ever was."""
        self.now()
        return self.latest_ms

    def step_clock(self, ms: int) -> None:
        """Set the database's clock forward or back."""
        self.now()
        self._offset_ms += ms
        self.went_back = self.went_back or ms < 0

    def catch_up(self) -> int:
        """Set the clock to where it would be had it never gone back; returns the step in ms."""
        step = max(0, self.latest_ms - self.now())
        self._offset_ms += step
        return step

    def transact(self, work: Callable[..., T], *args: Any, commit: bool, **kwargs: Any) -> T:
        """Do the work in one transaction; commit it, or roll it back as if it had failed."""
        with self._conn.begin() as transaction:
            answer = work(self._conn, *args, **kwargs)
            if not commit:
                transaction.rollback()
        return answer

    def audited(self) -> int:
        """How many entries the audit log has."""
        return int(self._raw.execute("SELECT count(*) FROM audit").fetchone()[0])

    def check_counts(self, who: str) -> None:
        """Every committed state must count the slots of every node exactly (G12)."""
        for _, name, in_use, slots, live in self._raw.execute(_MISCOUNTED):
            assert self._history is not None
            self._history.violation(
                f"G12: after a transaction of {who}, {name} has in_use={in_use} of {slots} slots"
                f" and {live} live runs"
            )

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Rows of a query outside of every transaction, as SQLite gives them."""
        cursor = self._raw.execute(sql, parameters)
        names = [column[0] for column in cursor.description]
        return [_Row(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def close(self) -> None:
        self._conn.close()
        self.engine.dispose()

    def _virtual_time(self) -> float:
        return 0.0 if self._history is None else self._history.now

    def _next_seq(self) -> int:
        if self._history is None:  # between two simulations
            self._idle_seq -= 1
            return self._idle_seq
        return self._history.next_seq()


class _Row(dict[str, Any]):
    """A row whose columns are attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None
