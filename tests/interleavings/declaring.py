"""Scenarios of jobs declared in code: processes of two versions, people who decide meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import sqlalchemy as sa

from tests.interleavings.admins import Admin
from tests.interleavings.props import EXECUTOR, HANDLER
from tests.interleavings.stage import PERSON, Stage
from tickwheel_admin.domain.errors import Conflict, NotFound, Unavailable
from tickwheel_admin.domain.input.node_manifest import NodeManifest, Process, read_node_manifest
from tickwheel_admin.engine.membership.membership import AdmittedNode
from tickwheel_admin.services.jobs.declared.service import DeclaredJobs
from tickwheel_admin.store.database import tables


@dataclass(frozen=True, kw_only=True)
class Starting:
    """A process that has said hello, and what its code holds."""

    admin: Admin
    admitted: AdmittedNode
    said: NodeManifest

    async def manifest_is_read(self) -> None:
        await self.admin.engine.membership.read_manifest(self.admitted, self.said)


def starting(stage: Stage, version: int, *, at: int, names: tuple[str, ...] = ("a",)) -> Starting:
    """A process of this version that connected so many milliseconds after the play began."""
    admin = stage.admin()
    node_id = stage.node(heard_by=[admin], connected_at=stage.began_at + at)
    process = Process(
        executor_id=EXECUTOR,
        node_id=node_id,
        name=f"node-{node_id}",
        connected_at=stage.began_at + at,
        address="",
    )
    told = f"version {version}"
    jobs = [{"name": name, "handler": HANDLER, "description": told} for name in names]
    said = read_node_manifest(
        handlers=[HANDLER],
        schemas={HANDLER: json.dumps({"description": told}).encode()},
        jobs=[json.dumps(job).encode() for job in jobs],
    )
    admitted = AdmittedNode(
        node_id=node_id,
        session_id=0,
        slots=None,
        admins=[],
        process=process,
        manifest_is_read=False,
        clock_offset_ms=None,
    )
    return Starting(admin=admin, admitted=admitted, said=said)


def versions_start_at_once(stage: Stage) -> Iterator[None]:
    """The process that connected last has the last word, in whatever order they are looked at."""
    first = starting(stage, 1, at=0)
    if stage.random.random() < 0.7:  # else no process was there before
        stage.afterwards(first.manifest_is_read)
    later = [
        starting(stage, stage.random.choice((1, 2)), at=at)
        for at in stage.random.sample(range(1, 9), stage.random.randint(2, 3))
    ]
    for each in later:
        looked = stage.acts(each.admin, "looks", each.manifest_is_read)
        stage.may_raise(looked, Unavailable)
    yield
    # A database that gave up is asked again, as a session does until its node has left.
    stage.afterwards(*(each.manifest_is_read for each in later))
    newest = max(later, key=lambda each: each.admitted.process.place)
    wanted = newest.said.jobs["a"]
    jobs = stage.rows(sa.select(tables.job))
    stage.expect(len(jobs) == 1, f"{len(jobs)} jobs were made of one")
    for row in stage.rows(sa.select(tables.declared_job)):
        stage.expect(row.raw == wanted, f"declared is {row.raw}, the newest says {wanted}")
        stage.expect(row.job_id == jobs[0].id, f"it manages {row.job_id}, not {jobs[0].id}")
    revisions = stage.rows(
        sa.select(tables.job_revision).order_by(tables.job_revision.c.revision.desc())
    )
    config = json.loads(revisions[0].config)
    said = json.loads(wanted)["description"]
    stage.expect(config["description"] == said, f"the job is {config['description']}, not {said}")
    [schema] = stage.rows(sa.select(tables.handler_schema))
    said = newest.said.schemas[HANDLER]
    stage.expect(schema.schema == said, f"the schema is {schema.schema}, not {said}")
    told = [(json.loads(a.config)["description"]) for a in revisions]
    stage.expect(
        all(one != other for one, other in pairwise(told)),
        f"one change was made twice: {told[::-1]}",
    )


def people_decide_meanwhile(stage: Stage) -> Iterator[None]:
    """A job is accepted, ignored, released or deleted while a process declares it anew."""
    first, second = starting(stage, 1, at=0), starting(stage, 2, at=1)
    if stage.random.random() < 0.8:
        stage.afterwards(first.manifest_is_read)
    admin = stage.admin()
    declared = DeclaredJobs(admin.seat.store, admin.ids, admin.events)
    if stage.random.random() < 0.5:
        stage.afterwards(partial(declared.set_policy, PERSON, EXECUTOR, "ask"))
    looked = stage.acts(second.admin, "looks", second.manifest_is_read)
    stage.may_raise(looked, Unavailable)
    decisions: dict[str, Any] = {
        "accepts": partial(declared.accept, PERSON, EXECUTOR, "a"),
        "ignores": partial(declared.ignore, PERSON, EXECUTOR, "a"),
        "releases": partial(declared.release, PERSON, EXECUTOR, "a"),
    }
    jobs = stage.rows(sa.select(tables.job))
    if jobs:
        deleting = stage.admin()
        deletes = stage.acts(deleting, "deletes", deleting.jobs.delete, PERSON, jobs[0].id)
        stage.may_raise(deletes, NotFound)
    what = stage.random.choice(sorted(decisions))
    stage.may_raise(stage.acts(admin, what, decisions[what]), Conflict, NotFound)
    yield
    alive = [row.id for row in stage.rows(sa.select(tables.job)) if not row.deleted_at]
    stage.expect(len(alive) <= 1, f"{len(alive)} jobs were made of one")
    for row in stage.rows(sa.select(tables.declared_job)):
        known = row.job_id is None or row.job_id in alive
        stage.expect(known, f"it manages job {row.job_id}, but there is {alive}")
        applied = row.state == "applied"
        stage.expect(applied <= (row.job_id is not None), "it is applied, and there is no job")
        stage.expect(applied or row.state != "released" or row.job_id is None, "it is released")


SCENARIOS = (versions_start_at_once, people_decide_meanwhile)
