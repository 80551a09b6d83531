"""Forecasts deadlines while nobody looks, so that people are warned; and scores the forecasts.

The deadlines of the next hours are forecast executor by executor, each one's every ten minutes, by
whoever the owner of the engine names: for the server, a process of its own. An executor's turn is
an instant that is stored; whoever finds it first moves it on and so takes it. With many executors
the turns are further apart, so that forecasts take a tenth of a core at most.

Afterwards it is noted what became of each deadline, also when no admin was up at it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.alarms.deadlines import GRACE_MS
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.rule import AlarmRule, RuleScope
from tickwheel_admin.domain.errors import InvalidInput, Unavailable
from tickwheel_admin.domain.forecast.deadline_record import (
    DeadlineOutcome,
    DeadlineRecord,
    recorded,
)
from tickwheel_admin.domain.forecast.night_plan import (
    DeadlineVerdict,
    NightPlan,
    PlanDeadline,
    PlanRequest,
)
from tickwheel_admin.domain.forecast.plan_deadlines import deadlines_of
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.services.events.events import ALARMS, Events
from tickwheel_admin.services.forecast.situations import Situations
from tickwheel_admin.services.overview.attention.deadlines import HORIZON_MS
from tickwheel_admin.store.alarms.rules import rules_by_id, rules_of_kinds
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.forecast.deadline_forecasts import (
    LOOKED_AT_ONCE,
    all_executors,
    claim_executor,
    delete_records,
    future_records,
    records_to_look_at,
    set_turn,
    write_records,
)
from tickwheel_admin.store.forecast.situation import read_forecast_calendars
from tickwheel_admin.store.overview.alarm_facts import alarmed_jobs, first_successes

log = structlog.get_logger(__name__)

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
AGAIN_MS = 10 * MINUTE_MS  # so often an executor's deadlines are forecast
NEAR_MS = 5 * MINUTE_MS  # and so often while one that may be missed is near
TOO_MANY_MS = HOUR_MS  # so soon again one is looked at that has too many jobs
CLAIMED_MS = 15 * MINUTE_MS  # so long others leave it to whoever took it
MAX_REST_MS = 2 * HOUR_MS
WORK_PER_REST = 10  # forecasts take one part in so many of a core
DRAWS = 10
MAX_RUNS = (
    6_000  # of one draw: later deadlines of a busy executor are forecast when they are nearer
)
LATER_MS = HOUR_MS  # simulated beyond the last deadline, so that it is known how late it gets
SUCCEEDS_WITHIN_MS = 6 * HOUR_MS  # of a missed deadline: so long its success is waited for
MAX_DEADLINES = 500  # of an executor, the next ones
_MAY_BE_MISSED = (DeadlineVerdict.MISSED, DeadlineVerdict.AT_RISK)

Plan = Callable[[PlanRequest], Awaitable[NightPlan]]


class DeadlineForecaster(Loop):
    """One executor per pass. Every admin runs it; the first one does the work."""

    interval_seconds = 30.0

    def __init__(self, store: Store, events: Events, *, plan: Plan | None) -> None:
        """Forecast with this; None: this admin leaves it to others."""
        super().__init__()
        self._store = store
        self._events = events
        self._plan = plan
        self._situations = Situations(store)

    async def run_once(self) -> bool:
        looked = await self._store.run(_look_at_ended)
        if looked:
            log.info("deadlines.scored", deadlines=looked)
        more = looked == LOOKED_AT_ONCE
        if self._plan is None:
            return more
        rules = await self._store.read(_rules_with_deadlines)
        if not rules:
            return more
        executors = await self._store.read(_executors_of, rules)
        executor_id = await self._store.run(_claim, executors)
        if executor_id is None:
            return more
        began = await self._store.read(now_ms)
        try:
            again_ms = await self._forecast(self._plan, executor_id, rules)
        except Unavailable as error:
            # It is logged there; the executor has its turn when nobody has it any more.
            log.warning("deadlines.not_forecast", executor_id=executor_id, reason=error.code)
            return True
        now = await self._store.read(now_ms)
        rest_ms = min(WORK_PER_REST * (now - began) * len(executors), MAX_REST_MS)
        await self._store.run(set_turn, executor_id, at=now + max(again_ms, rest_ms))
        return True

    async def _forecast(self, plan: Plan, executor_id: int, rules: Sequence[AlarmRule]) -> int:
        """Forecast the deadlines of an executor; returns in how many ms to do so again."""
        try:
            read = await self._situations.read([executor_id], scope=None)
        except InvalidInput:
            log.warning("deadlines.too_many_jobs", executor_id=executor_id)
            return TOO_MANY_MS
        situation = read.situation
        named = {rule.limits.calendar for rule in rules}
        calendars = await self._store.read(
            read_forecast_calendars, {each for each in named if each is not None}
        )
        wanted = deadlines_of(
            [job for job in situation.jobs if job.executor_id == executor_id],
            rules,
            {each.name: each for each in calendars},
            now=situation.now,
            until=situation.now + HORIZON_MS,
        )[:MAX_DEADLINES]
        made: NightPlan | None = None
        if wanted:
            end = wanted[-1].at + LATER_MS
            made = await plan(
                PlanRequest(
                    situation=situation,
                    until=end,
                    end=end,
                    executor_id=executor_id,
                    deadlines=wanted,
                    max_bars=0,
                    max_draws=DRAWS,
                    max_runs=MAX_RUNS,
                    explains=False,
                )
            )
        records = await self._store.run(_write, executor_id, wanted, made, made_at=situation.now)
        warned = [each for each in records if each.is_told]
        log.debug("deadlines.forecast", executor_id=executor_id, deadlines=len(records))
        if any(each.warned_since == each.made_at for each in records):
            names = {job.id: job.config.name for job in situation.jobs}
            jobs = sorted({names.get(each.job_id, "") for each in warned})
            log.info("deadlines.warned", executor_id=executor_id, jobs=", ".join(jobs[:10]))
        self._events.publish(ALARMS)
        near = any(
            each.verdict in _MAY_BE_MISSED and each.at - each.made_at <= HOUR_MS for each in records
        )
        return NEAR_MS if near else AGAIN_MS


def _rules_with_deadlines(conn: sa.Connection) -> list[AlarmRule]:
    """Those that have one within the time that is forecast; none are read while there are none."""
    soon = now_ms(conn) + HORIZON_MS
    return [
        rule
        for rule in rules_of_kinds(conn, [AlarmKind.DEADLINE_MISSED])
        if rule.enabled and rule.next_at is not None and rule.next_at <= soon
    ]


def _executors_of(conn: sa.Connection, rules: Sequence[AlarmRule]) -> frozenset[int]:
    """Those whose jobs may have deadlines by these rules."""
    found: set[int] = set()
    for rule in rules:
        if rule.scope is RuleScope.JOB:
            continue
        if rule.executor_id is None:
            return frozenset(all_executors(conn))
        found.add(rule.executor_id)
    jobs = alarmed_jobs(conn, {rule.job_id for rule in rules if rule.job_id is not None})
    return frozenset(found | {job.executor_id for job in jobs.values() if not job.is_deleted})


def _claim(conn: sa.Connection, executors: Collection[int]) -> int | None:
    return claim_executor(conn, executors, now=now_ms(conn), for_ms=CLAIMED_MS)


def _write(
    conn: sa.Connection,
    executor_id: int,
    wanted: Sequence[PlanDeadline],
    plan: NightPlan | None,
    *,
    made_at: int,
) -> list[DeadlineRecord]:
    """Store what was foretold; deadlines that no rule sets any more are forgotten."""
    future = future_records(conn, executor_id, now=made_at)
    before = {(each.rule_id, each.job_id, each.at): each for each in future}
    foretold = {} if plan is None else {(f.rule_id, f.job_id, f.at): f for f in plan.deadlines}
    records = [
        recorded(
            before.get(key),
            each,
            forecast,
            executor_id=executor_id,
            made_at=made_at,
            look_at=each.at + GRACE_MS,
        )
        for each in wanted
        if (forecast := foretold.get(key := (each.rule_id, each.job_id, each.at))) is not None
    ]
    set_now = {(each.rule_id, each.job_id, each.at) for each in wanted}
    until = wanted[-1].at if len(wanted) == MAX_DEADLINES else made_at + HORIZON_MS
    delete_records(conn, [r for key, r in before.items() if key not in set_now and r.at <= until])
    write_records(conn, records)
    return records


def _look_at_ended(conn: sa.Connection) -> int:
    """Note what became of deadlines; returns of how many."""
    now = now_ms(conn)
    records = records_to_look_at(conn, now=now)
    if not records:
        return 0
    rules = rules_by_id(conn, {each.rule_id for each in records})
    jobs = alarmed_jobs(conn, {each.job_id for each in records})
    gone, standing = [], defaultdict(list)
    for each in records:
        rule, job = rules.get(each.rule_id), jobs.get(each.job_id)
        if rule is None or not rule.enabled or job is None or job.is_deleted:
            gone.append(each)
        else:
            standing[each.since, each.at].append(each)
    delete_records(conn, gone)
    for (since, at), same in standing.items():
        until = min(now, at + SUCCEEDS_WITHIN_MS)
        done = first_successes(conn, [each.job_id for each in same], since=since, until=until)
        write_records(conn, [_with_end(each, done.get(each.job_id), now=now) for each in same])
    return len(records)


def _with_end(record: DeadlineRecord, succeeded_at: int | None, *, now: int) -> DeadlineRecord:
    is_met = succeeded_at is not None and succeeded_at <= record.at
    last_look_at = record.at + SUCCEEDS_WITHIN_MS + GRACE_MS
    is_over = succeeded_at is not None or now >= last_look_at
    return replace(
        record,
        outcome=DeadlineOutcome.MET if is_met else DeadlineOutcome.MISSED,
        succeeded_at=succeeded_at,
        look_at=None if is_over else last_look_at,
    )
