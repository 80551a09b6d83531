"""How many runs fail of an executor, or of all: what no single job tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from tickwheel_admin.services.overview.attention.concern import AlarmKind, Concern, Severity
from tickwheel_admin.store.executors.executors import executor_names
from tickwheel_admin.store.overview.attention import (
    MAX_FAILED,
    FailedRun,
    Scope,
    newest_failures,
    newest_successes,
)
from tickwheel_admin.store.runs.stats import HOUR_MS as HOUR_MS
from tickwheel_admin.store.runs.stats import count_hours

DAY_MS = 86_400_000
FLOOR = 0.9  # a smaller share of successes is always told
BAD = 0.75  # and a smaller one than this is an error
FEW = 10  # fewer runs of an executor say nothing
MAX_EXECUTORS = 20
# A drop above the floor: so many times as many failures as usual, and at least these.
MORE = 3.0
DROP_FAILURES = 10
DROP_SHARE = 0.03
USUAL_HOURS = 168
USUAL_AT_LEAST = 100  # runs of those hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """How the runs of some time ended."""

    since: int
    failures: Sequence[FailedRun]  # newest first
    successes: Mapping[int, int] = field(default_factory=dict)  # by executor
    all_failures: Sequence[FailedRun] = ()  # also those before `since`

    @property
    def failed(self) -> int:
        """Runs that failed."""
        return len(self.failures)

    @property
    def succeeded(self) -> int:
        """Runs that succeeded."""
        return sum(self.successes.values())


def read_outcomes(conn: sa.Connection, scope: Scope, *, since: int) -> Outcomes:
    """Of the runs scheduled since then, or of the newest ones: a bounded part of two indexes.

    Reads the newest 500 failures and 20,000 successes, and counts from where it has both.
    """
    failures = newest_failures(conn, since=since, scope=scope)
    if len(failures) >= MAX_FAILED:
        since = failures[-1].scheduled_at
    successes, counted_from = newest_successes(conn, since=since)
    return Outcomes(
        since=counted_from,
        failures=[each for each in failures if each.scheduled_at >= counted_from],
        all_failures=failures,
        successes={
            executor_id: runs
            for executor_id, runs in successes.items()
            if scope is None or executor_id in scope
        },
    )


def low_success(
    conn: sa.Connection,
    outcomes: Sequence[Outcomes],
    *,
    told: Collection[int | None] = (),
    standing: Collection[int] = (),
    now: int,
) -> list[Concern]:
    """Executors of which too many runs fail, else all of them together; at most once each.

    Args:
        outcomes: of several lengths of time, the shortest first.
        told: jobs whose failures are told by themselves.
        standing: executors that are looked at whatever others do.
    """
    found: dict[int, Concern] = {}
    for each in outcomes:
        rest = Counter(run.executor_id for run in each.failures if run.job_id not in told)
        worst = [n for n, _ in rest.most_common(MAX_EXECUTORS)]
        worst += sorted((set(standing) & rest.keys()).difference(worst))
        suspects = [n for n in worst if n not in found]
        usual = _usual(conn, suspects, now=now) if suspects else {}
        names = executor_names(conn, suspects)
        failures = Counter(run.executor_id for run in each.failures)
        for executor_id in suspects:
            good = each.successes.get(executor_id, 0)
            enough = failures[executor_id] + good >= FEW
            if enough and _is_low(rest[executor_id], good, usual.get(executor_id)):
                found[executor_id] = _concern(
                    each,
                    good,
                    failures[executor_id],
                    usual=usual.get(executor_id),
                    now=now,
                    executor=(executor_id, names.get(executor_id, "")),
                )
    for each in outcomes:
        rest = Counter(
            run.executor_id
            for run in each.failures
            if run.job_id not in told and run.executor_id not in found
        )
        if rest and _is_low(rest.total(), each.succeeded, None):
            if len(rest) == 1:
                (executor_id,) = rest
                good = each.successes.get(executor_id, 0)
                bad = sum(run.executor_id == executor_id for run in each.failures)
                name = executor_names(conn, [executor_id]).get(executor_id, "")
                return [
                    *found.values(),
                    _concern(each, good, bad, usual=None, now=now, executor=(executor_id, name)),
                ]
            return [
                *found.values(),
                _concern(each, each.succeeded, each.failed, usual=None, now=now),
            ]
    return list(found.values())


def _is_low(failed: int, succeeded: int, usual: float | None) -> bool:
    share = failed / (failed + succeeded)
    if share > 1 - FLOOR:
        return True
    if usual is None or failed < DROP_FAILURES:
        return False
    return share >= max(DROP_SHARE, MORE * (1 - usual))


def _usual(conn: sa.Connection, executor_ids: Collection[int], *, now: int) -> dict[int, float]:
    """The share of successes that each had in the week before the last day, where it had enough."""
    last = (now - DAY_MS) // HOUR_MS * HOUR_MS
    hours = range(last - USUAL_HOURS * HOUR_MS, last, HOUR_MS)
    counted = count_hours(conn, hours, executors=executor_ids)
    return {
        executor_id: good / (good + bad)
        for executor_id, (good, bad) in counted.items()
        if good + bad >= USUAL_AT_LEAST
    }


def _concern(
    outcomes: Outcomes,
    good: int,
    bad: int,
    *,
    usual: float | None,
    now: int,
    executor: tuple[int, str] | None = None,
) -> Concern:
    share = good / (good + bad)
    executor_id, name = executor if executor is not None else (None, None)
    newest = next(
        run for run in outcomes.failures if executor_id is None or run.executor_id == executor_id
    )
    return Concern(
        kind=AlarmKind.LOW_SUCCESS,
        severity=Severity.ERROR if share < BAD else Severity.WARNING,
        template="%(succeeded)d of %(runs)d runs of “%(executor)s” succeeded within %(seconds)d s."
        if executor is not None
        else "%(succeeded)d of %(runs)d runs succeeded within %(seconds)d s.",
        params={
            "succeeded": good,
            "failed": bad,
            "runs": good + bad,
            "executor": name,
            "usual": usual,
            "seconds": (now - outcomes.since) // 1000,
        },
        since=outcomes.since,
        last_at=newest.at,
        executor_id=executor_id,
        executor_name=name,
    )
