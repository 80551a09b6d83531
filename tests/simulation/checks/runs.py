"""Runs: each ends once, as its node said; tries, backoff and routing are as promised."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.simulation.database import SimDatabase
from tests.simulation.disk import SimDisk
from tests.simulation.handlers import POISON, Journal, Start, returned_by
from tests.simulation.history import History
from tickwheel_shared.protocol import Result

LIVE = ("dispatched", "running")
PARKED = 2**53 - 1  # waits for an earlier run of its job, not for an instant
BY_RESULT = ("succeeded", "failed", "timed_out", "cancelled", "skipped")
FINAL = (*BY_RESULT, "lost")
# What the history of one run may show, step by step.
LEGAL = {
    # Lost, when its last attempt was and its next one could be nowhere.
    "queued": ("queued", "dispatched", "running", "lost", *BY_RESULT),
    "dispatched": ("dispatched", "running", "queued", "lost", *BY_RESULT),
    "running": ("running", "queued", "lost", *BY_RESULT),
    "lost": BY_RESULT,
}
# Reasons of attempts that an admin, or an operator, ended without the node's word.
UNCONFIRMED = ("timeout_not_enforced", "released")

# How a handler must have ended for an outcome; one that was stopped before its first step has not.
ENDS = {
    "succeeded": ("returned",),
    # "cancelled" and "returned" when its node was shut down
    "failed": ("raised", "retry", "fail", "cancelled", "returned"),
    "timed_out": ("cancelled", "returned", "raised", "retry", "fail", "skip"),
    "cancelled": ("cancelled", "returned", "raised", "retry", "fail", "skip"),
    "skipped": ("skip",),
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
        if self.run.reason == "node_gone":
            return False
        return self.run.state in ("succeeded", "failed", "timed_out", "lost") or (
            self.run.state in ("cancelled", "skipped") and self.run.claim_token is not None
        )

    @property
    def counted(self) -> dict[int, tuple[str, str | None]]:
        """Attempt → how it ended and why."""
        counted = {row.attempt: (row.state, row.reason) for row in self.earlier}
        if self.was_ended_by_attempt:
            counted[self.run.attempt] = (self.run.state, self.run.reason)
        return counted


def check_runs(
    database: SimDatabase,
    journal: Journal,
    disks: Sequence[SimDisk],
    history: History,
    *,
    others: Collection[int] = (),
) -> None:
    """Check every run that there is.

    Args:
        others: runs that no node of the SDK carried out; what only its protocol promises is not
            asked of them.
    """
    ledger = _read(database)
    configs = {
        (row.job_id, row.revision): json.loads(row.config)
        for row in database.rows("SELECT job_id, revision, config FROM job_revision")
    }
    policies = {key: config["retry"] for key, config in configs.items()}
    safe: dict[Key, Result] = {key: result for disk in disks for key, result in disk.ever.items()}
    may_be_unsafe = any(disk.was_full for disk in disks)
    starts = [start for start in journal.starts if start.run not in others]
    started = {(start.run, start.attempt) for start in starts}
    _check_moves(database, history)
    _check_starts(starts, ledger, history)
    _check_late_starts(database, starts, ledger, configs, history)
    _check_backoff(database, ledger, policies, journal, history)
    known_late = {
        row.id
        for row in database.rows(
            "SELECT id FROM sim_change WHERE what = 'run' AND old_state = 'lost'"
        )
    }
    for attempts in ledger.values():
        policy = policies[attempts.run.job_id, attempts.run.job_revision]
        _check_tries(attempts, policy, known_late, journal, history)
        if attempts.run.id in others:
            continue
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
        for row in database.rows("SELECT * FROM run WHERE shard_index >= 0 ORDER BY id")
    }


def _check_moves(database: SimDatabase, history: History) -> None:
    for row in database.rows("SELECT * FROM sim_change WHERE what = 'run' ORDER BY seq"):
        what = f"run {row.id} went from {row.old_state} to {row.state}"
        if row.old_state in FINAL and row.state == row.old_state:
            history.violation(f"G4: run {row.id} changed after it had ended as {row.state}")
        elif row.state not in LEGAL.get(row.old_state, ()):
            history.violation(f"G4: {what}")
        if row.state != "queued" and row.new_due_at == PARKED:
            history.violation(f"{what} and is due when its turn comes")
        is_claim = row.old_state == "queued" and row.state in ("dispatched", "running")
        if row.attempt != row.old_attempt + is_claim:
            history.violation(f"G6: {what} and from attempt {row.old_attempt} to {row.attempt}")
        if not is_claim:
            continue
        if row.at < row.due_at != PARKED:
            history.violation(f"run {row.id} was claimed {row.due_at - row.at} ms too early")
        if row.state == "running":
            continue  # a whole fire, which is cut into shards
        if row.node_is_over:
            history.violation(f"G12: run {row.id} was given to node {row.node_id}, which is full")
        if row.node_state != "live" or row.node_lease <= row.at:
            history.violation(f"G12: run {row.id} was given to node {row.node_id}, which is dead")
        if row.cancel_at is not None:
            history.violation(f"G14: run {row.id} was claimed after it had been cancelled")


def _check_starts(
    starts: Sequence[Start], ledger: Mapping[int, _Attempts], history: History
) -> None:
    for (run_id, attempt), count in Counter((start.run, start.attempt) for start in starts).items():
        if count > 1:
            history.violation(f"G2: attempt {run_id}/{attempt} started {count} times")
        if run_id not in ledger:
            history.violation(f"G4: run {run_id} started and is not in the ledger")
        elif attempt not in ledger[run_id].counted:
            history.violation(f"G7: attempt {run_id}/{attempt} started and is no try")
    for start in starts:
        attempts = ledger.get(start.run)
        if attempts is not None and start.latest_at < attempts.run.scheduled_at:
            history.violation(f"run {start.run} started before its instant")


def _check_late_starts(
    database: SimDatabase,
    starts: Sequence[Start],
    ledger: Mapping[int, _Attempts],
    configs: Mapping[Key, Mapping[str, Any]],
    history: History,
) -> None:
    """A node whose lease is over starts nothing that it was sent before (PROTOCOL.md, 3).

    Not so when the lease was shortened because every admin saw its socket close: a node that has
    not seen it cannot know. Beside what must stop when it is cut off, nothing starts even then.
    """

    def must_stop(row: Any) -> bool:
        attempts = ledger.get(row.id)
        if attempts is None:
            return False
        rules = configs[attempts.run.job_id, attempts.run.job_revision]["blocking"]
        return rules["strategy"] != "parallel" and rules["when_cut_off"] == "stop"

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
        if (row.node_id, row.node_lease) not in shortened or must_stop(row)
    }
    for start in starts:
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
    journal: Journal,
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
        asked = _asked_for(before[-1], journal)
        if asked is not None:
            delay = asked * 1000
        # A run whose backoff had passed may wait in line while the clock is set back.
        if claim.at < before[-1].ended_at + int(delay) and not database.went_back:
            history.violation(f"G7: attempt {claim.id}/{claim.attempt} came before its backoff")


def _asked_for(row: Any, journal: Journal) -> float | None:
    """After how many seconds the handler of a failed attempt asked for another one."""
    key = (row.run_id, row.attempt)
    return journal.asked.get(key) if row.state == "failed" else None


def _may_retry(
    run: Any, state: str, attempt: int, policy: Mapping[str, Any], journal: Journal
) -> bool:
    """Whether another try follows after such an end, if there are tries left."""
    key = (run.id, attempt)
    if state == "lost":
        return bool(policy["on_lost"])
    if state == "failed" and journal.ends.get(key) == "fail":
        return False
    if state == "failed" and journal.asked.get(key) is not None:
        return True
    return state in policy["outcomes"]


def _check_tries(
    attempts: _Attempts,
    policy: Mapping[str, Any],
    known_late: set[int],
    journal: Journal,
    history: History,
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
    may_retry = attempts.was_ended_by_attempt and _may_retry(
        run, run.state, run.attempt, policy, journal
    )
    if run.id in known_late or run.reason == "released":
        may_retry = False  # it had ended as lost, and a run ends once; or somebody gave it up
    was_wanted = run.cancel_requested_at is None or run.cancel_reason == "timeout"
    if may_retry and run.tries < most and was_wanted:
        history.violation(f"G7: {name} was tried only {run.tries} times of {most}")
    for row in attempts.earlier:
        if not _may_retry(run, row.state, row.attempt, policy, journal):
            history.violation(f"G7: {name} was tried again after it was {row.state}")


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
            outcome = None if result is None else result.outcome
            # What was stopped because it was lost only confirms that.
            told = outcome not in (None, "cut_off") and (
                outcome != "cancelled" or run.cancel_requested_at is not None
            )
            if told and attempt == run.attempt and run.state == "lost":
                history.violation(f"G5: {key} is lost; its node has {outcome} on disk")
            continue
        if reason in UNCONFIRMED:
            continue
        was_stopped_first = key not in started and state != "succeeded"
        if end not in ENDS[state] and not was_stopped_first:
            history.violation(f"G4: {key} is {state}; its handler has {end or 'not ended'}")
        if result is not None and POISON.encode() in bytes(result.result):
            if state != "failed":
                history.violation(f"G4: {key} is {state}; its result cannot be stored")
            continue
        if result is not None and result.outcome != state:
            history.violation(f"G4: {key} is {state}; its node says {result.outcome}")
        if state == "succeeded" and json.loads(run.result or "null") != returned_by(*key):
            history.violation(f"G4: {key} has the result {run.result}")


def _check_safety(attempts: _Attempts, safe: Mapping[Key, Result], history: History) -> None:
    """What was recorded as a node's word was safe on its disk before it was sent."""
    for attempt, (state, reason) in attempts.counted.items():
        key = (attempts.run.id, attempt)
        if state != "lost" and reason not in UNCONFIRMED and key not in safe:
            history.violation(f"G5: the result {state} of {key} was sent and never on a disk")
