"""A job, its rows, and what an audit finds in them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from tests.support.xxl_job.installation import trigger_message
from tickwheel_admin.domain.schedule.zones import zone_of
from tickwheel_admin.domain.xxl_job.audit.figures import FireFigures
from tickwheel_admin.domain.xxl_job.audit.instants import CronInstants
from tickwheel_admin.domain.xxl_job.audit.job_audit import AuditWindow, JobAudit
from tickwheel_admin.domain.xxl_job.records import LogRow, XxlJob

HEADS = {
    kind: trigger_message(kind).split("<br>", maxsplit=1)[0]
    for kind in ("cron", "manual", "parent", "api", "retry", "misfire")
} | {"unknown": ""}


def utc(text: str) -> int:
    """UTC seconds of “2026-01-05 10:00:00”, or of a time with an offset."""
    moment = datetime.fromisoformat(text)
    return int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())


START = utc("2026-01-05 00:00:30")


def make_job(**fields: Any) -> XxlJob:
    values: dict[str, Any] = {
        "id": 1,
        "group_id": 1,
        "name": "a job",
        "author": "",
        "alarm_emails": (),
        "schedule_type": "CRON",
        "schedule_conf": "0 * * * * ?",
        "misfire_strategy": "DO_NOTHING",
        "route_strategy": "FIRST",
        "handler": "",
        "param": "",
        "block_strategy": "",
        "timeout_seconds": 0,
        "retries": 0,
        "glue_type": "BEAN",
        "glue_source": "",
        "glue_remark": "",
        "glue_updated_local": None,
        "child_job_ids": "",
        "is_running": True,
        "last_trigger_ms": 0,
        "next_trigger_ms": 0,
        "added_local": None,
        "updated_local": None,
    }
    return XxlJob(**values | fields)


def row(at: int, kind: str = "cron", **fields: Any) -> tuple[LogRow, int]:
    values: dict[str, Any] = {
        "id": at,
        "job_id": 1,
        "triggered_local": at,
        "trigger_code": 200,
        "handle_code": 200,
        "retries_left": 0,
        "is_discarded": False,
        "is_given_up": False,
        "shard": "",
        "trigger_head": HEADS[kind],
    }
    return LogRow(**values | fields), at


def in_order(rows: Iterable[tuple[LogRow, int]]) -> list[tuple[LogRow, int]]:
    """By time."""
    return sorted(rows, key=lambda pair: pair[1])


def instants(cron: str, start: int, end: int, zone: str = "UTC") -> list[int]:
    """All of an expression, in (start, end]."""
    schedule, found, at = CronInstants(cron, zone_of(zone)), [], start
    while (following := schedule.next_after(at)) is not None and following <= end:
        found.append(following)
        at = following
    return found


def audited(
    job: XxlJob,
    rows: Iterable[tuple[LogRow, int]],
    *,
    end: int,
    start: int = START,
    changed_at: int | None = None,
    zone: str = "UTC",
    now: int | None = None,
    by_hour: dict[int, FireFigures] | None = None,
    unseen_is_lost: bool = True,
) -> JobAudit:
    """After all rows, in the order in which they are given."""
    window = AuditWindow(start=start, end=end, now=now or end, late_after=5, zone=zone_of(zone))
    audit = JobAudit(job, window, changed_at=changed_at, by_hour={} if by_hour is None else by_hour)
    for each, at in rows:
        audit.row(each, at)
    audit.finish()
    audit.count_unseen(as_lost=unseen_is_lost)
    return audit


def findings(audit: JobAudit) -> dict[str, int]:
    """Counts that are not 0, without those that only say how much was looked at."""
    figures = audit.part.total
    return {
        name: getattr(figures, name)
        for name in FireFigures.__dataclass_fields__
        if name not in ("expected", "found") and getattr(figures, name)
    }
