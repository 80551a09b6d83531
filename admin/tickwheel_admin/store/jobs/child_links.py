"""Which job runs after which, as the current revisions of all jobs say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.jobs.children import ChildLink
from tickwheel_admin.store.database.edit_locks import lock_edits
from tickwheel_admin.store.database.tables import ALIVE, job, job_revision, setting

CHANGES = "child_links"  # name of the setting that counts how often links were written


class _Links(msgspec.Struct):
    """The only part of a revision that is read here."""

    children: tuple[ChildLink, ...] = ()


_decoder = msgspec.json.Decoder(_Links)
# A revision's own text of a job that has children; within a string, quotes would be escaped.
_HAS_CHILDREN = '%"children":[{%'


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedJob:
    """As much of a job as an error about links tells."""

    name: str
    executor_id: int


def lock_child_links(conn: sa.Connection) -> None:
    """Let transactions that add links go one after the other; taken before all other locks."""
    lock_edits(conn, CHANGES)


def named_jobs(conn: sa.Connection, job_ids: Iterable[int]) -> dict[int, LinkedJob]:
    """Those of the jobs that exist and are not deleted."""
    rows = conn.execute(
        sa.select(job.c.id, job.c.name, job.c.executor_id).where(
            job.c.id.in_(sorted(set(job_ids))), job.c.deleted_at == ALIVE
        )
    )
    return {row.id: LinkedJob(name=row.name, executor_id=row.executor_id) for row in rows}


def links_version(conn: sa.Connection) -> str | None:
    """A value that changes whenever a link is added; None while there never was one."""
    return conn.execute(sa.select(setting.c.value).where(setting.c.name == CHANGES)).scalar()


def child_graph(conn: sa.Connection) -> dict[int, tuple[int, ...]]:
    """The children of every job that has any and is not deleted.

    No index leads to a job's parents, so this looks at every job's current revision: about half a
    second for 100,000, once when somebody changes a job's children.
    """
    rows = conn.execute(
        sa.select(job.c.id, job_revision.c.config)
        .join(
            job_revision,
            sa.and_(job_revision.c.job_id == job.c.id, job_revision.c.revision == job.c.revision),
        )
        .where(job.c.deleted_at == ALIVE, job_revision.c.config.like(_HAS_CHILDREN))
    )
    return {
        job_id: tuple(link.job_id for link in _decoder.decode(config).children)
        for job_id, config in rows
    }
