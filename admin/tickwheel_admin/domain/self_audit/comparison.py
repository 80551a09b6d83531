"""One trigger's hour: what should have fired against what the ledger has.

Of every instant of the schedule one of these is true, so that the counts add up: it happened, it is
explained, or it is missing. An instant is missing only if it was due under everything that may have
been in force when it was planned: where an edit, a pause or a change of a calendar was so near that
either outcome is right, both are accepted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from tickwheel_admin.domain.self_audit.absences import Absence, packed
from tickwheel_admin.domain.self_audit.fixed_delays import doubled_fires, named_fires
from tickwheel_admin.domain.self_audit.instants import Walls, instants_of, left_by
from tickwheel_admin.domain.self_audit.past import LedgerFire, Past, TriggerPeriod
from tickwheel_admin.domain.triggers.trigger import TriggerState

SECOND_MS, MINUTE_MS = 1_000, 60_000
# A planner that read a pause, or a calendar, writes its plan so much later at most.
PLAN_SLACK_MS = 15 * SECOND_MS
# A planner that is so far behind may plan with a calendar that changed since.
BEHIND_MS = 120 * MINUTE_MS
AHEAD_MS = 5 * SECOND_MS  # fires are planned this long before their instant at most
LATE_SLACK_MS = SECOND_MS
_NOT_COUNTED = ""  # nothing is expected of a trigger that stands still for the whole hour


class DifferenceKind(StrEnum):
    """How the ledger differs from what should have happened."""

    MISSING = "missing"  # due, and neither in the ledger nor explained
    DOUBLED = "doubled"  # more than one run for one instant
    LATE = "late"  # planned later than its trigger allows, and not as a missed fire
    UNEXPLAINED = "unexplained"  # in the ledger, and there was no reason to fire


class AuditReason(StrEnum):
    """Why an instant of a schedule brought no run; beside the reasons of skipped runs."""

    PAUSED = "paused"  # the trigger, its job, its executor or everything was paused
    CALENDAR = "calendar"  # its calendar took it away
    MISFIRE = "misfire"  # missed, and a skipped run tells of it
    EDITED = "edited"  # an edit or a deletion came just before it
    ENDED = "ended"  # the trigger had brought all its runs
    ERROR = "error"  # its schedule could not be computed
    PURGED = "purged"  # a person had old runs deleted
    RETENTION = "retention"  # old runs were deleted before the time was audited
    CANCELLED = "cancelled"  # cancelled before it was claimed


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerDifference:
    """One difference."""

    trigger_id: int
    job_id: int
    executor_id: int
    at: int  # the instant
    what: DifferenceKind


@dataclass(slots=True, kw_only=True)
class AuditCount:
    """What an hour comes to.

    Two sums hold. expected = happened + explained + missing; and
    expected + surplus = fires + absent + missing, which later moves of runs do not change.
    """

    expected: int = 0
    happened: int = 0
    explained: Counter[str] = field(default_factory=Counter)
    fires: int = 0  # runs of fires that the ledger has, whatever became of them
    absent: Counter[str] = field(default_factory=Counter)  # explained, and there is no run
    differences: Counter[str] = field(default_factory=Counter)

    @property
    def missing(self) -> int:
        """Instants without a run and without a reason."""
        return self.differences[DifferenceKind.MISSING]

    @property
    def surplus(self) -> int:
        """Runs for instants that were not expected, or have one already."""
        return self.fires + self.absent.total() + self.missing - self.expected

    def add(self, other: AuditCount) -> None:
        """Count another trigger in."""
        self.expected += other.expected
        self.happened += other.happened
        self.explained.update(other.explained)
        self.fires += other.fires
        self.absent.update(other.absent)
        self.differences.update(other.differences)


def compare(
    periods: Sequence[TriggerPeriod],
    fires: Sequence[LedgerFire],
    past: Past,
    *,
    begin: int,
    end: int,
    others: Sequence[LedgerFire] = (),
) -> tuple[AuditCount, list[LedgerDifference], list[Absence]]:
    """Audit the time from `begin` to before `end` of one trigger.

    Absences are the instants that the count tells of as absent or missing.

    Args:
        periods: all that may concern this time, in order of their versions; one at least.
        fires: those of the ledger within this time.
        others: fires outside it that tell of some within it: that were missed, or are followed.

    Raises:
        UnreadableExpression: the trigger cannot be audited.
    """
    return _Comparison(periods, fires, past, begin=begin, end=end, others=others).result()


class _Comparison:
    def __init__(
        self,
        periods: Sequence[TriggerPeriod],
        fires: Sequence[LedgerFire],
        past: Past,
        *,
        begin: int,
        end: int,
        others: Sequence[LedgerFire],
    ) -> None:
        self._periods = periods
        self._begin, self._end = begin, end
        self._past = past
        self._of = periods[-1]
        self._fires: defaultdict[int, list[LedgerFire]] = defaultdict(list)
        for fire in fires:
            self._fires[fire.scheduled_at].append(fire)
        self._known = (*fires, *others)
        self._told = [each.missed for each in self._known if each.missed is not None]
        self._pauses = [
            each for each in past.pauses if each.executor_id in (0, self._of.executor_id)
        ]
        self._instants = {
            period.version: instants_of(period.spec, saved_at=period.saved_at, begin=begin, end=end)
            for period in periods
        }
        self.count = AuditCount()
        self.found: list[LedgerDifference] = []
        self._absent: defaultdict[str, list[int]] = defaultdict(list)  # instants by reason

    def result(self) -> tuple[AuditCount, list[LedgerDifference], list[Absence]]:
        seen: set[int] = set()
        # What a later edit took back is not asked of an earlier period: were the database's clock
        # set back in between, it would be.
        limits = [
            min(each.ends_at for each in self._periods[place:])
            for place in range(len(self._periods))
        ]
        # The newest first: it may begin before the one before it ended, never the other way round.
        for period, limit in reversed(list(zip(self._periods, limits, strict=True))):
            for at in self._instants[period.version]:
                if period.since_at < at <= limit and at not in seen:
                    seen.add(at)
                    self._judge(period, at)
        for before, after in pairwise(self._periods):
            # Between an edit and what had been claimed ahead of it nothing is planned.
            for at in self._instants[after.version]:
                if before.ends_at < at <= after.since_at and at not in seen:
                    seen.add(at)
                    self._judge(after, at, reason=AuditReason.EDITED)
        for at in sorted(self._fires.keys() - seen):
            self._take(at)
        if self._of.spec.follows_runs:
            self._judge_delays()
        return self.count, self.found, self._absences()

    def _absences(self) -> list[Absence]:
        return [
            Absence(
                trigger_id=self._of.trigger_id,
                job_id=self._of.job_id,
                executor_id=self._of.executor_id,
                reason=reason,
                spans=packed(instants),
            )
            for reason, instants in sorted(self._absent.items())
        ]

    def _judge_delays(self) -> None:
        """Count what must be there of a fixed delay, and is not; notice what is there twice."""
        absent: dict[int, bool] = {}
        for named in named_fires(self._periods, self._known, begin=self._begin, end=self._end):
            if named.at not in self._fires:
                absent[named.at] = absent.get(named.at, False) or named.was_there
        for at, was_there in sorted(absent.items()):
            self._lack(at, self._why_gone(at) if was_there else self._reason(self._of, at))
        for before, at in doubled_fires(self._known):
            if at in self._fires or before in self._fires:
                self._differ(at if at in self._fires else before, DifferenceKind.DOUBLED)

    def _judge(self, period: TriggerPeriod, at: int, *, reason: str | None = None) -> None:
        """Count an instant of the schedule."""
        if at in self._fires:
            self._take(at)
            return
        reason = reason or self._reason(period, at)
        self._lack(at, reason)

    def _lack(self, at: int, reason: str | None) -> None:
        """Count an instant without a run."""
        if reason == _NOT_COUNTED:
            return
        self.count.expected += 1
        self._absent[reason or DifferenceKind.MISSING.value].append(at)
        if reason is None:
            self._differ(at, DifferenceKind.MISSING)
        else:
            self.count.explained[reason] += 1
            self.count.absent[reason] += 1

    def _take(self, at: int) -> None:
        """Count what the ledger has for an instant."""
        first, *more = sorted(self._fires[at], key=lambda fire: fire.created_at)
        self.count.fires += 1 + len(more)
        if not self._is_possible(first):
            self._differ(at, DifferenceKind.UNEXPLAINED)
            return
        self.count.expected += 1
        if first.missed is not None:
            self.count.explained[AuditReason.MISFIRE] += 1
        elif first.passed_over is not None:
            self.count.explained[first.passed_over] += 1
        else:
            self.count.happened += 1
        for _ in more:
            self._differ(at, DifferenceKind.DOUBLED)
        if self._is_late(first):
            self._differ(at, DifferenceKind.LATE)

    def _reason(self, period: TriggerPeriod, at: int) -> str | None:
        """Why nothing is in the ledger for an instant of a period; None: it is missing."""
        last_at = period.last_fire_at or 0
        if any(first <= at <= last for first, last in self._told):
            return AuditReason.MISFIRE
        if any(
            each.paused_at < at
            and (each.resumed_at is None or at <= each.resumed_at + PLAN_SLACK_MS)
            for each in self._pauses
        ):
            return AuditReason.PAUSED
        if period.is_idle:
            lasts = period.since_at < self._begin and period.ends_at >= self._end
            return _NOT_COUNTED if lasts else AuditReason.PAUSED
        if period.state is TriggerState.COMPLETE and at > last_at:
            return _NOT_COUNTED if last_at < self._begin else AuditReason.ENDED
        if period.state is TriggerState.ERROR and at > last_at:
            return AuditReason.ERROR
        if period.planned_to is not None and at > period.planned_to:
            return AuditReason.EDITED
        if not self._is_left(period, at, at - AHEAD_MS, at + BEHIND_MS, by=all):
            return AuditReason.CALENDAR
        return self._why_gone(at)

    def _why_gone(self, at: int) -> str | None:
        """Why a run is not in the ledger any more; None: there is no reason."""
        if at < self._past.kept_from:
            return AuditReason.RETENTION
        is_purged = any(
            each.job_id == self._of.job_id and each.from_at <= at <= each.to_at
            for each in self._past.purged
        )
        return AuditReason.PURGED if is_purged else None

    def _is_possible(self, fire: LedgerFire) -> bool:
        """Whether the trigger may have fired, as it stood when the fire was planned."""
        at, planned_at = fire.scheduled_at, fire.created_at
        low, high = min(at, planned_at) - AHEAD_MS, max(at, planned_at) + PLAN_SLACK_MS
        for period in self._periods:
            if planned_at > period.ends_at or period.is_idle:
                continue
            if period.spec.follows_runs:
                return True
            is_over = period.state is TriggerState.COMPLETE and at > (period.last_fire_at or 0)
            if at <= period.since_at or at not in self._instants[period.version] or is_over:
                continue
            if self._is_left(period, at, low, high, by=any):
                return True
        return False

    def _is_left(
        self,
        period: TriggerPeriod,
        at: int,
        from_at: int,
        to_at: int,
        *,
        by: Callable[[Iterable[bool]], bool],
    ) -> bool:
        """Whether the calendar leaves an instant: by all, or any, of what it said within a time."""
        walls: Walls = self._instants[period.version].get(at, ())
        if period.spec.calendar is None:
            return True
        chains = self._past.calendars.chains(period.spec.calendar, from_at, to_at)
        return by(left_by(chain, walls) for chain in chains)

    def _is_late(self, fire: LedgerFire) -> bool:
        late_ms = fire.created_at - fire.scheduled_at
        allowed_ms = max(each.spec.misfire_threshold_ms for each in self._periods)
        if not fire.is_on_time or late_ms <= allowed_ms + LATE_SLACK_MS:
            return False
        return not any(
            each.paused_at <= fire.created_at
            and (each.resumed_at is None or each.resumed_at >= fire.scheduled_at)
            for each in self._pauses
        ) and not any(each.spec.follows_runs for each in self._periods)

    def _differ(self, at: int, what: DifferenceKind) -> None:
        self.count.differences[what] += 1
        self.found.append(
            LedgerDifference(
                trigger_id=self._of.trigger_id,
                job_id=self._of.job_id,
                executor_id=self._of.executor_id,
                at=at,
                what=what,
            )
        )
