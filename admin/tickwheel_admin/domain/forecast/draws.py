"""Chance that can be repeated: what is drawn depends on the seed and on what it is drawn for.

So the same fire takes the same time before and after a change, and what differs between two
forecasts follows from the change.
"""

from __future__ import annotations

from math import ceil

from tickwheel_admin.domain.forecast.situation import ASSUMED_MS, ForecastJob, MeasuredRun
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.schedule.jitter import mixed

BEYOND_ALL = 4  # a run that takes longer than all that were measured: a quarter more
SLOW_SHARE = 0.95  # a slow run takes as long as the slowest but one of twenty


def drawn(*numbers: int) -> int:
    """64 bits that look random, always the same for the same numbers."""
    state = 0
    for number in numbers:
        state = mixed(state ^ number)
    return state


class SeededRandom:
    """What routing asks of a random source."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._drawn = 0

    def randrange(self, stop: int, /) -> int:
        """A number from 0 to stop - 1."""
        self._drawn += 1
        return drawn(self._seed, self._drawn) % stop


class Durations:
    """How the runs of one job go: each as one that was measured."""

    def __init__(self, job: ForecastJob, *, seed: int, slow: bool, assumed_ms: int) -> None:
        """Look at what was measured.

        Args:
            slow: every run succeeds, and takes as long as the slowest of twenty.
            assumed_ms: how long a run takes when none was measured.
        """
        self._key = drawn(seed, job.id)
        measured = job.measured or (MeasuredRun(RunState.SUCCEEDED, assumed_ms, 1),)
        if slow:
            measured = (MeasuredRun(RunState.SUCCEEDED, quantile_ms(measured, SLOW_SHARE), 1),)
        self._measured = measured

    def of(self, scheduled_at: int, part: int = 0) -> MeasuredRun:
        """How the run of this instant goes.

        Args:
            part: which shard it is.
        """
        return self._one_of(self._measured, scheduled_at + part)

    def longer_than(self, ms: int, scheduled_at: int, part: int = 0) -> MeasuredRun:
        """How a run goes that has been running for so long: as one that took longer.

        Where none did it is taken to need as much again as a quarter of that.
        """
        longer = tuple(each for each in self._measured if each.duration_ms > ms)
        if not longer:
            return MeasuredRun(RunState.SUCCEEDED, ms + max(ms // BEYOND_ALL, 1), 1)
        return self._one_of(longer, scheduled_at + part)

    def _one_of(self, measured: tuple[MeasuredRun, ...], number: int) -> MeasuredRun:
        if len(measured) == 1:
            return measured[0]
        return measured[mixed(self._key ^ number) % len(measured)]


def quantile_ms(measured: tuple[MeasuredRun, ...], share: float) -> int:
    """How long at least this share of some runs took at most; of no runs 0."""
    lengths = sorted(each.duration_ms for each in measured)
    return lengths[max(0, ceil(len(lengths) * share) - 1)] if lengths else 0


def assumed_ms(jobs: tuple[ForecastJob, ...]) -> int:
    """How long runs take of which nothing is known: as the middle one of the other jobs."""
    usual = sorted(
        quantile_ms(job.measured, 0.5)
        for job in jobs
        if job.measured and job.config.workflow is None  # which takes as long as its steps
    )
    return usual[(len(usual) - 1) // 2] if usual else ASSUMED_MS
