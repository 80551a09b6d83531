"""What the API tells of each thing: named field by field, so that nothing new leaks by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from aiohttp import web

from tickwheel_admin.api.executors.choice_views import choice_view, waiting_view
from tickwheel_admin.api.runs.labels import misfire_view, run_message
from tickwheel_admin.domain.input.fields import instant_to_iso, is_instant
from tickwheel_admin.domain.input.job import job_to_raw, trigger_to_raw
from tickwheel_admin.domain.input.json_text import MAX_DEPTH, is_within
from tickwheel_admin.domain.triggers.trigger import Trigger
from tickwheel_admin.services.jobs.service import JobDetail, JobItem, RunMark
from tickwheel_admin.services.lists.paging import Page
from tickwheel_admin.services.runs.service import Bulk, LogPage, Matching, RunDetail, RunItem
from tickwheel_admin.services.system.service import AdminItem
from tickwheel_admin.web.i18n import ENGLISH
from tickwheel_shared.held_json import why_not_held

T = TypeVar("T")


def answer(
    content: Mapping[str, Any], *, status: int = 200, location: str | None = None
) -> web.Response:
    """JSON; Chinese stays readable, large integers stay exact."""
    return web.json_response(
        content,
        status=status,
        headers={"Location": location} if location else None,
        dumps=lambda value: json.dumps(value, ensure_ascii=False, allow_nan=False),
    )


def page_view(page: Page[T], view: Callable[[T], dict[str, Any]]) -> dict[str, Any]:
    """A page of a list; `next` and `previous` are the cursors of those after and before it."""
    items = [view(item) for item in page.items]
    return {"items": items, "next": page.next, "previous": page.previous}


def instant(at: int | None) -> str | None:
    """ISO 8601 in UTC; None also for a stored number that lies in no year from 1 to 9999."""
    return instant_to_iso(at) if at is not None and is_instant(at) else None


def instants(ats: Iterable[int]) -> list[str]:
    return [instant_to_iso(at) for at in ats if is_instant(at)]


def mark_view(mark: RunMark) -> dict[str, Any]:
    return {
        "id": mark.id,
        "state": mark.state.value,
        "scheduled_at": instant(mark.scheduled_at),
        "started_at": instant(mark.started_at),
        "ended_at": instant(mark.ended_at),
        "duration_ms": mark.duration_ms,
        "progress": mark.progress,
    }


def job_view(item: JobItem) -> dict[str, Any]:
    job = item.job
    return {
        "id": job.id,
        "executor_id": job.executor_id,
        "executor_name": item.executor_name,
        "revision": job.revision,
        "paused": job.paused,
        "managed": item.managed,
        "created_at": instant(job.created_at),
        "updated_at": instant(job.updated_at),
        "next_fire_at": instant(item.next_fire_at),
        "recent_ended": item.ended,
        "recent_succeeded": item.succeeded,
        "usual_duration_ms": item.usual_ms,
        "last_run": None if item.last is None else mark_view(item.last),
        "config": job_to_raw(job.config),
    }


def job_detail_view(detail: JobDetail) -> dict[str, Any]:
    return job_view(detail.item) | {
        "triggers": [trigger_view(trigger) for trigger in detail.item.triggers],
        "next_fires": instants(detail.next_fires),
        "executor_paused_at": instant(detail.executor_paused_at),
        "everything_paused_at": instant(detail.everything_paused_at),
        "recent_runs": [mark_view(mark) for mark in detail.item.recent],
        "schema": None if detail.schema is None else json.loads(detail.schema),
    }


def trigger_view(trigger: Trigger) -> dict[str, Any]:
    return {
        "id": trigger.id,
        "state": trigger.state.value,
        "reason": trigger.reason,
        "paused": trigger.paused,
        "next_fire_at": instant(trigger.next_fire_at),
        "last_fire_at": instant(trigger.last_fire_at),
        "fires": trigger.fires,
        "spec": trigger_to_raw(trigger.spec),
    }


def run_view(item: RunItem, language: str = ENGLISH) -> dict[str, Any]:
    """A run in the reader's language; its `reason` is the same in every one."""
    run = item.run
    return {
        "id": run.id,
        "job_id": run.job_id,
        "job_name": item.job_name,
        "job_revision": run.job_revision,
        "executor_id": run.executor_id,
        "executor_name": item.executor_name,
        "state": run.state.value,
        "reason": run.reason,
        "message": run_message(run, language),
        "misfire": misfire_view(run),
        "origin": run.origin.value,
        "trigger_id": run.trigger_id,
        "requested_by": run.requested_by,
        "retry_of": run.retry_of,
        "retried_as": None
        if item.retried is None
        else {"run_id": item.retried.last.id, "state": item.retried.last.state.value},
        "resolved": item.is_made_good,
        "parent_run_id": run.parent_run_id,
        "shard_index": run.shard_index,
        "shard_total": run.shard_total,
        "fire_id": run.fire_id,
        "scheduled_at": instant(run.scheduled_at),
        "nominal_at": instant(run.works_for_at),
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


def run_detail_view(detail: RunDetail, language: str) -> dict[str, Any]:
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
                "state": each.attempt.state.value,
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


def matching_view(matching: Matching) -> dict[str, Any]:
    return {"runs": matching.runs, "capped": matching.capped}


def bulk_view(bulk: Bulk) -> dict[str, Any]:
    return {
        "done": bulk.done,
        "runs": list(bulk.runs),
        "skipped": dict(bulk.skipped),
        "next": bulk.next,
    }


def admin_view(item: AdminItem) -> dict[str, Any]:
    status = item.status
    return {
        "id": item.id,
        "name": item.name,
        "version": item.version,
        "live": item.live,
        "started_at": instant(item.started_at),
        "uptime_seconds": item.uptime_ms // 1000,
        "lease_expires_at": instant(item.lease_expires_at),
        "clock_offset_ms": status.clock_offset_ms,
        "sessions": status.sessions,
        "waiting": status.waiting,
        "loops": {
            name: {"last_pass_ms_ago": loop.last_pass_ms_ago, "failing": loop.failing}
            for name, loop in sorted(status.loops.items())
        },
    }


def log_view(page: LogPage) -> dict[str, Any]:
    return {
        "attempt": page.attempt,
        "lines": [
            {
                "seq": line.seq,
                "at": instant(line.at),
                "level": line.level.value,
                "text": line.text,
            }
            for line in page.lines
        ],
        "next": page.next,
        "more": page.more,
        "ended": page.ended,
    }


def json_or_text(stored: str) -> Any:
    """What cannot be part of an answer is told as its text: it is no JSON, is nested too deeply, or
    holds a number that nobody can hold. Nothing such is taken any more, but old runs may have it.
    """
    if why_not_held(stored.encode()) is not None:
        return stored
    try:
        value = json.loads(stored)
    except RecursionError:
        return stored
    return value if is_within(value, MAX_DEPTH) else stored
