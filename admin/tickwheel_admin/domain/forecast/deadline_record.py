"""What was foretold of a deadline and what became of it, and how good such forecasts are.

A warning stands from the first forecast that calls a deadline missed until one calls it fine: a
forecast in between takes nothing back. It is told once two forecasts have agreed, or at once where
little time is left. What counts for the score is what stood half an hour before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median_low

from tickwheel_admin.domain.forecast.night_plan import (
    DeadlineForecast,
    DeadlineVerdict,
    PlanDeadline,
)

MINUTE_MS = 60_000
EARLY_MS = 30 * MINUTE_MS  # before a deadline, the last forecast that counts for the score
SOON_MS = 60 * MINUTE_MS  # before it, one forecast is enough to warn


class DeadlineOutcome(StrEnum):
    """What became of a deadline. The values are stored, and part of the API."""

    MET = "met"
    MISSED = "missed"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineRecord:
    """A deadline of a rule and a job with its newest forecast; instants are UTC ms."""

    rule_id: int
    job_id: int
    at: int
    executor_id: int
    since: int  # successes count from here on
    made_at: int  # when the newest forecast was made
    verdict: DeadlineVerdict
    miss_percent: int  # of the draws
    end_at: int | None  # of half of the draws; None: not within the forecast
    slow_end_at: int | None  # of 95 of 100
    warned_since: int | None = None  # since when a warning stands
    early_warned: bool | None = None  # one stood EARLY_MS before; None: nothing was foretold then
    early_end_at: int | None = None  # as it was foretold then
    outcome: DeadlineOutcome | None = None  # None: it is not looked at yet
    succeeded_at: int | None = None  # the first success that counts, even if it came too late
    look_at: int | None = None  # when to look at what became of it; None: all is known

    @property
    def is_told(self) -> bool:
        """Whether people are warned of it."""
        return self.warned_since is not None and (
            self.warned_since < self.made_at or self.at - self.made_at <= SOON_MS
        )


def recorded(
    before: DeadlineRecord | None,
    deadline: PlanDeadline,
    forecast: DeadlineForecast,
    *,
    executor_id: int,
    made_at: int,
    look_at: int,
) -> DeadlineRecord:
    """The record of a deadline after one more forecast.

    Args:
        before: as the forecast before left it.
        look_at: when to look at what became of it, UTC ms.
    """
    warned_since = None if before is None else before.warned_since
    if forecast.verdict is DeadlineVerdict.MISSED:
        warned_since = made_at if warned_since is None else warned_since
    elif forecast.verdict is not DeadlineVerdict.AT_RISK:
        warned_since = None
    record = DeadlineRecord(
        rule_id=deadline.rule_id,
        job_id=deadline.job_id,
        at=deadline.at,
        executor_id=executor_id,
        since=deadline.since,
        made_at=made_at,
        verdict=forecast.verdict,
        miss_percent=round(forecast.miss_share * 100),
        end_at=forecast.end_at,
        slow_end_at=forecast.slow_end_at,
        warned_since=warned_since,
        early_warned=None if before is None else before.early_warned,
        early_end_at=None if before is None else before.early_end_at,
        look_at=look_at,
    )
    if made_at > deadline.at - EARLY_MS:
        return record
    if forecast.verdict is DeadlineVerdict.DONE:  # what has happened is not foretold
        return replace(record, early_warned=None, early_end_at=None)
    return replace(record, early_warned=record.is_told, early_end_at=forecast.end_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastScore:
    """How good the forecasts of some deadlines were, by what they told EARLY_MS before.

    Deadlines that were met by then do not count.
    """

    since: int  # deadlines since then, UTC ms
    deadlines: int = 0
    missed: int = 0  # of them
    warned: int = 0  # of them
    warned_and_missed: int = 0
    error_ms: int | None = None  # half of the predicted ends were off by at most so much

    @property
    def right_percent(self) -> int | None:
        """Of 100 warnings, so many came true; None: there was none."""
        return _percent(self.warned_and_missed, self.warned)

    @property
    def found_percent(self) -> int | None:
        """Of 100 missed deadlines, so many were warned of; None: none was missed."""
        return _percent(self.warned_and_missed, self.missed)


def score_of(records: Sequence[DeadlineRecord], *, since: int) -> ForecastScore:
    """How good these forecasts were; those without outcome, or without an early forecast, do not
    count.
    """
    scored = [r for r in records if r.outcome is not None and r.early_warned is not None]
    missed = [r for r in scored if r.outcome is DeadlineOutcome.MISSED]
    errors = [
        abs(r.early_end_at - r.succeeded_at)
        for r in scored
        if r.early_end_at is not None and r.succeeded_at is not None
    ]
    return ForecastScore(
        since=since,
        deadlines=len(scored),
        missed=len(missed),
        warned=sum(bool(r.early_warned) for r in scored),
        warned_and_missed=sum(bool(r.early_warned) for r in missed),
        error_ms=median_low(errors) if errors else None,
    )


def _percent(part: int, whole: int) -> int | None:
    return None if whole == 0 else round(100 * part / whole)
