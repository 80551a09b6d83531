"""What is counted while a forecast goes on, minute by minute and hour by hour."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
LATE_MS = 60_000  # what starts later than this counts as late


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastHour:
    """One hour of a forecast."""

    at: int
    fires: int
    waiting: int  # most runs that waited for a slot at once
    busy: int  # most slots in use at once
    busy_share: float  # 0..1: slots in use on average
    full_ms: int  # how long no slot was free
    delay_p50_ms: int | None  # of runs that were due in this hour; None: none started
    delay_p95_ms: int | None
    late: int  # runs that were due in this hour and started more than LATE_MS later
    skipped: int  # fires that did not run: expired, or by the blocking strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastJobFigures:
    """One job in a forecast."""

    job_id: int
    runs: int  # due in it, children included
    children: int  # of them: asked for by the end of another run
    started: int
    waiting: int  # due, and not started at its end
    skipped: int
    failed: int
    delay_p50_ms: int | None
    delay_p95_ms: int | None
    missed: tuple[int, ...]  # deadlines by which it has not succeeded


class Tally:
    """Counts for one forecast. Instants must not go back."""

    def __init__(self, *, start: int, end: int, slots: int) -> None:
        """Count from start to end, both UTC epoch ms.

        Args:
            slots: that runs may take; what is taken beyond them counts as full.
        """
        self._start, self._end = start, end
        self._slots = slots
        minutes = -(-(end - start) // MINUTE_MS)
        hours = -(-(end - start) // HOUR_MS) + 1  # one for what falls on the end
        self.busy_ms = array("q", bytes(8 * minutes))  # of all slots together, by minute
        self._full_ms = array("q", bytes(8 * hours))
        self._most_busy = array("q", bytes(8 * hours))
        self._most_waiting = array("q", bytes(8 * hours))
        self._fires = array("q", bytes(8 * hours))
        self._skipped = array("q", bytes(8 * hours))
        self._delays: defaultdict[int, list[int]] = defaultdict(list)  # by hour
        self._jobs: defaultdict[int, list[int]] = defaultdict(list)  # delays by job
        self._counts: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self.skips: Counter[str] = Counter()  # by reason
        self.fires_of: defaultdict[int, list[int]] = defaultdict(list)  # instants by job
        self.successes: defaultdict[int, list[int]] = defaultdict(list)  # by job, if asked for
        self._at = start
        self._busy = 0
        self._waiting = 0

    # --- what happens ------------------------------------------------------------------------

    def changes(self, at: int, *, busy: int, waiting: int) -> None:
        """From `at` on so many slots are in use, and so many runs wait for one."""
        if at > self._at:
            self._pass(min(at, self._end))
        self._busy, self._waiting = busy, waiting
        if at < self._end:
            hour = self._hour(at)
            if busy > self._most_busy[hour]:
                self._most_busy[hour] = busy
            if waiting > self._most_waiting[hour]:
                self._most_waiting[hour] = waiting

    def fires(self, job_id: int, at: int) -> None:
        """A trigger fires, be it that the fire is skipped later."""
        self._fires[self._hour(at)] += 1
        self.fires_of[job_id].append(at)

    def due(self, job_id: int, *, is_child: bool) -> None:
        """A run is due for the first time."""
        counts = self._counts[job_id]
        counts["runs"] += 1
        if is_child:
            counts["children"] += 1

    def starts(self, job_id: int, *, due_at: int, at: int, is_first: bool) -> None:
        """A first try starts.

        Args:
            is_first: whether it is the first of its fire, or a run without shards.
        """
        delay = max(0, at - due_at)
        self._delays[self._hour(max(due_at, self._start))].append(delay)
        self._jobs[job_id].append(delay)
        self._counts[job_id]["started"] += is_first

    def skip(self, job_id: int, at: int, reason: str) -> None:
        """A due run does not start, on purpose."""
        self._skipped[self._hour(at)] += 1
        self.skips[reason] += 1
        self._counts[job_id]["skipped"] += 1

    def fails(self, job_id: int) -> None:
        """A run fails for good."""
        self._counts[job_id]["failed"] += 1

    # --- what came of it -----------------------------------------------------------------------

    def close(self, end: int) -> None:
        """Nothing more happens; it ends sooner than it should when there was too much."""
        self._pass(end)
        self._end = end

    def hours(self) -> tuple[ForecastHour, ...]:
        """All hours, the first from the start on."""
        figures = []
        for hour in range(-(-(self._end - self._start) // HOUR_MS)):
            begin = self._start + hour * HOUR_MS
            length = min(HOUR_MS, self._end - begin)
            minutes = self.busy_ms[hour * 60 : hour * 60 + -(-length // MINUTE_MS)]
            delays = sorted(self._delays.get(hour, ()))
            figures.append(
                ForecastHour(
                    at=begin,
                    fires=self._fires[hour],
                    waiting=self._most_waiting[hour],
                    busy=self._most_busy[hour],
                    busy_share=sum(minutes) / (length * self._slots) if self._slots else 0.0,
                    full_ms=self._full_ms[hour],
                    delay_p50_ms=quantile(delays, 0.5),
                    delay_p95_ms=quantile(delays, 0.95),
                    late=sum(delay > LATE_MS for delay in delays),
                    skipped=self._skipped[hour],
                )
            )
        return tuple(figures)

    def jobs(self, missed: Mapping[int, Sequence[int]]) -> tuple[ForecastJobFigures, ...]:
        """All jobs of which anything was counted, by id.

        Args:
            missed: deadlines by job.
        """
        found = []
        for job_id in sorted(self._counts.keys() | missed.keys()):
            counts, delays = self._counts[job_id], sorted(self._jobs.get(job_id, ()))
            found.append(
                ForecastJobFigures(
                    job_id=job_id,
                    runs=counts["runs"],
                    children=counts["children"],
                    started=counts["started"],
                    waiting=max(0, counts["runs"] - counts["started"] - counts["skipped"]),
                    skipped=counts["skipped"],
                    failed=counts["failed"],
                    delay_p50_ms=quantile(delays, 0.5),
                    delay_p95_ms=quantile(delays, 0.95),
                    missed=tuple(missed.get(job_id, ())),
                )
            )
        return tuple(found)

    def all_delays(self) -> list[int]:
        """Every start delay, rising."""
        return sorted(delay for delays in self._delays.values() for delay in delays)

    def _hour(self, at: int) -> int:
        return (at - self._start) // HOUR_MS if at >= self._start else 0

    def _pass(self, until: int) -> None:
        at, busy = self._at, self._busy
        is_full = self._slots > 0 and busy >= self._slots
        if not busy and not self._waiting:
            at = until
        while at < until:
            offset = at - self._start
            minute = offset // MINUTE_MS
            to = min(until, self._start + (minute + 1) * MINUTE_MS)
            self.busy_ms[minute] += busy * (to - at)
            hour = minute // 60
            if busy > self._most_busy[hour]:
                self._most_busy[hour] = busy
            if self._waiting > self._most_waiting[hour]:
                self._most_waiting[hour] = self._waiting
            if is_full:
                self._full_ms[hour] += to - at
            at = to
        self._at = until


def quantile(rising: Sequence[int], share: float) -> int | None:
    """What at least this share of some numbers does not exceed; None of none."""
    return rising[max(0, ceil(len(rising) * share) - 1)] if rising else None
