"""Every query of the hot path and of the lists reads the index that is named after it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import FAR, World
from tickwheel_admin.domain.backfills.backfill import FillOutcome
from tickwheel_admin.domain.backfills.instants import DueInstant
from tickwheel_admin.domain.failures.canary import CanaryRetry, CanaryState
from tickwheel_admin.domain.jobs.declared_job import DeclaredState
from tickwheel_admin.domain.runs.run import FAILURES, FINAL, LIVE, PARKED_AT, Origin, RunState
from tickwheel_admin.domain.users.saved_view import ListPage
from tickwheel_admin.store.as_of import runs as past_runs
from tickwheel_admin.store.as_of.changes import revisions_at
from tickwheel_admin.store.as_of.runs import PastScope
from tickwheel_admin.store.as_of.situation import periods_of_job
from tickwheel_admin.store.backfills import backfills, existing, slices, watches
from tickwheel_admin.store.backfills import coverage as covering
from tickwheel_admin.store.calendars import calendars
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_rows, update_rows
from tickwheel_admin.store.delays import runs as delayed_runs
from tickwheel_admin.store.delays.nodes import nodes_between
from tickwheel_admin.store.delays.runs import RunEntry
from tickwheel_admin.store.executors import executors, handler_schemas
from tickwheel_admin.store.executors.node_leases import expire_nodes
from tickwheel_admin.store.executors.node_periods import read_node_periods
from tickwheel_admin.store.executors.nodes import live_nodes
from tickwheel_admin.store.failures.canaries import next_runs
from tickwheel_admin.store.failures.good_runs import last_good_run
from tickwheel_admin.store.forecast import situation as forecasts
from tickwheel_admin.store.forecast.ended_runs import ended_runs
from tickwheel_admin.store.gitops import handler_uses
from tickwheel_admin.store.gitops import managed as managed_objects
from tickwheel_admin.store.jobs import declared as declared_jobs
from tickwheel_admin.store.jobs import deletion as job_deletion
from tickwheel_admin.store.jobs import filters as job_filters
from tickwheel_admin.store.jobs import jobs, last_outcomes, scripts
from tickwheel_admin.store.jobs import kept_state as job_states
from tickwheel_admin.store.jobs import pages as job_pages
from tickwheel_admin.store.jobs import routing_memory as job_nodes
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.jobs.filters import JobFilter, JobSort
from tickwheel_admin.store.jobs.kept_state import StateHolder
from tickwheel_admin.store.lists import saved_views, suggestions
from tickwheel_admin.store.overview import (
    attention,
    job_failures,
    list_counts,
    metric_figures,
    overview,
)
from tickwheel_admin.store.overview.job_figures import look_at_jobs
from tickwheel_admin.store.pools.holders import pools_now
from tickwheel_admin.store.pools.slots import end_uses, pools_waited_for
from tickwheel_admin.store.proof import ledger as proven
from tickwheel_admin.store.proof import names as proven_names
from tickwheel_admin.store.proof.filled import filled_instants
from tickwheel_admin.store.runs import (
    attempts,
    checkpoints,
    due,
    job_trends,
    lanes,
    outcome_counts,
    shards,
    summaries,
)
from tickwheel_admin.store.runs import deadlines as run_deadlines
from tickwheel_admin.store.runs import errors as run_errors
from tickwheel_admin.store.runs import lists as run_lists
from tickwheel_admin.store.runs import pages as run_pages
from tickwheel_admin.store.runs import purge as purging
from tickwheel_admin.store.runs import queue_depth as waiting
from tickwheel_admin.store.runs import retries as run_retries
from tickwheel_admin.store.runs import runs as store_runs
from tickwheel_admin.store.runs import stats as run_stats
from tickwheel_admin.store.runs.checkpoints import StoredCheckpoint
from tickwheel_admin.store.runs.due_check import check_due
from tickwheel_admin.store.runs.logs import last_log_line, log_chunks_after, log_chunks_before
from tickwheel_admin.store.runs.pages import RunFilter, RunPosition
from tickwheel_admin.store.runs.pools.line import first_in_line
from tickwheel_admin.store.runs.spans import remove_old_spans
from tickwheel_admin.store.self_audit import absences as audit_absences
from tickwheel_admin.store.self_audit import ledger as audited_ledger
from tickwheel_admin.store.self_audit import past as audited
from tickwheel_admin.store.self_audit import results as audit_results
from tickwheel_admin.store.self_audit.periods import REMEMBERED_MS, forget_past
from tickwheel_admin.store.triggers import planning as triggers
from tickwheel_admin.store.triggers import stale as stale_triggers
from tickwheel_admin.store.triggers import triggers as job_triggers
from tickwheel_admin.store.triggers.pauses import now_and_pause, read_pauses
from tickwheel_admin.store.triggers.planning import due_buckets, due_triggers, first_fire_at

EXECUTORS = 3
JOBS = 20_000
TRIGGERS = 20_000
RUNS = 40_000
NODES = 400
CALENDARS = 200
SECOND = 1_000
# Small tables that may be read whole; every other table may not.
SMALL = {
    "bucket", "calendar", "executor", "admin", "node", "node_session", "setting", "user",
    "pool",
    "run_error",  # its newest rows are read in bounds, here more than there are
}  # fmt: skip


@dataclass(frozen=True)
class Query:
    """A store function's call, and the indexes that its statements must read."""

    name: str
    call: Callable[[sa.Connection, int], object]
    indexes: tuple[str, ...]
    # Its first statement sorts no more rows than it gives, however many have the same instant.
    in_order: bool = False


def of_runs(
    name: str, index: str, before: RunPosition | None = None, *, newer: bool = False, **wanted: Any
) -> Query:
    """A page of runs; `wanted` are fields of RunFilter."""
    shown = RunFilter(**wanted)
    return Query(
        name,
        lambda c, now: run_pages.page_runs(c, shown, before=before, limit=50, newer=newer),
        (index,),
    )


def of_jobs(
    name: str,
    index: str,
    after: tuple[str | int, int] | None = None,
    *,
    sort: JobSort = JobSort.NAME,
    back: bool = False,
    **wanted: Any,
) -> Query:
    """A page of jobs; `wanted` are fields of JobFilter."""
    shown = JobFilter(**wanted)
    return Query(
        name,
        lambda c, now: job_pages.page_jobs(c, shown, after=after, limit=51, sort=sort, back=back),
        (index,),
    )


IN_LINE = range(1, 21)  # jobs that are not parallel
LANES = {lanes.BlockingLane(job_id=3): 2, lanes.BlockingLane(job_id=4, shard_index=2): 1}
FIRES = [1_000_000, 1_000_050]
RUN_STAT_NUMBERS = (
    "succeeded", "failed", "timed_out", "cancelled", "made_good", "counted_at",
)  # fmt: skip
HOURS = [1_699_999_200_000 + n * run_stats.HOUR_MS for n in range(200)]
AUDITED_NUMBERS = (
    "expected", "happened", "fires", "missing", "doubled", "late", "unexplained", "triggers",
    "audited", "audited_at",
)  # fmt: skip
PERIODS = 5_000
PERIODS_END = PERIODS
FIRST_RUN_AT = 1_700_000_000_000
PAGE = RunPosition(scheduled_at=1_700_000_020_000, id=1_020_000)
WATCH = watches.CoverageWatch(trigger_id=9, job_id=9, executor_id=1, limit_ms=1, look_at=1)
FAILED: Any = SimpleNamespace(id=9, job_id=7, scheduled_at=1_700_000_039_000, shard_index=0)
CANARY = CanaryRetry(
    id=1,
    group_id=3,
    executor_id=2,
    state=CanaryState.RUNNING,
    user_id=0,
    started_by="ann",
    started_at=1_700_000_040_000,
    since=1_700_000_000_000,
    before_at=1_700_000_039_000,
    before_id=9,
)
BESIDE: Any = SimpleNamespace(
    config=SimpleNamespace(
        children=[SimpleNamespace(job_id=9)], pool=SimpleNamespace(pool_id=3), workflow=None
    )
)

QUERIES = [
    # The way of a run.
    Query(
        "due buckets",
        lambda c, now: due_buckets(c, now=now, ahead_ms=2_000),
        ("ix_trigger_to_plan|ix_trigger_next",),
    ),
    Query("first fire of all", lambda c, now: first_fire_at(c), ()),  # MariaDB names none for it
    Query(
        "due triggers of all buckets",
        lambda c, now: due_triggers(
            c, bucket_id=None, after=now - 5_000, until=now, limit=500, paused=[7], now=now
        ),
        ("ix_trigger_next",),
    ),
    Query(
        "due triggers of a bucket",
        lambda c, now: due_triggers(
            c, bucket_id=3, after=now - 5_000, until=now, limit=500, paused=[7], now=now
        ),
        ("ix_trigger_to_plan|ix_trigger_next",),
        in_order=True,
    ),
    Query(
        "overdue triggers of a bucket",
        lambda c, now: due_triggers(
            c, bucket_id=3, after=0, until=now - 5_000, limit=500, paused=[7], now=now
        ),
        ("ix_trigger_to_plan|ix_trigger_next",),
    ),
    Query(
        "executors with due runs",
        lambda c, now: due.due_executors(c, [1, 2, 3]),
        ("ix_run_due",),
    ),
    Query(
        "whether anything is due soon",
        lambda c, now: due.is_anything_due(c, within_ms=250),
        ("ix_run_due",),
    ),
    Query(
        "executors with due workflows",
        lambda c, now: due.executors_with_due_workflows(c),
        ("ix_run_to_claim",),
    ),
    Query(
        "claim by priority",
        lambda c, now: due.claimable_runs(c, executor_id=1, now=now, limit=100, oldest_first=False),
        ("ix_run_to_claim",),
        in_order=True,
    ),
    Query(
        "claim oldest first",
        lambda c, now: due.claimable_runs(c, executor_id=1, now=now, limit=100, oldest_first=True),
        ("ix_run_due",),
        in_order=True,
    ),
    Query(
        "claim workflows",
        lambda c, now: due.claimable_workflows(c, executor_id=1, now=now, limit=100),
        ("ix_run_to_claim",),
    ),
    Query(
        "pools that an executor's runs wait for",
        lambda c, now: pools_waited_for(c, 1, now=now),
        ("ix_run_to_claim", "ix_pool_use_of_pool"),
    ),
    Query(
        "who holds pools",
        lambda c, now: pools_now(c, range(1, 20)),
        ("ix_pool_use_of_pool",),
    ),
    Query(
        "the line before a pool",
        lambda c, now: first_in_line(c, pool_id=3, executor_id=1, now=now, limit=50),
        ("ix_run_to_claim",),
    ),
    Query(
        "runs that no longer hold slots of pools",
        lambda c, now: end_uses(c, range(1, 100)),
        ("primary",),
    ),
    Query(
        "lock the claimed",
        lambda c, now: store_runs.lock_queued_runs(c, range(1_000_000, 1_000_100), now=now),
        ("primary",),
    ),
    Query(
        "move the locked",  # each found by its id, and not by the state it leaves
        lambda c, now: update_rows(
            c,
            tables.run,
            [{"id": run_id, "deadline_at": now} for run_id in range(1_000_000, 1_000_100)],
            match=("id",),
            values=("deadline_at",),
            where="t.state = :source",
            params={"source": RunState.QUEUED.value},
        ),
        ("primary",),
    ),
    Query(
        "what nodes had of some jobs", lambda c, now: job_nodes.read_uses(c, [3, 40]), ("primary",)
    ),
    Query(
        "nodes that run some jobs",
        lambda c, now: job_nodes.busy_nodes(c, [3, 40], executor_id=2),
        ("ix_run_to_sweep",),
    ),
    Query(
        "uses of nodes that ended",
        lambda c, now: job_nodes.forget_ended_nodes(c, limit=3),
        ("ix_job_node_of_node",),
    ),
    Query(
        "lend states",
        lambda c, now: job_states.assign_states(
            c, [StateHolder(job_id=job_id, run_id=1_000_001, attempt=1) for job_id in range(1, 100)]
        ),
        ("primary",),
    ),
    Query(
        "take states back",
        lambda c, now: job_states.write_states(
            c,
            [
                (StateHolder(job_id=job_id, run_id=1_000_001, attempt=2), "{}")
                for job_id in range(1, 100)
            ],
            now=now,
        ),
        ("primary",),
    ),
    Query(
        "read checkpoints",
        lambda c, now: checkpoints.read_checkpoints(c, range(1_000_000, 1_000_100)),
        ("primary",),
    ),
    Query(
        "runs that lost an attempt",
        lambda c, now: attempts.lost_before(c, range(1_000_000, 1_000_100)),
        ("primary",),
    ),
    Query(
        "save checkpoints",
        lambda c, now: checkpoints.save_checkpoints(
            c,
            [
                StoredCheckpoint(run_id=run_id, attempt=1, seq=2, data="1")
                for run_id in range(1_000_000, 1_000_100)
            ],
            now=now,
        ),
        ("primary",),
    ),
    Query(
        "sweep",
        lambda c, now: run_deadlines.runs_past_deadline(c, now=now, limit=500),
        ("ix_run_to_sweep",),
    ),
    Query(
        "queued runs past their deadline",
        lambda c, now: run_deadlines.queued_past_deadline(c, now=now, limit=500),
        ("ix_run_to_sweep",),
    ),
    Query(
        "runs of nodes that ended",
        lambda c, now: run_deadlines.live_runs_of_nodes(c, [3, 4], limit=500, now=now),
        ("ix_run_to_sweep",),
    ),
    Query(
        "held runs of a node that is back",
        lambda c, now: run_deadlines.ask_about_held_runs(c, {3: [1_000_001], 4: []}, now=now),
        ("ix_run_to_sweep",),
    ),
    Query(
        "open shards",
        lambda c, now: shards.lock_open_shards(c, FIRES, limit=500),
        ("ix_run_of_fire",),
    ),
    # What retries by hand made of runs.
    Query(
        "failures that nobody has retried",
        lambda c, now: run_pages.page_runs(
            c,
            RunFilter(states=frozenset({RunState.FAILED}), retried=False, made_good=False),
            before=PAGE,
            limit=50,
        ),
        ("ix_run_by_state",),
    ),
    Query(
        "retries of a page of runs",
        lambda c, now: run_retries.retries_of(c, range(1_000_000, 1_000_050)),
        ("primary",),
    ),
    Query(
        "failures made good",
        lambda c, now: run_retries.count_made_good(
            c, from_at=now - 2 * SECOND, to_at=now, bucket_ms=60 * SECOND
        ),
        ("ix_run_retry_made_good",),
    ),
    Query(
        "hours with failures made good",
        lambda c, now: run_retries.hours_made_good(c, since=now - 2 * SECOND, hour_ms=60 * SECOND),
        ("ix_run_retry_ended",),
    ),
    Query("shards by state", lambda c, now: shards.count_shards(c, FIRES), ("ix_run_of_fire",)),
    # Who stands in line.
    Query("live by job", lambda c, now: lanes.count_live(c, IN_LINE), ("ix_run_blocking",)),
    Query("live runs, locked", lambda c, now: lanes.lock_live(c, IN_LINE), ("ix_run_blocking",)),
    Query(
        "waiting runs of jobs",
        lambda c, now: lanes.waiting_runs(c, dict.fromkeys(IN_LINE, 50)),
        ("ix_run_blocking",),
    ),
    Query(
        "next in line",
        lambda c, now: lanes.lock_parked(c, LANES, newest=False),
        ("ix_run_blocking",),
    ),
    Query(
        "newest in line",
        lambda c, now: lanes.lock_parked(c, LANES, newest=True),
        ("ix_run_blocking",),
    ),
    Query(
        "parked runs, locked",
        lambda c, now: lanes.lock_parked_runs(c, range(1_000_000, 1_000_100)),
        ("primary",),
    ),
    Query("idle lines", lambda c, now: lanes.stalled_jobs(c), ("ix_run_blocking",)),
    Query(
        "fixed delays that wait",
        lambda c, now: triggers.unarmed_fixed_delays(c, after=100, limit=1_000),
        ("ix_trigger_next",),
    ),
    Query(
        "last runs of triggers",
        lambda c, now: triggers.states_of_fires(c, {1: now, 2: now}),
        ("uq_run_fires_once",),
    ),
    # Calendars and who follows them.
    Query(
        "calendars that some trigger is behind",
        lambda c, now: stale_triggers.stale_calendars(c),
        ("ix_trigger_of_calendar",),
    ),
    Query(
        "triggers behind their calendar",
        lambda c, now: stale_triggers.triggers_behind(c, "calendar-7", 3, limit=500),
        ("ix_trigger_of_calendar",),
    ),
    Query(
        "triggers by id",
        lambda c, now: stale_triggers.triggers_after(c, 1_000, limit=500),
        ("primary",),
    ),
    Query(
        "fires planned ahead, taken back",
        lambda c, now: stale_triggers.take_back_fires(c, [1, 2, 3], after=now),
        ("uq_run_fires_once|ix_run_by_state|ix_run_recent",),
    ),
    Query(
        "last fires of triggers",
        lambda c, now: stale_triggers.last_fires(c, [1, 2, 3]),
        ("uq_run_fires_once",),
    ),
    Query(
        "refreshed triggers",
        lambda c, now: update_rows(
            c,
            tables.trigger,
            [{"id": trigger_id, "version": 2} for trigger_id in range(1, 101)],
            match=("id",),
            values=("version",),
            where="t.version = b.version - 1",
            reads=("version",),
        ),
        ("primary",),
    ),
    Query(
        "users of a calendar",
        lambda c, now: calendars.users_of(c, "calendar-7", limit=200, scope=frozenset({1})),
        ("ix_trigger_of_calendar",),
    ),
    Query(
        "users of calendars, counted",
        lambda c, now: calendars.count_users(c, ["calendar-7", "calendar-9"]),
        ("ix_trigger_of_calendar",),
    ),
    Query(
        "triggers that will fire",
        lambda c, now: job_triggers.armed_triggers(
            c, after=1_000, before_at=FAR, scope=frozenset({1}), limit=200
        ),
        ("primary",),
    ),
    Query("pauses", lambda c, now: read_pauses(c, [1, 2]), ()),  # two small tables
    Query("pause of a claim", lambda c, now: now_and_pause(c, 1), ("ix_run_to_claim",)),
    # What processes say of their code.
    Query("declared jobs", lambda c, now: declared_jobs.read_declared(c, 2), ("primary",)),
    Query(
        "schemas of an executor", lambda c, now: handler_schemas.read_schemas(c, 2), ("primary",)
    ),
    Query(
        "executors with schemas",
        lambda c, now: handler_schemas.executors_with_schemas(c, [2]),
        ("primary",),
    ),
    Query(
        "jobs of a page that code manages",
        lambda c, now: declared_jobs.managed_jobs(c, range(1, 51)),
        ("ix_declared_job_of_job",),
    ),
    Query(
        "declarations whose jobs are deleted",
        lambda c, now: declared_jobs.give_up_declared(c, [3]),
        ("ix_declared_job_of_job",),
    ),
    # What directories of files have applied.
    Query(
        "objects of a page that files manage",
        lambda c, now: managed_objects.managed_by_ids(c, "job", [3, 6]),
        ("primary",),
    ),
    Query(
        "objects of a directory",
        lambda c, now: managed_objects.managed_by_owner(c, "team-7"),
        ("ix_managed_object_by_owner",),
    ),
    Query(
        "queued runs of an executor",
        lambda c, now: handler_uses.queued_run_ids(c, 1),
        (),  # SQLite takes either index of what an executor has queued, by no rule that we know
    ),
    Query(
        "some of them",
        lambda c, now: handler_uses.queued_runs(c, range(1_000_000, 1_000_050)),
        ("primary",),
    ),
    Query(
        "hidden jobs on an executor",
        lambda c, now: handler_uses.inline_jobs_on(c, 3),
        (),  # any index by deletion: all hidden jobs of an installation are few
    ),
    Query(
        "declared jobs that wait",
        lambda c, now: declared_jobs.names_in_state(c, DeclaredState.WAITING, None),
        ("ix_declared_job_by_state",),
    ),
    Query(
        "declared jobs of some executors that wait",
        lambda c, now: declared_jobs.names_in_state(c, DeclaredState.WAITING, [1, 2]),
        ("ix_declared_job_by_state",),
    ),
    Query(
        "jobs by their names",
        lambda c, now: jobs.jobs_named(c, 1, ["job-00003", "job-00006"]),
        ("uq_job_name",),
    ),
    Query("current configurations", lambda c, now: jobs.current_configs(c, [3, 6]), ("primary",)),
    Query(
        "live nodes",
        lambda c, now: live_nodes(c, 1, now=now),
        ("ix_node_of_executor|ix_node_to_expire",),
    ),
    Query("nodes to expire", lambda c, now: expire_nodes(c), ("ix_node_to_expire",)),
    Query(
        "a sweeper's glance",
        lambda c, now: check_due(c),
        ("ix_run_to_sweep", "ix_node_to_expire"),
    ),
    # Lists of runs.
    of_runs("runs", "ix_run_recent"),
    of_runs("runs of a trigger", "uq_run_fires_once", PAGE, trigger_id=7, origin=Origin.SCHEDULE),
    of_runs(
        "runs of a node that somebody asked for", "ix_run_recent", node_id=3, requested_by="ada"
    ),
    Query(
        "runs counted",
        lambda c, now: run_pages.count_runs(c, RunFilter(states=FAILURES), limit=50),
        ("ix_run_by_state",),
    ),
    of_runs("runs, page before", "ix_run_recent", PAGE, newer=True),
    of_runs("runs of a state, page before", "ix_run_by_state", PAGE, states=FAILURES, newer=True),
    of_runs("runs of a job, page before", "ix_run_of_job", PAGE, job_id=7, newer=True),
    of_runs("runs, next page", "ix_run_recent", PAGE),
    of_runs("runs between", "ix_run_recent", from_at=1_700_000_010_000, to_at=1_700_000_030_000),
    of_runs("runs of an executor", "ix_run_recent", PAGE, executors=frozenset({2})),
    of_runs("failed runs", "ix_run_by_state", PAGE, states=FAILURES),
    of_runs(
        "succeeded runs of an executor",
        "ix_run_by_state|ix_run_recent",
        states=frozenset({RunState.SUCCEEDED}),
        executors=frozenset({2}),
    ),  # nearly all runs succeeded: either is as good
    of_runs("runs that failed alike", "ix_run_of_error", errors=frozenset(range(3, 23))),
    of_runs(
        "runs of some jobs that failed alike, next page",
        "ix_run_of_error",
        PAGE,
        errors=frozenset({3}),
        jobs=frozenset({7}),
        states=FAILURES,
    ),
    of_runs("runs that failed in many ways", "ix_run_by_state", errors=frozenset(range(300))),
    Query(
        "kinds of errors",
        lambda c, now: run_errors.find_errors(c, "refused", executors=[2]),
        (),
    ),
    Query(
        "runs that a canary retries next",
        lambda c, now: next_runs(c, CANARY, limit=4),
        ("ix_run_of_error",),
    ),
    Query(
        "the last good run before one",
        lambda c, now: last_good_run(c, FAILED),
        ("ix_run_of_job",),
    ),
    Query(
        "errors without runs",
        lambda c, now: run_errors.remove_unused_errors(c, older_than_ms=-FAR, after=5, limit=1_000),
        ("ix_run_of_error",),
    ),
    of_runs(
        "runs of the jobs of an owner",
        "ix_run_of_job",
        PAGE,
        jobs=frozenset(range(1, 11)),
        states=FAILURES,
    ),
    of_runs(
        "runs of the many jobs with a tag", "ix_run_recent", jobs=frozenset(range(1, 5_000, 2))
    ),
    Query(
        "jobs by owner and tag",
        lambda c, now: job_filters.job_ids(c, JobFilter(owner="team-7", tags=("night",))),
        ("ix_job_of_owner",),
    ),
    of_runs("live runs", "ix_run_to_sweep", states=LIVE),
    of_runs("runs of a job", "ix_run_of_job", job_id=7),
    of_runs("runs of a job, next page", "ix_run_of_job", PAGE, job_id=7),
    of_runs("failed runs of a job", "ix_run_of_job", PAGE, job_id=7, states=FAILURES),
    Query(
        "marks of fifty jobs",
        lambda c, now: summaries.recent_summaries(c, range(1, 51), until=now, per_job=24),
        ("ix_run_of_job",),
    ),
    Query(
        "shards of a fire",
        lambda c, now: run_lists.shards_of_fire(c, 1_000_005),
        ("ix_run_of_fire",),
    ),
    Query(
        "children of a run",
        lambda c, now: run_lists.requested_runs(c, [7, 8], "child-of:5"),
        ("uq_run_requested_once",),
    ),
    Query(
        "log of a run",
        lambda c, now: log_chunks_after(c, run_id=5, attempt=1, after=3, limit=4),
        ("primary",),
    ),
    Query(
        "log of a run, backwards",
        lambda c, now: log_chunks_before(c, run_id=5, attempt=1, before=3, limit=4),
        ("primary",),
    ),
    Query(
        "last line of a run's log",
        lambda c, now: last_log_line(c, run_id=5, attempt=1),
        ("primary",),
    ),
    # Jobs and executors.
    of_jobs("jobs by name", "ix_job_by_name", ("job-01000", 5)),
    of_jobs(
        "jobs by name, the page before",
        "ix_job_by_name",
        ("job-15000", 5),
        executors=frozenset({1, 2}),
        back=True,
    ),
    of_jobs("jobs of one executor", "uq_job_name", ("job-01000", 5), executors=frozenset({2})),
    of_jobs("jobs by name, downwards", "ix_job_by_name", ("job-01000", 5), sort=JobSort.NAME_DOWN),
    of_jobs("jobs that changed last", "ix_job_changed", (5_000, 5), sort=JobSort.CHANGED),
    of_jobs("jobs that take longest", "ix_job_usual", (0, 10_000), sort=JobSort.DURATION),
    of_jobs("jobs that fail most", "ix_job_failure_rate", (0, 10_000), sort=JobSort.FAILURE_RATE),
    Query(
        "jobs whose figures are counted",
        lambda c, now: look_at_jobs(c, 5_000, now=now, limit=100),
        ("ix_run_of_job",),
    ),
    Query(
        "jobs by their next fire",
        lambda c, now: job_pages.page_jobs(
            c, JobFilter(), after=(now, 5), limit=51, sort=JobSort.NEXT_FIRE
        ),
        ("ix_trigger_next",),
    ),
    Query(
        "jobs by their next fire, the page before, of some executors",
        lambda c, now: job_pages.page_jobs(
            c,
            JobFilter(executors=frozenset({1, 2})),
            after=(now + 60_000, 5),
            limit=51,
            sort=JobSort.NEXT_FIRE,
            back=True,
        ),
        ("ix_trigger_next",),
    ),
    Query(
        "jobs by their next fire, those that nothing fires",
        lambda c, now: job_pages.page_jobs(
            c, JobFilter(), after=("job-01000", 5), limit=51, sort=JobSort.NEXT_FIRE
        ),
        ("ix_job_by_name", "ix_trigger_of_job"),
    ),
    of_jobs(
        "jobs of an owner", "ix_job_of_owner", ("job-01000", 5), owner="team-7", tags=("night",)
    ),
    of_jobs("paused jobs", "ix_job_paused", paused=True),
    Query(
        "jobs of one name",
        lambda c, now: job_filters.jobs_called(c, "job-01000", None, limit=2),
        ("ix_job_by_name|uq_job_name",),
    ),
    Query(
        "how many jobs are paused",
        lambda c, now: job_filters.count_jobs(c, JobFilter(paused=True), limit=1_000),
        ("ix_job_paused",),
    ),
    # Who delays whom.
    Query(
        "runs of a time, newest first",
        lambda c, now: delayed_runs.page_run_entries(
            c,
            from_at=1_700_000_010_000,
            to_at=1_700_000_030_000,
            before=RunEntry(scheduled_at=1_700_000_020_000, id=1_020_000, executor_id=1),
            limit=50,
        ),
        ("ix_run_recent",),
    ),
    Query(
        "runs that waited, with their attempts",
        lambda c, now: delayed_runs.runs_overlapping(
            c, range(1_000_000, 1_000_100), from_at=1_700_000_000_000
        ),
        ("primary",),
    ),
    Query(
        "a run that waited",
        lambda c, now: delayed_runs.run_waited(c, 1_000_001),
        ("primary",),
    ),
    Query(
        "live runs that hold slots",
        lambda c, now: delayed_runs.live_runs_of(c, 1),
        ("ix_run_to_sweep",),
    ),
    Query(
        "jobs of other executors in a pool",
        lambda c, now: delayed_runs.jobs_of_pools_elsewhere(c, {3}, executor_id=1),
        ("ix_job_of_pool",),
    ),
    Query(
        "runs of a job that may hold slots of a pool",
        lambda c, now: delayed_runs.pooled_runs_of_jobs(
            c,
            [3],
            scheduled_from=1_700_000_010_000,
            from_at=1_700_000_020_000,
            to_at=1_700_000_030_000,
        ),
        ("ix_run_of_job",),
    ),
    Query(
        "nodes that there were",
        lambda c, now: nodes_between(c, 1, from_at=4_000, to_at=5_000),
        ("ix_node_of_executor",),
    ),
    Query(
        "owners of jobs",
        lambda c, now: suggestions.owners(c, frozenset({2}), start="team-1", limit=5),
        ("ix_job_of_owner",),
    ),
    Query(
        "tags of jobs",
        lambda c, now: suggestions.tags(c, frozenset({2}), part="night", limit=5),
        ("ix_job_tags",),
    ),
    Query(
        "names of jobs",
        lambda c, now: suggestions.job_names(c, frozenset({2}), start="job-1", limit=5),
        ("ix_job_by_name",),
    ),
    Query(
        "nodes of one name",
        lambda c, now: suggestions.nodes_named(c, frozenset({1, 2, 3}), "host-30"),
        (),
    ),
    Query(
        "runs on tabs",
        lambda c, now: list_counts.count_by_state(
            c, list(RunState), executors=frozenset({1, 2}), from_at=now - 30_000, to_at=now
        ),
        ("ix_run_by_state",),
    ),
    Query(
        "running jobs on a tab",
        lambda c, now: list_counts.count_running_jobs(c, frozenset({1, 2})),
        ("ix_run_to_sweep",),
    ),
    Query(
        "failing jobs on a tab",
        lambda c, now: list_counts.count_failing_jobs(
            c, JobFilter(), saying=FINAL - {RunState.SKIPPED}, now=now
        ),
        ("ix_job_failure_recent", "ix_run_by_state", "ix_run_of_job"),
    ),
    Query(
        "views of a list",
        lambda c, now: saved_views.views_for(c, 7, ListPage.JOBS),
        ("uq_saved_view_name", "ix_saved_view_shared"),
    ),
    Query(
        "views of a person", lambda c, now: saved_views.count_views(c, 7), ("uq_saved_view_name",)
    ),
    of_jobs("running jobs", "ix_run_to_sweep", running=True),
    Query(
        "triggers of jobs",
        lambda c, now: job_triggers.triggers_of_jobs(c, range(9)),
        ("ix_trigger_of_job",),
    ),
    Query(
        "triggers of a job, locked",
        lambda c, now: job_triggers.lock_triggers(c, 7),
        ("ix_trigger_of_job",),
    ),
    Query(
        "fires that nobody claimed",
        lambda c, now: job_triggers.delete_unclaimed_fires(c, 7, after=now),
        ("uq_run_fires_once|ix_run_by_state|ix_run_recent",),
    ),
    Query(
        "last fire of a trigger",
        lambda c, now: job_triggers.last_fire_of_trigger(c, 7),
        ("uq_run_fires_once|optimized away",),
    ),
    Query(
        "last run of a trigger, locked",
        lambda c, now: job_triggers.lock_run_of_fire(c, 7, now),
        ("uq_run_fires_once",),
    ),
    Query(
        "waiting runs of a job",
        lambda c, now: jobs.unclaimed_runs_of_job(c, jobs.get_job(c, 7), limit=500),  # type: ignore[arg-type]
        (),  # whichever is shorter: the job's history or the executor's queue
    ),
    Query(
        "capacities",
        lambda c, now: executors.capacities(c, scope=None),
        (),  # nodes are few enough to be read whole
    ),
    Query(
        "count of jobs",
        lambda c, now: executors.count_jobs(c, [2]),
        ("uq_job_name|ix_job_by_name",),
    ),
    Query(
        "some jobs of an executor, locked",
        lambda c, now: job_deletion.lock_some_jobs(c, 2, limit=50),
        ("uq_job_name|ix_job_by_name|primary",),
    ),
    Query(
        "triggers of some jobs, deleted",
        lambda c, now: job_deletion.delete_triggers_of_jobs(c, range(1, 51)),
        ("ix_trigger_of_job",),
    ),
    Query(
        "unclaimed runs of some jobs",
        lambda c, now: job_deletion.unclaimed_runs(
            c, executor_id=2, job_ids=range(1, 51), limit=500
        ),
        ("ix_run_due|ix_run_to_claim|ix_run_of_job",),
    ),
    Query(
        "waiting runs of an executor",
        lambda c, now: job_deletion.waiting_runs(c, 2, limit=500),
        ("ix_run_due|ix_run_to_claim",),
    ),
    Query(
        "what waits for deleted executors",
        lambda c, now: job_deletion.runs_of_deleted_executors(c, limit=500),
        ("ix_run_due|ix_run_to_claim",),
    ),
    Query(
        "live runs of an executor",
        lambda c, now: job_deletion.unstopped_runs(c, 2, limit=500),
        ("ix_run_to_sweep",),
    ),
    Query(
        "live workflows of an executor",
        lambda c, now: job_deletion.unstopped_workflows(c, 2, limit=500),
        ("ix_run_to_sweep",),
    ),
    Query(
        "what waits at executors",
        lambda c, now: waiting.queue_depths(c, [1, 2, 3], now=now),
        ("ix_run_due",),
    ),
    Query(
        "what a node runs",
        lambda c, now: run_lists.live_items_of_node(c, 3, limit=200),
        ("ix_run_to_sweep",),
    ),
    # Backfills.
    Query("open backfills", lambda c, now: backfills.open_backfills(c), ("ix_backfill_open",)),
    Query(
        "open backfills of a job",
        lambda c, now: backfills.count_open_of_job(c, 7),
        ("ix_backfill_open_of_job",),
    ),
    Query(
        "paused backfills of deleted jobs",
        lambda c, now: backfills.end_resting_of_deleted_jobs(c, reason="gone", limit=100),
        ("ix_backfill_open", "primary"),
    ),
    Query(
        "backfills of a job",
        lambda c, now: backfills.page_backfills(
            c, job_id=7, executor_ids={1}, before=None, limit=51
        ),
        ("ix_backfill_of_job|ix_backfill_open_of_job|primary",),
    ),
    Query(
        "instants of a backfill",
        lambda c, now: backfills.page_instants(
            c, 3, outcome=FillOutcome.FAILED, before=None, limit=51
        ),
        ("ix_backfill_run_of",),
    ),
    Query(
        "open runs of a backfill",
        lambda c, now: slices.open_states(c, 3),
        ("ix_backfill_run_of", "primary"),
    ),
    Query(
        "instants that have runs",
        lambda c, now: existing.existing_runs(c, 7, 1, range(now - 200, now)),
        ("ix_trigger_of_job", "ix_run_of_job|ix_run_recent", "primary|ix_backfill_run_of"),
    ),
    Query(
        "count of instants that have runs",
        lambda c, now: existing.count_existing(
            c, 7, 1, range(now - 200, now), breathe=lambda: None
        ),
        ("ix_trigger_of_job", "ix_run_of_job|ix_run_recent", "primary|ix_backfill_run_of"),
    ),
    Query(
        "coverage of intervals",
        lambda c, now: covering.read_coverage(
            c, 7, 1, [DueInstant(at, at - 1) for at in range(now - 200, now)]
        ),
        (
            "ix_trigger_of_job", "ix_run_of_job|ix_run_recent", "primary|ix_backfill_run_of",
            "primary",
        ),
    ),
    Query(
        "old backfills",
        lambda c, now: backfills.remove_old_backfills(c, older_than_ms=0, limit=100),
        ("ix_backfill_open", "ix_backfill_run_of|primary"),
    ),
    # Purging.
    Query(
        "old runs",
        lambda c, now: purging.find_purgeable(
            c, purging.PurgeScope(until=now), purging.PurgePosition()
        ),
        ("ix_run_recent",),
    ),
    Query(
        "all but the newest runs of a job",
        lambda c, now: purging.find_purgeable(
            c, purging.PurgeScope(job_id=7, until=now, keep_newest=1), purging.PurgePosition()
        ),
        ("ix_run_of_job",),
    ),
    Query(
        "all but the newest runs of an executor",
        lambda c, now: purging.find_purgeable(
            c,
            purging.PurgeScope(executor_id=2, until=now, keep_newest=1),
            purging.PurgePosition(job_id=40),
        ),
        ("ix_run_of_job",),
    ),
    Query(
        "sources of scripts that nothing has",
        lambda c, now: scripts.remove_unused_sources(c, older_than_ms=0, after="0", limit=1_000),
        ("primary", "ix_job_revision_of_script"),
    ),
    # Needs attention.
    Query(
        "newest failures of an executor",
        lambda c, now: attention.newest_failures(c, since=0, scope=frozenset({2})),
        ("ix_run_by_state",),
    ),
    Query(
        "newest successes",
        lambda c, now: attention.newest_successes(c, since=0),
        ("ix_run_by_state",),
    ),
    Query(
        "retries of a failed retry",
        lambda c, now: attention.is_retried_since(
            c, attention.FailedRun(1_700_000_039_000, 9, 7, 2, "failed", 1, 8, None)
        ),
        ("ix_run_of_job",),
    ),
    Query(
        "next fires of jobs",
        lambda c, now: attention.next_fires_of_jobs(c, [1, 2, 3]),
        ("ix_trigger_of_job",),
    ),
    Query(
        "nodes lost lately",
        lambda c, now: attention.lost_nodes(c, since=now - 3_600_000, scope=None),
        ("ix_node_to_expire",),
    ),
    Query(
        "jobs that failed within an hour",
        lambda c, now: job_failures.count_failed_jobs(c, from_at=0, to_at=now),
        ("ix_run_by_state",),
    ),
    Query(
        "jobs that failed last",
        lambda c, now: job_failures.newest_failed_jobs(c, scope=None, scanned=9, most=9),
        ("ix_job_failure_recent",),
    ),
    Query(
        "jobs that failed, by their ids",
        lambda c, now: job_failures.failed_jobs_after(c, 7, limit=100),
        ("primary",),
    ),
    Query(
        "long running",
        lambda c, now: attention.long_running(c, started_before=now, scope=None),
        ("ix_run_to_sweep",),
    ),
    Query(
        "triggers in error",
        lambda c, now: attention.broken_triggers(c, scope=frozenset({2}), limit=20),
        ("ix_trigger_by_state",),
    ),
    Query(
        "overdue triggers",
        lambda c, now: attention.overdue_triggers(c, before=now, without=[1], scope=None),
        ("ix_trigger_next",),
    ),
    Query(
        "executors with active jobs",
        lambda c, now: attention.with_active_jobs(c, [1, 2]),
        ("uq_job_name|ix_job_by_name",),
    ),
    Query(
        "due runs that wait longest",
        lambda c, now: attention.waiting_longest(c, 2, before=now - 30_000, now=now, limit=3),
        ("ix_run_due",),
        in_order=True,
    ),
    # The overview.
    Query(
        "what fires soon, and seldom",
        lambda c, now: overview.next_fires(
            c, from_at=now, to_at=now + 120_000, scope=None, limit=8, apart_ms=120_000
        ),
        ("ix_trigger_next", "primary"),
    ),
    Query(
        "outcomes",
        lambda c, now: outcome_counts.count_outcomes(
            c, from_at=1_700_000_030_000, to_at=now, bucket_ms=1_800_000
        ),
        ("ix_run_by_state",),
    ),
    Query(
        "live",
        lambda c, now: overview.count_live(c, scope=None),
        ("ix_run_to_sweep",),
    ),
    Query(
        "waiting",
        lambda c, now: overview.count_waiting(c, until=now, scope=frozenset({2})),
        ("ix_run_by_state|ix_run_to_sweep",),
    ),
    Query(
        "start delays of some executors",
        lambda c, now: run_stats.sample_runs(
            c, from_at=now - 2_000, to_at=now, every=7, scope=[1, 2]
        ),
        ("ix_run_recent",),
    ),
    Query(
        "runs of a job over a time",
        lambda c, now: job_trends.jobs_bucket(
            c, [1, 2], now - 7 * 86_400_000, now, whole=500, counted=20_000
        ),
        ("ix_run_of_job", "primary"),
    ),
    # Forecasts.
    Query(
        "what surrounds the jobs of a forecast",
        lambda c, now: forecasts.read_surroundings(c, [1, 2], JobConfigs()),
        ("ix_run_due|ix_run_to_claim",),
    ),
    Query(
        "jobs of a forecast with their last runs",
        lambda c, now: forecasts.read_forecast_jobs(
            c, [1, 2], after=7, limit=20, configs=JobConfigs(keep=100)
        ),
        ("primary", "ix_trigger_of_job", "ix_run_of_job"),
    ),
    Query(
        "past runs of a plan",
        lambda c, now: ended_runs(c, [1, 2, 3], from_at=now - 43_200_000, per_job=20),
        ("ix_run_of_job",),
    ),
    Query(
        "executors whose triggers follow a calendar",
        lambda c, now: forecasts.executors_following(c, "calendar-3"),
        ("ix_trigger_of_calendar",),
    ),
    Query(
        "executors that share a pool or children with a job",
        lambda c, now: forecasts.executors_beside(c, [BESIDE]),
        ("ix_job_of_pool", "primary"),
    ),
    Query(
        "the first hour",
        lambda c, now: run_stats.first_hour(c),
        ("ix_run_recent",),
    ),
    Query(
        "figures of hours",
        lambda c, now: run_stats.read_hours(c, HOURS[-24:], executors=[1, 2]),
        ("primary",),
    ),
    Query(
        "when hours were counted",
        lambda c, now: run_stats.counted_hours(c, HOURS[-24:]),
        ("primary",),
    ),
    Query(
        "what waits at each executor",
        lambda c, now: waiting.queue_depths(c, [1, 2, 3], now=now),
        ("ix_run_due",),
    ),
    Query(
        "how the last runs of jobs ended",
        lambda c, now: last_outcomes.page_outcomes(
            c,
            JobFilter(),
            after=("job-00100", 100),
            limit=200,
            sort=job_pages.JobSort.NAME,
            back=False,
            saying=FINAL - {RunState.SKIPPED},
        ),
        ("ix_job_by_name", "ix_run_of_job"),
    ),
    Query(
        "next fires",
        lambda c, now: overview.next_fires(
            c, from_at=now, to_at=now + 3_600_000, scope=None, limit=8
        ),
        ("ix_trigger_next",),
        in_order=True,
    ),
    # The self-audit.
    Query("triggers to audit", lambda c, now: audited.trigger_ids(c, 100, limit=50), ("primary",)),
    Query(
        "triggers that were edited",
        lambda c, now: audited.ended_ids(c, since=PERIODS_END - 10 + audited.NEAR_MS),
        ("ix_trigger_period_ended",),
    ),
    Query(
        "periods of triggers",
        lambda c, now: audited.read_periods(c, range(50, 100), begin=0),
        ("primary",),
    ),
    Query(
        "pauses and purges of an hour",
        lambda c, now: audited.read_past(
            c, begin=PERIODS_END - 10 + audited.NEAR_MS, end=PERIODS_END + audited.NEAR_MS
        ),
        ("ix_run_purge_to", "ix_pause_period_over", "ix_calendar_period_ended"),
    ),
    Query(
        "triggers that fired in an hour",
        lambda c, now: audited_ledger.firing_ids(c, from_at=now - 50, to_at=now),
        ("ix_run_recent",),
    ),
    Query(
        "fires of an hour",
        lambda c, now: audited_ledger.read_fires(c, range(50, 100), begin=now - 9_000, end=now),
        ("uq_run_fires_once",),
    ),
    Query(
        "fires that may tell of missed ones",
        lambda c, now: audited_ledger.next_fires(c, [50], after=now - 50),
        ("uq_run_fires_once",),
    ),
    Query(
        "the last fires of fixed delays",
        lambda c, now: audited_ledger.fires_at(c, {50: now - 50, 51: now}),
        ("uq_run_fires_once",),
    ),
    Query(
        "hours that were audited",
        lambda c, now: audit_results.audited_hours(c, from_at=HOURS[-24], to_at=HOURS[-1]),
        ("primary",),
    ),
    Query(
        "differences of an hour",
        lambda c, now: audit_results.read_differences(
            c, from_at=HOURS[-1], to_at=HOURS[-1] + 1, executors={1}, limit=50
        ),
        ("primary",),
    ),
    Query(
        "fires of an hour that is proven",
        lambda c, now: proven.page_fires(
            c,
            from_at=1_700_000_010_000,
            to_at=1_700_000_030_000,
            executors=None,
            after=proven.FirePosition(scheduled_at=1_700_000_020_000, run_id=1_020_000),
            limit=50,
        ),
        ("ix_run_recent",),
    ),
    Query(
        "what became of executors' fires in an hour that is proven, counted",
        lambda c, now: proven.count_fires(
            c,
            from_at=1_700_000_010_000,
            to_at=1_700_000_011_000,
            executors={1, 2},
            late_ms=60_000,
        ),
        ("ix_run_recent",),
    ),
    Query(
        "exceptions of executors in an hour that is proven",
        lambda c, now: proven.page_exceptions(
            c,
            from_at=1_700_000_010_000,
            to_at=1_700_000_030_000,
            executors={1, 2},
            late_ms=60_000,
            limit=50,
        ),
        ("ix_run_recent",),
    ),
    Query(
        "skipped fires of an hour that is proven",
        lambda c, now: proven.page_skipped(
            c,
            from_at=1_700_000_010_000,
            to_at=1_700_000_030_000,
            executors={1, 2},
            after=proven.FirePosition(scheduled_at=1_700_000_020_000, run_id=1_020_000),
            limit=50,
        ),
        ("ix_run_by_state",),
    ),
    Query(
        "instants of an hour without a run",
        lambda c, now: audit_absences.page_absences(
            c,
            hour_at=HOURS[-1],
            executors={1, 2},
            since=audit_absences.AbsencePosition(trigger_id=1_000, reason="paused"),
            limit=50,
        ),
        ("primary",),
    ),
    Query(
        "who has looked at missing fires",
        lambda c, now: audit_absences.seen_missing(c, HOURS[-1], range(100)),
        ("primary",),
    ),
    Query(
        "what an audit wrote of an hour without runs",
        lambda c, now: audit_absences.write_absences(c, HOURS[-1], []),
        ("primary",),
    ),
    Query(
        "forget the oldest instants without runs",
        lambda c, now: audit_absences.forget_absences(c, before=HOURS[0] + 1, hours=2),
        ("primary",),
    ),
    Query(
        "what backfills have run of some instants",
        lambda c, now: filled_instants(c, [(job_id, 10 * job_id) for job_id in range(1, 120)]),
        ("primary",),
    ),
    Query(
        "triggers that may be watched",
        lambda c, now: watches.triggers_after(c, 50, limit=50),
        ("primary",),
    ),
    Query(
        "watched triggers of a page",
        lambda c, now: watches.watches_between(c, 50, 150, limit=500),
        ("primary",),
    ),
    Query(
        "watched triggers to look at",
        lambda c, now: watches.due_watches(c, now=200, limit=20),
        ("ix_coverage_watch_look",),
    ),
    Query(
        "watched triggers with holes",
        lambda c, now: watches.watches_with_holes(c, {1, 2}, until=4_000, limit=50),
        ("ix_coverage_watch_holes",),
    ),
    Query(
        "what was seen of a watched trigger",
        lambda c, now: watches.note_look(c, WATCH, WATCH),
        ("primary",),
    ),
    Query(
        "watch triggers no more",
        lambda c, now: watches.delete_watches(c, range(10)),
        ("primary",),
    ),
    Query(
        "the first fire of a job since an instant",
        lambda c, now: watches.first_fire_since(c, 7, FIRST_RUN_AT),
        ("ix_run_of_job",),
    ),
    Query(
        "what the audit counted of an hour that is proven",
        lambda c, now: proven.audited_sums(
            c, from_at=HOURS[-1], to_at=HOURS[-1] + 1, executors={1}
        ),
        ("primary",),
    ),
    Query(
        "whether runs of an hour were purged",
        lambda c, now: proven.why_gone(c, PERIODS_END - 10),
        ("ix_run_purge_to",),
    ),
    Query(
        "owners of jobs",
        lambda c, now: proven_names.jobs_with_owners(c, [3, 4]),
        ("primary",),
    ),
    Query(
        "differences that stand",
        lambda c, now: audit_results.open_differences(c, found_after=4_990, limit=50),
        ("ix_self_audit_difference_open",),
    ),
    Query(
        "figures of live nodes",
        lambda c, now: metric_figures.count_nodes(c, now=now),
        ("ix_node_to_expire",),
    ),
    Query(
        "figures of differences that stand",
        lambda c, now: metric_figures.count_differences(c),
        ("ix_self_audit_difference_open",),
    ),
    Query(
        "the newest audit",
        lambda c, now: metric_figures.newest_audit(c),
        ("primary",),
    ),
    Query(
        "whether a difference stands unseen",
        lambda c, now: audit_results.differences_stand(c),
        ("ix_self_audit_difference_open",),
    ),
    Query(
        "the past that no audit asks for",
        lambda c, now: forget_past(c, now=REMEMBERED_MS + 100, limit=5),
        (
            "ix_trigger_period_ended", "ix_run_purge_to", "ix_pause_period_over",
            "ix_calendar_period_ended", "ix_node_period_over",
        ),
    ),
    Query(
        "runs that were there at an instant",
        lambda c, now: past_runs.runs_there(c, PastScope(), at=FIRST_RUN_AT - 55_000),
        ("ix_run_recent", "ix_run_span_over", "ix_run_by_state"),
    ),
    Query(
        "those of an executor",
        lambda c, now: past_runs.runs_there(
            c, PastScope(executors=frozenset({3})), at=FIRST_RUN_AT - 55_000
        ),
        ("ix_run_recent", "ix_run_span_over", "ix_run_by_state"),
    ),
    Query(
        "those of a job",
        lambda c, now: past_runs.runs_there(
            c, PastScope(executors=frozenset({3}), job_id=7), at=FIRST_RUN_AT - 55_000
        ),
        ("ix_run_of_job", "ix_run_span_over", "ix_run_by_state"),
    ),
    Query(
        "runs that failed before an instant",
        lambda c, now: past_runs.failed_between(c, PastScope(), after=now - 200, until=now),
        ("ix_run_by_state", "ix_run_span_old", "primary"),
    ),
    Query(
        "those of a job that failed before an instant",
        lambda c, now: past_runs.failed_between(
            c, PastScope(job_id=7), after=now - 200, until=now
        ),
        ("ix_run_of_job|ix_run_by_state", "ix_run_span_old"),
    ),
    Query(
        "runs of a job in a minute",
        lambda c, now: past_runs.runs_of_minute(
            c, 7, from_at=now - 60_000, to_at=now, limit=100
        ),
        ("ix_run_of_job",),
    ),
    Query(
        "notes of runs that ended long ago",
        lambda c, now: remove_old_spans(c, before=SPANS_END - 20_000 + 100, limit=50),
        ("ix_run_span_old",),
    ),
    Query(
        "nodes that were connected",
        lambda c, now: read_node_periods(c, after=PERIODS_END - 10, until=FAR, executors=None),
        ("ix_node_period_over",),
    ),
    Query(
        "how the triggers of a job stood",
        lambda c, now: periods_of_job(c, 7, from_at=PERIODS_END - 10, to_at=now),
        ("ix_trigger_of_job", "ix_trigger_period_of_job"),
    ),
    Query(
        "which revision of a job held",
        lambda c, now: revisions_at(c, [7], at=now),
        ("primary",),
    ),
]  # fmt: skip


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    world = World(database_url)
    yield world
    world.close()


def test_every_query_reads_its_index(world: World) -> None:
    populate(world)
    now = 1_700_000_000_000 + RUNS
    problems = []
    for query in QUERIES:
        plans = explain(world, lambda conn, call=query.call: call(conn, now))
        found = {name for plan in plans for name in plan.indexes}
        whole = {table for plan in plans for table in plan.scanned} - SMALL
        missing = [names for names in query.indexes if not found.intersection(names.split("|"))]
        sorts = query.in_order and plans[0].sorts
        if missing or whole or sorts:
            shown = "\n".join(plan.text for plan in plans)
            problems.append(
                f"{query.name}: without {missing}, reads {sorted(whole)} whole"
                f"{', sorts' * sorts}\n{shown}"
            )
    assert not problems, "\n\n".join(problems)


def test_a_plan_without_an_index_is_noticed(world: World) -> None:
    (plan,) = explain(
        world, lambda conn: conn.execute(sa.select(tables.run.c.id).where(tables.run.c.tries == 9))
    )
    assert plan.scanned == {"run"}


def test_a_plan_that_sorts_is_noticed(world: World) -> None:
    by_token = sa.select(tables.run.c.id).order_by(tables.run.c.claim_token).limit(1)
    (plan,) = explain(world, lambda conn: conn.execute(by_token))
    assert plan.sorts


# --- plans -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """What a database says about one statement."""

    text: str
    indexes: set[str]
    scanned: set[str]  # tables read whole, without an index
    sorts: bool  # more rows than it gives


def explain(world: World, call: Callable[[sa.Connection], object]) -> list[Plan]:
    """Plans of every statement that a call makes; nothing it writes is kept."""
    made: list[tuple[str, Any]] = []

    def note(conn: Any, cursor: Any, statement: str, parameters: Any, *more: Any) -> None:
        made.append((statement, parameters))

    with world.database.engine.connect() as conn:
        sa.event.listen(conn, "before_cursor_execute", note)
        call(conn)
        sa.event.remove(conn, "before_cursor_execute", note)
        plans = [
            EXPLAINERS[conn.dialect.name](conn, statement, parameters)
            for statement, parameters in made
            if re.search(r"\b(FROM|UPDATE)\b", statement)
        ]
        conn.rollback()
    return plans


def _sqlite(conn: sa.Connection, statement: str, parameters: Any) -> Plan:
    rows = conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
    lines = [row.detail for row in rows]
    within = any(re.match("CO-ROUTINE|MATERIALIZE", line) for line in lines)
    indexes, scanned = set(), set()
    for line in lines:
        if match := re.search(r"USING (?:COVERING )?INDEX (\w+)", line):
            indexes.add(_named(match[1], line))
        elif "PRIMARY KEY" in line:
            indexes.add("primary")
        elif match := re.match(r"SCAN (\w+)", line):
            scanned.add(match[1])
    return Plan(
        text="\n".join(lines),
        indexes=indexes,
        scanned=scanned & set(tables.metadata.tables),
        # At the top of a query within, or where there is none.
        sorts=any("TEMP B-TREE" in row.detail and (row.parent or not within) for row in rows),
    )


def _named(index: str, line: str) -> str:
    """SQLite gives unique keys names of its own: tell them by their first columns."""
    if not index.startswith("sqlite_autoindex_"):
        return index
    table = index.removeprefix("sqlite_autoindex_").rpartition("_")[0]
    columns = list(dict.fromkeys(re.findall(r"(\w+)[=<>]", line)))  # both ends of a range
    for constraint in tables.metadata.tables[table].constraints:
        names = [column.name for column in constraint.columns]
        if columns and names[: len(columns)] == columns:
            return str(constraint.name or "primary")
    return index


def _mysql(conn: sa.Connection, statement: str, parameters: Any) -> Plan:
    rows = conn.exec_driver_sql(f"EXPLAIN {statement}", parameters).all()
    keys = [key for row in rows for key in (row.key or "").split("|") if key]
    indexes = {"primary" if key == "PRIMARY" else key for key in keys}
    # A minimum or maximum that was read from an index while the plan was made.
    indexes.update("optimized away" for row in rows if "optimized away" in (row.Extra or ""))
    return Plan(
        text="\n".join(str(tuple(row)) for row in rows),
        indexes=indexes,
        scanned={row.table for row in rows if row.type == "ALL" and row.table in TABLES},
        sorts=any(
            "filesort" in (row.Extra or "") and not row.table.startswith("<") for row in rows
        ),
    )


def _postgresql(conn: sa.Connection, statement: str, parameters: Any) -> Plan:
    rows = conn.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters).scalar_one()
    nodes = list(_nodes(rows[0]["Plan"]))
    indexes = {node["Index Name"] for node in nodes if "Index Name" in node}
    return Plan(
        text="\n".join(_short(node) for node in nodes),
        indexes={"primary" if name.endswith("_pkey") else name for name in indexes},
        scanned={n["Relation Name"] for n in nodes if n["Node Type"] == "Seq Scan"},
        sorts=any(
            "Sort" in below["Node Type"]
            for node in nodes
            if node["Node Type"] == "Limit"
            for below in _nodes(node)
        ),
    )


def _short(node: dict[str, Any]) -> str:
    shown = ("Node Type", "Relation Name", "Index Name", "Index Cond", "Filter", "Plan Rows")
    return ", ".join(str(node[key]) for key in shown if key in node)


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


TABLES = set(tables.metadata.tables)
EXPLAINERS = {"sqlite": _sqlite, "mysql": _mysql, "mariadb": _mysql, "postgresql": _postgresql}


# --- data ------------------------------------------------------------------------------------


def populate(world: World) -> None:
    """Enough rows that a wrong plan would be chosen if it could, with current statistics."""
    start = 1_700_000_000_000

    def fill(table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
        for first in range(0, len(rows), 5_000):
            world.database.run_sync(
                insert_rows, table, rows[first : first + 5_000], columns=[*rows[0]]
            )

    fill(tables.executor, [_executor(n) for n in range(1, EXECUTORS + 1)])
    fill(tables.job, [_job(n) for n in range(1, JOBS + 1)])
    fill(tables.job_revision, [_revision(n) for n in range(1, JOBS + 1)])
    fill(tables.calendar, [_calendar(n) for n in range(CALENDARS)])
    fill(tables.trigger, [_trigger(n, start) for n in range(1, TRIGGERS + 1)])
    fill(tables.node, [_node(n) for n in range(1, NODES + 1)])
    fill(tables.saved_view, [_saved_view(n) for n in range(1, 5_001)])
    fill(tables.user, [_user(n) for n in range(1, 501)])
    fill(tables.node_session, [_session(n) for n in range(2, 2 * NODES)])
    fill(tables.pool, [_pool(n) for n in range(1, 51)])
    fill(tables.pool_use, [_pool_use(n) for n in range(20_000)])
    fill(tables.job_node, [_use(n) for n in range(2_000)])
    fill(tables.declared_job, [_declared(n) for n in range(5_000)])
    fill(tables.managed_object, [_managed(n) for n in range(5_000)])
    fill(tables.handler_schema, [_schema(n) for n in range(5_000)])
    fill(tables.job_state, [_state(n) for n in range(1, JOBS + 1)])
    fill(tables.run_checkpoint, [_checkpoint(n) for n in range(5_000)])
    fill(tables.run_stat, [_stat(hour_at, n) for hour_at in HOURS for n in range(30)])
    fill(tables.job_failure, [_failure(n) for n in range(5_000)])
    fill(tables.run_attempt, [_attempt(n) for n in range(20_000)])
    fill(tables.backfill, [_backfill(n, start) for n in range(2_000)])
    fill(tables.backfill_run, [_backfill_run(n, start) for n in range(20_000)])
    fill(tables.run_retry, [_retry(n, start) for n in range(40_000)])
    fill(tables.run_error, [_error(n, start) for n in range(5_000)])
    fill(
        tables.script_source,
        [{"sha256": f"{n:064}", "source": "x", "given_at": FAR} for n in range(5_000)],
    )
    fill(tables.run_log, [_log_chunk(n) for n in range(5_000)])
    for table, row in (
        (tables.trigger_period, _period),
        (tables.pause_period, lambda n: {"executor_id": n, "paused_at": 1, "resumed_at": n}),
        (tables.calendar_period, lambda n: {"name": f"c{n}", "until_at": n, "spec": "{}"}),
        (tables.run_purge, lambda n: {"job_id": n, "from_at": n, "to_at": n}),
        (tables.self_audit_difference, _difference),
        (tables.self_audit_absence, _absence),
        (tables.coverage_watch, _watch),
        (tables.node_period, _node_period),
    ):
        fill(table, [row(n) for n in range(PERIODS)])
    fill(tables.run_span, [_span(n) for n in range(20_000)])
    fill(tables.self_audit_hour, [_audited(hour_at, n) for hour_at in HOURS for n in range(30)])
    world.add_runs(_run(n, start) for n in range(RUNS))
    engine = world.database.engine
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        # SQLite has no statistics in production either.
        if conn.dialect.name == "postgresql":
            conn.exec_driver_sql("VACUUM ANALYZE")  # as autovacuum does; index-only scans need it
        elif conn.dialect.name != "sqlite":
            conn.exec_driver_sql(f"ANALYZE TABLE {', '.join(f'`{name}`' for name in TABLES)}")


def _pool(n: int) -> dict[str, Any]:
    return {
        "id": n,
        "executor_id": n % 3,
        "name": f"pool-{n}",
        "description": "",
        "slots": 100,
        "version": 1,
        "created_at": 1,
        "updated_at": 1,
        "deleted_at": 0,
        "claims": 0,
    }


def _pool_use(n: int) -> dict[str, Any]:
    return {"run_id": n, "pool_id": n % 50, "slots": 1, "since": n}


def _executor(n: int) -> dict[str, Any]:
    return {
        "id": n,
        "name": f"executor-{n}",
        "description": "",
        "token_hash": str(n),
        "created_at": 1,
        "deleted_at": 0,
    }


def _saved_view(n: int) -> dict[str, Any]:
    return {
        "id": n,
        "user_id": n // 10 + 1,
        "page": "jobs" if n % 2 else "runs",
        "name": f"view-{n}",
        "query": "q=" + "x" * 100,
        "shared": n % 10 == 3,
        "created_at": 1,
    }


def _user(n: int) -> dict[str, Any]:
    return {
        "id": n,
        "name": f"person-{n}",
        "must_change_password": False,
        "disabled": False,
        "preferences": "{}",
        "created_at": 1,
    }


def _session(n: int) -> dict[str, Any]:
    return {"node_id": n // 2, "admin_id": n % 2, "session_id": n, "connected_at": 1}


def _use(n: int) -> dict[str, Any]:
    return {"job_id": n // NODES + 1, "node_id": n % NODES + 1, "uses": n, "last_turn": n}


def _declared(n: int) -> dict[str, Any]:
    return {
        "executor_id": n // 50 + 1,
        "name": f"job-{n:05}",
        "raw": json.dumps({"name": f"job-{n:05}", "handler": "h", "description": "x" * 200}),
        "job_id": n + 1 if n % 5 else None,
        "state": "applied" if n % 50 else "waiting",
        "problems": "[]",
        "declared_by": "node",
        "node_id": 1,
        "declared_at": 1,
    }


def _managed(n: int) -> dict[str, Any]:
    return {
        "type": "job",
        "object_id": n,
        "owner": f"team-{n % 50}",
        "mark": "1",
        "applied_at": 1,
        "applied_by": "ci",
    }


def _failure(n: int) -> dict[str, Any]:
    return {"job_id": n, "executor_id": n % 50 + 1, "scheduled_at": 1_700_000_000_000 + n * 97}


def _schema(n: int) -> dict[str, Any]:
    return {
        "executor_id": n // 50 + 1,
        "handler": f"handler-{n}",
        "schema": json.dumps({"description": "x" * 200}),
        "said_by": 1,
        "said_at": 1,
    }


def _state(n: int) -> dict[str, Any]:
    state = json.dumps({"seen": "x" * 500})
    return {"job_id": n, "state": state, "lent_run_id": 1_000_000, "lent_attempt": 1}


def _checkpoint(n: int) -> dict[str, Any]:
    return {"run_id": 1_000_000 + n, "attempt": 1, "seq": 1, "data": "1", "saved_at": 1}


def _stat(hour_at: int, executor_id: int) -> dict[str, Any]:
    counts = dict.fromkeys(RUN_STAT_NUMBERS, 1)
    delays = json.dumps([[n, n] for n in range(40)])
    times = {"delays": delays, "durations": delays}
    return {"hour_at": hour_at, "executor_id": executor_id} | times | counts


def _attempt(n: int) -> dict[str, Any]:
    return {"run_id": 1_000_000 + n, "attempt": 1, "state": "failed", "log_lines": 0}


def _backfill(n: int, start: int) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(
        ("written", "existing", "succeeded", "failed", "timed_out", "lost", "cancelled", "skipped"),
        0,
    )
    return row | {
        "id": n, "executor_id": n % EXECUTORS + 1, "job_id": n % 400, "trigger_id": n,
        "spec": '{"kind":"fixed_rate","every_ms":1000}', "saved_at": start, "from_at": start,
        "to_at": start + 1, "newest_first": False, "parallel": 1, "requested_by": "ada",
        "total": 10, "state": "done", "version": 1, "created_at": start,
        "ended_at": None if n % 500 == 0 else start + n, "resting": n % 1_000 == 0,
    }  # fmt: skip


def _backfill_run(n: int, start: int) -> dict[str, Any]:
    return {
        "job_id": n // 10 % 400, "at": n, "backfill_id": n // 10, "trigger_id": n,
        "run_id": 1_000_000 + n, "outcome": "open" if n % 10 == 0 else "failed",
    }  # fmt: skip


def _retry(n: int, start: int) -> dict[str, Any]:
    return {
        "run_id": 1_000_000 + n,
        "retry_id": 1_000_003 + n,
        "scheduled_at": start + n,
        "state": (None, "failed", "succeeded")[n % 3],
        "ended_at": None if n % 3 == 0 else start + n + 50,
    }


def _error(n: int, start: int) -> dict[str, Any]:
    return {
        "id": n,
        "executor_id": n % EXECUTORS + 1,
        "text": f"connection {n} refused",
        "first_seen_at": start + n,
    }


def _log_chunk(n: int) -> dict[str, Any]:
    seq = n % 10 + 1
    return {"run_id": n // 10, "attempt": 1, "first_seq": seq, "line_count": 1, "lines": "[]"}


def _run(n: int, start: int) -> dict[str, Any]:
    state, deadline_at = "succeeded", None
    if n % 20 == 1:
        state = ("failed", "timed_out", "lost", "cancelled", "failed")[n // 20 % 5]
    elif n > RUNS - 2_000:
        state = "queued"
    elif n > RUNS - 2_100:
        state, deadline_at = "running", start + n
    job_id = n * 7 % 100 + 1
    in_line = job_id in IN_LINE and state in ("queued", "running")
    parked = in_line and state == "queued" and n % 4 != 0
    if state == "queued" and n % 8 == 0:
        deadline_at = start + n
    return {
        "executor_id": n % EXECUTORS + 1,
        "job_id": job_id,
        "trigger_id": n * 7 % 100 + 1,
        "scheduled_at": start + n,
        "due_at": PARKED_AT if parked else start + n,
        "blocking_key": job_id * 2 + (state == "running") if in_line else None,
        "fire_id": 1_000_000 + n // 50 * 50 if n % 50 > 40 else None,
        "shard_index": n % 50,
        "state": state,
        "attempt": 0 if state == "queued" else 1,
        "deadline_at": deadline_at,
        "error_id": n // 20 % 100 if state in ("failed", "timed_out", "lost") else None,
        "node_id": n % NODES + 1,
        "ended_at": None if state in ("queued", "running") else start + n + 5,
    }


def _job(n: int) -> dict[str, Any]:
    return {
        "id": n,
        "executor_id": n % EXECUTORS + 1,
        "name": f"job-{n:05}",
        "handler": "h",
        "owner": f"team-{n % 40}",
        "tags": f"night,team-{n % 40}" if n % 7 else "",
        "revision": 1,
        "paused": n % 50 == 0,
        "route_cursor": 0,
        "created_at": 1,
        "updated_at": n * 7 % JOBS,
        "deleted_at": 0 if n % 10 else n,
    }


def _revision(n: int) -> dict[str, Any]:
    config = json.dumps({"name": f"job-{n:05}", "handler": "h"})
    return {
        "job_id": n,
        "revision": 1,
        "config": config,
        "created_at": 1,
        "created_by": "ada",
        "script_sha256": f"{n:064}" if n % 10 == 0 else None,
    }


def _trigger(n: int, start: int) -> dict[str, Any]:
    return {
        "id": n,
        "job_id": n % JOBS + 1,
        "executor_id": n % EXECUTORS + 1,
        "bucket": n % 16,
        "spec": '{"kind":"fixed_rate","every_ms":1000,"misfire":"fire_once"}',
        "paused": False,
        "state": "active",
        "next_fire_at": None if n % 30 == 0 else start + RUNS + (n - 600) * SECOND,
        "fires": 0,
        "calendar": f"calendar-{n % CALENDARS}" if n % 2 else None,
        "calendar_version": 1 + n % 3 if n % 2 else None,
        "version": 1,
        "created_at": 1,
    }


def _node_period(n: int) -> dict[str, Any]:
    return {
        "node_id": n, "from_at": n, "until_at": n + 1, "executor_id": n % EXECUTORS + 1,
        "name": f"n{n}", "slots": 4, "draining": False, "cordoned": False, "end": "gone",
    }  # fmt: skip


SPANS_END = 1_700_000_000_000 + 40_000


def _span(n: int) -> dict[str, Any]:
    return {
        "run_id": 1_000_000 + n, "length": n % 7, "from_at": 1, "executor_id": n % EXECUTORS + 1,
        "ended_at": SPANS_END - 20_000 + n, "job_id": n % JOBS + 1,
    }  # fmt: skip


def _period(n: int) -> dict[str, Any]:
    kept = ("job_id", "executor_id", "spec", "paused", "state")
    row = _trigger(n, 0)
    times = dict.fromkeys(("saved_at", "since_at", "until_at", "planned_to"), n)
    return {"trigger_id": n, "version": 0} | {name: row[name] for name in kept} | times


def _audited(hour_at: int, executor_id: int) -> dict[str, Any]:
    counts = dict.fromkeys(AUDITED_NUMBERS, 1)
    return {
        "hour_at": hour_at,
        "executor_id": executor_id,
        "explained": "{}",
        "absent": "{}",
    } | counts


def _difference(n: int) -> dict[str, Any]:
    return {
        "hour_at": HOURS[n % len(HOURS)],
        "trigger_id": n,
        "at": n,
        "what": "missing",
        "job_id": n % JOBS + 1,
        "executor_id": n % EXECUTORS + 1,
        "found_at": n,
        "closed_at": n if n % 50 else None,
    }


def _watch(n: int) -> dict[str, Any]:
    return {
        "trigger_id": n,
        "job_id": n % JOBS + 1,
        "executor_id": n % EXECUTORS + 1,
        "limit_ms": 1,
        "look_at": n,
        "first_hole_at": None if n % 50 else n,
    }


def _absence(n: int) -> dict[str, Any]:
    return {
        "hour_at": HOURS[n % len(HOURS)],
        "trigger_id": n,
        "reason": "paused",
        "job_id": n % JOBS + 1,
        "executor_id": n % EXECUTORS + 1,
        "instants": "[[0,0,1]]",
    }


def _calendar(n: int) -> dict[str, Any]:
    return {
        "id": n,
        "name": f"calendar-{n}",
        "description": "",
        "spec": "{}",
        "base": f"calendar-{n // 2}" if n % 2 else None,
        "version": 3,
        "changed_at": 1,
        "created_at": 1,
        "deleted_at": 0,
    }


def _node(n: int) -> dict[str, Any]:
    return {
        "id": n,
        "executor_id": n % EXECUTORS + 1,
        "node_key": f"key-{n}",
        "name": f"host-{n}",
        "state": "live" if n % 10 == 0 else "dead",
        "draining": False,
        "cordoned": False,
        "drain_wanted": False,
        "slots": 4,
        "in_use": 0,
        "weight": 1,
        "handlers": "[]",
        "unstoppable": "[]",
        "labels": "{}",
        "sdk": "",
        "address": "",
        "connected_at": 1,
        "lease_expires_at": FAR if n % 10 == 0 and n > 20 else n,
        "full_lease_at": FAR if n % 10 == 0 and n > 20 else n,
        "ended_at": 1,
    }
