"""Scenarios of what people do to many runs at once, and to whole executors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import sqlalchemy as sa

from tests.interleavings.props import EXECUTOR, is_live
from tests.interleavings.stage import PERSON, Stage, result_of
from tickwheel_admin.domain.errors import NotFound
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import FINAL, RunState
from tickwheel_admin.services.runs.bulk import Bulk
from tickwheel_admin.services.runs.purge import Purge
from tickwheel_admin.store.database import tables
from tickwheel_shared.protocol import Outcome

DAY_MS = 86_400_000


def many_are_cancelled(stage: Stage) -> Iterator[None]:
    """Two people cancel the same runs in opposite orders while they are claimed, and one ends."""
    claiming, recording = stage.admin(), stage.admin()
    node_id = stage.node(heard_by=[claiming, recording], slots=3)
    job = stage.job()
    ending = stage.running(job, node_id)
    runs = [ending, *(stage.queued(job) for _ in range(4))]
    ids = [run.id for run in runs]
    stage.acts(claiming, "claims", claiming.claims)
    session = recording.links.sessions[node_id]
    stage.acts(recording, "records", recording.records, (session, result_of(ending)))
    cancels = []
    for wanted in (ids, ids[::-1]):
        operator = stage.admin()
        cancels.append(stage.acts(operator, "cancels", operator.runs.cancel_many, PERSON, wanted))
    yield
    stage.afterwards(claiming.claims)
    for actor in cancels:
        if not isinstance(actor.result, Bulk):
            continue  # the database gave up
        for run_id in actor.result.runs:
            after = stage.run(run_id)
            stopping = is_live(after) and after.cancel_requested_at is not None
            ended = run_id == ending.id and after.state is RunState.SUCCEEDED  # it was quicker
            stage.expect(
                stopping or ended or after.state is RunState.CANCELLED,
                f"run {run_id} was cancelled and is {after.state.value}",
            )
        told = actor.result.done + sum(actor.result.skipped.values())
        stage.expect(told == len(ids), f"of {len(ids)} runs {told} were told of")
        stage.expect(set(actor.result.skipped) <= {"run.ended"}, f"{actor.result.skipped}")


def many_retries_twice(stage: Stage) -> Iterator[None]:
    """The same runs are retried at two admins with the same key, in opposite orders."""
    jobs = [stage.job(), stage.job()]
    admins = [stage.admin(), stage.admin()]
    node_id = stage.node(heard_by=admins)
    ended = [stage.running(jobs[number % 2], node_id) for number in range(4)]
    session = admins[0].links.sessions[node_id]
    said = [(session, result_of(run, Outcome.FAILED)) for run in ended]
    stage.afterwards(partial(admins[0].records, *said))
    ids = [run.id for run in ended]
    clicks = [
        stage.acts(admin, "retries", admin.runs.retry_many, PERSON, wanted, request_key="click")
        for admin, wanted in zip(admins, (ids, ids[::-1]), strict=True)
    ]
    yield
    made = {run.id: run.retry_of for run in stage.runs(tables.run.c.retry_of.is_not(None))}
    stage.expect(len(set(made.values())) == len(made), f"retries were made of {made}")
    for actor in clicks:
        if isinstance(actor.result, Bulk):
            stage.expect(set(actor.result.runs) == set(made), f"clicks were told {actor.result}")


def an_executor_goes(stage: Stage) -> Iterator[None]:
    """An executor is deleted with its jobs while runs are claimed, asked for, and tried again."""
    claiming, recording, asking, deleting = (stage.admin() for _ in range(4))
    node_id = stage.node(heard_by=[claiming, recording], slots=2)
    jobs = [stage.job(retry=RetryPolicy(retries=1, delay_ms=60_000)), stage.job()]
    ending = stage.running(jobs[0], node_id)
    for job in jobs:
        stage.queued(job)
    stage.acts(claiming, "claims", claiming.claims)
    session = recording.links.sessions[node_id]
    failed = (session, result_of(ending, Outcome.FAILED))
    stage.acts(recording, "records", recording.records, failed)
    asks = stage.acts(asking, "asks", asking.jobs.run_now, PERSON, jobs[1].id)
    stage.may_raise(asks, NotFound)
    deletes = stage.acts(
        deleting, "deletes", deleting.executors.delete, PERSON, EXECUTOR, with_jobs=True
    )
    yield
    if deletes.error is not None:
        return  # the database gave up: somebody deletes it again
    for run in stage.runs():
        stopping = is_live(run) and run.cancel_requested_at is not None
        stage.expect(
            stopping or run.state in FINAL, f"run {run.id} is {run.state.value} and waits for ever"
        )
    left = stage.rows(sa.select(tables.job.c.id).where(tables.job.c.deleted_at == 0))
    stage.expect(not left, f"jobs {left} are left")


def purging_meets_what_ends(stage: Stage) -> Iterator[None]:
    """Old runs are purged at two admins while late results come, and a live one ends."""
    recording, *purging = (stage.admin() for _ in range(3))
    node_id = stage.node(heard_by=[recording])
    job = stage.job()
    old = {"scheduled_at": stage.now - DAY_MS}
    live = stage.running(job, node_id, **old)
    waiting = stage.queued(job, **old, due_at=stage.now + DAY_MS)
    lost = [stage.running(job, node_id, **old) for _ in range(3)]
    for run in lost:
        ended = {"state": RunState.LOST.value, "ended_at": stage.now, "deadline_at": None}
        stage.change(tables.run, run.id, **ended)
    stage.change(tables.node, node_id, in_use=1)
    session = recording.links.sessions[node_id]
    said = [(session, result_of(run)) for run in (lost[0], live, lost[2])]
    stage.acts(recording, "records", recording.records, *said)
    for admin in purging:
        purge = Purge(admin.seat.store, admin.ids, admin.events)
        stage.acts(admin, "purges", purge.step, PERSON, older_than_seconds=3_600)
    yield
    kept = {run.id: run for run in stage.runs()}
    stage.expect(waiting.id in kept, "a run that waits was purged")
    if live.id in kept:
        state = kept[live.id].state
        stage.expect(state is not RunState.LOST, f"the live run is {state.value}")
    archived = {row.run_id for row in stage.rows(sa.select(tables.run_attempt.c.run_id))}
    stage.expect(archived <= set(kept), f"attempts of {archived - set(kept)} are left")


SCENARIOS = (many_are_cancelled, many_retries_twice, an_executor_goes, purging_meets_what_ends)
