"""What is promised for executors of XXL-JOB's protocol (xxl-job.md, §3), and nothing beyond it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from tests.simulation.checks.ledger import FINAL, LIVE, Ledger
from tests.simulation.checks.xxl_gaps import (
    KILLED_UNWANTED,
    LOST_WHILE_IT_RUNS,
    STARTED_TWICE,
    STARTED_UNSEEN,
    Gaps,
)
from tests.simulation.database import SimDatabase
from tests.simulation.faults.troubles import Troubles
from tests.simulation.handlers import Journal
from tests.simulation.history import History
from tests.simulation.scheduler import Process
from tests.simulation.xxl_executors.truth import Key, Mishap, key_of
from tests.simulation.xxl_executors.world import XxlWorld

LOOKED_BACK_SECONDS = 35.0  # a lease, and the time in which somebody else takes a node over
MOST_BUSY = 25  # refusals of one run, while two admins may serve its node
BY_NOBODY = ("timeout_not_enforced", "released")
CODES = {200: ("succeeded",), 500: ("failed", "cancelled", "timed_out"), 502: ("timed_out",)}
ENDS = {
    "succeeded": ("returned",),
    "failed": ("raised", "cancelled", "returned", "timed out"),
    "timed_out": ("timed out", "cancelled", "returned", "raised"),
    "cancelled": ("cancelled", "returned", "raised", "timed out"),
}


def check_xxl_job(
    database: SimDatabase,
    ledger: Ledger,
    journal: Journal,
    world: XxlWorld,
    admins: Sequence[str],
    troubles: Troubles,
    history: History,
) -> None:
    """Check every run of these executors, and every death of their nodes."""
    gaps = Gaps(ledger, world)
    attempts = _attempts(database, ledger, gaps)
    _check_starts(journal, attempts, ledger, gaps, history)
    _check_handed_back(journal, ledger, gaps, history)
    _check_ends(journal, attempts, ledger, world, gaps, history)
    _check_reports(database, attempts, ledger, world, gaps, history)
    _check_kills(ledger, world, gaps, history)
    _check_side_by_side(ledger, world, gaps, history)
    _check_losses(journal, ledger, world, gaps, history)
    _check_logs(database, ledger, world, gaps, history)
    _check_deaths(database, world, admins, troubles, history)


def _attempts(database: SimDatabase, ledger: Ledger, gaps: Gaps) -> dict[Key, Any]:
    """Every attempt that counted: how it ended, why, and what came of it late."""
    found: dict[Key, Any] = {
        (row.run_id, row.attempt): (row.state, row.reason, row.late_outcome)
        for row in database.rows("SELECT * FROM run_attempt ORDER BY run_id, attempt")
        if row.run_id in gaps.runs
    }
    for run_id in gaps.runs:
        run = ledger.runs[run_id]
        by_attempt = run.claim_token is not None and run.reason != "node_gone"
        if run.state in FINAL and run.state != "skipped" and by_attempt:
            found[run.id, run.attempt] = (run.state, run.reason, None)
    return found


def _check_starts(
    journal: Journal,
    attempts: Mapping[Key, Any],
    ledger: Ledger,
    gaps: Gaps,
    history: History,
) -> None:
    starts = [start for start in journal.starts if start.run in gaps.runs]
    for key, count in Counter((start.run, start.attempt) for start in starts).items():
        name = f"{key[0]}/{key[1]}"
        if count > 1 and not gaps.has(key, STARTED_TWICE):
            history.violation(f"G2: attempt {name} was started {count} times by executors")
        if key not in attempts and not gaps.has(key, {*STARTED_UNSEEN, *STARTED_TWICE}):
            history.violation(f"G7: attempt {name} was started by an executor and is no try")
    for start in starts:
        if start.latest_at < ledger.runs[start.run].scheduled_at:
            history.violation(f"run {start.run} was started by an executor before its instant")


def _check_handed_back(journal: Journal, ledger: Ledger, gaps: Gaps, history: History) -> None:
    """What is queued again at no cost has not begun, and does not begin any more."""
    started = {(start.run, start.attempt): start for start in journal.starts}
    for row in ledger.changes:
        is_back = row.what == "run" and (row.reason or "").startswith("refused_")
        if row.id not in gaps.runs or not is_back or row.old_state not in LIVE:
            continue
        start = started.get((row.id, row.attempt))
        if start is None or gaps.has((row.id, row.attempt), {*STARTED_UNSEEN, *STARTED_TWICE}):
            continue
        when = "had begun" if start.seq < row.seq else "began later"
        history.violation(
            f"G2: attempt {row.id}/{row.attempt} was queued again as {row.reason} and {when}"
        )


def _check_ends(
    journal: Journal,
    attempts: Mapping[Key, Any],
    ledger: Ledger,
    world: XxlWorld,
    gaps: Gaps,
    history: History,
) -> None:
    """A run ends as the handler of that very attempt did (G4, G6)."""
    dead = {each.name for host in world.hosts for each in host.processes if each.died_at}
    started = {(start.run, start.attempt): start for start in journal.starts}
    for key, (state, reason, _) in attempts.items():
        run = ledger.runs[key[0]]
        if state == "lost" or reason in BY_NOBODY:
            continue
        end = journal.ends.get(key)
        name = f"{key[0]}/{key[1]}"
        if key not in started and state in ("cancelled", "timed_out", "failed"):
            continue  # killed before its first step, or refused for good
        # What was killed and is not reported counts as ended after a while.
        is_silent = state == "cancelled" and (
            gaps.has(key, LOST_WHILE_IT_RUNS) or started[key].process in dead
        )
        if end not in ENDS.get(state, ()) and not is_silent:
            history.violation(f"G4: {name} is {state}; its handler has {end or 'not ended'}")
        if state == "succeeded" and json.loads(run.result or "null") != name:
            history.violation(f"G4: {name} has the result {run.result}")


def _check_reports(
    database: SimDatabase,
    attempts: Mapping[Key, Any],
    ledger: Ledger,
    world: XxlWorld,
    gaps: Gaps,
    history: History,
) -> None:
    """What was answered with code 200 is in the ledger (G5)."""
    for key, code in world.truth.delivered.items():
        name = f"the report {code} of {key[0]}/{key[1]}"
        if key[0] not in ledger.runs:
            history.violation(f"G5: {name} is of a run that is not in the ledger")
            continue
        if key not in attempts:
            if not gaps.has(key, {*STARTED_UNSEEN, *STARTED_TWICE}):
                history.violation(f"G5: {name} was taken, and there is no such try")
            continue
        state, reason, late = attempts[key]
        if state in CODES[code] or late in CODES[code] or reason in BY_NOBODY:
            continue
        run = ledger.runs[key[0]]
        # Given up before it came: what ended it first stands.
        if state == "cancelled" and run.cancel_requested_at is not None:
            continue
        history.violation(f"G5: {name} was taken; the ledger says {state} ({reason})")


def _check_kills(ledger: Ledger, world: XxlWorld, gaps: Gaps, history: History) -> None:
    """Only what was to end, or counts no more, is killed (G14)."""
    wanted: defaultdict[int, list[Any]] = defaultdict(list)
    for row in ledger.changes:
        if row.what == "run":
            wanted[row.id].append(row)
    cancelled = {row.id: row.cancel_requested_at is not None for row in ledger.runs.values()}
    for kill in world.truth.kills:
        if kill.run not in ledger.runs or kill.by_its_process:
            continue
        before = [row for row in wanted[kill.run] if row.seq < kill.seq]
        last = before[-1] if before else None
        is_current = last is not None and last.attempt == kill.attempt and last.state in LIVE
        if not is_current or cancelled[kill.run]:
            continue
        was_cancelled = any(
            row.cancel_at is not None and row.attempt == kill.attempt for row in wanted[kill.run]
        )
        if not was_cancelled and not gaps.has(
            (kill.run, kill.attempt), {*STARTED_TWICE, *KILLED_UNWANTED}
        ):
            history.violation(
                f"G14: attempt {kill.run}/{kill.attempt} was killed, and nobody wanted that"
            )


def _check_side_by_side(ledger: Ledger, world: XxlWorld, gaps: Gaps, history: History) -> None:
    """Runs of a parallel job do not stand in each other's way."""
    for run_id, count in world.truth.busy.items():
        run = ledger.runs.get(run_id)
        if run is None or ledger.config(run)["blocking"]["strategy"] != "parallel":
            continue
        if count > MOST_BUSY:
            history.violation(f"run {run_id} found its executor busy {count} times")


def _check_logs(
    database: SimDatabase, ledger: Ledger, world: XxlWorld, gaps: Gaps, history: History
) -> None:
    """What is stored of a log has no hole, and is all of it once it counts as read."""
    expected = {(row.run_id, row.attempt) for row in database.rows("SELECT * FROM xxl_log")}
    stored: defaultdict[Key, int] = defaultdict(int)
    for row in database.rows("SELECT * FROM run_log ORDER BY run_id, attempt, first_seq"):
        key = (row.run_id, row.attempt)
        if key[0] in gaps.runs and row.first_seq > stored[key] + 1:
            history.violation(f"the log of {key[0]}/{key[1]} lacks line {stored[key] + 1}")
        stored[key] = row.first_seq + row.line_count - 1
    at_executors = {
        key_of(log_id): len(lines) for h in world.hosts for log_id, lines in h.logs.items()
    }
    for run_id in gaps.runs:
        run = ledger.runs[run_id]
        key = (run_id, run.attempt)
        mishaps = (Mishap.LOG_DENIED, Mishap.DISK_LOST, Mishap.REPEATED)
        if run.state != "succeeded" or key in expected or gaps.has(key, mishaps):
            continue
        if stored[key] < at_executors.get(key, 0):
            history.violation(
                f"the log of run {run_id} has {at_executors[key]} lines; {stored[key]} are stored"
            )


def _check_losses(
    journal: Journal, ledger: Ledger, world: XxlWorld, gaps: Gaps, history: History
) -> None:
    """Nothing is taken for lost that its process runs, while its node lives (no false loss)."""
    begun = {(start.run, start.attempt): start for start in journal.starts}
    processes = {each.name: each for host in world.hosts for each in host.processes}
    for row in ledger.changes:
        is_loss = row.what == "run" and (row.state == "lost" or row.reason == "retry_after_lost")
        if row.id not in gaps.runs or not is_loss or row.old_state not in LIVE:
            continue
        key = (row.id, row.attempt)
        start = begun.get(key)
        if row.node_state != "live" or start is None or gaps.has(key, LOST_WHILE_IT_RUNS):
            continue
        if _runs_at(processes[start.process], journal.ended_at.get(key), row.vt):
            history.violation(f"G7: attempt {key[0]}/{key[1]} was taken for lost while it ran")


def _runs_at(process: Process, ended_at: float | None, at: float) -> bool:
    is_alive = process.died_at is None or process.died_at > at
    return is_alive and (ended_at is None or ended_at > at)


def _check_deaths(
    database: SimDatabase,
    world: XxlWorld,
    admins: Sequence[str],
    troubles: Troubles,
    history: History,
) -> None:
    """No node dies with the admin that served it: another one takes it over in time (G10)."""
    hosts = {host.address[:100]: host for host in world.hosts}
    nodes = {row.id: row for row in database.rows("SELECT id, address FROM node ORDER BY id")}
    newest = {row.address: row.id for row in nodes.values()}  # those before it may die at any time
    for row in database.rows(
        "SELECT * FROM sim_change WHERE what = 'node' AND state = 'dead' ORDER BY seq"
    ):
        host = hosts.get(nodes[row.id].address)
        since = row.vt - LOOKED_BACK_SECONDS
        if host is None or len(admins) < 2 or not troubles.node_was_well(host.name, since, row.vt):
            continue
        well = [name for name in admins if troubles.way_was_well(host.name, name, since, row.vt)]
        if len(well) >= len(admins) - 1 and row.id == newest[host.address]:
            history.violation(
                f"G10: {host.name} was taken for dead at {row.vt:.3f} s; {' '.join(well)} were well"
            )
