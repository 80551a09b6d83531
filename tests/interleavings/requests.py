"""Scenarios of what people ask for twice, and of numbers that must not be given twice."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import sqlalchemy as sa

from tests.interleavings.admins import Admin
from tests.interleavings.props import EXECUTOR, HANDLER
from tests.interleavings.stage import PERSON, Stage, result_of
from tickwheel_admin.domain.errors import Conflict, NotFound
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.store.database import tables


def one_key_twice(stage: Stage) -> Iterator[None]:
    """The same request comes to two or three admins: one run, and all are told its id."""
    job = stage.job()
    asking = []
    for _ in range(stage.random.randint(2, 3)):
        admin = stage.admin()
        asking.append(
            stage.acts(admin, "runs now", admin.jobs.run_now, PERSON, job.id, request_key="once")
        )
    yield
    runs = stage.runs()
    told = {actor.result for actor in asking if actor.error is None}
    stage.expect(len(runs) <= 1, f"{len(runs)} runs were made")
    stage.expect(told <= {run.id for run in runs}, f"callers were told {told}")
    noted = stage.rows(sa.select(tables.audit))
    stage.expect(len(noted) == len(runs), f"{len(noted)} requests are in the audit")


def one_retry_twice(stage: Stage) -> Iterator[None]:
    """A retry by hand is clicked twice, at two admins."""
    job = stage.job()
    admins = [stage.admin(), stage.admin()]
    node_id = stage.node(heard_by=admins)
    run = stage.running(job, node_id)
    session = admins[0].links.sessions[node_id]
    stage.afterwards(partial(admins[0].records, (session, result_of(run))))
    clicks = [
        stage.acts(admin, "retries", admin.runs.retry, PERSON, run.id, request_key="click")
        for admin in admins
    ]
    yield
    made = stage.runs(tables.run.c.retry_of == run.id)
    told = {actor.result for actor in clicks if actor.error is None}
    stage.expect(len(made) <= 1, f"{len(made)} retries were made")
    stage.expect(told <= {each.id for each in made}, f"clicks were told {told}")


def a_request_meets_a_deletion(stage: Stage) -> Iterator[None]:
    """A run is asked for while its job is deleted: it is refused, or cancelled with the others."""
    asking, deleting = stage.admin(), stage.admin()
    job = stage.job()
    asks = stage.acts(asking, "runs now", asking.jobs.run_now, PERSON, job.id)
    stage.may_raise(asks, NotFound)
    stage.acts(deleting, "deletes", deleting.jobs.delete, PERSON, job.id)
    yield
    if stage.is_deleted(job):
        waiting = stage.runs(tables.run.c.state == RunState.QUEUED.value)
        stage.expect(not waiting, f"runs {[run.id for run in waiting]} of the deleted job wait")


async def _take(admin: Admin, counts: list[int]) -> list[int]:
    return [new_id for count in counts for new_id in await admin.ids.take_many("new", count)]


def ids_are_taken(stage: Stage) -> Iterator[None]:
    """Three admins take ids under a name that nobody has used before."""
    takers = []
    for _ in range(3):
        admin = stage.admin()
        counts = [stage.random.randint(1, 30) for _ in range(2)]

        takers.append(stage.acts(admin, f"takes {counts}", _take, admin, counts))
    yield
    taken = [new_id for actor in takers for new_id in actor.result or []]
    stage.expect(len(set(taken)) == len(taken), f"taken twice: {sorted(taken)}")


def one_name_twice(stage: Stage) -> Iterator[None]:
    """Two jobs of one name are created, while their executor is deleted."""
    stage.node()
    raw = {"name": "invoices", "handler": HANDLER}
    creating = []
    for _ in range(2):
        admin = stage.admin()
        creating.append(
            stage.may_raise(
                stage.acts(admin, "creates", admin.jobs.create, PERSON, EXECUTOR, raw),
                Conflict,
                NotFound,
            )
        )
    deleting = None
    if stage.random.random() < 0.6:
        admin = stage.admin()
        deleting = stage.acts(admin, "deletes", admin.executors.delete, PERSON, EXECUTOR)
        stage.may_raise(deleting, Conflict)
    yield
    jobs = stage.rows(sa.select(tables.job))
    stage.expect(len(jobs) <= 1, f"{len(jobs)} jobs have one name")
    (executor,) = stage.rows(sa.select(tables.executor))
    stage.expect(not (jobs and executor.deleted_at), "a deleted executor has a job")
    if deleting is None:
        made = [actor for actor in creating if actor.error is None]
        stage.expect(len(made) == len(jobs), f"{len(made)} were told that they made {len(jobs)}")


SCENARIOS = (
    one_key_twice,
    one_retry_twice,
    a_request_meets_a_deletion,
    ids_are_taken,
    one_name_twice,
)
