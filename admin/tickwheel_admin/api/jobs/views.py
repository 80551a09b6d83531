"""What the API tells of jobs and their triggers: named field by field."""

from __future__ import annotations

import json
from typing import cast

from tickwheel_admin.api.answers import instant, instants
from tickwheel_admin.api.jobs.config_types import JobConfigJson
from tickwheel_admin.api.jobs.shapes import JobDetailJson, JobJson, PlacementJson, TriggerJson
from tickwheel_admin.api.runs.views import run_summary_view
from tickwheel_admin.domain.input.job import job_to_raw, trigger_to_raw
from tickwheel_admin.domain.triggers.kinds.window import WindowSpec
from tickwheel_admin.domain.triggers.placement import PlacedBy, clock_after
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.domain.triggers.trigger import Trigger
from tickwheel_admin.services.jobs.service import JobDetail, JobItem


def job_view(item: JobItem) -> JobJson:
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
        "last_run": None if item.last is None else run_summary_view(item.last),
        "config": cast("JobConfigJson", job_to_raw(job.config)),
    }


def job_detail_view(detail: JobDetail) -> JobDetailJson:
    return {
        **job_view(detail.item),
        "triggers": [trigger_view(trigger) for trigger in detail.item.triggers],
        "next_fires": instants(detail.next_fires),
        "executor_paused_at": instant(detail.executor_paused_at),
        "everything_paused_at": instant(detail.everything_paused_at),
        "recent_runs": [run_summary_view(mark) for mark in detail.item.recent],
        "git_owner": detail.git_owner,
        "schema": None if detail.schema is None else json.loads(detail.schema),
    }


def trigger_view(trigger: Trigger) -> TriggerJson:
    return {
        "id": trigger.id,
        "state": trigger.state,
        "reason": trigger.reason,
        "paused": trigger.paused,
        "next_fire_at": instant(trigger.next_fire_at),
        "last_fire_at": instant(trigger.last_fire_at),
        "fires": trigger.fires,
        "placement": _placement_view(trigger.spec),
        "spec": trigger_to_raw(trigger.spec),
    }


def _placement_view(spec: TriggerSpec) -> PlacementJson | None:
    found = spec.placement if isinstance(spec, WindowSpec) else None
    if found is None or not isinstance(spec, WindowSpec):
        return None
    by_load = found.by is PlacedBy.LOAD
    return {
        "start": clock_after(spec.begin, found.offset),
        "by": found.by,
        "chosen_at": instant(found.chosen_at),
        "reason": spec.placement_in_words(str),
        "latest": clock_after(spec.begin, found.latest),
        "length_ms": found.length_ms,
        "runs": found.runs,
        "in_use": found.in_use if by_load else None,
        "in_use_at_latest": found.in_use_at_latest if by_load else None,
        "slots": found.slots if by_load else None,
    }
