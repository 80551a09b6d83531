"""What `tickwheel audit` writes for programs: CSV and JSON, with every job."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from typing import Any

from tickwheel_admin.domain.schedule.zones import Zone
from tickwheel_admin.domain.xxl_job.audit.figures import NAMES
from tickwheel_admin.domain.xxl_job.audit.report import AuditReport, HourReport, JobReport
from tickwheel_admin.domain.xxl_job.audit.zone_guess import ZoneChoice

_LATENESS = ("p50_seconds", "p99_seconds", "max_seconds")
COLUMNS = ("scope", "job", "name", "group", "hour", *NAMES, *_LATENESS, "unseen", "note")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # spreadsheets would run what begins so


def as_csv(report: AuditReport) -> Iterator[str]:
    """One table: scope `total`, `job`, `hour` (of all jobs) or `job_hour`."""
    yield ",".join(COLUMNS)
    lateness = dict(zip(_LATENESS, (report.p50, report.p99, report.max), strict=True))
    yield _line({"scope": "total"} | asdict(report.total) | lateness)
    for job in report.jobs:
        yield _line(_job_cells(job, report.window.zone) | asdict(job.figures))
    for hour in report.hours:
        yield _line({"scope": "hour"} | _hour_cells(hour, report.window.zone))
    for job in report.jobs:
        names = {"scope": "job_hour", "job": job.id, "name": job.name, "group": job.group}
        for hour in job.hours:
            yield _line(names | _hour_cells(hour, report.window.zone))


def as_json(report: AuditReport) -> Iterator[str]:
    """One object."""
    zone = report.window.zone
    yield json.dumps(
        {
            "source": {"place": report.place, "schema": report.version},
            "window": {
                "from": iso(report.window.start, zone),
                "to": iso(report.window.end, zone),
                "late_after_seconds": report.window.late_after,
                "log_from": iso(report.log_from, zone),
                "rows": report.rows,
                "deleted_job_rows": report.deleted_job_rows,
                "undated_rows": report.undated_rows,
            },
            "cron_zone": _zone(report.cron_zone),
            "stored_zone": _zone(report.stored_zone),
            "total": asdict(report.total)
            | dict(zip(_LATENESS, (report.p50, report.p99, report.max), strict=True)),
            "jobs": [_job(job, zone) for job in report.jobs],
            "hours": [_hour_cells(hour, zone) for hour in report.hours],
        },
        ensure_ascii=False,
        indent=1,
    )


def iso(second: int | None, zone: Zone) -> str | None:
    """With the offset of a zone."""
    if second is None:
        return None
    offset = timedelta(seconds=zone.segment_at(second).offset)
    return datetime.fromtimestamp(second, timezone(offset)).isoformat()


def _job(job: JobReport, zone: Zone) -> dict[str, Any]:
    return {
        "id": job.id,
        "name": job.name,
        "group": job.group,
        "schedule": job.schedule,
        "is_running": job.is_running,
        "judged_from": iso(job.judged_from, zone),
        "changed_at": iso(job.changed_at, zone),
        "not_judged": job.refusal,
        **asdict(job.figures),
        "p50_seconds": job.p50,
        "p99_seconds": job.p99,
        "max_seconds": job.max,
        "unseen": job.unseen,
        "runs_by_origin": {origin.value: count for origin, count in job.origins.items() if count},
        "stopped_by_itself_after": iso(job.stopped_at, zone),
        "fires_since_stop": job.instants_since_stop,
        "hours": [_hour_cells(hour, zone) for hour in job.hours],
    }


def _job_cells(job: JobReport, zone: Zone) -> dict[str, Any]:
    note = job.refusal or ""
    if job.stopped_at is not None:
        note = f"stopped by itself after {iso(job.stopped_at, zone)}"
    return {
        "scope": "job",
        "job": job.id,
        "name": job.name,
        "group": job.group,
        "p50_seconds": job.p50,
        "p99_seconds": job.p99,
        "max_seconds": job.max,
        "unseen": job.unseen,
        "note": note,
    }


def _hour_cells(hour: HourReport, zone: Zone) -> dict[str, Any]:
    return {"hour": iso(hour.hour_at, zone)} | asdict(hour.figures)


def _zone(choice: ZoneChoice) -> dict[str, Any]:
    return {
        "name": choice.zone.name,
        "is_given": choice.is_given,
        "fits": choice.fits,
        "votes": choice.votes,
        "better": choice.better,
    }


def _line(cells: dict[str, Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(
        [_safe(cells.get(column, "")) for column in COLUMNS]
    )
    return text.getvalue()


def _safe(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
