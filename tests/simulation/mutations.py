"""Guarantees switched off one by one: each must turn seeds red, or the checker sees nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain import moves as run_moves
from tickwheel_admin.domain import planning, reports
from tickwheel_admin.domain.retry import RetryPolicy
from tickwheel_admin.domain.run import RunState
from tickwheel_admin.engine import claim, recording, sweeper
from tickwheel_admin.store import runs as store_runs
from tickwheel_admin.store import triggers
from tickwheel_admin.store.tables import run as run_table
from tickwheel_executor import answers, delivery, links
from tickwheel_executor.keys import claim_of


def node_forgets_what_it_has_met() -> None:
    """G2: a node starts what it is sent, whether it has met the attempt or not."""
    answers.Answers.answer_known = lambda self, link, message: False  # type: ignore[method-assign]


def any_token_proves() -> None:
    """G6: reports count whatever attempt and token they show."""
    reports.proves = lambda run, key, executor_id: run is not None
    original = reports.on_result

    def on_result(run: Any, result: Any, config: Any, **rest: Any) -> Any:
        if run is not None:
            shown = {"attempt": run.attempt, "token": run.claim_token or ""}
            result = type(result)(
                **{f: getattr(result, f) for f in result.__struct_fields__} | shown
            )
        return original(run, result, config, **rest)

    reports.on_result = on_result


def planner_ignores_edits() -> None:
    """G11, G2: a plan is written although its trigger changed since it was read."""
    original = triggers.plan_due_triggers

    def plan_due_triggers(conn: sa.Connection, *, planned: Any, **rest: Any) -> Any:
        table = triggers.trigger
        current = {
            row.id: row
            for row in conn.execute(sa.select(table.c.id, table.c.version, table.c.next_fire_at))
        }
        planned = [
            dataclasses.replace(
                plan,
                version=current[plan.trigger_id].version,
                planned_from=current[plan.trigger_id].next_fire_at,
            )
            for plan in planned
            if plan.trigger_id in current
        ]
        return original(conn, planned=planned, **rest)

    from tickwheel_admin.engine import planner

    planner.plan_due_triggers = plan_due_triggers


def fires_are_not_unique() -> None:
    """G2: two admins plan the same fire, and no unique key stands against it."""
    planner_ignores_edits()
    run_table.constraints = {
        each for each in run_table.constraints if each.name != "uq_run_fires_once"
    }
    original = store_runs.insert_rows

    def insert_rows(conn: Any, table: Any, rows: Any, **rest: Any) -> None:
        if table is run_table:
            rest.pop("ignore_duplicates_of", None)
        original(conn, table, rows, **rest)

    store_runs.insert_rows = insert_rows


def unconfirmed_runs_are_queued_again() -> None:
    """G2, G7: what a node did not confirm in time goes to another one, without asking it."""
    original = sweeper._sweep

    def sweep(conn: Any, ids: Any, configs: Any, connected: Any, may_expire: Any) -> Any:
        now = sweeper.now_ms(conn)
        locked = store_runs.lock_runs(conn, ids)
        store_runs.move_runs(
            conn,
            [
                run_moves.handed_back(run, reason="unconfirmed", now=now)
                for run in locked.values()
                if run.state is RunState.DISPATCHED and (run.deadline_at or now) <= now
            ],
        )
        return original(conn, ids, configs, connected, may_expire)

    sweeper._sweep = sweep


def results_are_not_spooled() -> None:
    """G5: a node says a result is safe while it is in memory only."""

    async def write(self: Any, batch: Any, loop: Any) -> None:
        for pending in batch:
            pending.written = True

    delivery.ResultDelivery._write = write  # type: ignore[method-assign]


def spool_is_cleared_before_the_receipt() -> None:
    """G5: a result is deleted once it is sent."""
    original = delivery.ResultDelivery._send

    def send(self: Any, pending: Any, link: Any) -> None:
        original(self, pending, link)
        if link is not None:
            self._spool.remove(pending.result)
            self._take(claim_of(pending.result))

    delivery.ResultDelivery._send = send  # type: ignore[method-assign]


def claims_ignore_slots() -> None:
    """G12: slots are taken whether they are free or not."""
    original = claim._Router.__init__

    def init(self: Any, nodes: Any, context: Any) -> None:
        original(self, [dataclasses.replace(n, in_use=0) for n in nodes], context)

    claim._Router.__init__ = init  # type: ignore[method-assign]
    node_table = store_runs.node

    def take_slots(conn: Any, *, node_id: int, count: int, now: int) -> bool:
        conn.execute(
            sa.update(node_table)
            .where(node_table.c.id == node_id)
            .values(in_use=node_table.c.in_use + count)
        )
        return True

    claim.take_slots = take_slots


def nobody_expires_nodes() -> None:
    """G3: runs of dead nodes are waited for, for ever."""
    sweeper.expire_nodes = lambda conn: []


def refusals_cost_a_try() -> None:
    """G7: a refused attempt is counted."""
    original = run_moves.handed_back

    def handed_back(run: Any, **rest: Any) -> Any:
        move = original(run, **rest)
        return dataclasses.replace(
            move, after=dataclasses.replace(move.after, tries=move.after.tries + 1)
        )

    run_moves.handed_back = handed_back


def backoff_is_forgotten() -> None:
    """G7: retries come at once."""
    RetryPolicy.delay_after = lambda self, tries, run_id=0: 0  # type: ignore[method-assign]


def planner_starts_from_now() -> None:
    """G9: after a downtime, planning goes on from the present."""
    original = planning.plan

    def plan(schedule: Any, *, next_fire_at: int, now: int, until: int, misfire: Any) -> Any:
        if next_fire_at < now - planning.MISFIRE_THRESHOLD_MS:
            next_fire_at = schedule.next_after(now) or next_fire_at
        return original(schedule, next_fire_at=next_fire_at, now=now, until=until, misfire=misfire)

    from tickwheel_admin.engine import planner

    planner.plan = plan


def receipts_before_the_commit() -> None:
    """G5: a result is acknowledged although its transaction was rolled back."""
    from tickwheel_admin.links import session as links_session
    from tickwheel_shared.protocol import Receipt, Result, ResultReceipt

    original = links_session.NodeSession._take

    async def take(self: Any, messages: Any) -> None:
        for message in messages:
            if isinstance(message, Result):
                self.send(
                    [
                        ResultReceipt(
                            run=message.run,
                            attempt=message.attempt,
                            token=message.token,
                            receipt=Receipt.RECORDED,
                        )
                    ]
                )
        await original(self, messages)

    links_session.NodeSession._take = take  # type: ignore[method-assign]


def edits_leave_fires_that_are_planned() -> None:
    """G11: what was planned ahead under the old version stays."""
    from tickwheel_admin.services import settling

    settling.job_triggers.delete_unclaimed_fires = lambda conn, trigger_id, *, after: 0


def cancel_is_told_once() -> None:
    """G14: a cancel that did not arrive is not repeated."""
    sweeper._cancel = lambda run, reason: recording.LogReceipt(run=0, attempt=0, first_seq=0)


def claims_come_early() -> None:
    """A run is claimed half a second before it is due."""
    original = claim.now_ms
    claim.now_ms = lambda conn: original(conn) + 500


def nodes_ignore_their_lease() -> None:
    """A node never knows that its lease is over, and starts what lay in its buffers."""
    links.Links.lease_is_over = lambda self, now: False  # type: ignore[method-assign]


MUTATIONS: dict[str, Callable[[], None]] = {
    mutation.__name__: mutation
    for mutation in (
        node_forgets_what_it_has_met,
        any_token_proves,
        planner_ignores_edits,
        fires_are_not_unique,
        unconfirmed_runs_are_queued_again,
        results_are_not_spooled,
        spool_is_cleared_before_the_receipt,
        claims_ignore_slots,
        nobody_expires_nodes,
        refusals_cost_a_try,
        backoff_is_forgotten,
        planner_starts_from_now,
        receipts_before_the_commit,
        edits_leave_fires_that_are_planned,
        cancel_is_told_once,
        claims_come_early,
        nodes_ignore_their_lease,
    )
}
