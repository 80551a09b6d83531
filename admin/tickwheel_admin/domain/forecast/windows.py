"""Where in their windows triggers should fire: beside the fewest slots in use, and in time.

A start that was chosen stays: it is given up only when runs have become too long for it, or when
another one is much better and it was chosen long ago. So a job does not run at another time each
night because the load differs a little.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from itertools import accumulate

import msgspec

from tickwheel_admin.domain.calendars.compiled import compiled
from tickwheel_admin.domain.forecast.draws import SLOW_SHARE, quantile_ms
from tickwheel_admin.domain.forecast.simulation import MAX_RUNS, Forecast, Simulation
from tickwheel_admin.domain.forecast.situation import (
    ForecastJob,
    ForecastSituation,
    ForecastTrigger,
)
from tickwheel_admin.domain.forecast.tally import MINUTE_MS
from tickwheel_admin.domain.schedule.zones import zone_of
from tickwheel_admin.domain.triggers.kinds.window import WindowSpec
from tickwheel_admin.domain.triggers.placement import PlacedBy, WindowPlacement

MIN_RUNS = 3  # that were measured; with fewer it stays at the window's end
STEP_MINUTES = 5  # starts are chosen on this grid, counted from the window's begin
MIN_SHARE = 0.2  # of the slots in use beside it: what saves less is not worth a move
MIN_SLOTS = 0.5  # on average while it runs; likewise
STAYS_MS = 7 * 86_400_000  # so long a start that is in time is not given up
MAX_FIRES = 14  # of one trigger that are looked at
FORECAST_MS = 8 * 86_400_000  # so that a window of each weekday lies in it as a whole


class PlacementRequest(msgspec.Struct, kw_only=True):
    """What a process of its own is asked: where these triggers should fire."""

    situation: ForecastSituation
    triggers: list[int]
    max_runs: int = MAX_RUNS


def placements(request: PlacementRequest) -> dict[int, WindowPlacement]:
    """By trigger, another start than it has; those that stay where they are, are left out.

    What is forecast is the load of all others. Then one after the other is placed beside it, by job
    and trigger, so that each reckons with where those before it will be.
    """
    situation, wanted = request.situation, set(request.triggers)
    jobs = [
        (job, trigger)
        for job in situation.jobs
        for trigger in job.triggers
        if trigger.id in wanted and _is_movable(job, trigger, situation)
    ]
    movable = {trigger.id for _, trigger in jobs}
    if not movable:
        return {}
    others = dataclasses.replace(
        situation,
        jobs=tuple(_without(job, movable) for job in situation.jobs),
    )
    forecast = Simulation(others, end=situation.now + FORECAST_MS, max_runs=request.max_runs).run()
    busy = [ms / MINUTE_MS for ms in forecast.minutes]
    places = [_Place(situation, forecast, job, trigger, busy) for job, trigger in jobs]
    for place in places:
        place.add()
    chosen = {place.trigger_id: place.choose() for place in places}
    return {each: found for each, found in chosen.items() if found is not None}


def _is_movable(job: ForecastJob, trigger: ForecastTrigger, situation: ForecastSituation) -> bool:
    """Whether it fires at all, and is measured."""
    fires = not (job.paused or trigger.paused or job.executor_id in situation.paused)
    return isinstance(trigger.spec, WindowSpec) and fires and len(job.measured) >= MIN_RUNS


def _without(job: ForecastJob, movable: Collection[int]) -> ForecastJob:
    """The job, these triggers of which do not fire."""
    triggers = tuple(
        dataclasses.replace(each, next_fire_at=None) if each.id in movable else each
        for each in job.triggers
    )
    return dataclasses.replace(job, triggers=triggers)


def answer_placements(request: bytes) -> bytes:
    """The same as JSON, for a request as JSON."""
    asked = msgspec.json.decode(request, type=PlacementRequest)
    return msgspec.json.encode(placements(asked))


class _Place:
    """One trigger that is looked at."""

    def __init__(
        self,
        situation: ForecastSituation,
        forecast: Forecast,
        job: ForecastJob,
        trigger: ForecastTrigger,
        busy: list[float],
    ) -> None:
        """Look at it.

        Args:
            forecast: without the triggers that are placed.
            busy: slots in use by minute of the forecast; what it takes is moved with it.
        """
        assert isinstance(trigger.spec, WindowSpec)  # noqa: S101 - nothing else is asked for
        self._spec, self._slots, self._now = trigger.spec, forecast.slots, situation.now
        self._runs, self._busy = len(job.measured), busy
        self._length_ms = quantile_ms(job.measured, SLOW_SHARE)
        self._minutes = max(1, -(-quantile_ms(job.measured, 0.5) // MINUTE_MS))
        self._share = min(1.0, quantile_ms(job.measured, 0.5) / MINUTE_MS / self._minutes)
        self._at = (self._spec.start - self._spec.begin) // 60  # where it fires now
        room = self._spec.length
        if self._spec.length_until_done is not None:
            room = min(room, self._spec.length_until_done - -(-self._length_ms // 1_000))
        self._is_too_long = room < 0
        self._latest = max(room, 0) // 60 // STEP_MINUTES * STEP_MINUTES
        self._end = forecast.end
        calendars = {each.name: each for each in situation.calendars}
        self._calendar = calendars.get(trigger.spec.calendar or "")
        self.trigger_id = trigger.id
        self._starts, self._begins = self._looked_at()

    def add(self) -> None:
        """Count what it takes where it fires now."""
        self._count(self._at, 1.0)

    def choose(self) -> WindowPlacement | None:
        """Another start; None: it stays."""
        self._count(self._at, -1.0)
        chosen = self._chosen()
        self._count(self._at if chosen is None else chosen.offset, 1.0)
        return chosen

    def _chosen(self) -> WindowPlacement | None:
        now, costs = self._spec.placement, self._costs()
        if self._is_too_long:
            return self._placement(0, PlacedBy.TOO_LONG) if self._at else None
        if self._spec.length_until_done is None and now is None and not costs:
            return None
        stays = self._at <= self._latest and (self._at in self._starts or now is None)
        if not costs:
            return None if stays else self._placement(max(self._starts), PlacedBy.LATEST)
        # Of equal ones the earliest: there is more time for another try.
        best = min(costs, key=lambda offset: (round(costs[offset], 2), offset))
        if stays and now is not None and now.by is PlacedBy.LOAD:
            gain = costs[self._at] - costs[best]
            is_worth_it = gain >= MIN_SLOTS and gain >= MIN_SHARE * costs[self._at]
            if not is_worth_it or now.chosen_at > self._now - STAYS_MS:
                return None
        return msgspec.structs.replace(
            self._placement(best, PlacedBy.LOAD),
            in_use=round(max(0.0, costs[best]), 1),
            in_use_at_latest=round(max(0.0, costs[max(costs)]), 1),
            latest=max(costs),
            slots=self._slots,
        )

    def _placement(self, offset: int, by: PlacedBy) -> WindowPlacement:
        return WindowPlacement(
            offset=offset,
            by=by,
            chosen_at=self._now,
            latest=self._latest,
            length_ms=self._length_ms,
            runs=self._runs,
        )

    # --- load --------------------------------------------------------------------------------

    def _looked_at(self) -> tuple[list[int], list[int]]:
        """The starts that may be chosen, and at which minutes of the forecast windows begin.

        A start at which a calendar or a bound leaves fewer fires than at others is none.
        """
        starts = list(range(0, self._latest + 1, STEP_MINUTES))
        if all(each is None for each in (self._calendar, self._spec.start_at, self._spec.end_at)):
            return starts, [fire - starts[-1] for fire in self._fires_at(starts[-1])]
        fires = {offset: self._fires_at(offset) for offset in starts}
        most = max(len(found) for found in fires.values())
        starts = [offset for offset in starts if len(fires[offset]) == most]
        return starts, [fire - starts[-1] for fire in fires[starts[-1]]]

    def _fires_at(self, offset: int) -> list[int]:
        """At which minutes of the forecast it fires if it starts there."""
        placed = msgspec.structs.replace(
            self._spec, placement=self._placement(offset, PlacedBy.LATEST)
        )
        # Without its calendar, of which a search could find no end.
        schedule = placed.schedule(saved_at=0, calendar=None)
        fires: list[int] = []
        at = schedule.next_after(self._now)
        while at is not None and at < self._end and len(fires) < MAX_FIRES:
            if self._is_left(at):
                fires.append((at - self._now) // MINUTE_MS)
            at = schedule.next_after(at)
        return fires

    def _is_left(self, at: int) -> bool:
        """Whether bounds and the calendar leave a fire."""
        spec = self._spec
        if at < (at if spec.start_at is None else spec.start_at):
            return False
        if at > (at if spec.end_at is None else spec.end_at):
            return False
        wall = zone_of(spec.timezone).to_local(at // 1_000)[0]
        return self._calendar is None or compiled(self._calendar).who_refuses(wall) is None

    def _costs(self) -> dict[int, float]:
        """By start: slots that others use while it runs; empty: nothing is known."""
        if not self._slots:
            return {}
        sums = [0.0, *accumulate(self._busy)]
        # Only nights that the forecast covers as a whole, so that all starts are judged alike.
        last = len(sums) - 1 - self._latest - self._minutes
        nights = [begin for begin in self._begins if 0 <= begin <= last]
        if not nights:
            return {}
        return {
            offset: sum(
                sums[night + offset + self._minutes] - sums[night + offset] for night in nights
            )
            / (len(nights) * self._minutes)
            for offset in self._starts
        }

    def _count(self, offset: int, times: float) -> None:
        """Add what it takes if it starts there, so many times."""
        for begin in self._begins:
            first = begin + offset
            for minute in range(max(first, 0), min(first + self._minutes, len(self._busy))):
                self._busy[minute] += self._share * times
