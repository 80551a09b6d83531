"""What is true of backfills at the end of a simulation.

It shares no rule with the engine: it computes the instants of each backfill by itself, and knows
the ledger and its memory of when each run was written.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from tests.simulation.backfills.fillers import Fillers
from tests.simulation.checks.instants import Instants
from tests.simulation.database import SimDatabase
from tests.simulation.history import History
from tickwheel_admin.domain.triggers.trigger_json import spec_from_json

VOID = ("skipped", "cancelled")


def unfinished(database: SimDatabase) -> list[str]:
    """What is still to be run."""
    rows = database.rows(
        "SELECT id, state, total, written, existing, cursor_at FROM backfill"
        " WHERE ended_at IS NULL ORDER BY id"
    )
    return [f"backfill {dict(row)}" for row in rows]


def check_backfills(database: SimDatabase, fillers: Fillers, history: History) -> None:
    """Every instant once, whoever asked for it and whoever died; nothing after a cancel."""
    noted: defaultdict[int, list[Any]] = defaultdict(list)
    for row in database.rows("SELECT * FROM backfill_run ORDER BY at"):
        noted[row.backfill_id].append(row)
    runs: defaultdict[int, list[Any]] = defaultdict(list)
    for row in database.rows("SELECT * FROM run WHERE request_key LIKE 'backfill:%'"):
        runs[int(row.request_key.split(":")[1])].append(row)
    for row in database.rows("SELECT * FROM backfill ORDER BY id"):
        _check_one(row, noted[row.id], runs[row.id], history)
    _check_instants_once(database, runs, history)
    _check_cancels(database, fillers, history)
    for (job_id, key), answers in fillers.answers.items():
        if len(set(answers)) > 1:
            history.violation(f"G2: backfills {answers} of job {job_id} have one key: {key}")


def _check_one(backfill: Any, noted: Sequence[Any], runs: Sequence[Any], history: History) -> None:
    spec = spec_from_json(backfill.spec)
    schedule = Instants(spec, created_at=backfill.saved_at, calendar=None)
    instants = schedule.between(backfill.from_at - 1, backfill.to_at - 1)
    done = [row.at for row in noted]
    if backfill.state == "done" and done != sorted(instants):
        missing, strange = set(instants) - set(done), set(done) - set(instants)
        history.violation(
            f"G1: backfill {backfill.id} lacks the instants {sorted(missing)}, and has"
            f" {sorted(strange)}"
        )
    if not set(done) <= set(instants):
        history.violation(f"G2: backfill {backfill.id} ran what is no instant of its trigger")
    own = {row.at: row.run_id for row in noted if row.outcome != "existing"}
    written = Counter(row.nominal_at for row in runs)
    if written != Counter(list(own)):
        history.violation(
            f"G2: backfill {backfill.id} notes runs for {sorted(own)}, the ledger has them for"
            f" {sorted(written.elements())}"
        )
    states = {row.id: row.state for row in runs}
    for row in noted:
        # What was lost may have ended since.
        if row.outcome not in ("existing", "lost", states.get(row.run_id)):
            history.violation(
                f"G4: backfill {backfill.id} notes {row.outcome} of run {row.run_id}, which is"
                f" {states.get(row.run_id)}"
            )
    counted = Counter(row.outcome for row in noted)
    for outcome in ("existing", "succeeded", "failed", "timed_out", "lost", "cancelled", "skipped"):
        if counted[outcome] != backfill[outcome]:
            history.violation(
                f"G4: backfill {backfill.id} counts {backfill[outcome]} {outcome}, notes"
                f" {counted[outcome]}"
            )


def _check_instants_once(
    database: SimDatabase, runs: dict[int, list[Any]], history: History
) -> None:
    """No instant of a trigger is worked for twice: by backfills, or by one and a fire."""
    triggers = {
        row.id: row.trigger_id for row in database.rows("SELECT id, trigger_id FROM backfill")
    }
    worked: Counter[tuple[int, int]] = Counter()
    for backfill_id, own in runs.items():
        worked.update(
            (triggers[backfill_id], row.nominal_at) for row in own if row.state not in VOID
        )
    for row in database.rows(
        "SELECT trigger_id, scheduled_at, state FROM run"
        " WHERE trigger_id IS NOT NULL AND fire_id IS NULL"
    ):
        if row.state not in VOID and (row.trigger_id, row.scheduled_at) in worked:
            worked[row.trigger_id, row.scheduled_at] += 1
    for (trigger_id, at), count in sorted(worked.items()):
        if count > 1:
            history.violation(
                f"G2: instant {at} of trigger {trigger_id} was worked for {count} times"
            )


def _check_cancels(database: SimDatabase, fillers: Fillers, history: History) -> None:
    added = {
        row.id: row.seq
        for row in database.rows("SELECT id, seq FROM sim_change WHERE what = 'run+'")
    }
    for row in database.rows(
        "SELECT run_id, backfill_id FROM backfill_run WHERE outcome <> 'existing'"
    ):
        cancelled = fillers.cancelled_by.get(row.backfill_id)
        if cancelled is not None and added.get(row.run_id, 0) > cancelled:
            history.violation(
                f"G14: run {row.run_id} of backfill {row.backfill_id} was written after its cancel"
            )
