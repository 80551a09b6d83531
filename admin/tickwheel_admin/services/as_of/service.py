"""The time machine: an installation, an executor or a job as it was at a past instant.

Runs are told by the ledger, settings by what is kept of them before each edit, nodes by their
periods. Everything is bounded: where there was more, it is said.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.as_of.fires import next_fire
from tickwheel_admin.domain.as_of.nodes import NodePeriod, PastNodeChange, node_changes, nodes_at
from tickwheel_admin.domain.as_of.runs import PastRun, RunThen, StandingThen, run_at
from tickwheel_admin.domain.as_of.waiting import is_parked
from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.domain.self_audit.past import PausePeriod, TriggerPeriod
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.lists.heavy_reads import HeavyReads
from tickwheel_admin.services.lists.scope import not_found, visible_executors
from tickwheel_admin.services.system.audit import AuditItem, items_of
from tickwheel_admin.store.as_of.changes import read_changes, revisions_at
from tickwheel_admin.store.as_of.runs import (
    PastScope,
    attempts_before,
    failed_between,
    messages_of,
    runs_there,
)
from tickwheel_admin.store.as_of.situation import periods_of_job
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.executors.executors import executor_names
from tickwheel_admin.store.executors.node_periods import read_node_periods
from tickwheel_admin.store.jobs.configs import read_configs
from tickwheel_admin.store.jobs.jobs import get_job
from tickwheel_admin.store.self_audit.past import read_past
from tickwheel_admin.store.self_audit.periods import retained_from
from tickwheel_admin.store.system.audit_names import job_names

DAY_MS = 86_400_000
MAX_DAYS = 7  # back: so long ended nodes are told of, and longer the rest
BEFORE_MS = 3_600_000  # what failed and what changed is told of so long before the instant
SHOWN = 50  # of each list
MAX_PARKED_JOBS = 200  # whose blocking strategy is looked up; further runs count as queued
_ORDER = {each: place for place, each in enumerate(reversed(StandingThen))}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRun:
    """A run that had not ended."""

    then: RunThen
    job_name: str | None
    executor_name: str | None
    node_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFailure:
    """A run that had failed in the hour before."""

    run: PastRun
    job_name: str | None
    executor_name: str | None
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownNode:
    """A node that was connected."""

    period: NodePeriod
    executor_name: str | None
    in_use: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPause:
    """A pause that held."""

    pause: PausePeriod
    executor_name: str | None  # None: of everything


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTrigger:
    """A trigger of the job as it stood."""

    period: TriggerPeriod
    next_fire_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownChange:
    """What somebody changed, or a node that came, changed or went: one of both."""

    at: int
    item: AuditItem | None = None
    node: PastNodeChange | None = None
    executor_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionThen:
    """The revision of the job that held."""

    number: int
    made_at: int
    made_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPicture:
    """How it was."""

    at: int
    now: int
    job: Job | None  # as it is now
    is_kept: bool  # no run that ended since has been deleted by retention
    counts: Mapping[StandingThen, int]  # of runs, without shards and steps
    is_cut: bool  # there were more runs than were counted
    runs: Sequence[ShownRun]  # at most SHOWN: the live ones first
    failures: Sequence[ShownFailure]  # at most SHOWN, newest first
    failure_count: int
    failures_are_cut: bool  # there were more
    pauses: Sequence[ShownPause]
    nodes: Sequence[ShownNode]  # at most SHOWN
    node_count: int
    slots: int  # of all these nodes
    in_use: int
    changes: Sequence[ShownChange]  # at most SHOWN, newest first
    changes_are_cut: bool
    revision: RevisionThen | None  # of a job that was there
    triggers: Sequence[ShownTrigger]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What was read; schedules are computed from it outside of the transaction."""

    picture: PastPicture
    periods: Sequence[TriggerPeriod]
    calendars: Mapping[int, Calendar | None]  # by trigger


class TimeMachine:
    """Use case of looking at the past. Whoever sees an executor sees how it was."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._heavy = HeavyReads()

    async def now(self) -> int:
        """The present, to count back from."""
        return await self._store.read(now_ms)

    async def picture(
        self,
        actor: Actor,
        *,
        at: int,
        executor_id: int | None = None,
        job_id: int | None = None,
    ) -> PastPicture:
        """How everything that the caller sees was at an instant, or an executor, or a job.

        Raises:
            InvalidInput: on "at": it is to come, or lies more than seven days back.
            NotFound: there is no such job, or the caller does not see it.
            TooMany: the caller has asked for too many already.
        """
        executors = visible_executors(actor, executor_id)
        async with self._heavy.turn(actor.user_id):
            facts = await self._store.read(_read, actor, at, executors, job_id)
            if not facts.periods:
                return facts.picture
            triggers = await asyncio.to_thread(_triggers, facts)
        return replace(facts.picture, triggers=triggers)


def check_instant(at: int, now: int) -> None:
    """Raise unless the time machine reaches an instant.

    Raises:
        InvalidInput: on "at".
    """
    if at > now:
        raise InvalidInput.one("at", "out_of_range", "This must not be after now.")
    if at < now - MAX_DAYS * DAY_MS:
        raise InvalidInput.one(
            "at", "out_of_range", "At most %(days)d days back, please.", days=MAX_DAYS
        )


def visible_job(conn: sa.Connection, actor: Actor, job_id: int) -> Job:
    """The job.

    Raises:
        NotFound: there is none, or the caller does not see it.
    """
    job = get_job(conn, job_id)
    if job is None or not actor.may(Permission.VIEW, job.executor_id):
        raise not_found()
    return job


def standing_then(conn: sa.Connection, runs: Sequence[PastRun], *, at: int) -> list[RunThen]:
    """How runs that were there stood, in their order; parked ones are told from queued ones."""
    attempts = attempts_before(conn, runs)
    found = [run_at(each, attempts.get(each.id, ()), at) for each in runs]
    live: dict[int, list[RunThen]] = {}
    for each in found:
        if each.is_live:
            live.setdefault(each.run.job_id, []).append(each)
    waiting = {
        (each.run.job_id, each.run.job_revision)
        for each in found
        if each.standing is StandingThen.QUEUED and each.run.job_id in live
    }
    configs = read_configs(conn, sorted(waiting)[:MAX_PARKED_JOBS]) if waiting else {}
    return [
        replace(each, standing=StandingThen.PARKED)
        if is_parked(
            each,
            configs.get((each.run.job_id, each.run.job_revision)),
            live.get(each.run.job_id, ()),
        )
        else each
        for each in found
    ]


def slots_taken(runs: Iterable[RunThen]) -> Counter[int]:
    """By node, how many slots runs held."""
    return Counter(
        each.node_id
        for each in runs
        if each.is_live and each.node_id is not None and each.run.takes_slot
    )


def pauses_at(pauses: Iterable[PausePeriod], at: int) -> list[PausePeriod]:
    """Those that held."""
    return [
        each
        for each in pauses
        if each.paused_at <= at and (each.resumed_at is None or at < each.resumed_at)
    ]


def _read(
    conn: sa.Connection,
    actor: Actor,
    at: int,
    executors: frozenset[int] | None,
    job_id: int | None,
) -> _Facts:
    now = now_ms(conn)
    check_instant(at, now)
    job = None if job_id is None else visible_job(conn, actor, job_id)
    if job is not None:
        executors = frozenset({job.executor_id})
    after = at - BEFORE_MS
    scope = PastScope(executors=executors, job_id=job_id)
    there = runs_there(conn, scope, at=at)
    runs = standing_then(conn, there.runs, at=at)
    # The load of nodes is that of all jobs of their executor.
    others = runs
    if job is not None:
        whole = runs_there(conn, PastScope(executors=executors), at=at)
        others = standing_then(conn, whole.runs, at=at)
    taken = slots_taken(others)
    failed, failures_are_cut = failed_between(conn, scope, after=after, until=at)
    all_periods = read_node_periods(conn, after=after, until=at, executors=executors)
    nodes = nodes_at(all_periods, at)
    past = read_past(conn, begin=at, end=at)
    pauses = [
        each
        for each in pauses_at(past.pauses, at)
        if not each.executor_id or executors is None or each.executor_id in executors
    ]
    rows, changes_are_cut = read_changes(
        conn, after=after, until=at, executors=executors, job_id=job_id, limit=SHOWN
    )
    node_names = {each.node_id: each.name for each in all_periods}
    own = sorted(
        (each for each in runs if not each.run.is_part),
        key=lambda each: (_ORDER[each.standing], each.since, each.run.id),
    )
    shown, shown_failures = own[:SHOWN], failed[:SHOWN]
    told = [*(each.run for each in shown), *shown_failures]
    node_events = node_changes(all_periods, after=after, until=at)
    names = job_names(conn, {each.job_id for each in told})
    executor_ids = {each.executor_id for each in told} | {each.executor_id for each in nodes}
    executor_ids |= {each.executor_id for each in node_events} | {e.executor_id for e in pauses}
    owners = executor_names(conn, executor_ids - {0})
    messages = messages_of(conn, {each.id for each in shown_failures})
    changes = [
        *(ShownChange(at=e.at, item=_for(actor, e)) for e in items_of(conn, rows)),
        *(
            ShownChange(at=each.at, node=each, executor_name=owners.get(each.executor_id))
            for each in node_events
        ),
    ]
    changes.sort(key=lambda each: -each.at)
    periods: Sequence[TriggerPeriod] = ()
    revision = None
    if job is not None:
        found = revisions_at(conn, [job.id], at=at).get(job.id)
        revision = found and RevisionThen(number=found[0], made_at=found[1], made_by=found[2])
        periods = [
            each
            for each in periods_of_job(conn, job.id, from_at=at, to_at=at)
            if each.since_at <= at < each.ends_at
        ]
    calendars = {
        each.trigger_id: past.calendars.calendar_at(each.spec.calendar, at)
        for each in periods
        if each.spec.calendar is not None
    }
    picture = PastPicture(
        at=at,
        now=now,
        job=job,
        is_kept=retained_from(conn) <= at - DAY_MS,
        counts=Counter(each.standing for each in own),
        is_cut=there.is_cut,
        runs=[
            ShownRun(
                then=each,
                job_name=names.get(each.run.job_id),
                executor_name=owners.get(each.run.executor_id),
                node_name=node_names.get(each.node_id or 0),
            )
            for each in shown
        ],
        failures=[
            ShownFailure(
                run=each,
                job_name=names.get(each.job_id),
                executor_name=owners.get(each.executor_id),
                message=messages.get(each.id),
            )
            for each in shown_failures
        ],
        failure_count=len(failed),
        failures_are_cut=failures_are_cut,
        pauses=[
            ShownPause(pause=each, executor_name=owners.get(each.executor_id)) for each in pauses
        ],
        nodes=[
            ShownNode(
                period=each,
                executor_name=owners.get(each.executor_id),
                in_use=taken[each.node_id],
            )
            for each in nodes[:SHOWN]
        ],
        node_count=len(nodes),
        slots=sum(each.slots for each in nodes),
        in_use=sum(taken[each.node_id] for each in nodes),
        changes=changes[:SHOWN],
        changes_are_cut=changes_are_cut or len(changes) > SHOWN,
        revision=revision,
        triggers=(),
    )
    return _Facts(picture=picture, periods=periods, calendars=calendars)


def _for(actor: Actor, item: AuditItem) -> AuditItem:
    """An entry as the caller may see it: who did it, and all details, only administrators see."""
    if actor.may(Permission.ADMINISTER, item.executor_id or 0):
        return item
    detail = {name: value for name, value in item.detail.items() if name in ("name", "job")}
    return replace(item, user_name="", address="", detail=detail, token_name=None, parts=())


def _triggers(facts: _Facts) -> list[ShownTrigger]:
    at = facts.picture.at
    return [
        ShownTrigger(
            period=each,
            next_fire_at=next_fire(each, facts.calendars.get(each.trigger_id), at=at),
        )
        for each in facts.periods
    ]
