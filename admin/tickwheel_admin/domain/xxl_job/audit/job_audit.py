"""One job: its rows as they come, its instants as they are settled, its figures by hour."""

from __future__ import annotations

from dataclasses import dataclass, field

from tickwheel_admin.domain.schedule.zones import Zone
from tickwheel_admin.domain.xxl_job.audit.figures import FireFigures, Lateness
from tickwheel_admin.domain.xxl_job.audit.instants import NotJudged, instants_of
from tickwheel_admin.domain.xxl_job.audit.matching import Matcher, RowPlace, Slot
from tickwheel_admin.domain.xxl_job.audit.origin import BY_SCHEDULE, RowOrigin, origin_of
from tickwheel_admin.domain.xxl_job.records import LogRow, XxlJob

HOUR = 3_600
START_DELAY = 6  # XXL-JOB leaves out what is due in the first 5 s after a start or an edit
EDGE = 60  # rows so soon after the start of the judged time may be for an instant before it
PATIENCE = 86_400  # seconds after which a run without a result has none, if it has no timeout
PATIENCE_AFTER_TIMEOUT = 600
_CLOCK_CHANGE = 2 * HOUR  # from an instant to the transition that it suffers from
_KEPT_HOURS = 3  # hours of a job that are held until it is known whether they are worth a line

_SENT = (0, 200)
_TIMED_OUT = 502


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditWindow:
    """The time that is judged, UTC seconds, and by what."""

    start: int  # instants after this
    end: int  # instants up to this
    now: int  # when the log was read: the age of runs without a result
    late_after: int  # seconds
    zone: Zone  # of cron expressions; hours are its hours


@dataclass(slots=True, kw_only=True)
class _Part:
    """FireFigures of a stretch of time."""

    total: FireFigures = field(default_factory=FireFigures)
    hours: dict[int, FireFigures] = field(default_factory=dict)  # those worth a line


class JobAudit:
    """What the log says about a job."""

    def __init__(
        self,
        job: XxlJob,
        window: AuditWindow,
        *,
        changed_at: int | None,
        by_hour: dict[int, FireFigures],
    ) -> None:
        """Begin.

        Args:
            changed_at: last edit, start or stop by a person, UTC seconds.
            by_hour: what is found is added here, too; shared by all jobs.
        """
        self.job = job
        self.changed_at = changed_at
        self.part = _Part()
        self.unseen = _Part()  # instants before the first row: lost, or their rows were deleted
        self._by_hour = by_hour
        self.lateness = Lateness()
        self.origins = dict.fromkeys(RowOrigin, 0)
        self.start = window.start
        if changed_at is not None:
            self.start = max(self.start, changed_at + START_DELAY)
        self.first_row: tuple[int, int] | None = None  # id and time
        self.last_scheduled: int | None = None
        self.refusal: str | None = None  # why it is not judged
        self.instants_since_stop = 0
        self._window = window
        self._matcher: Matcher | None = None
        self._live: dict[int, FireFigures] = {}
        self._end = window.end
        try:
            self._instants = instants_of(job, window.zone)
            self._matcher = Matcher(self._instants, start=self.start, settled=self._settle)
        except NotJudged as reason:
            self.refusal = str(reason)

    @property
    def has_stopped_by_itself(self) -> bool:
        """It ran by schedule after the last change by a person, and is stopped."""
        return self.instants_since_stop > 0

    def row(self, row: LogRow, at: int) -> None:
        """The next row of the log that is of this job; `at` is its time, UTC seconds."""
        if self.first_row is None:
            self.first_row = (row.id, at)
        self._count_result(row, at)
        origin = origin_of(row.trigger_head)
        is_certain = origin in BY_SCHEDULE
        if origin is RowOrigin.UNKNOWN and row.retries_left < self.job.retries:
            origin = RowOrigin.RETRY
        self.origins[origin] += 1
        if not (is_certain or origin is RowOrigin.UNKNOWN):
            return
        if is_certain:
            self.last_scheduled = at
        if self._matcher is None or at <= self.start:
            return
        shard, shards = _shard(row.shard)
        place = self._matcher.row(at, shard=shard, shards=shards, is_certain=is_certain)
        if place is RowPlace.REPLACED or (
            place is RowPlace.NOWHERE and (not is_certain or at > self.start + EDGE)
        ):
            self._figures(at).unknown += 1

    def finish(self) -> None:
        """The log has ended."""
        if self._matcher is not None:
            if self.job.is_running:
                self._matcher.finish(self._window.end)
            else:
                self._finish_stopped(self._matcher)
        for hour in list(self._live):
            self._retire(hour)

    def count_unseen(self, *, as_lost: bool) -> None:
        """Say what the instants before the first row are; after `finish`."""
        if not as_lost:
            return
        self.part.total.add(self.unseen.total)
        for hour, figures in self.unseen.hours.items():
            self.part.hours.setdefault(hour, FireFigures()).add(figures)
            self._by_hour.setdefault(hour, FireFigures()).add(figures)
        self.unseen = _Part()

    def _finish_stopped(self, matcher: Matcher) -> None:
        """A job that a person stopped is not judged: what it was before is not known."""
        last = self.last_scheduled
        if last is None or last <= self.start:
            self.refusal = "is stopped"
            self._end = self.start
            matcher.finish(self.start)
            return
        # Stopping by hand is a change; so it was XXL-JOB, or the expression has come to its end.
        self._end = min(last, self._window.end)
        matcher.finish(self._end)
        instant = last
        while self.instants_since_stop < 1_000_000:
            following = self._instants.next_after(instant)
            if following is None or following > self._window.end:
                break
            self.instants_since_stop += 1
            instant = following

    def _settle(self, slot: Slot) -> None:
        if slot.instant > self._end:
            return
        if slot.at is None:
            if self.first_row is None or slot.instant < self.first_row[1]:
                hour = self._hour(slot.instant)
                cell = self.unseen.hours.setdefault(hour, FireFigures())
                for figures in (self.unseen.total, cell):
                    self._count_lost(figures, slot.instant)
                return
            self._count_lost(self._figures(slot.instant), slot.instant)
            return
        figures = self._figures(slot.instant)
        figures.expected += 1
        figures.found += 1
        figures.doubled += slot.doubled
        figures.missing_shards += slot.missing_shards
        figures.late += slot.late > self._window.late_after
        self.lateness.add(slot.late)

    def _count_lost(self, figures: FireFigures, instant: int) -> None:
        figures.expected += 1
        figures.lost += 1
        if self._window.zone.transitions_between(instant - _CLOCK_CHANGE, instant + _CLOCK_CHANGE):
            figures.lost_at_clock_change += 1

    def _count_result(self, row: LogRow, at: int) -> None:
        if row.handle_code == 200 or at <= self._window.start:
            return
        if row.is_discarded:
            self._figures(at).discarded += 1
        elif row.trigger_code not in _SENT:
            self._figures(at).not_sent += 1
        elif row.is_given_up:
            self._figures(at).no_result += 1
        elif row.handle_code == _TIMED_OUT:
            self._figures(at).timed_out += 1
        elif row.handle_code:
            self._figures(at).failed += 1
        else:
            timeout = self.job.timeout_seconds
            patience = timeout + PATIENCE_AFTER_TIMEOUT if timeout > 0 else PATIENCE
            if at < self._window.now - patience:
                self._figures(at).no_result += 1

    def _hour(self, at: int) -> int:
        return at - self._window.zone.to_local(at)[0] % HOUR

    def _figures(self, at: int) -> FireFigures:
        """Of the hour of an instant."""
        hour = self._hour(at)
        figures = self._live.get(hour)
        if figures is None:
            if len(self._live) > _KEPT_HOURS:
                for each in sorted(self._live)[: -_KEPT_HOURS + 1]:
                    self._retire(each)
            figures = self._live[hour] = FireFigures()
        return figures

    def _retire(self, hour: int) -> None:
        """Add an hour to the sums; keep it if there is anything to be told of it."""
        figures = self._live.pop(hour)
        self.part.total.add(figures)
        self._by_hour.setdefault(hour, FireFigures()).add(figures)
        if not figures.is_clean:
            self.part.hours.setdefault(hour, FireFigures()).add(figures)


def _shard(text: str) -> tuple[int, int]:
    """“2/5” is the third of five; (0, 1) of a run that is no broadcast."""
    if not text:
        return 0, 1
    index, _, total = text.partition("/")
    if not (index.isdigit() and total.isdigit()):
        return 0, 1
    return (int(index), int(total)) if int(index) < int(total) <= 10_000 else (0, 1)
