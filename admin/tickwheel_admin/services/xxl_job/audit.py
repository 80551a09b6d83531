"""Audits an XXL-JOB installation by its log; reads only, one page at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from tickwheel_admin.domain.schedule.zones import Zone
from tickwheel_admin.domain.xxl_job.audit.figures import FireFigures, Lateness
from tickwheel_admin.domain.xxl_job.audit.job_audit import AuditWindow, JobAudit
from tickwheel_admin.domain.xxl_job.audit.origin import BY_SCHEDULE, origin_of
from tickwheel_admin.domain.xxl_job.audit.report import AuditReport, audit_report, job_report
from tickwheel_admin.domain.xxl_job.audit.stored_clock import StoredClock
from tickwheel_admin.domain.xxl_job.audit.zone_guess import (
    choose_cron_zone,
    choose_stored_zone,
)
from tickwheel_admin.domain.xxl_job.records import LogRow, XxlGroup, XxlJob
from tickwheel_admin.store.xxl_job.source.connection import Source
from tickwheel_admin.store.xxl_job.source.log import (
    count_log,
    first_log_id,
    log_limits,
    read_log,
)
from tickwheel_admin.store.xxl_job.source.tables import read_groups, read_jobs

DAY = 86_400
SETTLED = 60  # the last seconds of a log are not judged: runs may still be about to start
_DISORDER = 3_600  # by so many seconds rows may be out of order at the start, in their ids
_SAMPLE_IDS = 20_000  # newest rows that tell the zone of DATETIMEs


class NoSuchJobs(ValueError):
    """The filter leaves no job, as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """What is asked."""

    days: int
    stored_zone: Zone | None = None  # of DATETIMEs; None: guess
    cron_zone: Zone | None = None  # None: guess
    late_after: int = 5  # seconds
    job_ids: Collection[int] = ()  # these only
    groups: Collection[str] = ()  # jobs of these only, by app name or title


def audit_xxl_job(
    source: Source,
    request: AuditRequest,
    *,
    progress: Callable[[int, float], None] = lambda _rows, _share: None,
) -> AuditReport:
    """Hold each job's instants against the log.

    Args:
        progress: called after each page with the rows so far and the share of ids, 0 to 1.

    Raises:
        NoSuchJobs: the request names jobs or groups that are not there.
        SourceError: the database cannot be read.
    """
    now = source.now_ms() // 1_000
    groups = {group.id: group for group in read_groups(source)}
    everyone = list(read_jobs(source, with_source=False))
    jobs = _chosen(everyone, groups, request)
    cron_zone = choose_cron_zone(everyone, given=request.cron_zone)
    limits = log_limits(source)
    stored_zone = choose_stored_zone(
        _samples(source, everyone, limits), given=request.stored_zone, cron_zone=cron_zone.zone
    )
    log = _Log(source, limits, stored_zone.zone)
    end = min(log.newest, now) if log.newest is not None else now
    start = end - request.days * DAY
    if log.oldest is not None:
        start = max(start, log.oldest + SETTLED)
    window = AuditWindow(
        start=start,
        end=end - SETTLED,
        now=end,
        late_after=request.late_after,
        zone=cron_zone.zone,
    )
    run = _Run(source, log, window, jobs)
    is_filtered = len(jobs) < len(everyone)
    run.read({job.id for job in jobs} if is_filtered else None, progress)
    audits = run.finish()
    lateness = Lateness()
    for audit in audits:
        lateness.add_all(audit.lateness)
    return audit_report(
        [job_report(audit, _group_name(groups, audit.job)) for audit in audits],
        by_hour=run.by_hour,
        lateness=lateness,
        place=source.place,
        version=source.schema.version,
        window=window,
        log_from=log.oldest,
        rows=run.rows,
        deleted_job_rows=run.deleted_job_rows,
        undated_rows=run.undated_rows,
        cron_zone=cron_zone,
        stored_zone=stored_zone,
    )


class _Log:
    """Where the log begins and ends."""

    def __init__(self, source: Source, limits: tuple[int, int] | None, zone: Zone) -> None:
        self.limits = limits
        self.zone = zone
        self.oldest = self.newest = None
        if limits is not None:
            low, high = limits
            self.oldest = self._extreme(source, range(low, high + 1), min)
            self.newest = self._extreme(source, range(high, low - 1, -1), max)

    def _extreme(self, source: Source, ids: range, pick: Callable[[list[int]], int]) -> int | None:
        """The earliest or latest time among the rows at one end."""
        some = ids[:1_000]
        low, high = min(some[0], some[-1]), max(some[0], some[-1])
        times = [
            row.triggered_local
            for page in read_log(source, from_id=low, to_id=high)
            for row in page
            if row.triggered_local is not None
        ]
        return StoredClock(self.zone).instant(pick(times)) if times else None

    def first_id(self, source: Source, at: int) -> int | None:
        """The first row that may be of an instant or later."""
        local = self.zone.to_local(at - _DISORDER)[0] - _DISORDER
        return first_log_id(source, since_local=local)


class _Run:
    """One reading of the log."""

    def __init__(
        self, source: Source, log: _Log, window: AuditWindow, jobs: Sequence[XxlJob]
    ) -> None:
        self.rows = 0
        self.deleted_job_rows = 0
        self.undated_rows = 0
        self.by_hour: dict[int, FireFigures] = {}
        self._source = source
        self._log = log
        self._window = window
        self._first_id = log.first_id(source, window.start)
        self._clock = StoredClock(log.zone)
        self._audits = {
            job.id: JobAudit(
                job,
                window,
                changed_at=(
                    None if job.updated_local is None else self._clock.first(job.updated_local)
                ),
                by_hour=self.by_hour,
            )
            for job in jobs
        }

    def read(self, job_ids: Collection[int] | None, progress: Callable[[int, float], None]) -> None:
        """All rows of the window, a page in memory."""
        if self._first_id is None or self._log.limits is None:
            return
        first, last = self._first_id, self._log.limits[1]
        start, instant, audits = self._window.start, self._clock.instant, self._audits
        for page in read_log(self._source, from_id=first, to_id=last, job_ids=job_ids):
            for row in page:
                if row.triggered_local is None:
                    self.undated_rows += 1
                    continue
                at = instant(row.triggered_local)
                if at <= start:
                    continue
                audit = audits.get(row.job_id)
                if audit is None:
                    self.deleted_job_rows += 1
                else:
                    audit.row(row, at)
            self.rows += len(page)
            if page:
                progress(self.rows, (page[-1].id - first + 1) / (last - first + 1))

    def finish(self) -> list[JobAudit]:
        """What became of the jobs, once all rows have come."""
        audits = list(self._audits.values())
        for audit in audits:
            audit.finish()
        for audit, missing in self._missing_ids([a for a in audits if a.unseen.total.lost]):
            # As many rows may have been deleted as instants have none.
            audit.count_unseen(as_lost=missing < audit.unseen.total.lost)
        return audits

    def _missing_ids(self, audits: Sequence[JobAudit]) -> Iterator[tuple[JobAudit, int]]:
        """Ids that no row has, from the window's start to the first row of each job."""
        if self._first_id is None or self._log.limits is None:
            yield from ((audit, 0) for audit in audits)
            return
        last = self._log.limits[1]
        counted_to, missing = self._first_id - 1, 0
        untils = [(a.first_row[0] if a.first_row is not None else last, a) for a in audits]
        for until, audit in sorted(untils, key=lambda each: (each[0], each[1].job.id)):
            if until > counted_to:
                span = until - counted_to
                missing += span - count_log(self._source, from_id=counted_to + 1, to_id=until)
                counted_to = until
            yield audit, missing


def _samples(
    source: Source, jobs: Sequence[XxlJob], limits: tuple[int, int] | None
) -> list[tuple[int, int]]:
    """For each job the wall time of its newest run by schedule, and the instant it was for."""
    due = {job.id: job.last_trigger_ms // 1_000 for job in jobs if job.last_trigger_ms > 0}
    if limits is None or not due:
        return []
    newest: dict[int, int] = {}
    for page in read_log(source, from_id=limits[1] - _SAMPLE_IDS, to_id=limits[1]):
        for row in page:
            if _is_sample(row, due):
                newest[row.job_id] = row.triggered_local or 0
    return [(local, due[job_id]) for job_id, local in newest.items()]


def _is_sample(row: LogRow, due: Collection[int]) -> bool:
    return (
        row.job_id in due
        and row.triggered_local is not None
        and origin_of(row.trigger_head) in BY_SCHEDULE
    )


def _chosen(
    jobs: Sequence[XxlJob], groups: dict[int, XxlGroup], request: AuditRequest
) -> Sequence[XxlJob]:
    known = {job.id for job in jobs}
    if unknown := sorted(set(request.job_ids) - known):
        raise NoSuchJobs(f"there is no job {unknown[0]}")
    names = {
        name: {g.id for g in groups.values() if name in (g.app_name, g.title)}
        for name in request.groups
    }
    for name, ids in names.items():
        if not ids:
            raise NoSuchJobs(f"there is no executor called {name}")
    wanted = set().union(*names.values())
    if not request.job_ids and not names:
        return jobs
    return [job for job in jobs if job.id in request.job_ids or job.group_id in wanted]


def _group_name(groups: dict[int, XxlGroup], job: XxlJob) -> str:
    group = groups.get(job.group_id)
    return f"#{job.group_id}" if group is None else group.app_name
