"""Guarantees switched off one by one: each must turn seeds red, or the checker sees nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from tests.simulation.checks.audit_mutations import AUDIT_MUTATIONS
from tests.simulation.pools.mutations import POOL_MUTATIONS
from tests.simulation.scheduler import current_process
from tests.simulation.workflows.mutations import WORKFLOW_MUTATIONS
from tickwheel_admin.domain.claims import router
from tickwheel_admin.domain.executors import reports
from tickwheel_admin.domain.failures.canary import CanaryRetry
from tickwheel_admin.domain.planning import plan as planning
from tickwheel_admin.domain.runs import moves as run_moves
from tickwheel_admin.domain.runs.blocking import Verdict
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.engine import handoff
from tickwheel_admin.engine.alarms import delivery as delivery_of_alarms
from tickwheel_admin.engine.alarms import evaluator, failure_groups
from tickwheel_admin.engine.alarms.failure_groups import CountedFailures
from tickwheel_admin.engine.alarms.ports import Delivered
from tickwheel_admin.engine.dispatcher import (
    claim_decisions,
    claim_inputs,
    concurrency,
    route_memory,
)
from tickwheel_admin.engine.membership import leases
from tickwheel_admin.engine.recorder import loop as recorder
from tickwheel_admin.engine.recorder import transaction as recording
from tickwheel_admin.engine.sweeper import deadlines, lost_runs, stalled
from tickwheel_admin.engine.sweeper import loop as sweeper
from tickwheel_admin.store.alarms import signals as store_signals
from tickwheel_admin.store.alarms.run_watch import RunWatch
from tickwheel_admin.store.backfills import slices
from tickwheel_admin.store.database.database import StatementRefused
from tickwheel_admin.store.database.tables import node as node_table
from tickwheel_admin.store.database.tables import run as run_table
from tickwheel_admin.store.runs import follow_ups, inserts, logs
from tickwheel_admin.store.runs import runs as store_runs
from tickwheel_admin.store.triggers import planning as triggers
from tickwheel_admin.store.triggers.pauses import ClaimBasis
from tickwheel_admin.store.xxl_job import addresses
from tickwheel_admin.xxl_job import callbacks, watch
from tickwheel_admin.xxl_job import runs as runs_of_node
from tickwheel_admin.xxl_job.attempts import RemoteAttempts, Stage
from tickwheel_executor.attempt_key import claim_of
from tickwheel_executor.attempts import admission, checkpoints, lease_guard
from tickwheel_executor.link import links
from tickwheel_executor.run import outcome
from tickwheel_executor.spool import delivery, file_spool


def node_forgets_what_it_has_met() -> None:
    """G2: a node starts what it is sent, whether it has met the attempt or not."""
    admission.RunAdmission.answer_known = lambda self, link, message: False  # type: ignore[method-assign]


def any_token_proves() -> None:
    """G6, claim token and fence: reports count whatever attempt and token they show."""
    reports.proves = lambda run, key, executor_id: run is not None
    _show_in_results(lambda run: {"attempt": run.attempt, "token": run.claim_token or ""})


def old_attempts_prove() -> None:
    """G6, fence: what an earlier attempt reports counts for the current one."""
    original = reports.proves

    def proves(run: Any, key: Any, executor_id: int) -> bool:
        is_old = run is not None and key.attempt < run.attempt
        return is_old or original(run, key, executor_id)

    reports.proves = proves
    _show_in_results(
        lambda run: {"attempt": run.attempt, "token": run.claim_token or ""}, only_old=True
    )


def _show_in_results(shown: Callable[[Any], dict[str, Any]], *, only_old: bool = False) -> None:
    original = reports.on_result

    def on_result(run: Any, result: Any, config: Any, **rest: Any) -> Any:
        if run is not None and not (only_old and result.attempt >= run.attempt):
            result = msgspec.structs.replace(result, **shown(run))
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
            msgspec.structs.replace(
                plan,
                version=current[plan.trigger_id].version,
                planned_from=current[plan.trigger_id].next_fire_at,
            )
            for plan in planned
            if plan.trigger_id in current
        ]
        return original(conn, planned=planned, **rest)

    from tickwheel_admin.engine.planner import loop as planner

    planner.plan_due_triggers = plan_due_triggers


def fires_are_not_unique() -> None:
    """G2: two admins plan the same fire, and no unique key stands against it."""
    planner_ignores_edits()
    run_table.constraints = {
        each for each in run_table.constraints if each.name != "uq_run_fires_once"
    }
    original = inserts.insert_values

    def insert_values(conn: Any, table: Any, rows: Any, **rest: Any) -> None:
        if table is run_table:
            rest.pop("ignore_duplicates_of", None)
        original(conn, table, rows, **rest)

    inserts.insert_values = insert_values


def unconfirmed_runs_are_queued_again() -> None:
    """G2, G7: what a node did not confirm in time goes to another one, without asking it."""
    original = deadlines.sweep_live

    def sweep_live(conn: Any, ids: Any, configs: Any, *rest: Any) -> Any:
        now = deadlines.now_ms(conn)
        locked = store_runs.lock_runs(conn, ids)
        moves = [
            run_moves.handed_back(run, reason="unconfirmed", now=now)
            for run in locked.values()
            if run.state is RunState.DISPATCHED and (run.deadline_at or now) <= now
        ]
        follow_ups.move_with_follow_ups(
            conn,
            [move for move in moves if move.after.state is RunState.QUEUED],
            configs=configs,
            now=now,
        )
        return original(conn, ids, configs, *rest)

    sweeper.sweep_live = sweep_live


def results_are_not_spooled() -> None:
    """G5: a node says a result is safe while it is in memory only."""

    async def write(self: Any, batch: Any, loop: Any) -> None:
        for pending in batch:
            pending.written = True

    delivery.ResultDelivery._write = write  # type: ignore[method-assign]


def spool_is_not_synced() -> None:
    """G5: results are written, and nobody waits until they are on the disk."""
    original = file_spool.FileSpool.__init__

    def init(self: Any, *args: Any, **rest: Any) -> None:
        original(self, *args, **rest)
        self._fsync = lambda file: None

    file_spool.FileSpool.__init__ = init  # type: ignore[method-assign]


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
    original = router.Router.__init__

    def init(self: Any, nodes: Any, **rest: Any) -> None:
        original(self, [msgspec.structs.replace(n, in_use=0) for n in nodes], **rest)

    router.Router.__init__ = init  # type: ignore[method-assign]

    def take_slots(conn: Any, wanted: Any, *, now: int) -> dict[int, int]:
        for node_id, count in wanted.items():
            conn.execute(
                sa.update(node_table)
                .where(node_table.c.id == node_id)
                .values(in_use=node_table.c.in_use + count)
            )
        return dict(wanted)

    store_runs.take_slots = take_slots


def blocking_is_not_decided() -> None:
    """G8: what is due starts, whatever runs already."""
    concurrency.decide = lambda policy, run, lanes: Verdict.START


def nobody_sweeps() -> None:
    """G3: nothing that is past its deadline is looked at."""

    async def run_once(self: Any) -> bool:
        return False

    sweeper.Sweeper.run_once = run_once  # type: ignore[method-assign]


def admins_trust_their_view_at_once() -> None:
    """No mass false death: leases are ended without 15 s of unbroken renewals."""
    leases.Leases.may_expire = lambda self: True  # type: ignore[method-assign]
    leases.Leases.expected_database_ms = lambda self: None  # type: ignore[method-assign]


def nodes_run_on_when_they_are_cut_off() -> None:
    """G8: a node ends nothing when it hears from no admin."""
    lease_guard.LeaseGuard._stop_all = lambda self: None  # type: ignore[method-assign]


def places_are_not_held() -> None:
    """G8: every run of a dead node is lost at once, whatever its job asks for."""
    lost_runs.held_until = lambda config, node: None


def one_bad_row_fails_its_batch() -> None:
    """2.6: a batch that is refused is given up as a whole."""

    async def at_once(batch: Any, write: Any, give_up: Any) -> None:
        try:
            await write(batch)
        except (StatementRefused, IntegrityError, AssertionError) as error:
            for row in batch:
                await give_up(row, str(error))

    recorder.write_or_bisect = at_once


def children_are_forgotten() -> None:
    """G4: the end of a run asks for no child."""
    follow_ups._ask_children = lambda *args, **rest: 0


def nothing_is_unparked() -> None:
    """G3: what waits for an earlier run is not told of its end."""
    follow_ups._unpark_next = lambda *args, **rest: 0
    stalled.unpark = lambda *args, **rest: 0


def fixed_delays_are_not_armed() -> None:
    """G3: the end of a run does not let its trigger fire again."""
    follow_ups.arm_fixed_delays = lambda *args, **rest: 0
    stalled.arm_fixed_delays = lambda *args, **rest: 0


def fires_do_not_end() -> None:
    """G4: the last shard does not end its fire, nor does the sweeper."""
    follow_ups._fires_of_shards = lambda conn, ended, *, now: ([], [])
    sweeper.sweep_fires = lambda conn, ids, configs, run_ids: deadlines.SweepResult()


def pauses_do_not_hold_back() -> None:
    """What was planned before a pause runs in it."""
    original = claim_decisions.ClaimDecisions._reason_to_skip

    def reason_to_skip(self: Any, run: Any) -> Any:
        reason = original(self, run)
        return None if reason == "paused" else reason

    claim_decisions.ClaimDecisions._reason_to_skip = reason_to_skip  # type: ignore[method-assign]


def nobody_expires_nodes() -> None:
    """G3: runs of dead nodes are waited for, for ever."""
    sweeper.expire_nodes = lambda conn: []


def refusals_cost_a_try() -> None:
    """G7: a refused attempt is counted."""
    original = run_moves.handed_back

    def handed_back(run: Any, **rest: Any) -> Any:
        move = original(run, **rest)
        after = msgspec.structs.replace(move.after, tries=move.after.tries + 1)
        return msgspec.structs.replace(move, after=after)

    run_moves.handed_back = handed_back


def backoff_is_forgotten() -> None:
    """G7: retries come at once."""
    RetryPolicy.delay_after = lambda self, tries, run_id=0: 0  # type: ignore[method-assign]


def planner_starts_from_now() -> None:
    """G9: after a downtime, planning goes on from the present."""
    original = planning.plan

    def plan(
        schedule: Any, *, next_fire_at: int, now: int, until: int, misfire: Any, **rest: Any
    ) -> Any:
        if next_fire_at < now - planning.MISFIRE_THRESHOLD_MS:
            next_fire_at = schedule.next_after(now) or next_fire_at
        return original(
            schedule, next_fire_at=next_fire_at, now=now, until=until, misfire=misfire, **rest
        )

    from tickwheel_admin.engine.planner import drafts as drafting

    drafting.plan = plan


def receipts_before_the_commit() -> None:
    """G5: a result is acknowledged although its transaction was rolled back."""
    from tickwheel_admin.links import session as links_session
    from tickwheel_shared.protocol import ReceiptCode, Result, ResultReceipt

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
                            receipt=ReceiptCode.RECORDED,
                        )
                    ]
                )
        await original(self, messages)

    links_session.NodeSession._take = take  # type: ignore[method-assign]


def edits_leave_fires_that_are_planned() -> None:
    """G11: what was planned ahead under the old version stays."""
    from tickwheel_admin.services.triggers import cutover as settling

    settling.job_triggers.delete_unclaimed_fires = lambda conn, trigger_id, *, after: 0


def cancel_is_told_once() -> None:
    """G14: a cancel that did not arrive is not repeated."""
    nothing = recording.LogReceipt(run=1, attempt=1, first_seq=1)
    deadlines._cancel = lambda run, reason: nothing


def claims_come_early() -> None:
    """A run is claimed half a second before it is due."""
    original = claim_inputs.now_and_pause

    def early(conn: sa.Connection, executor_id: int) -> ClaimBasis:
        basis = original(conn, executor_id)
        return basis._replace(now=basis.now + 500)

    claim_inputs.now_and_pause = early


def nodes_ignore_their_lease() -> None:
    """A node never knows that its lease is over, and starts what lay in its buffers."""
    links.AdminLinks.lease_is_over = lambda self, now: False  # type: ignore[method-assign]


def states_are_written_by_failures() -> None:
    """A run that fails leaves its state as if it had succeeded."""
    outcome._GOOD_ENDS = tuple(handoff.Outcome)
    succeeded = handoff.Outcome.SUCCEEDED
    original = handoff.AttemptOutputs.result

    def result(self: Any, run: Any, message: Any, config: Any, move: Any) -> None:
        if bytes(message.state) != b"null":
            message = msgspec.structs.replace(message, outcome=succeeded)
        original(self, run, message, config, move)

    handoff.AttemptOutputs.result = result  # type: ignore[method-assign]


def names_and_labels_are_not_looked_at() -> None:
    """Routing: a job may run on any node of its executor, whatever it names and selects."""
    router.admits = lambda policy, *, name, labels: True


def busy_nodes_are_not_seen() -> None:
    """Routing: what a job runs already is only known of the batch at hand."""
    route_memory.busy_nodes = lambda conn, job_ids, *, executor_id: {
        each: set() for each in job_ids
    }


def uses_are_not_kept() -> None:
    """Routing: how often a node was used is forgotten with the batch."""
    route_memory.save_uses = lambda conn, uses: None


def results_bring_no_checkpoint() -> None:
    """A failed attempt's last checkpoint is kept only if there was time to send it before."""
    checkpoints.Checkpoints.end = (  # type: ignore[method-assign]
        lambda self, key: msgspec.Raw(b"null")
    )


# --- executors of XXL-JOB's protocol -------------------------------------------------------------


def xxl_reports_are_answered_before_the_commit() -> None:
    """G5: an executor is told that its report is taken while it lies in an admin's memory."""

    async def record(self: Any, results: Any) -> None:
        self._recorder.receive(self, list(results))

    callbacks._ReportSession.record = record  # type: ignore[method-assign]


def xxl_unanswered_calls_are_queued_again() -> None:
    """G2: a run whose call was not answered goes to another node, and nobody is asked."""
    original = runs_of_node.NodeRuns._call_run

    async def call_run(self: Any, attempt: Any, *rest: Any) -> None:
        await original(self, attempt, *rest)
        if attempt.stage is Stage.UNCONFIRMED:
            await self.deny(attempt)

    runs_of_node.NodeRuns._call_run = call_run  # type: ignore[method-assign]


def xxl_wire_jobs_are_shared() -> None:
    """Runs of one job have one wire job: the second finds its executor busy."""

    def add(self: Any, attempt: Any) -> bool:
        self.adopt(attempt)
        attempt.copy = 0
        return True

    RemoteAttempts.add = add  # type: ignore[method-assign]


def xxl_calls_are_made_however_late() -> None:
    """G2: an admin that was frozen when it had claimed starts the run all the same."""
    runs_of_node.START_SECONDS = 1_000_000.0


def xxl_log_ids_carry_no_attempt() -> None:
    """G6: whatever an executor reports counts for the newest attempt."""
    callbacks._full_number = lambda low, newest: newest


def xxl_idle_runs_are_not_noticed() -> None:
    """G3: what an executor neither runs nor reports is waited for, for ever."""

    async def note_idle(self: Any, node: Any, attempt: Any) -> None:
        return

    watch.XxlWatch._note_idle = note_idle  # type: ignore[method-assign]


def xxl_owners_are_missed_late() -> None:
    """G10: a dead admin's nodes are taken over when its lease is over, and theirs."""
    addresses.PRESENT_MS = addresses.ADMIN_LEASE_MS


def xxl_denials_count_while_calls_are_on_their_way() -> None:
    """G2: an admin that takes a node over does not wait for the calls of the one before it."""
    watch.DENY_SECONDS = watch.ABSENT_SECONDS = 0.0


def xxl_one_denial_is_enough() -> None:
    """G2: a run without a log is queued again although its job is busy."""

    async def nothing(self: Any, node: Any, attempt: Any) -> None:
        return None

    watch.XxlWatch._busy_copy = nothing  # type: ignore[method-assign]


def xxl_kills_may_hit_the_next_run() -> None:
    """G14: a wire job is used again while a call to end what ran there is on its way."""
    RemoteAttempts.reserve = lambda self, wire_job, until: 0  # type: ignore[method-assign]


def xxl_takeovers_share_wire_jobs() -> None:
    """G14: the first runs after a takeover have wire jobs that the admin before may still kill."""
    RemoteAttempts.take_over = lambda self, turn, now: None  # type: ignore[method-assign]


def xxl_fetched_lines_are_stored_as_they_come() -> None:
    """What two admins fetch of a log, each in chunks of its own, is stored by both."""
    logs._uncovered = lambda lines, covered: [lines]


def alarm_signals_come_after_the_commit() -> None:
    """G4: what alarms are made of is written by a transaction of its own, a moment later."""
    pending: list[tuple[Any, Any]] = []
    evaluate = evaluator.AlarmEvaluator.run_once

    def add_later(_conn: Any, signals: Any) -> None:
        if signals:
            pending.append((current_process(), signals))

    def write(conn: Any, signals: Any) -> None:
        store_signals.add_signals(conn, signals)

    async def run_once(self: Any) -> bool:
        mine = [each for each in pending if each[0] is current_process()]
        for each in mine:
            await self._store.run(write, each[1])
            pending.remove(each)
        return await evaluate(self)

    follow_ups.add_signals = add_later
    evaluator.AlarmEvaluator.run_once = run_once  # type: ignore[method-assign]


def starts_and_ends_are_not_measured() -> None:
    """G4: late starts and long runs are told only if somebody looks while they last."""
    RunWatch.signals = lambda self, conn, moves, *, now: []  # type: ignore[method-assign]


def looks_forget_since_when() -> None:
    """G4: an admin that has just started says that an executor is only now without nodes."""
    evaluator.read_seen_since = lambda conn: {}


def failures_are_not_counted_alike() -> None:
    """G4: runs that failed alike are counted by no group."""
    evaluator.count_failures = lambda conn, signals: CountedFailures(  # type: ignore[assignment]
        groups={}, group_of={}, joined=()
    )


def failures_count_only_the_last_run_of_a_batch() -> None:
    """G4: of runs that failed alike at one time, their group counts one."""
    original = failure_groups.counted

    def counted(group: Any, failures: Any, *, new_jobs: int) -> Any:
        return original(group, failures[-1:], new_jobs=new_jobs)

    failure_groups.counted = counted


def alarms_are_marked_before_they_are_sent() -> None:
    """G4: a message counts as delivered when somebody sets out to send it."""

    async def deliver(self: Any, sender: Any, notification: Any, token: str) -> None:
        await self._store.run(delivery_of_alarms._mark, notification, token, Delivered())
        await self._send(sender, notification)

    delivery_of_alarms.AlarmDelivery._deliver = deliver  # type: ignore[method-assign]


def alarm_messages_change_their_id() -> None:
    """G4: a provider cannot tell a message that comes again from a new one."""
    original = delivery_of_alarms.build_message

    def build(conn: Any, notification: Any, pages: Any, *, now: int) -> Any:
        message = original(conn, notification, pages, now=now)
        if message is None or not notification.attempts:
            return message
        return dataclasses.replace(message, id=f"{message.id}-{notification.attempts}")

    delivery_of_alarms.build_message = build


def backfills_are_written_unlocked() -> None:
    """G2, compare-and-set of backfills: a slice is written although its backfill has changed."""

    def lock(conn: sa.Connection, seen: Any) -> bool:
        return True

    slices.lock_unchanged = lock


def backfills_run_what_exists() -> None:
    """G2: instants that have runs are run again."""
    slices.existing_runs = lambda *args: {}


def canaries_go_on_after_failures() -> None:
    """A canary retry takes every run that has ended for one that has succeeded."""
    original = CanaryRetry.seen

    def seen(self: Any, states: Any, still_open: Any) -> CanaryRetry:
        return original(self, [RunState.SUCCEEDED for _ in states], still_open)

    CanaryRetry.seen = seen  # type: ignore[method-assign]


MUTATIONS: dict[str, Callable[[], None]] = {
    mutation.__name__: mutation
    for mutation in (
        # In the order of the mechanisms of the architecture: unique key, compare-and-set, claim
        # token, fence, node dedupe, spool, sweeper, lease grace, blocking, poison split, the rest.
        fires_are_not_unique,
        planner_ignores_edits,
        any_token_proves,
        old_attempts_prove,
        node_forgets_what_it_has_met,
        spool_is_not_synced,
        results_are_not_spooled,
        spool_is_cleared_before_the_receipt,
        nobody_sweeps,
        admins_trust_their_view_at_once,
        blocking_is_not_decided,
        one_bad_row_fails_its_batch,
        nodes_run_on_when_they_are_cut_off,
        places_are_not_held,
        nobody_expires_nodes,
        unconfirmed_runs_are_queued_again,
        claims_ignore_slots,
        claims_come_early,
        refusals_cost_a_try,
        backoff_is_forgotten,
        planner_starts_from_now,
        receipts_before_the_commit,
        edits_leave_fires_that_are_planned,
        pauses_do_not_hold_back,
        cancel_is_told_once,
        nodes_ignore_their_lease,
        children_are_forgotten,
        nothing_is_unparked,
        fixed_delays_are_not_armed,
        fires_do_not_end,
        states_are_written_by_failures,
        results_bring_no_checkpoint,
        names_and_labels_are_not_looked_at,
        busy_nodes_are_not_seen,
        uses_are_not_kept,
        # Only worlds with workflows can notice these.
        *WORKFLOW_MUTATIONS,
        # Only worlds with pools can notice these.
        *POOL_MUTATIONS,
        # Only worlds with a channel for alarms can notice these.
        alarm_signals_come_after_the_commit,
        starts_and_ends_are_not_measured,
        looks_forget_since_when,
        failures_are_not_counted_alike,
        failures_count_only_the_last_run_of_a_batch,
        alarms_are_marked_before_they_are_sent,
        alarm_messages_change_their_id,
        # Only worlds in which people fill in the past can notice these.
        backfills_are_written_unlocked,
        backfills_run_what_exists,
        # Only worlds in which people retry failures can notice this.
        canaries_go_on_after_failures,
        # Only worlds with executors of XXL-JOB's protocol can notice these.
        xxl_reports_are_answered_before_the_commit,
        xxl_unanswered_calls_are_queued_again,
        xxl_wire_jobs_are_shared,
        xxl_calls_are_made_however_late,
        xxl_log_ids_carry_no_attempt,
        xxl_idle_runs_are_not_noticed,
        xxl_owners_are_missed_late,
        xxl_denials_count_while_calls_are_on_their_way,
        xxl_one_denial_is_enough,
        xxl_kills_may_hit_the_next_run,
        xxl_takeovers_share_wire_jobs,
        xxl_fetched_lines_are_stored_as_they_come,
    )
} | AUDIT_MUTATIONS
