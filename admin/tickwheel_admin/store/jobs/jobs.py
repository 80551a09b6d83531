"""Jobs and their revisions: reading and changing them; lists are in `store.jobs.pages`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.input.job import config_from_json, config_to_json
from tickwheel_admin.domain.jobs.job import Job, JobConfig
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.index_hints import unindexed
from tickwheel_admin.store.database.run_conditions import queued_for
from tickwheel_admin.store.database.tables import ALIVE, job, job_revision, run
from tickwheel_admin.store.jobs.scripts import add_sources
from tickwheel_admin.store.jobs.secret_uses import (
    add_secret_uses,
    change_secret_uses,
    forget_secret_uses,
)

# Turns of a round robin after which it stands where it stood, with any number of nodes up to 16.
# One more is a prime: a job whose runs are all asked for, and so locked once each, skips no node.
ROUND = 4_324_320
JOB_COLUMNS = (
    job.c.id,
    job.c.executor_id,
    job.c.revision,
    job.c.paused,
    job.c.created_at,
    job.c.updated_at,
    job_revision.c.config,
)
WITH_CONFIG = sa.and_(job_revision.c.job_id == job.c.id, job_revision.c.revision == job.c.revision)


# --- reading ---------------------------------------------------------------------------------


def get_job(conn: sa.Connection, job_id: int) -> Job | None:
    """The job, unless it is deleted."""
    row = conn.execute(_select_job(job_id)).one_or_none()
    return None if row is None else job_from_row(row)


def lock_job(conn: sa.Connection, job_id: int) -> Job | None:
    """The job, unless it is deleted; no other edit goes on until this transaction ends."""
    # The row alone first: MariaDB cannot lock one table of a join, and the revision read before
    # the wait for the lock would be an old one. The lock is a write, so that it holds on clusters
    # whose row locks are local.
    turned = (
        sa.update(job).where(job.c.id == job_id).values(route_cursor=job.c.route_cursor + ROUND)
    )
    conn.execute(turned)
    return get_job(conn, job_id)


def get_config(conn: sa.Connection, job_id: int, revision: int) -> JobConfig:
    """What one revision says, also of a deleted job."""
    text = conn.execute(
        sa.select(job_revision.c.config).where(
            job_revision.c.job_id == job_id, job_revision.c.revision == revision
        )
    ).scalar_one()
    return config_from_json(text)


def current_configs(conn: sa.Connection, job_ids: Collection[int]) -> dict[int, JobConfig]:
    """What the current revisions of jobs say, by job; deleted ones are left out."""
    rows = conn.execute(
        sa.select(job.c.id, job_revision.c.config)
        .join(job_revision, WITH_CONFIG)
        .where(job.c.id.in_(sorted(job_ids)), job.c.deleted_at == ALIVE)
    )
    return {row.id: config_from_json(row.config) for row in rows}


def jobs_named(conn: sa.Connection, executor_id: int, names: Collection[str]) -> dict[str, int]:
    """Ids of an executor's jobs by name; deleted ones are left out."""
    rows = conn.execute(
        sa.select(job.c.name, job.c.id).where(
            job.c.executor_id == executor_id,
            job.c.name.in_(sorted(names)),
            job.c.deleted_at == ALIVE,
        )
    )
    return {row.name: row.id for row in rows}


def jobs_at(conn: sa.Connection, places: Collection[tuple[int, str]]) -> dict[tuple[int, str], int]:
    """Ids of jobs by executor and name; deleted ones are left out."""
    rows = conn.execute(
        sa.select(job.c.executor_id, job.c.name, job.c.id).where(
            job.c.executor_id.in_(sorted({executor_id for executor_id, _ in places})),
            job.c.name.in_(sorted({name for _, name in places})),
            job.c.deleted_at == ALIVE,
        )
    )
    return {(row.executor_id, row.name): row.id for row in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class BriefJob:
    """A job without its configuration."""

    id: int
    executor_id: int
    name: str
    revision: int
    paused: bool


def brief_jobs(conn: sa.Connection, job_ids: Collection[int]) -> dict[int, BriefJob]:
    """Jobs by id; deleted ones are left out."""
    found: dict[int, BriefJob] = {}
    ids = sorted(job_ids)
    columns = (job.c.id, job.c.executor_id, job.c.name, job.c.revision, job.c.paused)
    for start in range(0, len(ids), 1_000):
        some = ids[start : start + 1_000]
        rows = conn.execute(
            sa.select(*columns).where(job.c.id.in_(some), job.c.deleted_at == ALIVE)
        )
        for row in rows:
            found[row.id] = BriefJob(
                id=row.id,
                executor_id=row.executor_id,
                name=row.name,
                revision=row.revision,
                paused=bool(row.paused),
            )
    return found


def executor_of_job(conn: sa.Connection, job_id: int) -> int | None:
    """Also of a deleted job, for its runs are still there."""
    return conn.execute(sa.select(job.c.executor_id).where(job.c.id == job_id)).scalar_one_or_none()


def executors_of_jobs(conn: sa.Connection, job_ids: Collection[int]) -> dict[int, int]:
    """Whose jobs they are, also of deleted ones."""
    rows = conn.execute(sa.select(job.c.id, job.c.executor_id).where(job.c.id.in_(sorted(job_ids))))
    return {row.id: row.executor_id for row in rows}


def names_of_jobs(conn: sa.Connection, job_ids: Collection[int]) -> dict[int, str]:
    """What they are called, also of deleted ones."""
    rows = conn.execute(sa.select(job.c.id, job.c.name).where(job.c.id.in_(sorted(job_ids))))
    return {row.id: row.name for row in rows}


# --- changing --------------------------------------------------------------------------------


def job_name_is_taken(
    conn: sa.Connection, executor_id: int, name: str, *, by_other_than: int | None = None
) -> bool:
    """Whether another job of the executor, not deleted, has the name."""
    owner = conn.execute(
        sa.select(job.c.id).where(
            job.c.executor_id == executor_id, job.c.name == name, job.c.deleted_at == ALIVE
        )
    ).scalar_one_or_none()
    return owner is not None and owner != by_other_than


def add_jobs(conn: sa.Connection, new: Sequence[Job], *, by: str, deleted_at: int = ALIVE) -> None:
    """Insert jobs and their first revisions; their unique names are the database's to guard."""
    rows = [
        {
            "id": each.id,
            "executor_id": each.executor_id,
            "revision": each.revision,
            "paused": each.paused,
            "route_cursor": 0,
            "created_at": each.created_at,
            "updated_at": each.updated_at,
            "deleted_at": deleted_at,
            **_searched(each.config),
        }
        for each in new
    ]
    revisions = [
        {
            "job_id": each.id,
            "revision": each.revision,
            "config": config_to_json(each.config),
            "created_at": each.created_at,
            "created_by": by[:100],
            "script_sha256": _script_of(each.config),
        }
        for each in new
    ]
    if rows:
        add_sources(conn, [each.config.script for each in new])
        insert_rows(conn, job, rows, columns=tuple(rows[0]))
        insert_rows(conn, job_revision, revisions, columns=tuple(revisions[0]))
        add_secret_uses(conn, new)


def revise_job(
    conn: sa.Connection,
    old: Job,
    config: JobConfig,
    *,
    now: int,
    by: str,
    deleted_at: int = ALIVE,
) -> bool:
    """Make `config` the next revision; False if another edit came first."""
    revised = conn.execute(
        sa.update(job)
        .where(
            job.c.id == old.id,
            job.c.revision == old.revision,
            job.c.deleted_at == deleted_at,
        )
        .values(revision=old.revision + 1, updated_at=now, **_searched(config))
    )
    if revised.rowcount != 1:
        return False
    add_revision(conn, old.id, old.revision + 1, config, now=now, by=by)
    change_secret_uses(conn, old, replace(old, config=config))
    return True


def set_paused(conn: sa.Connection, job_id: int, *, paused: bool, now: int) -> None:
    """Note that the job is paused, or no longer."""
    conn.execute(sa.update(job).where(job.c.id == job_id).values(paused=paused, updated_at=now))


def touch_job(conn: sa.Connection, job_id: int, *, now: int) -> None:
    """Note that something of the job changed: its lock is then also a write to its row."""
    conn.execute(sa.update(job).where(job.c.id == job_id).values(updated_at=now))


def delete_job(conn: sa.Connection, job_id: int, *, now: int) -> None:
    """Mark it deleted; its name is free again, its runs and revisions stay."""
    conn.execute(sa.update(job).where(job.c.id == job_id).values(deleted_at=now, updated_at=now))
    forget_secret_uses(conn, [job_id])


def unclaimed_runs_of_job(conn: sa.Connection, of: Job, *, limit: int) -> list[int]:
    """Ids of queued runs that were never claimed; reads what the executor has waiting."""
    rows = conn.execute(
        sa.select(run.c.id)
        .where(queued_for(of.executor_id), unindexed(run.c.job_id) == of.id, run.c.attempt == 0)
        .limit(limit)
    )
    return list(rows.scalars())


def add_revision(
    conn: sa.Connection, job_id: int, revision: int, config: JobConfig, *, now: int, by: str
) -> None:
    """Keep what a job says, with the source of its script."""
    add_sources(conn, [config.script])
    conn.execute(
        sa.insert(job_revision).values(
            job_id=job_id,
            revision=revision,
            config=config_to_json(config),
            created_at=now,
            created_by=by[:100],
            script_sha256=_script_of(config),
        )
    )


def _script_of(config: JobConfig) -> str | None:
    return None if config.script is None else config.script.sha256


# --- rows ------------------------------------------------------------------------------------


def _select_job(job_id: int) -> sa.Select[Any]:
    return (
        sa.select(*JOB_COLUMNS)
        .join(job_revision, WITH_CONFIG)
        .where(job.c.id == job_id, job.c.deleted_at == ALIVE)
    )


def job_from_row(row: Any) -> Job:
    """A job from a row with `JOB_COLUMNS`."""
    return Job(
        id=row.id,
        executor_id=row.executor_id,
        revision=row.revision,
        config=config_from_json(row.config),
        paused=bool(row.paused),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _searched(config: JobConfig) -> dict[str, str | int | None]:
    """What is searched and sorted by, beside the JSON of the revision."""
    return {
        "name": config.name,
        "handler": config.handler,
        "owner": config.owner,
        "tags": ",".join(config.tags),
        "pool_id": None if config.pool is None else config.pool.pool_id,
    }
