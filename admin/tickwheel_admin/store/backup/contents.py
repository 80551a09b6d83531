"""Which tables a backup holds, and which are copied by a move.

Every table is in one of the three groups; tests/admin/store/backup/test_contents.py sees to it.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from tickwheel_admin.store.database import tables as t

# What people set up, and who did what.
CONFIGURATION: tuple[sa.Table, ...] = (
    t.id_block,
    t.setting,
    t.executor,
    t.job,
    t.job_state,
    t.job_revision,
    t.script_source,
    t.handler_schema,
    t.declared_job,
    t.calendar,
    t.pool,
    t.trigger,
    t.trigger_period,
    t.pause_period,
    t.calendar_period,
    t.user,
    t.grant,
    t.api_token,
    t.audit,
    t.saved_view,
    t.secret,
    t.job_secret,
    t.xxl_executor,
    t.xxl_address,
    t.import_record,
    t.managed_object,
    t.xxl_take_over,
    t.alarm_channel,
    t.alarm_rule,
)

# What happened.
HISTORY: tuple[sa.Table, ...] = (
    t.node,
    t.node_period,
    t.run,
    t.run_span,
    t.run_attempt,
    t.run_log,
    t.run_error,
    t.failure_group,
    t.failure_group_job,
    t.failure_canary,
    t.run_retry,
    t.run_checkpoint,
    t.run_stat,
    t.run_purge,
    t.job_failure,
    t.backfill,
    t.backfill_run,
    t.workflow_step,
    t.workflow_item,
    t.spawned_items,
    t.deadline_forecast,
    t.coverage_watch,
    t.self_audit_hour,
    t.self_audit_difference,
    t.self_audit_absence,
    t.alarm,
    t.notification,
    t.notification_item,
)

# What is true only at the moment: who is connected, who is logged in, what is held.
MOMENTARY: tuple[sa.Table, ...] = (
    t.bucket,
    t.admin,
    t.node_session,
    t.session,
    t.job_node,
    t.pool_use,
    t.xxl_log,
    t.alarm_signal,
    t.run_event_batch,
    t.run_event_feed,
)

# A move copies even that, but for the admins themselves: those of the new database are others.
# Their first one makes the buckets. Events of runs are numbered anew.
NEVER_COPIED = frozenset(
    {
        t.bucket.name,
        t.admin.name,
        t.node_session.name,
        t.run_event_batch.name,
        t.run_event_feed.name,
    }
)

# Rows of these are large: fewer are read at once.
_LARGE_ROWS = frozenset({"run_log", "run_checkpoint", "script_source", "job_revision", "run"})


def tables_of_backup(*, with_runs: bool) -> tuple[sa.Table, ...]:
    """The tables of a backup, in the order of the file."""
    return CONFIGURATION + HISTORY if with_runs else CONFIGURATION


def tables_of_move() -> tuple[sa.Table, ...]:
    """The tables that a move copies."""
    every = CONFIGURATION + HISTORY + MOMENTARY
    return tuple(table for table in every if table.name not in NEVER_COPIED)


def columns_of(table: sa.Table) -> list[sa.Column[Any]]:
    """Its columns, without those that the database computes from others."""
    return [column for column in table.c if column.computed is None]


def rows_at_once(table: sa.Table) -> int:
    """How many rows of a table are held in memory."""
    return 200 if table.name in _LARGE_ROWS else 1_000
