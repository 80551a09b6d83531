"""Why a job did or did not run in a past minute, by what was the case then."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.as_of.fires import MINUTE_MS, TriggerMinute, trigger_minute
from tickwheel_admin.domain.as_of.nodes import NodePeriod, nodes_at
from tickwheel_admin.domain.as_of.runs import PastRun, RunThen
from tickwheel_admin.domain.as_of.waiting import SituationThen, WaitedFor, why_it_waited
from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.domain.self_audit.past import Past, TriggerPeriod
from tickwheel_admin.domain.triggers.reason import Reason
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.as_of.service import (
    RevisionThen,
    check_instant,
    pauses_at,
    slots_taken,
    standing_then,
    visible_job,
)
from tickwheel_admin.services.lists.heavy_reads import HeavyReads
from tickwheel_admin.store.as_of.changes import revisions_at
from tickwheel_admin.store.as_of.runs import PastScope, messages_of, runs_of_minute, runs_there
from tickwheel_admin.store.as_of.situation import nodes_by_id, periods_of_job
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.executors.node_periods import read_node_periods
from tickwheel_admin.store.jobs.configs import read_configs
from tickwheel_admin.store.self_audit.past import read_past

MAX_RUNS = 100  # of the minute, and as many that were there

GONE = Reason(
    code="deleted", template="Its runs of that time have been deleted, by retention or by a person."
)
UNKNOWN = Reason(
    code="no_run",
    template="The ledger has no run of it; the self-audit tells whether one is missing.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInMinute:
    """A run of the job that belongs to the minute, or was there."""

    run: PastRun
    then: RunThen | None  # how it stood at the end of the minute; None: it had ended
    waited_for: WaitedFor | None  # None: it had started, or ended
    node_name: str | None
    message: str | None  # of one that failed


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerInMinute:
    """A trigger in the minute; with the runs of its instants."""

    minute: TriggerMinute
    without_run: tuple[int, ...]  # its instants that have no run
    why_without: Reason | None  # None: all have one, or `minute.reasons` tells


@dataclass(frozen=True, slots=True, kw_only=True)
class MinuteOfJob:
    """Why a job did or did not run."""

    job: Job  # as it is now
    from_at: int  # the minute
    until_at: int  # how things stood is told of this instant: its end, or the present
    revision: RevisionThen | None  # that held; None: it was not there
    triggers: Sequence[TriggerInMinute]
    runs: Sequence[RunInMinute]
    nodes: int  # connected ones of its executor
    slots: int
    in_use: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    job: Job
    from_at: int
    until_at: int
    revision: RevisionThen | None
    periods: Sequence[TriggerPeriod]
    past: Past
    runs: Sequence[RunInMinute]
    nodes: Sequence[NodePeriod]
    in_use: Mapping[int, int]


class WhyThen:
    """Use case of asking why a job did or did not run."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._heavy = HeavyReads()

    async def why(self, actor: Actor, job_id: int, *, at: int) -> MinuteOfJob:
        """What a job did in the minute of an instant, and why not more.

        Raises:
            InvalidInput: on "at": it is to come, or lies more than seven days back.
            NotFound: there is no such job, or the caller does not see it.
            TooMany: the caller has asked for too many already.
        """
        async with self._heavy.turn(actor.user_id):
            facts = await self._store.read(_read, actor, job_id, at)
            triggers = await asyncio.to_thread(_triggers, facts)
        nodes = facts.nodes
        return MinuteOfJob(
            job=facts.job,
            from_at=facts.from_at,
            until_at=facts.until_at,
            revision=facts.revision,
            triggers=triggers,
            runs=facts.runs,
            nodes=len(nodes),
            slots=sum(each.slots for each in nodes),
            in_use=sum(facts.in_use.get(each.node_id, 0) for each in nodes),
        )


def _read(conn: sa.Connection, actor: Actor, job_id: int, at: int) -> _Facts:
    now = now_ms(conn)
    check_instant(at, now)
    job = visible_job(conn, actor, job_id)
    from_at = at - at % MINUTE_MS
    until_at = min(from_at + MINUTE_MS - 1, now)
    executors = frozenset({job.executor_id})
    past = read_past(conn, begin=from_at, end=from_at + MINUTE_MS)
    there = runs_there(conn, PastScope(executors=executors), at=until_at)
    stood = standing_then(conn, there.runs, at=until_at)
    of_job = {each.run.id: each for each in stood if each.run.job_id == job_id}
    own = runs_of_minute(conn, job_id, from_at=from_at, to_at=from_at + MINUTE_MS, limit=MAX_RUNS)
    own += [
        each.run
        for each in list(of_job.values())[:MAX_RUNS]
        if each.run.fire_id is None and not from_at <= each.run.scheduled_at < from_at + MINUTE_MS
    ]
    periods = read_node_periods(conn, after=from_at, until=until_at, executors=executors)
    nodes = nodes_at(periods, until_at)
    configs = read_configs(conn, {(each.job_id, each.job_revision) for each in own})
    in_use = slots_taken(stood)
    situation = SituationThen(
        at=until_at,
        pauses=[e for e in pauses_at(past.pauses, until_at) if e.executor_id in (0, *executors)],
        nodes=nodes,
        in_use=in_use,
        offers=nodes_by_id(conn, [each.node_id for each in nodes]),
        live_of_job=[each for each in of_job.values() if each.is_live and not each.run.fire_id],
    )
    known_nodes = {each.node_id for each in own if each.node_id is not None}
    names = {key: each.name for key, each in nodes_by_id(conn, known_nodes).items()}
    messages = messages_of(conn, {each.id for each in own if each.had_ended(until_at)})
    runs = []
    for each in sorted(own, key=lambda each: (each.scheduled_at, each.id)):
        then = of_job.get(each.id)
        config = configs.get((each.job_id, each.job_revision))
        waited = None
        if then is not None and config is not None:
            waited = why_it_waited(then, config, situation)
        node_id = each.node_id if then is None else then.node_id
        runs.append(
            RunInMinute(
                run=each,
                then=then,
                waited_for=waited,
                node_name=names.get(node_id or 0),
                message=messages.get(each.id),
            )
        )
    found = revisions_at(conn, [job.id], at=until_at).get(job.id)
    return _Facts(
        job=job,
        from_at=from_at,
        until_at=until_at,
        revision=found and RevisionThen(number=found[0], made_at=found[1], made_by=found[2]),
        periods=periods_of_job(conn, job_id, from_at=from_at, to_at=until_at),
        past=past,
        runs=runs,
        nodes=nodes,
        in_use=in_use,
    )


def _triggers(facts: _Facts) -> list[TriggerInMinute]:
    planned = {(each.run.trigger_id, each.run.scheduled_at) for each in facts.runs}
    found = []
    for period in facts.periods:
        calendar: Calendar | None = None
        if period.spec.calendar is not None:
            calendar = facts.past.calendars.calendar_at(period.spec.calendar, facts.from_at)
        minute = trigger_minute(
            period,
            calendar=calendar,
            pauses=[
                each for each in facts.past.pauses if each.executor_id in (0, facts.job.executor_id)
            ],
            from_at=facts.from_at,
        )
        without = tuple(
            at
            for at in minute.fires
            if at <= facts.until_at and (period.trigger_id, at) not in planned
        )
        why = None
        if without and not minute.reasons:
            why = GONE if _may_be_deleted(facts, without) else UNKNOWN
        found.append(TriggerInMinute(minute=minute, without_run=without, why_without=why))
    return found


def _may_be_deleted(facts: _Facts, instants: Sequence[int]) -> bool:
    return any(at < facts.past.kept_from for at in instants) or any(
        each.job_id == facts.job.id and each.from_at <= at <= each.to_at
        for each in facts.past.purged
        for at in instants
    )
