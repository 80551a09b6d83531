"""What the API tells of runs: named field by field, so that nothing new leaks by itself."""

from __future__ import annotations

from tickwheel_admin.api.answers import instant, json_or_text
from tickwheel_admin.api.runs.choice_views import choice_view, waiting_view
from tickwheel_admin.api.runs.labels import misfire_view, run_message
from tickwheel_admin.api.runs.shapes import (
    BulkJson,
    LogJson,
    MatchingJson,
    RunDetailJson,
    RunJson,
    RunSummaryJson,
)
from tickwheel_admin.domain.backfills.backfill import backfill_of
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.runs.trace import trace_id_of
from tickwheel_admin.services.jobs.service import RunSummary
from tickwheel_admin.services.runs.service import Bulk, LogPage, Matching, RunDetail, RunItem
from tickwheel_admin.web.i18n import ENGLISH


def run_summary_view(run: RunSummary) -> RunSummaryJson:
    return {
        "id": run.id,
        "state": run.state,
        "scheduled_at": instant(run.scheduled_at),
        "started_at": instant(run.started_at),
        "ended_at": instant(run.ended_at),
        "duration_ms": run.duration_ms,
        "progress": run.progress,
    }


def run_view(item: RunItem, language: str = ENGLISH) -> RunJson:
    """A run in the reader's language; its `reason` is the same in every one."""
    run = item.run
    return {
        "id": run.id,
        "job_id": run.job_id,
        "job_name": item.job_name,
        "job_revision": None if run.origin is Origin.TRY else run.job_revision,
        "executor_id": run.executor_id,
        "executor_name": item.executor_name,
        "state": run.state,
        "reason": run.reason,
        "message": run_message(run, language),
        "misfire": misfire_view(run),
        "origin": run.origin,
        "trigger_id": run.trigger_id,
        "requested_by": run.requested_by,
        "retry_of": run.retry_of,
        "retried_as": None
        if item.retried is None
        else {"run_id": item.retried.last.id, "state": item.retried.last.state},
        "resolved": item.is_made_good,
        "parent_run_id": run.parent_run_id,
        "backfill_id": backfill_of(run),
        "trace_id": trace_id_of(run),
        "shard_index": run.shard_index,
        "shard_total": run.shard_total,
        "fire_id": run.fire_id,
        "scheduled_at": instant(run.scheduled_at),
        "nominal_at": instant(run.works_for_at),
        "interval_start": instant(run.interval_start),
        "interval_end": None if run.interval_start is None else instant(run.works_for_at),
        # A run that waits for an earlier one is due when that has ended.
        "due_at": None if run.is_parked else instant(run.due_at),
        "started_at": instant(run.started_at),
        "ended_at": instant(run.ended_at),
        "cancel_requested_at": instant(run.cancel_requested_at),
        "cancel_reason": run.cancel_reason,
        "cancelled_by": run.cancelled_by,
        "attempt": run.attempt,
        "tries": run.tries,
        "node_id": run.node_id,
        "node_name": item.node_name,
        "pinned_node_id": run.pinned_node_id,
        "progress": item.progress,
        "progress_text": item.progress_text,
        "log_lines": run.log_lines,
    }


def run_detail_view(detail: RunDetail, language: str) -> RunDetailJson:
    run = detail.item.run
    return {
        **run_view(detail.item, language),
        **choice_view(run.choice, language),
        **waiting_view(detail.waiting, language),
        "parameters": json_or_text(detail.parameters),  # a child's hold its parent's result
        "result": None if run.result is None else json_or_text(run.result),
        "attempts": [
            {
                "attempt": each.attempt.attempt,
                "state": each.attempt.state,
                "reason": each.attempt.reason,
                "message": each.attempt.message,
                "node_id": each.attempt.node_id,
                "node_name": each.node_name,
                "due_at": instant(each.attempt.due_at),
                "dispatched_at": instant(each.attempt.dispatched_at),
                "started_at": instant(each.attempt.started_at),
                "ended_at": instant(each.attempt.ended_at),
                "log_lines": each.attempt.log_lines,
                "late_outcome": each.late_outcome,
                "late_message": each.late_message,
                "late_at": instant(each.late_at),
                **choice_view(each.attempt.choice, language),
            }
            for each in detail.attempts
        ],
        "checkpoint": None
        if detail.checkpoint is None
        else {
            "attempt": detail.checkpoint.attempt,
            "saved_at": instant(detail.checkpoint.saved_at),
            "data": json_or_text(detail.checkpoint.data),
        },
        "shards": [run_view(shard, language) for shard in detail.shards],
        "children": [run_view(child, language) for child in detail.children],
        "job_deleted": detail.job_deleted,
        "retried_by": detail.retried_by,
    }


def matching_view(matching: Matching) -> MatchingJson:
    return {"runs": matching.runs, "capped": matching.capped}


def bulk_view(bulk: Bulk) -> BulkJson:
    return {
        "done": bulk.done,
        "runs": list(bulk.runs),
        "skipped": dict(bulk.skipped),
        "next": bulk.next,
    }


def log_view(page: LogPage) -> LogJson:
    return {
        "attempt": page.attempt,
        "lines": [
            {
                "seq": line.seq,
                "at": instant(line.at),
                "level": line.level,
                "text": line.text,
            }
            for line in page.lines
        ],
        "next": page.next,
        "more": page.more,
        "ended": page.ended,
    }
