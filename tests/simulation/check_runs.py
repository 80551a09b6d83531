"""Runs: each ends once, as its node said; tries, backoff and routing are as promised."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.simulation.database import SimDatabase
from tests.simulation.disk import SimDisk
from tests.simulation.handlers import Journal, returned_by
from tests.simulation.history import History
from tickwheel_shared.protocol import Result

LIVE = ("dispatched", "running")
BY_RESULT = ("succeeded", "failed", "timed_out", "cancelled")
FINAL = (*BY_RESULT, "lost", "skipped")
# What the history of one run may show, step by step.
LEGAL = {
    "queued": ("queued", "dispatched", *BY_RESULT),
    "dispatched": ("dispatched", "running", "queued", "lost", *BY_RESULT),
    "running": ("running", "queued", "lost", *BY_RESULT),
    "lost": BY_RESULT,
}
SWEPT = "timeout_not_enforced"  # reason of an attempt that an admin ended by itself

# How a handler must have ended for an outcome; one that was stopped before its first step has not.
ENDS = {
    "succeeded": ("returned",),
    "failed": ("raised", "cancelled", "returned"),  # the latter two when its node was shut down
    "timed_out": ("cancelled", "returned", "raised"),
    "cancelled": ("cancelled", "returned", "raised"),
}

Key = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempts:
    """What the ledger says of the attempts of one run that counted."""

    run: Any
    earlier: list[Any]  # rows of run_attempt, in order

    @property
    def was_ended_by_attempt(self) -> bool:
        """Whether the last attempt ended the run; else it ended while it waited."""
        return self.run.state in ("succeeded", "failed", "timed_out", "lost") or (
            self.run.state == "cancelled" and self.run.claim_token is not None
        )

    @property
    def counted(self) -> dict[int, tuple[str, str | None]]:
        """Attempt → how it ended and why."""
        counted = {row.attempt: (row.state, row.reason) for row in self.earlier}
        if self.was_ended_by_attempt:
            counted[self.run.attempt] = (self.run.state, self.run.reason)
        return counted


def check_runs(
    database: SimDatabase, journal: Journal, disks: Sequence[SimDisk], history: History
) -> None:
    """Check every run that there is."""
    ledger = _read(database)
    policies = {
        (row.job_id, row.revision): json.loads(row.config)["retry"]
        for row in database.rows("SELECT job_id, revision, config FROM job_revision")
    }
    safe: dict[Key, Result] = {key: result for disk in disks for key, result in disk.ever.items()}
    may_be_unsafe = any(disk.was_full for disk in disks)
    started = {(start.run, start.attempt) for start in journal.starts}
    _check_moves(database, history)
    _check_starts(journal, ledger, history)
    _check_late_starts(database, journal, history)
    _check_backoff(database, ledger, policies, history)
    known_late = {
        row.id
        for row in database.rows(
            "SELECT id FROM sim_change WHERE what = 'run' AND old_state = 'lost'"
        )
    }
    for attempts in ledger.values():
        policy = policies[attempts.run.job_id, attempts.run.job_revision]
        _check_tries(attempts, policy, known_late, history)
        _check_outcomes(attempts, journal, safe, started, history)
        if not may_be_unsafe:
            _check_safety(attempts, safe, history)
    for (run_id, attempt), result in safe.items():
        if run_id not in ledger or attempt not in ledger[run_id].counted:
            history.violation(f"G5: the result {result.outcome} of {run_id}/{attempt} is lost")


def _read(database: SimDatabase) -> dict[int, _Attempts]:
    earlier: defaultdict[int, list[Any]] = defaultdict(list)
    for row in database.rows("SELECT * FROM run_attempt ORDER BY run_id, attempt"):
        earlier[row.run_id].append(row)
    return {
        row.id: _Attempts(run=row, earlier=earlier[row.id])
        for row in database.rows("SELECT * FROM run ORDER BY id")
    }


def _check_moves(database: SimDatabase, history: History) -> None:
    for row in database.rows("SELECT * FROM sim_change WHERE what = 'run' ORDER BY seq"):
        what = f"run {row.id} went from {row.old_state} to {row.state}"
        if row.old_state in FINAL and row.state == row.old_state:
            history.violation(f"G4: run {row.id} changed after it had ended as {row.state}")
        elif row.state not in LEGAL.get(row.old_state, ()):
            history.violation(f"G4: {what}")
        is_claim = row.old_state == "queued" and row.state == "dispatched"
        if row.attempt != row.old_attempt + is_claim:
            history.violation(f"G6: {what} and from attempt {row.old_attempt} to {row.attempt}")
        if not is_claim:
            continue
        if row.at < row.due_at:
            history.violation(f"run {row.id} was claimed {row.due_at - row.at} ms too early")
        if row.node_state != "live" or row.node_lease <= row.at:
            history.violation(f"G12: run {row.id} was given to node {row.node_id}, which is dead")
        if row.cancel_at is not None:
            history.violation(f"G14: run {row.id} was claimed after it had been cancelled")


def _check_starts(journal: Journal, ledger: Mapping[int, _Attempts], history: History) -> None:
    for (run_id, attempt), count in Counter(
        (start.run, start.attempt) for start in journal.starts
    ).items():
        if count > 1:
            history.violation(f"G2: attempt {run_id}/{attempt} started {count} times")
        if run_id not in ledger:
            history.violation(f"G4: run {run_id} started and is not in the ledger")
        elif attempt not in ledger[run_id].counted:
            history.violation(f"G7: attempt {run_id}/{attempt} started and is no try")
    for start in journal.starts:
        attempts = ledger.get(start.run)
        if attempts is not None and start.latest_at < attempts.run.scheduled_at:
            history.violation(f"run {start.run} started before its instant")


def _check_late_starts(database: SimDatabase, journal: Journal, history: History) -> None:
    """A node whose lease is over starts nothing that it was sent before (PROTOCOL.md, 3).

    Not so when the lease was shortened because every admin saw its socket close: a node that has
    not seen it cannot know.
    """
    shortened = {
        (row.id, row.node_lease)
        for row in database.rows("SELECT * FROM sim_change WHERE what = 'lease'")
    }
    lost_at = {
        (row.id, row.attempt): row.vt
        for row in database.rows(
            "SELECT * FROM sim_change WHERE what = 'run' AND old_state IN ('dispatched', 'running')"
            " AND (state = 'lost' OR reason = 'retry_after_lost')"
        )
        if (row.node_id, row.node_lease) not in shortened
    }
    for start in journal.starts:
        at = lost_at.get((start.run, start.attempt))
        if at is not None and start.vt > at:
            history.violation(
                f"attempt {start.run}/{start.attempt} started {start.vt - at:.3f} s after"
                " it was lost"
            )


def _check_backoff(
    database: SimDatabase,
    ledger: Mapping[int, _Attempts],
    policies: Mapping[Key, Mapping[str, Any]],
    history: History,
) -> None:
    for claim in database.rows(
        "SELECT * FROM sim_change WHERE what = 'run' AND old_state = 'queued'"
        " AND state = 'dispatched' ORDER BY seq"
    ):
        attempts = ledger.get(claim.id)
        before = (
            [row for row in attempts.earlier if row.attempt < claim.attempt] if attempts else []
        )
        if not attempts or not before:
            continue
        policy = policies[attempts.run.job_id, attempts.run.job_revision]
        delay = min(
            policy["delay_ms"] * policy["factor"] ** (len(before) - 1), policy["max_delay_ms"]
        )
        if claim.at < before[-1].ended_at + int(delay):
            history.violation(f"G7: attempt {claim.id}/{claim.attempt} came before its backoff")


def _check_tries(
    attempts: _Attempts, policy: Mapping[str, Any], known_late: set[int], history: History
) -> None:
    run = attempts.run
    name = f"run {run.id} ({run.state})"
    if run.state not in FINAL:
        return  # said to be stuck already
    if run.tries != len(attempts.counted):
        history.violation(f"G7: {name} counts {run.tries} tries; they were {attempts.counted}")
    most = 1 + policy["retries"]
    if run.tries > most:
        history.violation(f"G7: {name} was tried {run.tries} times of {most}")
    may_retry = run.state in ("failed", "timed_out") or (run.state == "lost" and policy["on_lost"])
    if run.id in known_late:
        may_retry = False  # it had ended as lost, and a run ends once
    if may_retry and run.tries < most and run.cancel_requested_at is None:
        history.violation(f"G7: {name} was tried only {run.tries} times of {most}")
    for row in attempts.earlier:
        if row.state not in ("failed", "timed_out", "lost"):
            history.violation(f"G7: {name} was tried again after it was {row.state}")
        if row.state == "lost" and not policy["on_lost"]:
            history.violation(f"G7: {name} was tried again after it was lost")


def _check_outcomes(
    attempts: _Attempts,
    journal: Journal,
    safe: Mapping[Key, Result],
    started: set[Key],
    history: History,
) -> None:
    run = attempts.run
    for attempt, (state, reason) in attempts.counted.items():
        key = (run.id, attempt)
        result, end = safe.get(key), journal.ends.get(key)
        if state == "lost":
            if result is not None and attempt == run.attempt and run.state == "lost":
                history.violation(f"G5: {key} is lost; its node has {result.outcome} on disk")
            continue
        if state == "timed_out" and reason == SWEPT:
            continue
        was_stopped_first = key not in started and state != "succeeded"
        if end not in ENDS[state] and not was_stopped_first:
            history.violation(f"G4: {key} is {state}; its handler has {end or 'not ended'}")
        if result is not None and result.outcome != state:
            history.violation(f"G4: {key} is {state}; its node says {result.outcome}")
        if state == "succeeded" and json.loads(run.result or "null") != returned_by(*key):
            history.violation(f"G4: {key} has the result {run.result}")


def _check_safety(attempts: _Attempts, safe: Mapping[Key, Result], history: History) -> None:
    """What was recorded as a node's word was safe on its disk before it was sent."""
    for attempt, (state, reason) in attempts.counted.items():
        key = (attempts.run.id, attempt)
        if state != "lost" and reason != SWEPT and key not in safe:
            history.violation(f"G5: the result {state} of {key} was sent and never on a disk")
