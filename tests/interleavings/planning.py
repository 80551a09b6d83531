"""Scenarios of planners, and of edits that meet them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from msgspec.structs import replace

from tests.interleavings.props import StagedJob
from tests.interleavings.stage import PERSON, Stage
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotFound
from tickwheel_admin.domain.input.job import job_to_raw
from tickwheel_admin.domain.runs.run import Run, RunState
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.kinds.once import OnceSpec
from tickwheel_admin.domain.triggers.spec import MisfirePolicy, TriggerSpec
from tickwheel_admin.store.database import tables

EVERY_MS = 400
SLOW_MS = 86_400_000


def _rate(every_ms: int, misfire: MisfirePolicy = MisfirePolicy.FIRE_ALL) -> TriggerSpec:
    return FixedRateSpec(every_ms=every_ms, anchor_at=0, misfire=misfire)


def _first_after(instant: int) -> int:
    return (instant // EVERY_MS + 1) * EVERY_MS


def _instants(runs: list[Run]) -> list[int]:
    return sorted(run.scheduled_at for run in runs)


def _all_between(first: int, last: int) -> list[int]:
    return list(range(first, last + 1, EVERY_MS))


def _trigger_rows(stage: Stage, job: StagedJob) -> list[sa.Row[tuple[object, ...]]]:
    trigger = tables.trigger
    return stage.rows(sa.select(trigger).where(trigger.c.job_id == job.id).order_by(trigger.c.id))


def planners_share_a_bucket(stage: Stage) -> Iterator[None]:
    """Three admins plan the same bucket: every instant once, none left out."""
    first_at = _first_after(stage.began_at - 1_500)
    late_at = _first_after(stage.began_at - 7_000)  # beyond the misfire threshold
    on_time = stage.job(triggers=[(_rate(EVERY_MS), first_at)])
    late = stage.job(triggers=[(_rate(EVERY_MS), late_at), (_rate(SLOW_MS), None)])
    once = stage.job(
        triggers=[(OnceSpec(at=first_at), first_at)],
    )
    for _ in range(stage.random.randint(2, 3)):
        admin = stage.admin()
        stage.acts(admin, "plans", admin.plans)
    yield
    stage.afterwards(stage.admins[0].plans)
    for job, at in ((on_time, first_at), (late, late_at)):
        instants = _instants(stage.runs(tables.run.c.job_id == job.id))
        planned = _all_between(at, max(instants, default=at))
        stage.expect(instants == planned, f"{at} on: {instants}")
        (trigger, *_) = _trigger_rows(stage, job)
        stage.expect(
            trigger.next_fire_at == planned[-1] + EVERY_MS,
            f"trigger {trigger.id} goes on at {trigger.next_fire_at} after {planned[-1]}",
        )
    fires = stage.runs(tables.run.c.job_id == once.id)
    stage.expect(len(fires) == 1, f"a trigger that fires once fired {len(fires)} times")


def edits_meet_planners(stage: Stage) -> Iterator[None]:
    """Two edits of one job among three planners: no instant lost, doubled, or in two versions."""
    first_at = _first_after(stage.began_at - stage.random.choice((300, 1_500)))
    job = stage.job(triggers=[(_rate(EVERY_MS), first_at)])
    for _ in range(stage.random.randint(2, 3)):
        admin = stage.admin()
        stage.acts(admin, "plans", admin.plans)
    for number in range(stage.random.randint(1, 2)):
        editor = stage.admin()
        raw = job_to_raw(job.config) | {"owner": f"edit {number}"}
        if stage.random.random() < 0.3:
            raw["triggers"] = [raw["triggers"][0] | {"catch_up_limit": 900}]
        edits = stage.acts(editor, "edits", editor.jobs.update, PERSON, job.id, raw, revision=1)
        stage.may_raise(edits, Conflict)
    yield
    stage.afterwards(stage.admins[0].plans)
    runs = stage.runs(tables.run.c.job_id == job.id)
    instants = _instants(runs)
    stage.expect(instants == _all_between(first_at, instants[-1]), f"{first_at} on: {instants}")
    revisions = [run.job_revision for run in sorted(runs, key=lambda run: run.scheduled_at)]
    stage.expect(revisions == sorted(revisions), f"versions by instant: {revisions}")
    (trigger,) = _trigger_rows(stage, job)
    stage.expect(
        trigger.next_fire_at == instants[-1] + EVERY_MS,
        f"the trigger goes on at {trigger.next_fire_at} after {instants[-1]}",
    )


def pauses_meet_planners(stage: Stage) -> Iterator[None]:
    """A job is paused, and perhaps resumed, among planners: nothing lies ahead while it is."""
    first_at = _first_after(stage.began_at - stage.random.choice((300, 1_500)))
    job = stage.job(triggers=[(_rate(EVERY_MS), first_at)])
    for _ in range(2):
        admin = stage.admin()
        stage.acts(admin, "plans", admin.plans)
    editor = stage.admin()
    stage.acts(editor, "pauses", editor.jobs.pause, PERSON, job.id)
    if stage.random.random() < 0.3:
        other = stage.admin()
        stage.acts(other, "resumes", other.jobs.resume, PERSON, job.id)
    yield
    instants = _instants(stage.runs(tables.run.c.job_id == job.id))
    stage.expect(len(set(instants)) == len(instants), f"an instant fired twice: {instants}")
    (row,) = stage.rows(sa.select(tables.job.c.paused).where(tables.job.c.id == job.id))
    (trigger,) = _trigger_rows(stage, job)
    if row.paused:
        ahead = [at for at in instants if at > stage.now]
        stage.expect(not ahead, f"{len(ahead)} fires lie ahead of a paused job")
        stage.expect(trigger.next_fire_at is None, "a paused job is planned on")
    else:
        stage.expect(trigger.next_fire_at is not None, "a job that is not paused never fires")


def deletion_meets_planners(stage: Stage) -> Iterator[None]:
    """A job is deleted among planners, a request and a claim: nothing of it waits afterwards."""
    first_at = _first_after(stage.began_at - 1_500)
    job = stage.job(triggers=[(_rate(EVERY_MS), first_at)])
    stage.queued(job)
    for _ in range(2):
        admin = stage.admin()
        stage.acts(admin, "plans", admin.plans)
    editor, asking, claiming = stage.admin(), stage.admin(), stage.admin()
    stage.node(heard_by=[claiming], slots=1)
    stage.acts(editor, "deletes", editor.jobs.delete, PERSON, job.id)
    asks = stage.acts(asking, "runs now", asking.jobs.run_now, PERSON, job.id)
    stage.may_raise(asks, NotFound)
    stage.acts(claiming, "claims", claiming.claims)
    yield
    stage.afterwards(stage.admins[0].plans)
    if not stage.is_deleted(job):
        return  # the database refused for too long
    stage.expect(not _trigger_rows(stage, job), "a trigger of the deleted job is left")
    waiting = stage.runs(
        tables.run.c.job_id == job.id,
        tables.run.c.state == RunState.QUEUED.value,
        tables.run.c.attempt == 0,
    )
    stage.expect(not waiting, f"runs {[run.id for run in waiting]} of the deleted job wait")


def calendars_meet_planners(stage: Stage) -> Iterator[None]:
    """A calendar takes these days away while admins plan and refresh: what was overdue fires, what
    is still to come does not, and nothing happens twice.
    """
    stage.calendar("holidays", dates=("1999-12-31",))
    first_at = _first_after(stage.began_at - 1_500)
    follows = replace(_rate(EVERY_MS), calendar="holidays")
    job = stage.job(triggers=[(follows, first_at), (_rate(EVERY_MS), first_at)])
    for _ in range(2):
        admin = stage.admin()
        stage.acts(admin, "plans", admin.plans)
    editor = stage.admin()
    today = datetime.fromtimestamp(stage.began_at / 1_000, UTC).date()
    days = [str(today + timedelta(days=day)) for day in range(-1, 3)]
    raw = {"name": "holidays", "dates": days}
    stage.acts(editor, "edits", editor.calendars.update, PERSON, 1, raw, version=1)
    for _ in range(stage.random.randint(1, 2)):
        admin = stage.admin()
        stage.acts(admin, "refreshes", admin.refreshes)
    yield
    first = stage.admins[0]
    stage.afterwards(first.refreshes, first.refreshes, first.plans)
    trigger, other = _trigger_rows(stage, job)
    instants = _instants(stage.runs(tables.run.c.trigger_id == trigger.id))
    stage.expect(instants[:1] == [first_at], f"what was due at {first_at} is lost: {instants}")
    stage.expect(instants == _all_between(first_at, instants[-1]), f"not one by one: {instants}")
    stage.expect(instants[-1] <= stage.now, f"{instants} lie ahead, on a day that is taken away")
    stage.expect(trigger.calendar_version == 2, "the trigger has not met the change")
    stage.expect(trigger.fires == len(instants), f"{trigger.fires} counted of {instants}")
    stage.expect(
        trigger.next_fire_at is not None and trigger.next_fire_at > stage.now + SLOW_MS,
        f"the trigger goes on at {trigger.next_fire_at}",
    )
    plain = _instants(stage.runs(tables.run.c.trigger_id == other.id))
    stage.expect(plain == _all_between(first_at, plain[-1]), f"the other one: {plain}")


def deleted_calendars_meet_jobs(stage: Stage) -> Iterator[None]:
    """A job begins to follow a calendar that is being deleted, or changed: one of them waits."""
    calendar_id = stage.calendar("holidays", dates=("1999-12-31",))
    job = stage.job(triggers=[(_rate(SLOW_MS), stage.began_at + SLOW_MS)])
    raw = job_to_raw(job.config)
    raw["triggers"] = [raw["triggers"][0] | {"calendar": "holidays"}]
    editor, keeper = stage.admin(), stage.admin()
    follows = stage.acts(editor, "edits", editor.jobs.update, PERSON, job.id, raw, revision=1)
    stage.may_raise(follows, InvalidInput)
    if stage.random.random() < 0.7:
        deletes = stage.acts(keeper, "deletes", keeper.calendars.delete, PERSON, calendar_id)
        stage.may_raise(deletes, Conflict)
    else:
        changed = {"name": "holidays", "dates": ["1999-12-30"]}
        stage.acts(
            keeper, "changes", keeper.calendars.update, PERSON, calendar_id, changed, version=1
        )
    yield
    (trigger,) = _trigger_rows(stage, job)
    table = tables.calendar
    (calendar,) = stage.rows(sa.select(table).where(table.c.id == calendar_id))
    if trigger.calendar is not None:
        stage.expect(calendar.deleted_at == 0, "the job follows a calendar that is deleted")
    if calendar.deleted_at == 0 and calendar.version == 1:
        stage.expect(trigger.calendar is not None, "the calendar is there, and nobody follows it")


SCENARIOS = (
    calendars_meet_planners,
    deleted_calendars_meet_jobs,
    planners_share_a_bucket,
    edits_meet_planners,
    pauses_meet_planners,
    deletion_meets_planners,
)
