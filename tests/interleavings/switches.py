"""Mechanisms switched off one by one: a scenario must turn red, or it would prove nothing.

Some mechanisms stand in for each other, and only both off can be seen; their switch says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import sqlalchemy as sa
from msgspec.structs import replace

from tests.interleavings.clusters import Cluster
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.engine.alarms import evaluator
from tickwheel_admin.engine.dispatcher import pool_lines
from tickwheel_admin.engine.failures import canary_retrier
from tickwheel_admin.engine.planner import loop as planner
from tickwheel_admin.engine.sweeper import lost_runs
from tickwheel_admin.services.gitops.kinds import jobs as applied_jobs
from tickwheel_admin.services.handlers import schemas as handler_schemas
from tickwheel_admin.services.jobs import edits as job_edits
from tickwheel_admin.services.jobs.declared import decisions
from tickwheel_admin.services.jobs.declared import edits as declared_edits
from tickwheel_admin.services.runs import workflow_retries
from tickwheel_admin.store.alarms import outbox, signals
from tickwheel_admin.store.backfills import slices
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_values, update_rows, update_values
from tickwheel_admin.store.executors import executors as store_executors
from tickwheel_admin.store.jobs import kept_state as job_states
from tickwheel_admin.store.jobs import route_cursors
from tickwheel_admin.store.pools import slots
from tickwheel_admin.store.runs import inserts, purge, retention
from tickwheel_admin.store.runs import runs as store_runs
from tickwheel_admin.store.runs.rows import SELECTED_RUN, run_from_selected
from tickwheel_admin.store.runs.workflows import advance, books
from tickwheel_admin.store.triggers import planning as store_triggers

Switch = Callable[[Cluster], AbstractContextManager[object]]


def compare_and_set(cluster: Cluster) -> AbstractContextManager[object]:
    """G4: moves are written whatever the run's state; and runs are read without their lock,
    for under it the state cannot have changed.
    """

    def write_anyway(conn: Any, table: Any, rows: Any, *, where: str = "", **rest: Any) -> int:
        rest.pop("params", None)
        return update_values(conn, table, rows, **rest)

    both = ExitStack()
    both.enter_context(patch.object(store_runs, "update_values", write_anyway))
    both.enter_context(cluster.rewriting(_unlocked("run")))
    return both


def slot_condition(cluster: Cluster) -> AbstractContextManager[object]:
    """G12: a slot is taken because one was free when the nodes were read."""

    node = tables.node

    def take_slots(conn: sa.Connection, wanted: Mapping[int, int], *, now: int) -> dict[int, int]:
        for node_id, count in wanted.items():
            conn.execute(
                sa.update(node).where(node.c.id == node_id).values(in_use=node.c.in_use + count)
            )
        return dict(wanted)

    return patch.object(store_runs, "take_slots", take_slots)


def put_back_keys(cluster: Cluster) -> AbstractContextManager[object]:
    """G8: a run for which no slot was left goes back with the blocking key of a live one."""
    changed = store_runs._changed

    def without_key(before: Any, after: Any) -> tuple[str, ...]:
        columns = changed(before, after)
        if after[0].state is not RunState.QUEUED:
            return columns
        return tuple(column for column in columns if column != "blocking_key")

    return patch.object(store_runs, "_changed", without_key)


def state_holder(cluster: Cluster) -> AbstractContextManager[object]:
    """G6: whoever ends well writes the job's state, also when another attempt has it by now."""

    def write_anyway(conn: Any, table: Any, rows: Any, *, match: Any, **rest: Any) -> int:
        return update_rows(conn, table, rows, match=("job_id",), **rest)

    return patch.object(job_states, "update_rows", write_anyway)


def plan_check(cluster: Cluster) -> AbstractContextManager[object]:
    """G11: a plan is written although its trigger has changed since it was read."""
    return patch.object(planner, "plan_due_triggers", _plan_anyway)


def unique_fire(cluster: Cluster) -> AbstractContextManager[object]:
    """G2: neither the check of the trigger nor the unique key stands against a second fire."""

    def insert_all(*args: Any, **rest: Any) -> None:
        rest.pop("ignore_duplicates_of", None)
        insert_values(*args, **rest)

    off = ExitStack()
    off.enter_context(plan_check(cluster))
    off.enter_context(
        cluster.without_unique(
            "run", "uq_run_fires_once", ("trigger_id", "scheduled_at", "shard_index")
        )
    )
    off.enter_context(patch.object(inserts, "insert_values", insert_all))
    return off


def _plan_anyway(conn: sa.Connection, *, planned: Any, **rest: Any) -> Any:
    table = tables.trigger
    current = {
        row.id: row
        for row in conn.execute(sa.select(table.c.id, table.c.version, table.c.next_fire_at))
    }
    return store_triggers.plan_due_triggers(
        conn,
        planned=[
            replace(
                plan,
                version=current[plan.trigger_id].version,
                planned_from=current[plan.trigger_id].next_fire_at,
            )
            for plan in planned
            if plan.trigger_id in current
        ],
        **rest,
    )


def job_lock_write(cluster: Cluster) -> AbstractContextManager[object]:
    """G8 on Galera: a claim locks the row of a job that is not parallel, and does not write it."""
    return patch.object(route_cursors, "update_rows", lambda *args, **rest: 0)


def applied_compare(cluster: Cluster) -> AbstractContextManager[object]:
    """GitOps: an application writes its jobs, whatever they have become since its plan."""

    def update_anyway(conn: sa.Connection, edit: Any, *, job_id: int, **rest: Any) -> Any:
        rest["revision"] = conn.execute(
            sa.select(tables.job.c.revision).where(tables.job.c.id == job_id)
        ).scalar_one()
        return job_edits.update_job(conn, edit, job_id=job_id, **rest)

    instead = SimpleNamespace(**{**vars(job_edits), "update_job": update_anyway})
    return patch.object(applied_jobs, "edits", instead)


def job_lock(cluster: Cluster) -> AbstractContextManager[object]:
    """Routing: a claim neither locks nor writes the rows of jobs whose uses it counts."""
    both = ExitStack()
    both.enter_context(job_lock_write(cluster))
    both.enter_context(cluster.rewriting(_unlocked("job")))
    return both


def unique_request(cluster: Cluster) -> AbstractContextManager[object]:
    """G2: neither the lock of its job nor the unique key stands against a request's second run."""
    off = ExitStack()
    off.enter_context(cluster.rewriting(_without(_JOB_LOCK)))
    off.enter_context(
        cluster.without_unique("run", "uq_run_requested_once", ("job_id", "request_key"))
    )
    return off


def request_lock_write(cluster: Cluster) -> AbstractContextManager[object]:
    """G11 on Galera: who asks for a run or edits a job locks its row, and does not write it."""
    return cluster.rewriting(
        lambda statement: (
            statement.replace(" + ", " + 0 * ") if _JOB_LOCK in _plain(statement) else statement
        )
    )


def unique_node(cluster: Cluster) -> AbstractContextManager[object]:
    """One process is one node, though it says hello to two admins at once."""
    return cluster.without_unique("node", "uq_node_key", ("executor_id", "node_key"))


def session_lock(cluster: Cluster) -> AbstractContextManager[object]:
    """§4: closing a socket looks for other sessions of the node without locking the node."""
    return cluster.rewriting(_without(_PARTING_LOCK))


def second_look_at_deaths(cluster: Cluster) -> AbstractContextManager[object]:
    """G3: runs are lost because their node was dead when the sweeper looked for dead nodes."""
    return patch.object(lost_runs, "ended_nodes", lambda conn, node_ids: set(node_ids))


_JOB_LOCK = "UPDATE job SET route_cursor=(job.route_cursor + "
_PARTING_LOCK = "UPDATE node SET lease_expires_at=(node.lease_expires_at - "


def _plain(statement: str) -> str:
    return " ".join(statement.replace('"', "").replace("`", "").split())


def executor_lock(cluster: Cluster) -> AbstractContextManager[object]:
    """Declarations of one executor are decided side by side."""

    def unlocked(conn: sa.Connection, executor_id: int, *, lock: bool = False) -> Any:
        return store_executors.get_executor(conn, executor_id)

    both = ExitStack()
    for module in (decisions, handler_schemas):
        both.enter_context(patch.object(module, "get_executor", unlocked))
    return both


def held_job(cluster: Cluster) -> AbstractContextManager[object]:
    """A declaration is written as if its job could not be deleted meanwhile."""
    both = ExitStack()
    for module in (decisions, declared_edits):
        both.enter_context(patch.object(module, "hold_job", lambda conn, declared: None))
    return both


def evaluator_lock(cluster: Cluster) -> AbstractContextManager[object]:
    """G4: admins evaluate alarms side by side, and do not mind when signals are gone."""

    def delete(conn: sa.Connection, taken: Any) -> int:
        signals.delete_signals(conn, taken)
        return len(taken)

    both = ExitStack()
    unlocked = patch.object(evaluator, "lock_evaluator", lambda conn, *, looked_at=None: 0)
    both.enter_context(unlocked)
    both.enter_context(patch.object(evaluator, "delete_signals", delete))
    return both


def message_lock(cluster: Cluster) -> AbstractContextManager[object]:
    """G4: more is added to a message that was seen to wait, without locking it."""
    table = tables.notification

    def look(conn: sa.Connection, notification_id: int, *, items: int) -> bool:
        row = conn.execute(sa.select(table).where(table.c.id == notification_id)).one_or_none()
        return row is not None and row.state == "waiting" and row.attempts == 0

    return patch.object(outbox, "add_to_notification", look)


def backfill_compare(cluster: Cluster) -> AbstractContextManager[object]:
    """G2: a slice of a backfill is written whatever has become of the backfill."""
    return patch.object(slices, "lock_unchanged", lambda conn, seen: True)


def canary_compare(cluster: Cluster) -> AbstractContextManager[object]:
    """A wave of a canary retry is begun whatever has become of the one before."""
    return patch.object(canary_retrier, "lock_unchanged", lambda conn, canary: True)


def workflow_lock(cluster: Cluster) -> AbstractContextManager[object]:
    """G4: what steps need is looked up without the lock of their workflow's run, which is not
    written either.
    """

    def look(conn: sa.Connection, ids: Any) -> dict[int, Any]:
        found = sa.select(*SELECTED_RUN).where(tables.run.c.id.in_(sorted(ids)))
        return {run.id: run for run in map(run_from_selected, conn.execute(found))}

    both = ExitStack()
    both.enter_context(patch.object(books, "lock_runs", look))
    both.enter_context(patch.object(advance, "set_progress", lambda conn, reports: None))
    return both


def results_lock(cluster: Cluster) -> AbstractContextManager[object]:
    """G4: runs are deleted, and their results taken over, without the locks of their workflows."""

    def unneeded(conn: sa.Connection, ids: Any) -> set[int]:
        return set(conn.execute(retention._UNNEEDED, {"ids": sorted(ids)}).scalars())

    all_of_them = ExitStack()
    all_of_them.enter_context(patch.object(retention, "lock_unneeded", unneeded))
    all_of_them.enter_context(patch.object(purge, "lock_unneeded", unneeded))
    all_of_them.enter_context(
        patch.object(workflow_retries, "lock_sources", lambda conn, ended: True)
    )
    return all_of_them


def pool_lock(cluster: Cluster) -> AbstractContextManager[object]:
    """G12: what is in use of a pool is counted without its lock, and the pool is not written."""

    def look(conn: sa.Connection, ids: Any, *, now: int) -> list[slots.FoundPool]:
        found = [slots.pools_waited_for(conn, executor_id, now=now) for executor_id in (1, 2)]
        by_id = {each.standing.pool_id: each for some in found for each in some}
        return [by_id[pool_id] for pool_id in sorted(ids) if pool_id in by_id]

    both = ExitStack()
    both.enter_context(patch.object(pool_lines, "lock_pools", look))
    both.enter_context(patch.object(pool_lines, "write_pools", lambda *args, **named: None))
    return both


def _unlocked(table: str) -> Callable[[str], str]:
    """Reads of this table do not lock its rows."""

    def rewrite(statement: str) -> str:
        if f"FROM {table} " in _plain(statement) and " FOR UPDATE" in statement:
            return statement.partition(" FOR UPDATE")[0].rstrip()
        return statement

    return rewrite


def _without(update: str) -> Callable[[str], str]:
    """This update meets no row. It is not left out, for its parameters are bound all the same."""
    return lambda statement: (
        f"{statement} AND 1 = 0" if _plain(statement).startswith(update) else statement
    )
