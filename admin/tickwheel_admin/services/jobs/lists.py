"""Jobs as lists and pages show them: with their triggers and how their recent runs fared."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from statistics import median_low
from typing import Any, NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.executors.node import ANY_HANDLER
from tickwheel_admin.domain.fields import MAX_INSTANT
from tickwheel_admin.domain.input.job import job_to_raw
from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.domain.planning.plan import runs_left
from tickwheel_admin.domain.runs.run import ENDED_BY_RESULT, FAILURES, RunState
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.triggers.schedule import calendar_of, parse
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.domain.triggers.trigger import Trigger
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.handlers.schemas import schema_of
from tickwheel_admin.services.lists.paging import Number
from tickwheel_admin.services.workflows.names import with_names
from tickwheel_admin.store.calendars.calendars import CalendarCache
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.executors.executors import get_executor, offered_handlers
from tickwheel_admin.store.gitops.managed import managed_by_ids
from tickwheel_admin.store.jobs.child_links import named_jobs
from tickwheel_admin.store.jobs.declared import managed_jobs
from tickwheel_admin.store.jobs.filters import JobFilter, JobSort
from tickwheel_admin.store.jobs.last_outcomes import page_outcomes
from tickwheel_admin.store.jobs.pages import ListedJob, list_jobs, page_jobs
from tickwheel_admin.store.jobs.scripts import with_source
from tickwheel_admin.store.runs.summaries import RunSummary, recent_summaries
from tickwheel_admin.store.triggers.pauses import read_pauses
from tickwheel_admin.store.triggers.triggers import StoredTrigger, triggers_of_jobs

MARKS = 24  # of each job's runs, in its strip
# A page of failing jobs looks at this many jobs and then says where to go on.
FAILING_CHUNK = 200
FAILING_SCANNED = 1_000
NEXT_FIRES = 5
# What was skipped says nothing of how the job fares.
SAYING = (ENDED_BY_RESULT | FAILURES) - {RunState.SKIPPED}
BEGINNING = 0  # the id of no job: nothing is left out before it


class JobCursor(NamedTuple):
    """A place in a list, where one of its pages begins or ends."""

    sort: JobSort
    value: str | Number  # what the list is sorted by, of the job there
    id: Number  # of the job there, or of the trigger that fires next
    back: bool = False  # the page before this job, and not the one behind it


class JobView(StrEnum):
    """What a list of jobs is about."""

    ALL = "all"
    FAILING = "failing"  # the last run that ended was a failure
    RUNNING = "running"  # a run is live
    PAUSED = "paused"
    ACTIVE = "active"  # not paused


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """Which jobs a list shows."""

    text: str = ""  # part of a name, handler, owner or tag, in any case
    executor_id: int | None = None
    owner: str | None = None  # a whole name, as are tags and handler
    tags: tuple[str, ...] = ()  # a job has all of them
    handler: str | None = None
    view: str = JobView.ALL  # one of JobView
    sort: str = JobSort.NAME  # one of JobSort


@dataclass(frozen=True, slots=True, kw_only=True)
class JobItem:
    """A job in a list."""

    job: Job
    executor_name: str
    triggers: list[Trigger]
    next_fire_at: int | None  # None: paused, or nothing left to fire
    recent: list[RunSummary]  # newest last, at most 24 that are due
    last: RunSummary | None  # the newest of them
    managed: bool  # code declares it, and nobody else edits it

    @property
    def ended(self) -> int:
        """How many of the recent runs ended, but for those that were skipped."""
        return sum(mark.state in SAYING for mark in self.recent)

    @property
    def succeeded(self) -> int:
        """How many of them succeeded."""
        return sum(mark.state is RunState.SUCCEEDED for mark in self.recent)

    @property
    def usual_ms(self) -> int | None:
        """Half of the recent runs that ended took no longer; None: none has."""
        lengths = [
            mark.duration_ms
            for mark in self.recent
            if mark.state in SAYING and mark.duration_ms is not None
        ]
        return median_low(lengths) if lengths else None

    @property
    def failing(self) -> bool:
        """Whether the last of the recent runs that ended was a failure."""
        return _is_failing(self.recent)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail:
    """One job."""

    item: JobItem
    next_fires: list[int]  # of all its triggers, soonest first; none while anything is paused
    executor_paused_at: int | None  # since when its executor is paused
    everything_paused_at: int | None
    child_names: dict[int, str]  # of its child jobs that are there, as far as the caller may see
    is_offered: bool  # a live node offers its handler
    schema: str | None  # JSON Schema of what its handler takes; None: anything
    git_owner: str | None  # the label of the directory of files that applied it; None: none did
    raw: Mapping[str, Any]  # its fields for people: steps of a workflow name jobs and executors

    @property
    def managed(self) -> bool:
        """Whether code declares it, and nobody else edits it."""
        return self.item.managed


class JobsRead(NamedTuple):
    """A page of jobs as it was read."""

    items: list[JobItem]
    more_at: JobCursor | None  # where the list goes on in the direction of reading; None: it ends
    began_at: JobCursor | None = None  # the place of the first job in that direction


def read_page(
    conn: sa.Connection,
    wanted: JobFilter,
    at: JobCursor,
    limit: int,
    calendars: CalendarCache,
) -> JobsRead:
    """The jobs behind a place, or before it."""
    found = _found(conn, wanted, at, limit + 1)
    shown = found[-limit:] if at.back else found[:limit]
    places = [at._replace(value=each.value, id=each.place_id) for each in shown]
    if at.back:
        places.reverse()
    return JobsRead(
        _items(conn, shown, calendars),
        places[-1] if len(found) > limit else None,
        places[0] if places else None,
    )


def read_failing(
    conn: sa.Connection,
    wanted: JobFilter,
    at: JobCursor,
    limit: int,
    calendars: CalendarCache,
) -> JobsRead:
    """The same of jobs that fail, picked by their recent runs.

    What a job's last run was is known to no index of jobs, and keeping it in the job's row would
    cost every run a write. So the last runs of jobs are read in chunks, and after `FAILING_SCANNED`
    jobs the page ends where it is.
    """
    failing: list[int] = []
    began_at: JobCursor | None = None
    more_at: JobCursor | None = at
    for _ in range(FAILING_SCANNED // FAILING_CHUNK):
        found = page_outcomes(
            conn,
            wanted,
            after=None if at.id == BEGINNING else (at.value, at.id),
            limit=FAILING_CHUNK,
            sort=at.sort,
            back=at.back,
            saying=SAYING,
        )
        for each in found:
            more_at = at = at._replace(value=each.value, id=each.place_id)
            if each.state in FAILURES:
                began_at = began_at or at
                failing.append(each.job_id)
            if len(failing) == limit:
                break
        if len(failing) == limit:
            break
        if len(found) < FAILING_CHUNK:
            more_at = None
            break
    listed = list_jobs(conn, failing[::-1] if at.back else failing)
    return JobsRead(_items(conn, listed, calendars), more_at, began_at)


def _found(conn: sa.Connection, wanted: JobFilter, at: JobCursor, limit: int) -> list[ListedJob]:
    return page_jobs(
        conn,
        wanted,
        after=None if at.id == BEGINNING else (at.value, at.id),
        limit=limit,
        sort=at.sort,
        back=at.back,
    )


def _is_failing(oldest_first: Sequence[RunSummary]) -> bool:
    last = next((mark for mark in reversed(oldest_first) if mark.state in SAYING), None)
    return last is not None and last.state in FAILURES


def _items(
    conn: sa.Connection, listed: Sequence[ListedJob], calendars: CalendarCache
) -> list[JobItem]:
    now = now_ms(conn)
    pauses = read_pauses(conn, {each.job.executor_id for each in listed})
    ids = [each.job.id for each in listed]
    triggers = triggers_of_jobs(conn, ids)
    followed = _followed(conn, [each for of_job in triggers.values() for each in of_job], calendars)
    marks = recent_summaries(conn, ids, until=now, per_job=MARKS)
    managed = managed_jobs(conn, ids)
    return [
        _item(
            each,
            triggers.get(each.job.id, []),
            marks.get(each.job.id, []),
            followed,
            managed=each.job.id in managed,
            paused=pauses.of(each.job.executor_id) is not None,
            now=now,
        )
        for each in listed
    ]


def _item(
    listed: ListedJob,
    triggers: Sequence[StoredTrigger],
    newest_first: list[RunSummary],
    followed: Mapping[str, Calendar],
    *,
    managed: bool,
    paused: bool,
    now: int,
) -> JobItem:
    fires = [] if paused else _next_fires(triggers, followed, after=now, n=1)
    return JobItem(
        job=listed.job,
        executor_name=listed.executor_name,
        triggers=[stored.trigger for stored in triggers],
        next_fire_at=fires[0] if fires else None,
        recent=newest_first[::-1],
        last=newest_first[0] if newest_first else None,
        managed=managed,
    )


def _followed(
    conn: sa.Connection, triggers: Iterable[StoredTrigger], calendars: CalendarCache
) -> dict[str, Calendar]:
    return calendars.get_many(conn, {each.trigger.spec.calendar for each in triggers})


def read_detail(conn: sa.Connection, actor: Actor, job: Job, calendars: CalendarCache) -> JobDetail:
    executor = get_executor(conn, job.executor_id)
    job = replace(job, config=with_source(conn, job.config))
    listed = ListedJob(job=job, executor_name="" if executor is None else executor.name)
    triggers = triggers_of_jobs(conn, [job.id]).get(job.id, [])
    followed = _followed(conn, triggers, calendars)
    offered = offered_handlers(conn, [job.executor_id]).get(job.executor_id, frozenset())
    pauses = read_pauses(conn, [job.executor_id])
    paused = pauses.of(job.executor_id) is not None
    children = named_jobs(conn, [link.job_id for link in job.config.children])
    return JobDetail(
        item=_items(conn, [listed], calendars)[0],
        next_fires=[]
        if paused
        else _next_fires(triggers, followed, after=now_ms(conn), n=NEXT_FIRES),
        executor_paused_at=pauses.executors.get(job.executor_id),
        everything_paused_at=pauses.everything,
        child_names={
            job_id: child.name
            for job_id, child in children.items()
            if actor.may(Permission.VIEW, child.executor_id)
        },
        is_offered=job.config.workflow is not None
        or job.config.handler in offered
        or ANY_HANDLER in offered,
        schema=schema_of(conn, job.executor_id, job.config.handler),
        git_owner=_git_owner(conn, job.id),
        raw=with_names(conn, actor, job.executor_id, job_to_raw(job.config)),
    )


def _git_owner(conn: sa.Connection, job_id: int) -> str | None:
    label = managed_by_ids(conn, "job", [job_id]).get(job_id)
    return None if label is None else label.owner


def _next_fires(
    triggers: Sequence[StoredTrigger], followed: Mapping[str, Calendar], *, after: int, n: int
) -> list[int]:
    """The next fires of all active triggers together.

    Computed from the schedules: `next_fire_at` is what is planned next, which is up to two seconds
    ahead of what fires next.
    """
    fires = [
        _fires_of_trigger(stored, followed, after=after)
        for stored in triggers
        if stored.trigger.next_fire_at is not None
    ]
    return list(islice(heapq.merge(*fires), n))


def _fires_of_trigger(
    stored: StoredTrigger, followed: Mapping[str, Calendar], *, after: int
) -> Iterator[int]:
    trigger, spec = stored.trigger, stored.trigger.spec
    if spec.follows_runs and trigger.next_fire_at is not None:
        return iter((trigger.next_fire_at,))  # the one after it is not known yet
    try:
        calendar = calendar_of(spec, followed)
    except ScheduleError:
        return iter(())
    fires = fires_of(spec, saved_at=stored.saved_at, after=after, calendar=calendar)
    return islice(fires, runs_left(spec, trigger.fires))


def fires_of(
    spec: TriggerSpec, *, saved_at: int, after: int, calendar: Calendar | None = None
) -> Iterator[int]:
    """The schedule's instants, soonest first; none when it cannot be computed."""
    try:
        schedule = parse(spec, saved_at=saved_at, calendar=calendar)
    except ScheduleError:
        return
    at = schedule.next_after(after)
    while at is not None and at <= MAX_INSTANT:
        yield at
        at = schedule.next_after(at)
