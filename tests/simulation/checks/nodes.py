"""Nodes: none is taken for dead while it is well, whatever befell admins and the database."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.database import SimDatabase
from tests.simulation.faults.troubles import Troubles
from tests.simulation.history import History
from tests.simulation.node_host import NodeHost

LEASE_SECONDS = 15.0
RETURN_SECONDS = 20.0  # an admin that is back is found by then: a node waits 15 s at most


def check_nodes(
    database: SimDatabase,
    hosts: Sequence[NodeHost],
    admins: Sequence[str],
    troubles: Troubles,
    history: History,
) -> None:
    """Look at every declaration of death."""
    processes = {key: (host, process) for host in hosts for key, process in host.processes.items()}
    keys = {row.id: row.node_key for row in database.rows("SELECT id, node_key FROM node")}
    for row in database.rows(
        "SELECT * FROM sim_change WHERE what = 'node' AND state = 'dead' ORDER BY seq"
    ):
        if keys[row.id] not in processes:
            continue  # it speaks XXL-JOB's protocol, and is looked at elsewhere
        host, process = processes[keys[row.id]]
        if process.died_at is not None and process.died_at <= row.vt:
            continue
        lost = database.rows(
            "SELECT DISTINCT id FROM sim_change WHERE what = 'run' AND node_id = ? AND seq > ?"
            " AND vt < ? AND (state = 'lost' OR reason = 'retry_after_lost')",
            (row.id, row.seq, row.vt + 5),
        )
        told = f"{process.name} was taken for dead at {row.vt:.3f} s; runs lost:" + (
            " ".join(f" run {each.id}" for each in lost) or " none"
        )
        # Nothing was wrong with it and its ways; whatever befell admins, clocks or the database.
        if troubles.node_was_well(host.name, row.vt - LEASE_SECONDS - RETURN_SECONDS, row.vt):
            history.violation(f"G10: {told}")
        # Others were in trouble, but one admin could hear it all the time.
        for admin in admins:
            if not _knew(host, process.name, admin, history, row.vt - LEASE_SECONDS):
                continue
            if troubles.way_was_well(
                host.name, admin, row.vt - LEASE_SECONDS - RETURN_SECONDS, row.vt
            ):
                history.violation(f"G10: {told}; {admin} heard it")


def _knew(host: NodeHost, process: str, admin: str, history: History, at: float) -> bool:
    """Whether a process had heard of an admin by then: in its settings, or from another admin."""
    url = f"http://{admin}:8500"
    return url in host.admins or any(
        event.who == process
        and event.at <= at
        and event.what == f"learned of another admin at {url}"
        for event in history.events
    )
