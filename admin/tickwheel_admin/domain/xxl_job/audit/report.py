"""What an audit has found, as its readers get it: the sums, jobs, hours, and hours of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tickwheel_admin.domain.xxl_job.audit.figures import FireFigures, Lateness
from tickwheel_admin.domain.xxl_job.audit.job_audit import AuditWindow, JobAudit
from tickwheel_admin.domain.xxl_job.audit.origin import RowOrigin
from tickwheel_admin.domain.xxl_job.audit.zone_guess import ZoneChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class HourReport:
    """An hour of all jobs."""

    hour_at: int  # its start, UTC seconds
    figures: FireFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """A job, and its hours in which there was anything to tell."""

    id: int
    name: str
    group: str
    schedule: str  # its expression, or “every 30 s”
    is_running: bool
    judged_from: int | None  # UTC seconds; None: it was not judged
    changed_at: int | None  # last edit, start or stop by a person, UTC seconds
    refusal: str | None  # why it was not judged
    figures: FireFigures
    unseen: int  # instants before its first row: lost, or their rows were deleted
    p50: int | None  # lateness in seconds
    p99: int | None
    max: int | None
    origins: Mapping[RowOrigin, int]  # rows by what started them
    stopped_at: int | None  # its last run by schedule, if it stopped without anybody's doing
    instants_since_stop: int
    hours: Sequence[HourReport]

    @property
    def is_finding(self) -> bool:
        return self.figures.is_finding or self.stopped_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """An installation."""

    place: str  # the database's URL without the password
    version: str  # of the schema
    window: AuditWindow
    log_from: int | None  # time of the oldest row that there is, UTC seconds; None: no rows
    rows: int  # that were read
    deleted_job_rows: int  # of jobs that are not there any more
    undated_rows: int  # without a time
    cron_zone: ZoneChoice
    stored_zone: ZoneChoice
    total: FireFigures
    p50: int | None
    p99: int | None
    max: int | None
    jobs: Sequence[JobReport]  # those with most faults first
    hours: Sequence[HourReport]  # in their order; none that are clean

    @property
    def is_finding(self) -> bool:
        return any(job.is_finding for job in self.jobs)

    @property
    def judged_jobs(self) -> int:
        return sum(job.refusal is None for job in self.jobs)

    def worst_hours(self, count: int) -> list[HourReport]:
        """Those with most faults first; none without."""
        faulty = [hour for hour in self.hours if hour.figures.faults]
        return sorted(faulty, key=lambda hour: (-hour.figures.faults, hour.hour_at))[:count]


def job_report(audit: JobAudit, group: str) -> JobReport:
    """Of a job whose log has ended."""
    job, lateness = audit.job, audit.lateness
    return JobReport(
        id=job.id,
        name=job.name,
        group=group,
        schedule=_schedule(audit),
        is_running=job.is_running,
        judged_from=audit.start if audit.refusal is None else None,
        changed_at=audit.changed_at,
        refusal=audit.refusal,
        figures=audit.part.total,
        unseen=audit.unseen.total.lost,
        p50=lateness.percentile(50),
        p99=lateness.percentile(99),
        max=lateness.maximum if audit.part.total.found else None,
        origins=audit.origins,
        stopped_at=audit.last_scheduled if audit.has_stopped_by_itself else None,
        instants_since_stop=audit.instants_since_stop,
        hours=_hours(audit.part.hours),
    )


def audit_report(
    jobs: Sequence[JobReport],
    *,
    by_hour: Mapping[int, FireFigures],
    lateness: Lateness,
    place: str,
    version: str,
    window: AuditWindow,
    log_from: int | None,
    rows: int,
    deleted_job_rows: int,
    undated_rows: int,
    cron_zone: ZoneChoice,
    stored_zone: ZoneChoice,
) -> AuditReport:
    """Of all jobs."""
    total = FireFigures()
    for job in jobs:
        total.add(job.figures)
    return AuditReport(
        place=place,
        version=version,
        window=window,
        log_from=log_from,
        rows=rows,
        deleted_job_rows=deleted_job_rows,
        undated_rows=undated_rows,
        cron_zone=cron_zone,
        stored_zone=stored_zone,
        total=total,
        p50=lateness.percentile(50),
        p99=lateness.percentile(99),
        max=lateness.maximum if total.found else None,
        jobs=sorted(
            jobs,
            key=lambda job: (
                -job.figures.faults,
                job.stopped_at is None,
                -job.figures.not_sent - job.figures.no_result,
                job.id,
            ),
        ),
        hours=_hours({at: each for at, each in by_hour.items() if not each.is_clean}),
    )


def _schedule(audit: JobAudit) -> str:
    job = audit.job
    if job.schedule_type == "FIX_RATE":
        return f"every {job.schedule_conf} s"
    return job.schedule_conf or job.schedule_type.lower()


def _hours(hours: Mapping[int, FireFigures]) -> list[HourReport]:
    return [HourReport(hour_at=at, figures=hours[at]) for at in sorted(hours)]
