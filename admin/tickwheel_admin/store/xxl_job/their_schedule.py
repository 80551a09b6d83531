"""Statements on XXL-JOB's own database that move jobs: its lock, and the state of its jobs.

Plain SQL over a connection whose transaction the caller began; nothing here commits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import sqlalchemy as sa

from tickwheel_admin.domain.xxl_job.take_over import TheirState

_LOCK = "SELECT lock_name FROM xxl_job_lock WHERE lock_name = 'schedule_lock' FOR UPDATE"
_ENGINES = (
    "SELECT TABLE_NAME, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()"
    " AND TABLE_NAME IN ('xxl_job_lock', 'xxl_job_info')"
)
_NOW = "SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)"
_STATES = sa.text(
    "SELECT id, trigger_status, trigger_next_time FROM xxl_job_info"
    " WHERE id IN :ids ORDER BY id FOR UPDATE"
).bindparams(sa.bindparam("ids", expanding=True))
_STOP = sa.text(
    "UPDATE xxl_job_info SET trigger_status = 0 WHERE id IN :ids AND trigger_status = 1"
).bindparams(sa.bindparam("ids", expanding=True))
_START = sa.text(
    "UPDATE xxl_job_info SET trigger_status = 1, trigger_next_time = :next_at"
    " WHERE id = :id AND trigger_status = 0"
)


class ScheduleLockMissing(Exception):
    """XXL-JOB's lock is no lock: nothing keeps its admins from firing meanwhile, or twice."""


def lock_schedule(conn: sa.Connection) -> None:
    """Hold XXL-JOB's lock row until the transaction ends: none of its admins schedules meanwhile.

    Raises:
        ScheduleLockMissing: there is no such row.
    """
    if conn.exec_driver_sql(_LOCK).first() is None:
        raise ScheduleLockMissing(
            "the table xxl_job_lock has no row “schedule_lock”. Without it XXL-JOB's admins do not"
            " wait for each other: they may fire jobs twice already, and a job cannot be taken"
            " over exactly. Put it there while all of them are stopped:"
            " INSERT INTO xxl_job_lock (lock_name) VALUES ('schedule_lock')"
        )


def check_engines(conn: sa.Connection) -> None:
    """Raise ScheduleLockMissing when its tables know no row locks and no transactions."""
    for table, engine in conn.exec_driver_sql(_ENGINES):
        if str(engine).upper() != "INNODB":
            raise ScheduleLockMissing(
                f"the table {table} is of the engine {engine}, which has no row locks and no"
                f" transactions, so XXL-JOB's lock does not hold: ALTER TABLE {table} ENGINE=InnoDB"
            )


def their_now(conn: sa.Connection) -> int:
    """The clock of XXL-JOB's database, UTC epoch ms."""
    return int(conn.exec_driver_sql(_NOW).scalar_one())


def lock_their_jobs(conn: sa.Connection, job_ids: Collection[int]) -> dict[int, TheirState]:
    """Jobs by id, locked: nobody starts, stops or edits them until the transaction ends."""
    if not job_ids:
        return {}
    return {
        row.id: TheirState(running=row.trigger_status == 1, next_at=row.trigger_next_time or 0)
        for row in conn.execute(_STATES, {"ids": sorted(job_ids)})
    }


def stop_their_jobs(conn: sa.Connection, job_ids: Collection[int]) -> None:
    """Stop jobs that are locked and run; their next time stays, to know them by."""
    _check(conn.execute(_STOP, {"ids": sorted(job_ids)}).rowcount, len(job_ids))


def start_their_jobs(conn: sa.Connection, next_at: Mapping[int, int]) -> None:
    """Start jobs that are locked and stopped, each at an instant."""
    for job_id, at in sorted(next_at.items()):
        _check(conn.execute(_START, {"id": job_id, "next_at": at}).rowcount, 1)


def _check(changed: int, wanted: int) -> None:
    if changed != wanted:
        raise AssertionError(f"{changed} rows of XXL-JOB changed, and {wanted} were locked")
