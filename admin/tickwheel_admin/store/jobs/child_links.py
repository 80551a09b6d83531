"""Which job runs after which, as the current revisions of all jobs say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.jobs.children import ChildLink
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.workflows.graph import Workflow
from tickwheel_admin.store.database.edit_locks import lock_edits
from tickwheel_admin.store.database.tables import ALIVE, job, job_revision, setting

IDS_AT_ONCE = 1_000
CHANGES = "child_links"  # name of the setting that counts how often links were written


class _Links(msgspec.Struct):
    """The only part of a revision that is read here."""

    children: tuple[ChildLink, ...] = ()
    workflow: Workflow | None = None


_decoder = msgspec.json.Decoder(_Links)
# A revision's own text of a job that has children; within a string, quotes would be escaped.
_HAS_CHILDREN = '%"children":[{%'
_HAS_STEPS = '%"workflow":{"steps":[{%'


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedJob:
    """As much of a job as an error about links tells."""

    name: str
    executor_id: int


def lock_child_links(conn: sa.Connection) -> None:
    """Let transactions that add links go one after the other; taken before all other locks."""
    lock_edits(conn, CHANGES)


def lock_links_of(conn: sa.Connection, config: JobConfig) -> None:
    """The same, if saving this configuration may add links: to children, or to jobs of steps."""
    if config.children or config.workflow is not None:
        lock_child_links(conn)


def named_jobs(conn: sa.Connection, job_ids: Iterable[int]) -> dict[int, LinkedJob]:
    """Those of the jobs that exist and are not deleted; of any number."""
    found: dict[int, LinkedJob] = {}
    ids = sorted(set(job_ids))
    for first in range(0, len(ids), IDS_AT_ONCE):
        rows = conn.execute(
            sa.select(job.c.id, job.c.name, job.c.executor_id).where(
                job.c.id.in_(ids[first : first + IDS_AT_ONCE]), job.c.deleted_at == ALIVE
            )
        )
        found |= {row.id: LinkedJob(name=row.name, executor_id=row.executor_id) for row in rows}
    return found


def links_version(conn: sa.Connection) -> str | None:
    """A value that changes whenever a link is added; None while there never was one."""
    return conn.execute(sa.select(setting.c.value).where(setting.c.name == CHANGES)).scalar()


def child_graph(conn: sa.Connection) -> dict[int, tuple[int, ...]]:
    """The children of every job that has any and is not deleted.

    No index leads to a job's parents, so this looks at every job's current revision: about half a
    second for 100,000, once when somebody changes a job's children.
    """
    return {
        job_id: tuple(link.job_id for link in links.children)
        for job_id, links in _read_links(conn, _HAS_CHILDREN)
    }


def workflow_graph(conn: sa.Connection) -> dict[int, tuple[int, ...]]:
    """The jobs that the steps of every workflow run, hidden ones left out; as costly."""
    return {job_id: workflow.job_ids for job_id, workflow in workflows(conn)}


def workflows(conn: sa.Connection) -> Iterator[tuple[int, Workflow]]:
    """(job, graph) of every workflow that is not deleted; as costly."""
    for job_id, links in _read_links(conn, _HAS_STEPS):
        if links.workflow is not None:
            yield job_id, links.workflow


def _read_links(conn: sa.Connection, said: str) -> Iterator[tuple[int, _Links]]:
    rows = conn.execute(
        sa.select(job.c.id, job_revision.c.config)
        .join(
            job_revision,
            sa.and_(job_revision.c.job_id == job.c.id, job_revision.c.revision == job.c.revision),
        )
        .where(job.c.deleted_at == ALIVE, job_revision.c.config.like(said))
    )
    for job_id, config in rows:
        yield job_id, _decoder.decode(config)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlace:
    """Where a job belongs."""

    id: int
    executor_id: int
    tags: tuple[str, ...]


def job_places(conn: sa.Connection, job_ids: Iterable[int]) -> list[JobPlace]:
    """Those of the jobs that exist and are not deleted, by id."""
    rows = conn.execute(
        sa.select(job.c.id, job.c.executor_id, job.c.tags)
        .where(job.c.id.in_(sorted(set(job_ids))), job.c.deleted_at == ALIVE)
        .order_by(job.c.id)
    )
    return [
        JobPlace(
            id=row.id,
            executor_id=row.executor_id,
            tags=tuple(filter(None, row.tags.split(","))),
        )
        for row in rows
    ]
