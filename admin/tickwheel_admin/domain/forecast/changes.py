"""What somebody thinks of changing, and the situation as it would be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec
from msgspec import structs

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.forecast.planned import schedule_of
from tickwheel_admin.domain.forecast.situation import (
    ForecastJob,
    ForecastSituation,
    ForecastTrigger,
)
from tickwheel_admin.domain.jobs.inline_steps import inline_steps
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.planning.plan import next_since
from tickwheel_admin.domain.triggers.trigger import Trigger, TriggerState
from tickwheel_admin.domain.workflows.graph import MAX_STEPS, InlineJob

NEW_JOB_IDS = 2**52  # and above: ids of jobs that are not saved, and that no saved one has


class JobEdit(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="job"):
    """The job gets another configuration."""

    job_id: int
    config: JobConfig


class JobAdded(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="new_job"):
    """A job is added."""

    job_id: int  # a made-up one, from NEW_JOB_IDS on
    executor_id: int
    config: JobConfig


class JobPause(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="job_pause"):
    """The job's triggers fire no more, or fire again."""

    job_id: int
    paused: bool


class ExecutorPause(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="executor_pause"
):
    """No job of the executor fires, or all of them fire again."""

    executor_id: int
    paused: bool


class NodeChange(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="node"):
    """A node takes no more runs, takes them again, or runs more or fewer at once."""

    node_id: int
    drain: bool | None = None  # None: as it is
    slots: int | None = None  # 1 or more; None: as many as now


class PoolChange(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="pool"):
    """A pool gets more or fewer slots."""

    pool_id: int
    slots: int  # 0 or more; 0: nothing of it starts


class CalendarChange(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="calendar"):
    """A calendar gets other days."""

    calendar: Calendar  # with a version of its own


Change = JobEdit | JobAdded | JobPause | ExecutorPause | NodeChange | PoolChange | CalendarChange


def changed(situation: ForecastSituation, changes: Iterable[Change]) -> ForecastSituation:
    """The situation as it would be once all of this was saved, one after the other.

    What is not part of the situation is left alone.
    """
    for change in changes:
        match change:
            case JobEdit():
                situation = _with_edit(situation, change.job_id, change.config)
            case JobAdded():
                situation = _with_new(situation, change)
            case JobPause():
                situation = _with_job(situation, change.job_id, _paused, change.paused)
            case ExecutorPause():
                situation = _with_pause(situation, change)
            case NodeChange():
                situation = _with_node(situation, change)
            case PoolChange():
                situation = _with_pool(situation, change)
            case CalendarChange():
                situation = _with_calendar(situation, change.calendar)
    return situation


def _with_new(situation: ForecastSituation, change: JobAdded) -> ForecastSituation:
    """The job added without triggers, and then given its configuration."""
    new = ForecastJob(
        id=change.job_id,
        executor_id=change.executor_id,
        revision=0,  # an edit makes it the first
        config=replace(change.config, triggers=(), workflow=None),
    )
    added = replace(situation, jobs=(*situation.jobs, new))
    return _with_edit(added, change.job_id, change.config)


def _with_edit(situation: ForecastSituation, job_id: int, config: JobConfig) -> ForecastSituation:
    """The job edited, a workflow with the hidden jobs of its steps as they would be saved.

    What is not saved yet has a negative id.
    """
    jobs = {job.id: job for job in situation.jobs}
    job = jobs.get(job_id)
    if job is None:
        return situation
    before = job.config.workflow
    kept = {} if before is None else {each.step: each.job_id for each in before.inline}
    links = []
    for each in inline_steps(config, job_id=job_id, executor_id=job.executor_id):
        hidden = jobs.get(kept.get(each.key, 0))
        hidden_id, revision = -(job_id * MAX_STEPS + each.index), 1
        if hidden is not None and hidden.executor_id == each.executor_id:
            hidden_id, revision = hidden.id, hidden.revision + 1
            jobs[hidden_id] = replace(hidden, config=each.config, revision=revision)
        else:
            jobs[hidden_id] = ForecastJob(
                id=hidden_id,
                executor_id=each.executor_id,
                revision=revision,
                config=each.config,
                is_hidden=True,
            )
        links.append(InlineJob(step=each.key, job_id=hidden_id, revision=revision))
    if config.workflow is not None:
        config = replace(config, workflow=replace(config.workflow, inline=tuple(links)))
    jobs[job_id] = edited(job, config, situation)
    return replace(situation, jobs=tuple(jobs[each] for each in sorted(jobs)))


def _with_job(
    situation: ForecastSituation, job_id: int, change: object, value: object
) -> ForecastSituation:
    jobs = tuple(
        change(job, value, situation) if job.id == job_id else job  # type: ignore[operator]
        for job in situation.jobs
    )
    return replace(situation, jobs=jobs)


def edited(job: ForecastJob, config: JobConfig, situation: ForecastSituation) -> ForecastJob:
    """The job with another configuration; triggers that stay the same go on as they are."""
    kept = list(job.triggers)
    triggers = []
    for index, spec in enumerate(config.triggers):
        same = next((each for each in kept if each.spec.as_written() == spec), None)
        if same is not None:
            kept.remove(same)
            triggers.append(same)
            continue
        new = ForecastTrigger(
            id=-(job.id * 1_000 + index),
            spec=spec.placed_as(each.spec for each in job.triggers),
            saved_at=situation.now,
            next_fire_at=None,
        )
        triggers.append(_armed(new, situation))
    return replace(job, config=config, revision=job.revision + 1, triggers=tuple(triggers))


def _paused(job: ForecastJob, paused: bool, situation: ForecastSituation) -> ForecastJob:
    if paused == job.paused:
        return job
    triggers = job.triggers if paused else tuple(_armed(each, situation) for each in job.triggers)
    return replace(job, paused=paused, triggers=triggers)


def _armed(trigger: ForecastTrigger, situation: ForecastSituation) -> ForecastTrigger:
    """It goes on with its first instant after now, as when it is saved, or its job resumed."""
    found = schedule_of(trigger, {each.name: each for each in situation.calendars})
    if found is None or trigger.paused:
        return trigger
    # A fixed delay without a first delay fires at once.
    since = situation.now - 1 if trigger.spec.follows_runs else situation.now
    return replace(trigger, next_fire_at=found[0].next_after(since))


def _with_pause(situation: ForecastSituation, change: ExecutorPause) -> ForecastSituation:
    paused = dict(situation.paused)
    if not change.paused:
        paused.pop(change.executor_id, None)
    else:
        paused.setdefault(change.executor_id, situation.now)
    return replace(situation, paused=paused)


def _with_node(situation: ForecastSituation, change: NodeChange) -> ForecastSituation:
    nodes = []
    for node in situation.nodes:
        each = node
        if node.id == change.node_id:
            each = structs.replace(node, slots=node.slots if change.slots is None else change.slots)
            if change.drain is not None:
                each = structs.replace(each, draining=change.drain, cordoned=change.drain)
        nodes.append(each)
    return replace(situation, nodes=tuple(nodes))


def _with_pool(situation: ForecastSituation, change: PoolChange) -> ForecastSituation:
    """Runs that hold slots keep as many as they took."""
    if change.pool_id not in situation.pools:
        return situation
    taken_of = {change.pool_id: situation.pools[change.pool_id], **situation.pools_taken_of}
    pools = {**situation.pools, change.pool_id: change.slots}
    return replace(situation, pools=pools, pools_taken_of=taken_of)


def _with_calendar(situation: ForecastSituation, calendar: Calendar) -> ForecastSituation:
    """Triggers go on with the first instant that the calendar's new version leaves."""
    calendars = {each.name: each for each in situation.calendars}
    calendars[calendar.name] = calendar
    found = {name: _rebased(each, calendar) for name, each in calendars.items()}
    after = replace(situation, calendars=tuple(found[name] for name in sorted(found)))
    concerned = {name for name, each in found.items() if each != calendars[name]} | {calendar.name}
    jobs = tuple(
        replace(
            job,
            triggers=tuple(
                _replanned(each, after) if each.spec.calendar in concerned else each
                for each in job.triggers
            ),
        )
        for job in situation.jobs
    )
    return replace(after, jobs=jobs)


def _rebased(calendar: Calendar, changed_one: Calendar) -> Calendar:
    """Calendars that are based on the changed one change with it."""
    if calendar.name == changed_one.name:
        return changed_one
    if calendar.base is None:
        return calendar
    base = _rebased(calendar.base, changed_one)
    if base == calendar.base:
        return calendar
    return replace(calendar, base=base, version=changed_one.version)


def _replanned(trigger: ForecastTrigger, situation: ForecastSituation) -> ForecastTrigger:
    calendars = {each.name: each for each in situation.calendars}
    found = schedule_of(trigger, calendars)
    if found is None or trigger.next_fire_at is None:
        return trigger
    schedule, calendar = found
    stored = Trigger(
        id=trigger.id,
        job_id=0,
        executor_id=0,
        bucket=0,
        spec=trigger.spec,
        paused=trigger.paused,
        state=TriggerState.ACTIVE,
        reason=None,
        next_fire_at=trigger.next_fire_at,
        last_fire_at=trigger.last_fire_at,
        version=0,
        fires=trigger.fires,
    )
    at = next_since(schedule, stored, since=situation.now, calendar=calendar)
    return replace(trigger, next_fire_at=at)
