"""The verdict over one simulation: promises against what happened.

Knows only the ledger (with the memory that SQL triggers keep of it), what handlers wrote into the
journal, what nodes had safe on disk, and the promises of the architecture. It shares no rule with
the engine: instants, policies and legal moves are written here a second time, on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.checks.blocking import check_blocking
from tests.simulation.checks.events import check_events
from tests.simulation.checks.families import check_children, check_fires_of_shards
from tests.simulation.checks.fires import check_fires
from tests.simulation.checks.fixed_delays import check_fixed_delays
from tests.simulation.checks.handoff import check_checkpoints, check_states
from tests.simulation.checks.ledger import Ledger
from tests.simulation.checks.nodes import check_nodes
from tests.simulation.checks.routing import check_routing
from tests.simulation.checks.runs import check_runs
from tests.simulation.checks.starts import check_pauses, check_start_by
from tests.simulation.checks.workflows import check_workflows
from tests.simulation.checks.xxl_gaps import Gaps
from tests.simulation.checks.xxl_job import check_xxl_job
from tests.simulation.database import SimDatabase
from tests.simulation.faults.troubles import Troubles
from tests.simulation.handlers import Journal
from tests.simulation.history import Event, History
from tests.simulation.node_host import NodeHost
from tests.simulation.operators import Request
from tests.simulation.workflows.people import WorkflowPeople
from tests.simulation.xxl_executors.world import XxlWorld


def check(
    database: SimDatabase,
    journal: Journal,
    nodes: Sequence[NodeHost],
    admins: Sequence[str],
    troubles: Troubles,
    requests: Sequence[Request],
    history: History,
    xxl_job: XxlWorld | None = None,
    people: WorkflowPeople | None = None,
) -> None:
    """Note every broken promise in the history."""
    _remember_changes(database, history)
    ledger = Ledger(database)
    processes = {process.name: process for node in nodes for process in node.processes.values()}
    if xxl_job is not None:
        check_xxl_job(database, ledger, journal, xxl_job, admins, troubles, history)
        processes |= {each.name: each for host in xxl_job.hosts for each in host.processes}
    check_events(database, ledger, history)
    check_fires(database, ledger, history)
    gaps = Gaps(ledger, xxl_job)
    check_blocking(ledger, journal, processes, history, gaps)
    check_fires_of_shards(ledger, history)
    check_children(ledger, history)
    check_workflows(ledger, journal, people, history)
    check_fixed_delays(ledger, history)
    check_pauses(ledger, history)
    check_start_by(ledger, history)
    check_nodes(database, nodes, admins, troubles, history)
    check_routing(database, ledger, history)
    check_states(database, ledger, journal, history)
    check_checkpoints(database, ledger, journal, history)
    check_runs(database, journal, [node.disk for node in nodes], history, others=gaps.runs)
    _check_requests(database, requests, history)
    _check_logs(database, history)
    for row in database.rows("SELECT id, name, in_use FROM node WHERE in_use <> 0"):
        history.violation(f"G12: {row.name} ({row.id}) is idle and has in_use={row.in_use}")


def _remember_changes(database: SimDatabase, history: History) -> None:
    """Put the ledger's changes into the history, where they belong in time."""
    for row in database.rows("SELECT * FROM sim_change ORDER BY seq"):
        told = " ".join(
            f"{key}={value}"
            for key, value in row.items()
            if value is not None and key not in ("seq", "at", "vt", "what", "id", "job_id")
        )
        what = f"{row.what} {row.id} of job {row.job_id}: {told}"
        history.events.append(Event(row.seq, row.vt, "ledger", what))


def _check_requests(database: SimDatabase, requests: Sequence[Request], history: History) -> None:
    for request in requests:
        rows = database.rows(
            "SELECT id FROM run WHERE job_id = ? AND request_key = ?",
            (request.job_id, request.key),
        )
        if len(rows) > 1:
            history.violation(f"G2: request {request.key} became {len(rows)} runs")
        stored = {row.id for row in rows}
        if not set(request.answers) <= stored:
            history.violation(
                f"G1: request {request.key} was answered {request.answers}, stored are {stored}"
            )


def _check_logs(database: SimDatabase, history: History) -> None:
    """No chunk of a log overlaps another one."""
    following: dict[tuple[int, int], int] = {}
    for row in database.rows("SELECT * FROM run_log ORDER BY run_id, attempt, first_seq"):
        key = (row.run_id, row.attempt)
        if row.first_seq < following.get(key, 1):
            history.violation(f"log of {key} has line {row.first_seq} twice")
        following[key] = row.first_seq + row.line_count
