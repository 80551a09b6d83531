"""Jobs, triggers and calendars of one scheduler, as they stand in the tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.imports.quartz.records import (
    MAX_TRIGGERS,
    QuartzCalendar,
    QuartzJob,
    QuartzTrigger,
    is_true,
)
from tickwheel_admin.store.imports.quartz.connection import QuartzDatabase
from tickwheel_admin.store.imports.source import SourceError

_ROWS_AT_ONCE = 500
_KINDS = ("simple_triggers", "cron_triggers", "simprop_triggers")
_TABLE_OF_KIND = {"SIMPLE": "simple_triggers", "CRON": "cron_triggers"}
_KEY = ("sched_name", "trigger_name", "trigger_group")


def scheduler_names(database: QuartzDatabase) -> list[str]:
    """The schedulers that share the tables, in order of the alphabet."""
    column = database.tables["job_details"].c.sched_name
    rows = database.connection.execute(sa.select(column).distinct().order_by(column))
    return [str(row[0]) for row in rows]


def chosen_scheduler(database: QuartzDatabase, name: str | None) -> str:
    """The scheduler of this name, or the only one; raises SourceError."""
    known = scheduler_names(database)
    if name is not None and name not in known:
        raise SourceError(f"there is no scheduler “{name}”; there are {', '.join(known) or 'none'}")
    if name is not None:
        return name
    if len(known) != 1:
        what = "no job in these tables" if not known else "more than one scheduler in these tables"
        names = f"; name one with --scheduler: {', '.join(known)}" if known else ""
        raise SourceError(f"there is {what}{names}")
    return known[0]


def read_calendars_of(database: QuartzDatabase, scheduler: str) -> list[QuartzCalendar]:
    """Calendars by name."""
    table = database.tables["calendars"]
    rows = database.connection.execute(
        sa.select(table.c.calendar_name, table.c.calendar)
        .where(table.c.sched_name == scheduler)
        .order_by(table.c.calendar_name)
    )
    return [
        QuartzCalendar(name=str(name), content=_bytes(content) or b"") for name, content in rows
    ]


def paused_groups(database: QuartzDatabase, scheduler: str) -> list[str]:
    """Groups whose new triggers are paused."""
    table = database.tables["paused_trigger_grps"]
    rows = database.connection.execute(
        sa.select(table.c.trigger_group)
        .where(table.c.sched_name == scheduler)
        .order_by(table.c.trigger_group)
    )
    return [str(row[0]) for row in rows]


def count_quartz_jobs(database: QuartzDatabase, scheduler: str) -> int:
    """How many jobs there are, one with many triggers as one."""
    table = database.tables["job_details"]
    statement = sa.select(sa.func.count()).where(table.c.sched_name == scheduler)
    return int(database.connection.execute(statement.select_from(table)).scalar_one())


def read_quartz_jobs(database: QuartzDatabase, scheduler: str) -> Iterator[QuartzJob]:
    """Jobs in the order of their keys; one with more than 50 triggers comes in parts.

    The rows are read as they are asked for: of 100,000 triggers, some hundred are in memory.
    """
    connection = database.connection.execution_options(
        stream_results=True, max_row_buffer=_ROWS_AT_ONCE
    )
    job: dict[str, Any] | None = None
    triggers: list[QuartzTrigger] = []
    part = 1
    with connection.execute(_statement(database, scheduler)) as result:
        for row in result.mappings():
            if job is None or _key(job) != _key(row):
                if job is not None:
                    yield _job(job, triggers, part)
                job, triggers, part = dict(row), [], 1
            elif len(triggers) == MAX_TRIGGERS:
                yield _job(job, triggers, part)
                triggers, part = [], part + 1
            if row["t_trigger_name"] is not None:
                triggers.append(_trigger(row))
        if job is not None:
            yield _job(job, triggers, part)


def _statement(database: QuartzDatabase, scheduler: str) -> sa.Select[Any]:
    tables = database.tables
    jobs, triggers = tables["job_details"], tables["triggers"]
    joined = jobs.outerjoin(
        triggers,
        sa.and_(*(triggers.c[n] == jobs.c[n] for n in ("sched_name", "job_name", "job_group"))),
    )
    columns = [column.label(f"j_{column.key}") for column in jobs.c]
    columns += [column.label(f"t_{column.key}") for column in triggers.c]
    for name in _KINDS:
        table = tables[name]
        joined = joined.outerjoin(table, sa.and_(*(table.c[n] == triggers.c[n] for n in _KEY)))
        columns += [c.label(f"{name}_{c.key}") for c in table.c if c.key not in _KEY]
    return (
        sa.select(*columns)
        .select_from(joined)
        .where(jobs.c.sched_name == scheduler)
        .order_by(
            jobs.c.job_name, jobs.c.job_group, triggers.c.trigger_name, triggers.c.trigger_group
        )
    )


def _key(row: Any) -> tuple[str, str]:
    return row["j_job_name"], row["j_job_group"]


def _job(row: dict[str, Any], triggers: list[QuartzTrigger], part: int) -> QuartzJob:
    return QuartzJob(
        name=str(row["j_job_name"]),
        group=str(row["j_job_group"]),
        class_name=str(row["j_job_class_name"]),
        description=str(row["j_description"] or ""),
        is_nonconcurrent=is_true(row["j_is_nonconcurrent"]),
        keeps_data=is_true(row["j_is_update_data"]),
        requests_recovery=is_true(row["j_requests_recovery"]),
        data=_bytes(row["j_job_data"]),
        triggers=tuple(triggers),
        part=part,
    )


def _trigger(row: Any) -> QuartzTrigger:
    try:
        return _whole_trigger(row)
    except (ValueError, TypeError, ArithmeticError):
        return QuartzTrigger(
            name=str(row["t_trigger_name"]),
            group=str(row["t_trigger_group"]),
            kind=str(row["t_trigger_type"]),
            is_damaged=True,
        )


def _whole_trigger(row: Any) -> QuartzTrigger:
    kind = str(row["t_trigger_type"])
    prefix = _TABLE_OF_KIND.get(kind, "simprop_triggers") + "_"
    own = [name for name in row if name.startswith(prefix)]
    next_at = int(row["t_next_fire_time"] or -1)
    return QuartzTrigger(
        name=str(row["t_trigger_name"]),
        group=str(row["t_trigger_group"]),
        kind=kind,
        state=str(row["t_trigger_state"]),
        description=str(row["t_description"] or ""),
        next_fire_at=None if next_at <= 0 else next_at,
        start_at=int(row["t_start_time"] or 0),
        end_at=int(row["t_end_time"] or 0) or None,
        priority=5 if row["t_priority"] is None else int(row["t_priority"]),
        misfire=int(row["t_misfire_instr"] or 0),
        calendar=row["t_calendar_name"] or None,
        data=_bytes(row["t_job_data"]),
        own={name.removeprefix(prefix): row[name] for name in own},
    )


def _bytes(value: Any) -> bytes | None:
    if isinstance(value, str):  # SQLite takes any type in any column
        return value.encode("latin-1", "replace")
    return None if value is None else bytes(value)
