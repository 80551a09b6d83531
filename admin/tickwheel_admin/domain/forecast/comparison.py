"""Two forecasts side by side: what a change would make different."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from tickwheel_admin.domain.forecast.changes import Change, changed
from tickwheel_admin.domain.forecast.draws import assumed_ms, quantile_ms
from tickwheel_admin.domain.forecast.planned import PlannedFires
from tickwheel_admin.domain.forecast.simulation import MAX_RUNS, Forecast, Simulation
from tickwheel_admin.domain.forecast.situation import ForecastSituation
from tickwheel_admin.domain.forecast.spread import Proposal, proposals, spread_out
from tickwheel_admin.domain.forecast.tally import ForecastHour, ForecastJobFigures

MAX_JOBS = 50  # that are told one by one
MAX_INSTANTS = 20  # of fires of one job


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastSide:
    """One of the two forecasts."""

    slots: int
    runs: int
    fires: int
    hours: tuple[ForecastHour, ...]
    delay_p50_ms: int | None
    delay_p95_ms: int | None
    late: int  # runs that start more than a minute late
    full_ms: int  # how long all slots are in use
    most_waiting: int
    skipped: dict[str, int]  # by reason
    failed: int
    missed: int  # deadlines
    slow_delay_p95_ms: int | None  # if every run took as long as the slowest of twenty
    slow_missed: int
    slow_skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDifference:
    """One job that the change makes a difference to, or the change is about."""

    job_id: int
    before: ForecastJobFigures | None
    after: ForecastJobFigures | None
    fires_gone: int
    fires_new: int
    first_gone: tuple[int, ...]  # at most MAX_INSTANTS
    first_new: tuple[int, ...]
    starves: bool  # runs of it were asked for by others, and none is any more
    measured_runs: int  # what its durations are drawn from
    duration_p50_ms: int | None  # of them; None: there are none
    duration_p95_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a forecast rests on."""

    jobs: int
    measured_jobs: int
    measured_runs: int
    measured_since: int | None  # the first of those runs
    assumed_jobs: int  # of which no run was measured
    assumed_ms: int  # how long their runs are taken to be
    workflows: int  # whose steps are simulated
    assumed_workflows: int  # of them: no run says which conditions hold, and how long lists are
    nodes: int
    open_runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastComparison:
    """The answer to "what if"."""

    start: int
    end: int
    truncated: bool  # it ends sooner than asked for: there are too many runs
    before: ForecastSide
    after: ForecastSide
    jobs: tuple[JobDifference, ...]
    more_jobs: int  # with a difference, that are not told
    fires_gone: int
    fires_new: int
    basis: Basis
    spread: tuple[Proposal, ...]
    with_spread: (
        ForecastSide | None
    )  # as `after`, and with all of these minutes; None: there are none


Work = Callable[[], Forecast]
AllOf = Callable[[Sequence[Work]], Sequence[Forecast]]


def one_by_one(works: Sequence[Work]) -> Sequence[Forecast]:
    """Each forecast after the one before."""
    return [work() for work in works]


def compare(
    situation: ForecastSituation,
    changes: list[Change],
    *,
    end: int,
    seed: int = 0,
    max_runs: int = MAX_RUNS,
    do: AllOf = one_by_one,
) -> ForecastComparison:
    """Forecast both, by the same chance.

    Args:
        end: UTC epoch ms.
        max_runs: of each forecast.
        do: how forecasts are made that do not depend on each other.
    """
    wished = end
    other, planned = changed(situation, changes), PlannedFires()

    def forecasts(until: int, *of: ForecastSituation) -> Sequence[Forecast]:
        return do(
            [
                Simulation(
                    each, end=until, seed=seed, slow=slow, max_runs=max_runs, planned=planned
                ).run
                for slow in (False, True)
                for each in of
            ]
        )

    made = forecasts(wished, situation, other)
    while any(each.end != made[0].end for each in made):  # one of them had too many runs
        made = forecasts(min(each.end for each in made), situation, other)
    before, after, slow_before, slow_after = made
    end = before.end
    named = {change_job for each in changes if (change_job := getattr(each, "job_id", None))}
    differences = _differences(situation, before, after, named)
    spread = proposals(other, after, named)
    with_spread = None
    if spread:
        usual, slow = forecasts(end, spread_out(other, spread))
        if usual.end == slow.end == end:
            with_spread = _side(usual, slow)
    return ForecastComparison(
        start=before.start,
        end=end,
        truncated=end < wished,
        before=_side(before, slow_before),
        after=_side(after, slow_after),
        jobs=tuple(differences[:MAX_JOBS]),
        more_jobs=max(0, len(differences) - MAX_JOBS),
        fires_gone=sum(each.fires_gone for each in differences),
        fires_new=sum(each.fires_new for each in differences),
        basis=basis_of(other),
        spread=spread,
        with_spread=with_spread,
    )


def _side(usual: Forecast, slow: Forecast) -> ForecastSide:
    return ForecastSide(
        slots=usual.slots,
        runs=usual.runs,
        fires=sum(len(each) for each in usual.fires.values()),
        hours=usual.hours,
        delay_p50_ms=usual.delay_p50_ms,
        delay_p95_ms=usual.delay_p95_ms,
        late=usual.late,
        full_ms=sum(hour.full_ms for hour in usual.hours),
        most_waiting=max((hour.waiting for hour in usual.hours), default=0),
        skipped=usual.skipped,
        failed=sum(job.failed for job in usual.jobs),
        missed=sum(len(job.missed) for job in usual.jobs),
        slow_delay_p95_ms=slow.delay_p95_ms,
        slow_missed=sum(len(job.missed) for job in slow.jobs),
        slow_skipped=sum(slow.skipped.values()),
    )


def _differences(
    situation: ForecastSituation, before: Forecast, after: Forecast, named: set[int]
) -> list[JobDifference]:
    """Of each job with one; those that the change names first, then by how much they change."""
    old = {each.job_id: each for each in before.jobs}
    new = {each.job_id: each for each in after.jobs}
    measured = {job.id: job.measured for job in situation.jobs}
    found = []
    for job_id in sorted(old.keys() | new.keys() | before.fires.keys() | after.fires.keys()):
        if job_id < 0:
            continue  # a step that is not saved yet
        fires, others = set(before.fires.get(job_id, ())), set(after.fires.get(job_id, ()))
        gone, come = sorted(fires - others), sorted(others - fires)
        one, two = old.get(job_id), new.get(job_id)
        runs = measured.get(job_id, ())
        if one == two and not gone and not come and job_id not in named:
            continue
        found.append(
            JobDifference(
                job_id=job_id,
                before=one,
                after=two,
                fires_gone=len(gone),
                fires_new=len(come),
                first_gone=tuple(gone[:MAX_INSTANTS]),
                first_new=tuple(come[:MAX_INSTANTS]),
                starves=one is not None and one.children > 0 and (two is None or two.children == 0),
                measured_runs=len(runs),
                duration_p50_ms=quantile_ms(runs, 0.5) if runs else None,
                duration_p95_ms=quantile_ms(runs, 0.95) if runs else None,
            )
        )
    return sorted(found, key=lambda each: (each.job_id not in named, -_weight(each), each.job_id))


def _weight(each: JobDifference) -> int:
    """How much a job changes: missed deadlines, lost fires and lateness, in this order."""
    one, two = each.before, each.after
    missed = abs(len(two.missed if two else ()) - len(one.missed if one else ()))
    skipped = abs((two.skipped if two else 0) - (one.skipped if one else 0))
    late = abs(((two and two.delay_p95_ms) or 0) - ((one and one.delay_p95_ms) or 0))
    weight = missed * 10**12 + each.starves * 10**11
    return weight + (each.fires_gone + each.fires_new + skipped) * 10**7 + min(late, 10**7)


def basis_of(situation: ForecastSituation) -> Basis:
    """What a forecast of the situation rests on."""
    jobs = [job for job in situation.jobs if job.config.workflow is None]
    measured = [job for job in jobs if job.measured]
    since = [job.measured_since for job in measured if job.measured_since is not None]
    return Basis(
        jobs=sum(not job.is_hidden for job in situation.jobs),
        measured_jobs=len(measured),
        measured_runs=sum(len(job.measured) for job in measured),
        measured_since=min(since, default=None),
        assumed_jobs=len(jobs) - len(measured),
        assumed_ms=assumed_ms(situation.jobs),
        workflows=len(situation.jobs) - len(jobs),
        assumed_workflows=sum(
            job.config.workflow is not None and not job.graphs and job.config.workflow.is_open
            for job in situation.jobs
        ),
        nodes=len(situation.nodes),
        open_runs=len(situation.open_runs),
    )


class ForecastRequest(msgspec.Struct, kw_only=True):
    """What a process of its own is asked to compare."""

    situation: ForecastSituation
    changes: list[Change]
    end: int
    seed: int = 0
    max_runs: int = MAX_RUNS


def answer(request: bytes, *, do: AllOf = one_by_one) -> bytes:
    """The comparison that a request asks for, both as JSON; `do` as in `compare`."""
    asked = msgspec.json.decode(request, type=ForecastRequest)
    found = compare(
        asked.situation,
        asked.changes,
        end=asked.end,
        seed=asked.seed,
        max_runs=asked.max_runs,
        do=do,
    )
    return msgspec.json.encode(found)
