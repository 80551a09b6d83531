"""The time machine tells of the played time what the database noted while it was played.

The ledger keeps less than happened: when a node ended an attempt, but not when that was recorded;
nothing of attempts that were handed back; when a plan was made, but not when it was written. Only
these differences are allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import sqlalchemy as sa

from tests.simulation.database import SimDatabase
from tests.simulation.history import History
from tickwheel_admin.domain.as_of.nodes import nodes_at
from tickwheel_admin.domain.as_of.runs import RunThen
from tickwheel_admin.domain.runs.run import FINAL, LIVE, RunState
from tickwheel_admin.services.as_of.service import standing_then
from tickwheel_admin.store.as_of.runs import PastScope, runs_there
from tickwheel_admin.store.executors.node_periods import read_node_periods

INSTANTS = 12


def check_as_of(database: SimDatabase, history: History, random: Random) -> None:
    """Ask for some instants, and compare with what was noted at the time."""
    if database.went_back:
        return
    [row] = database.rows(
        "SELECT min(at) AS low, max(at) AS high FROM sim_change WHERE what = 'run'"
    )
    if row.low is None:
        return
    asked = {"exact": 0, "live": 0, "nodes": 0}
    for at in sorted(random.randint(row.low, row.high) for _ in range(INSTANTS)):
        told, nodes = database.transact(_ask, at, commit=False)
        for difference in _runs_that_differ(database, told, at, asked):
            history.violation(f"as of {at}: {difference}")
        noted_nodes = _noted_nodes(database, at)
        asked["nodes"] += len(noted_nodes)
        if nodes != noted_nodes:
            history.violation(f"as of {at}: nodes {sorted(nodes)}, and not {sorted(noted_nodes)}")
    history.note("time machine", f"runs that agree: {asked}")


def _ask(conn: sa.Connection, at: int) -> tuple[dict[int, RunThen], set[int]]:
    found = runs_there(conn, PastScope(), at=at)
    assert not found.is_cut
    told = {each.run.id: each for each in standing_then(conn, found.runs, at=at)}
    periods = read_node_periods(conn, after=at, until=at, executors=None)
    return told, {each.node_id for each in nodes_at(periods, at)}


def _noted_nodes(database: SimDatabase, at: int) -> set[int]:
    live = {row.id for row in database.rows("SELECT id FROM node WHERE connected_at <= ?", (at,))}
    for row in database.rows(
        "SELECT id, state FROM sim_change WHERE what = 'node' AND at <= ? ORDER BY seq", (at,)
    ):
        (live.add if row.state == "live" else live.discard)(row.id)
    return live


def _runs_that_differ(
    database: SimDatabase, told: dict[int, RunThen], at: int, asked: dict[str, int]
) -> Iterator[str]:
    changes: dict[int, list[Any]] = {}
    for row in database.rows(
        "SELECT * FROM sim_change WHERE what IN ('run+', 'run', 'run-') ORDER BY seq"
    ):
        changes.setdefault(row.id, []).append(row)
    for run_id, rows in changes.items():
        if rows[-1].what == "run-":
            continue  # taken back by an edit: the ledger does not know it
        before = [row for row in rows if row.at <= at]
        noted = before[-1] if before else None
        state = None if noted is None else RunState(noted.state)
        then = told.get(run_id)
        if noted is None or state in FINAL:
            planned_early = noted is None and _had_been_read(database, run_id, at)
            if then is not None and not _came_late(rows) and not planned_early:
                yield f"run {run_id} is {then.standing}, and was {state}"
            continue
        if then is not None and state in LIVE and then.is_live:
            same = (then.attempt, then.node_id) == (noted.attempt, noted.node_id)
            overtaken = _is_overtaken(rows, noted)
            if not same or (then.standing.value != noted.state and not overtaken):
                yield f"run {run_id} is {then}, and was {noted}"
            asked["live"] += 1
            continue
        if then is not None and state is RunState.QUEUED and not then.is_live:
            asked["exact"] += 1
            continue
        if state in LIVE and (
            _had_ended_there(database, noted, at) or _is_handed_back(rows, noted)
        ):
            continue
        if not _came_late(rows):
            yield f"run {run_id} is {then and then.standing}, and was {noted}"


def _had_been_read(database: SimDatabase, run_id: int, at: int) -> bool:
    """A plan has the instant at which its trigger was read, and is written a little later."""
    return bool(
        database.rows(
            "SELECT 1 FROM run WHERE id = ? AND trigger_id IS NOT NULL AND created_at <= ?",
            (run_id, at),
        )
    )


def _is_overtaken(rows: list[Any], noted: Any) -> bool:
    """The result came before the node's word that it had begun."""
    later = [row for row in rows if row.seq > noted.seq and row.old_state != row.state]
    return bool(later) and noted.state == "dispatched" and later[0].state != "running"


def _had_ended_there(database: SimDatabase, noted: Any, at: int) -> bool:
    """Its node had ended the attempt, and the record came later."""
    return bool(
        database.rows(
            "SELECT 1 FROM run WHERE id = ? AND attempt = ? AND ended_at <= ?"
            " UNION ALL SELECT 1 FROM run_attempt WHERE run_id = ? AND attempt = ?"
            " AND ended_at <= ?",
            (noted.id, noted.attempt, at, noted.id, noted.attempt, at),
        )
    )


def _is_handed_back(rows: list[Any], noted: Any) -> bool:
    """The attempt never began: nothing is kept of it."""
    later = [row for row in rows if row.seq > noted.seq and row.old_state != row.state]
    return (
        bool(later)
        and noted.state == "dispatched"
        and later[0].state in ("queued", "cancelled", "skipped")
    )


def _came_late(rows: list[Any]) -> bool:
    """A result of an attempt that was given up came after all, and counts since."""
    return any(
        row.old_state == "lost" or (row.old_state == "queued" and row.state not in
        ("queued", "dispatched", "running", "skipped", "cancelled"))
        for row in rows
    )  # fmt: skip
