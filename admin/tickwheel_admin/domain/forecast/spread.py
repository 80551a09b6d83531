"""Minutes that would spread a peak: when in its hour a job would find the most free slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import msgspec

from tickwheel_admin.domain.forecast.changes import edited
from tickwheel_admin.domain.forecast.draws import assumed_ms, quantile_ms
from tickwheel_admin.domain.forecast.simulation import Forecast
from tickwheel_admin.domain.forecast.situation import ForecastJob, ForecastSituation
from tickwheel_admin.domain.forecast.tally import MINUTE_MS
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec

MAX_PROPOSALS = 5
HOUR_MINUTES = 60
MIN_GAIN = 0.25  # of all slots: what is less is not worth a change
MAX_FIRES_LOOKED_AT = 200  # of one job


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Another minute for one trigger."""

    job_id: int
    trigger: int  # its place among the job's triggers
    minute: int
    new_minute: int
    expression: str  # with the new minute
    busy_share: float  # 0..1: of the slots that others use while it runs now
    new_busy_share: float


def proposals(
    situation: ForecastSituation, forecast: Forecast, named: Collection[int]
) -> tuple[Proposal, ...]:
    """Better minutes for the jobs that are named, or else for those that fire in the worst one.

    Only triggers that name one minute can be moved. Each proposal reckons with those before it.
    """
    if not forecast.slots:
        return ()
    busy = [ms / MINUTE_MS for ms in forecast.minutes]
    assumed = assumed_ms(situation.jobs)
    jobs = {job.id: job for job in situation.jobs}
    chosen = [jobs[each] for each in sorted(named) if each in jobs]
    if not chosen:
        chosen = [jobs[each] for each in _of_worst_minute(forecast) if each in jobs]
    found: list[Proposal] = []
    for job in chosen:
        for index, spec in enumerate(job.config.triggers):
            if len(found) == MAX_PROPOSALS:
                return tuple(found)
            if isinstance(spec, CronSpec) and (minute := minute_of(spec)) is not None:
                usual = quantile_ms(job.measured, 0.5) or assumed
                proposal = _best(job, index, spec, minute, forecast, busy, usual)
                if proposal is not None:
                    found.append(proposal)
    return tuple(found)


def spread_out(situation: ForecastSituation, proposed: Iterable[Proposal]) -> ForecastSituation:
    """The situation with all of these minutes as well."""
    expressions = {(each.job_id, each.trigger): each.expression for each in proposed}
    moved = {job_id for job_id, _ in expressions}

    def spread(job: ForecastJob) -> ForecastJob:
        triggers = tuple(
            spec
            if (expression := expressions.get((job.id, index))) is None
            else msgspec.structs.replace(spec, expression=expression)
            for index, spec in enumerate(job.config.triggers)
        )
        return edited(job, replace(job.config, triggers=triggers), situation)

    jobs = tuple(spread(job) if job.id in moved else job for job in situation.jobs)
    return replace(situation, jobs=jobs)


def minute_of(spec: CronSpec) -> int | None:
    """The one minute of each hour at which it fires; None: there are several, or none is named."""
    fields = (spec.expression or "").split()
    place = _place(spec)
    if len(fields) < 5 + place or not fields[place].isascii() or not fields[place].isdigit():
        return None
    return int(fields[place])


def with_minute(spec: CronSpec, minute: int) -> str:
    """Its expression with another minute."""
    fields = (spec.expression or "").split()
    fields[_place(spec)] = str(minute)
    return " ".join(fields)


def _place(spec: CronSpec) -> int:
    return 0 if (spec.dialect or Dialect.UNIX) == Dialect.UNIX else 1  # behind the seconds


def _of_worst_minute(forecast: Forecast) -> list[int]:
    """The jobs that fire in the minute with the most fires, those that fire seldom first."""
    fires = Counter(at // MINUTE_MS for found in forecast.fires.values() for at in found)
    if not fires:
        return []
    worst = max(fires, key=lambda minute: (fires[minute], -minute))
    if fires[worst] < 2:
        return []
    there = [
        job_id
        for job_id, found in forecast.fires.items()
        if any(at // MINUTE_MS == worst for at in found)
    ]
    return sorted(there, key=lambda job_id: (len(forecast.fires[job_id]), job_id))[1:]


def _best(
    job: ForecastJob,
    index: int,
    spec: CronSpec,
    minute: int,
    forecast: Forecast,
    busy: list[float],
    usual_ms: int,
) -> Proposal | None:
    """Where it runs beside the fewest others; takes its own load there in `busy`."""
    length = min(max(1, -(-usual_ms // MINUTE_MS)), HOUR_MINUTES)
    fires = [
        (at - forecast.start) // MINUTE_MS
        for at in forecast.fires.get(job.id, ())
        # Others of its triggers may fire at the same minutes: it does not matter which.
        if at // MINUTE_MS % HOUR_MINUTES == minute
    ][:MAX_FIRES_LOOKED_AT]
    if not fires:
        return None
    own = min(usual_ms / MINUTE_MS, length) / length
    for fire in fires:
        _add(busy, fire, length, -own)
    costs = {
        other: _mean(busy, fires, other - minute, length) / forecast.slots
        for other in range(HOUR_MINUTES)
    }
    best = min(costs, key=lambda other: (round(costs[other], 2), abs(other - minute)))
    moved = best - minute if costs[minute] - costs[best] >= MIN_GAIN else 0
    for fire in fires:
        _add(busy, fire + moved, length, own)
    if not moved:
        return None
    return Proposal(
        job_id=job.id,
        trigger=index,
        minute=minute,
        new_minute=best,
        expression=with_minute(spec, best),
        busy_share=min(1.0, max(0.0, costs[minute])),
        new_busy_share=min(1.0, max(0.0, costs[best])),
    )


def _add(busy: list[float], first: int, length: int, amount: float) -> None:
    for minute in range(max(first, 0), min(first + length, len(busy))):
        busy[minute] += amount


def _mean(busy: list[float], fires: list[int], moved: int, length: int) -> float:
    total = count = 0.0
    for fire in fires:
        for minute in range(max(fire + moved, 0), min(fire + moved + length, len(busy))):
            total += busy[minute]
            count += 1
    return total / count if count else float("inf")
