"""The lines before pools, computed a second time from every change of every run.

Two things are promised: whoever is first in line and waits for the pool only keeps what is free,
so that a heavy run is not overtaken by light ones; and runs start in the order of the line.

Claims go executor by executor. Which nodes a run may go to, and what blocks its job, is known
exactly only to them, so that only runs that may go anywhere are held against this (`_is_plain`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.checks.ledger import LIVE, Ledger
from tests.simulation.database import SimDatabase
from tests.simulation.history import History

LEVEL_MS = 60_000  # of waiting: as much as one level of priority
SETTLED_MS = 1_000  # a run that is due for so long is read by every claim
REFUSED_SECONDS = 60.0  # a handler that a node refused is kept away from it for less than this
# So long after the faults every node has a socket to every admin. Before, a run that has room may
# be left to another admin: to the one that is connected to its node.
CONNECTED_SECONDS = 5.0
_ONE_NODE = ("pinned", "busy_over")


@dataclass(frozen=True, slots=True, order=True)
class _Waiting:
    """A queued run of a pool, in its place in the line."""

    rank: int
    run_id: int
    due_at: int = field(compare=False)
    slots: int = field(compare=False)
    run: Any = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """Who was said to be first in line, and to have no room."""

    first: _Waiting
    until: int  # claims of all executors know of it


@dataclass(slots=True)
class _Line:
    """One pool."""

    slots: int
    waiting: dict[int, _Waiting] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)
    started: list[_Waiting] = field(default_factory=list)  # by the claim that is being read
    note: _Note | None = None


def check_lines(
    database: SimDatabase, ledger: Ledger, history: History, *, faults_ended: float
) -> None:
    """Note every run that another one overtook in the line of its pool.

    Args:
        faults_ended: when, in virtual seconds.
    """
    if ledger.went_back:  # what was due is not due any more, and stands in another place
        return
    lines = {row.id: _Line(row.slots) for row in database.rows("SELECT id, slots FROM pool")}
    refused: dict[tuple[int, str], float] = {}
    is_quiet_from = faults_ended + CONNECTED_SECONDS
    for change in sorted([*ledger.changes, *ledger.other("pool")], key=lambda row: row.seq):
        if change.what == "pool":
            line = lines[change.id]
            for what in _claimed(
                line, ledger, change, refused, in_order=change.vt >= is_quiet_from
            ):
                history.violation(f"pool {change.id}: {what}")
            noted = line.waiting.get(int(change.result or 0))
            line.note = None if noted is None else _Note(first=noted, until=change.due_at)
            continue
        run = ledger.runs.get(change.id)
        if run is None or not run.pool_id:
            continue
        _follow(lines[run.pool_id], ledger, run, change)
        if change.old_state == "dispatched" and change.state == "queued":
            refused[run.executor_id, ledger.config(run)["handler"]] = change.vt


def _follow(line: _Line, ledger: Ledger, run: Any, change: Any) -> None:
    before = line.waiting.pop(run.id, None)
    line.held.pop(run.id, None)
    slots = min(ledger.config(run)["pool"]["slots"], line.slots)
    if change.what == "run-" or change.state not in ("queued", *LIVE):
        pass
    elif change.state == "queued":
        due_at = change.due_at if change.what == "run+" else change.new_due_at
        rank = due_at + (run.priority - 1) * LEVEL_MS
        line.waiting[run.id] = now = _Waiting(rank, run.id, due_at, slots, run)
        if line.note is not None and now <= line.note.first:
            line.note = None
    else:
        line.held[run.id] = slots
        if before is not None:
            line.started.append(before)
    if line.note is not None and before is not None and before <= line.note.first:
        line.note = None


def _claimed(
    line: _Line,
    ledger: Ledger,
    change: Any,
    refused: dict[tuple[int, str], float],
    *,
    in_order: bool,
) -> Iterator[str]:
    """What is wrong with a claim that has just been written."""
    started, line.started = sorted(line.started), []
    if not started:
        return
    free = line.slots - sum(line.held.values()) + sum(each.slots for each in started)
    executor_id = started[0].run.executor_id
    due = sorted(each for each in line.waiting.values() if each.due_at <= change.at)
    plain = [
        each
        for each in due
        if each.due_at <= change.at - SETTLED_MS
        and _is_plain(ledger, each.run)
        and change.vt - refused.get(_handler(ledger, each.run), -REFUSED_SECONDS) >= REFUSED_SECONDS
    ]
    waits: list[_Waiting] = []  # for the pool only, of this executor
    for now in started:
        for each in plain:
            if now < each or each.run.executor_id != executor_id or each in waits:
                continue
            if free < each.slots:
                waits.append(each)
            elif in_order and free - _most(due, before=each) >= each.slots:
                yield f"run {each.run_id} could start, and run {now.run_id} behind it did"
        free -= now.slots
        noted = line.note
        firsts = waits[:1]
        if noted is not None and change.at < noted.until:
            firsts.append(noted.first)
        for first in firsts:
            kept = min((each.slots for each in due if each <= first), default=0)
            if first < now and free < kept:
                yield (
                    f"run {now.run_id} has overtaken run {first.run_id}, which waits for"
                    f" {first.slots} of {line.slots} slots and is first in line"
                )


def _most(due: list[_Waiting], *, before: _Waiting) -> int:
    """The most that any of those in line before a run may keep."""
    return max((each.slots for each in due if each < before), default=0)


def _handler(ledger: Ledger, run: Any) -> tuple[int, str]:
    return run.executor_id, ledger.config(run)["handler"]


def _is_plain(ledger: Ledger, run: Any) -> bool:
    """Whether a run waits for nothing but a slot of any node, and slots of its pool."""
    config = ledger.config(run)
    routing = config["routing"]
    return (
        config["blocking"]["strategy"] == "parallel"
        and run.pinned_node_id is None
        and not routing["selector"]
        and not routing["nodes"]
        and routing["strategy"] not in _ONE_NODE
        and (run.fire_id is not None or routing["strategy"] not in ("broadcast", "shards"))
    )
