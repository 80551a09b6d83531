"""What tests of the engine put into its database, and read from there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from msgspec import structs

from tests.admin.kit.engine import new_id
from tickwheel_admin.domain.calendars.calendar import CalendarSpec
from tickwheel_admin.domain.input.job import config_to_json
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.planning.fires import new_run
from tickwheel_admin.domain.runs.run import Origin, Run, RunState
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.domain.triggers.trigger import TriggerState
from tickwheel_admin.domain.triggers.trigger_json import spec_to_json
from tickwheel_admin.store.calendars import edits as calendar_edits
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.jobs.configs import read_configs
from tickwheel_admin.store.jobs.scripts import add_sources
from tickwheel_admin.store.runs.inserts import insert_fires
from tickwheel_admin.store.runs.rows import run_from_row


async def create_schema(database: Database) -> None:
    await database.run(tables.metadata.create_all)


async def now(database: Database) -> int:
    return await database.read(now_ms)


async def add_job(
    database: Database,
    *,
    executor_id: int = 1,
    triggers: Sequence[tuple[TriggerSpec, int]] = (),
    **config: Any,
) -> int:
    """A job with its triggers and their next fires; returns its id."""
    job_id = next(new_id)
    specs = tuple(spec for spec, _ in triggers)
    values = {"name": f"job-{job_id}", "handler": "hello", "triggers": specs} | config
    await database.run(_insert_job, job_id, executor_id, JobConfig(**values), triggers)
    return job_id


def _insert_job(
    conn: sa.Connection,
    job_id: int,
    executor_id: int,
    config: JobConfig,
    triggers: Sequence[tuple[TriggerSpec, int]],
) -> None:
    at = now_ms(conn)
    if conn.execute(sa.select(tables.executor.c.id).filter_by(id=executor_id)).first() is None:
        conn.execute(
            sa.insert(tables.executor).values(
                id=executor_id,
                name=f"executor-{executor_id}",
                description="",
                token_hash=f"hash-{executor_id}",
                created_at=at,
                deleted_at=0,
            )
        )
    add_sources(conn, [config.script])
    conn.execute(
        sa.insert(tables.job).values(
            id=job_id,
            executor_id=executor_id,
            name=config.name,
            handler=config.handler,
            owner="",
            tags="",
            revision=1,
            paused=False,
            route_cursor=0,
            created_at=at,
            updated_at=at,
            deleted_at=0,
        )
    )
    conn.execute(
        sa.insert(tables.job_revision).values(
            job_id=job_id,
            revision=1,
            config=config_to_json(config),
            created_at=at,
            created_by="test",
        )
    )
    for spec, next_fire_at in triggers:
        trigger_id = next(new_id)
        conn.execute(
            sa.insert(tables.trigger).values(
                id=trigger_id,
                job_id=job_id,
                executor_id=executor_id,
                bucket=trigger_id % 16,
                spec=spec_to_json(spec),
                paused=False,
                state=TriggerState.ACTIVE.value,
                next_fire_at=next_fire_at,
                calendar=spec.calendar,
                calendar_version=None if spec.calendar is None else 1,
                version=1,
                created_at=next_fire_at,
            )
        )


async def add_calendar(database: Database, name: str, **spec: Any) -> int:
    """A calendar in its first version; returns its id."""
    calendar_id = next(new_id)
    at = await now(database)
    await database.run(
        calendar_edits.add_calendar,
        calendar_id=calendar_id,
        name=name,
        description="",
        spec=CalendarSpec(**spec),
        now=at,
    )
    return calendar_id


async def change_calendar(database: Database, calendar_id: int, name: str, **spec: Any) -> None:
    """Its next version, and one of all that are based on it."""

    def change(conn: sa.Connection) -> None:
        at, said = now_ms(conn), CalendarSpec(**spec)
        calendar_edits.revise_calendar(conn, calendar_id, description="", spec=said, now=at)
        calendar_edits.raise_versions(conn, name, now=at)

    await database.run(change)


async def add_run(database: Database, job_id: int, **changes: Any) -> int:
    """A queued run that is due now; returns its id."""
    run_id = next(new_id)
    at = await now(database)
    values: dict[str, Any] = {
        "id": run_id,
        "executor_id": 1,
        "job_id": job_id,
        "job_revision": 1,
        "trigger_id": None,
        "origin": Origin.MANUAL,
        "scheduled_at": at,
        "created_at": at,
        "state": RunState.QUEUED,
        "due_at": at,
    }
    await database.run(insert_fires, [Run(**(values | changes))])
    return run_id


async def ask(database: Database, job_id: int, *, after: int = 0, **changes: Any) -> int:
    """A queued run as its job's configuration makes it, due now; returns its id.

    Args:
        after: orders runs of one job: its nominal instant, in ms after that of others.
    """
    config, executor_id = await database.read(_job_as_saved, job_id)
    at = await now(database)
    made = new_run(
        config,
        id=next(new_id),
        executor_id=executor_id,
        job_id=job_id,
        revision=1,
        origin=Origin.MANUAL,
        scheduled_at=1_700_000_000_000 + after,
        due_at=at,
        now=at,
    )
    await database.run(insert_fires, [structs.replace(made, **changes)])
    return made.id


def _job_as_saved(conn: sa.Connection, job_id: int) -> tuple[JobConfig, int]:
    executor_id = conn.execute(
        sa.select(tables.job.c.executor_id).where(tables.job.c.id == job_id)
    ).scalar_one()
    return read_configs(conn, [(job_id, 1)])[job_id, 1], executor_id


async def states(database: Database, *run_ids: int) -> list[str]:
    """Each run's state, and its reason if it has one: "skipped discarded"."""
    found = [await get_run(database, run_id) for run_id in run_ids]
    return [" ".join(filter(None, (each.state.value, each.reason))) for each in found]


async def get_run(database: Database, run_id: int) -> Run:
    return await database.read(
        lambda conn: run_from_row(
            conn.execute(sa.select(tables.run).where(tables.run.c.id == run_id)).one()
        )
    )


async def all_runs(database: Database) -> list[Run]:
    return await database.read(
        lambda conn: [
            run_from_row(row)
            for row in conn.execute(
                sa.select(tables.run).order_by(tables.run.c.scheduled_at, tables.run.c.id)
            )
        ]
    )


async def in_use(database: Database, node_id: int) -> int:
    return await database.read(
        lambda conn: conn.execute(
            sa.select(tables.node.c.in_use).where(tables.node.c.id == node_id)
        ).scalar_one()
    )


async def change(database: Database, table: sa.Table, row_id: int, **values: Any) -> None:
    """Set columns of one row, as time or an accident would have."""
    statement = sa.update(table).where(table.c.id == row_id).values(**values)
    await database.run(lambda conn: conn.execute(statement).close())


async def runs_of(database: Database, job_id: int) -> list[Run]:
    """Oldest scheduled first."""
    return [run for run in await all_runs(database) if run.job_id == job_id]


async def trigger_of(database: Database, job_id: int) -> Any:
    """The row of a job's one trigger."""
    wanted = sa.select(tables.trigger).where(tables.trigger.c.job_id == job_id)
    return await database.read(lambda conn: conn.execute(wanted).one())


async def node_of(database: Database, node_id: int) -> Any:
    """Its row."""
    wanted = sa.select(tables.node).where(tables.node.c.id == node_id)
    return await database.read(lambda conn: conn.execute(wanted).one())


async def add_pool(
    database: Database, slots: int, *, executor_id: int = 0, name: str | None = None
) -> int:
    """A pool, of the installation unless an executor is named; returns its id."""
    pool_id, at = next(new_id), await now(database)
    values = {
        "id": pool_id,
        "executor_id": executor_id,
        "name": name or f"pool-{pool_id}",
        "description": "",
        "slots": slots,
        "version": 1,
        "created_at": at,
        "updated_at": at,
        "deleted_at": 0,
    }
    await database.run(lambda conn: conn.execute(sa.insert(tables.pool).values(values)).close())
    return pool_id


async def pool_in_use(database: Database, pool_id: int) -> int:
    """Slots that live runs hold."""
    total = sa.select(sa.func.coalesce(sa.func.sum(tables.pool_use.c.slots), 0)).where(
        tables.pool_use.c.pool_id == pool_id
    )
    return int(await database.read(lambda conn: conn.execute(total).scalar_one()))
