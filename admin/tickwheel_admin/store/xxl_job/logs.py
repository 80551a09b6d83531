"""Ended attempts whose log is still to be read from their executor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.xxl_job.bridge import ExpectedLog, GivenParameters
from tickwheel_admin.store.database.batch import insert_values, update_values
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.run_conditions import IS_LIVE
from tickwheel_admin.store.database.tables import run, run_attempt, run_log, xxl_log

# Noted before its end is recorded, which sets `log_lines`, too.
_IS_LIVE = (
    sa.select(run.c.id)
    .where(run.c.id == xxl_log.c.run_id, run.c.attempt == xxl_log.c.attempt, IS_LIVE)
    .exists()
)
_run = run.alias("of_run")
_GIVEN = (_run.c.executor_id, _run.c.job_id, _run.c.job_revision, _run.c.parameters)


def expect_logs(conn: sa.Connection, ended: Sequence[ExpectedLog]) -> None:
    """Note attempts before their end is recorded."""
    now = now_ms(conn)
    insert_values(
        conn,
        xxl_log,
        [
            (each.run, each.attempt, each.node_id, each.token, each.log_id, each.time_ms, now)
            for each in ended
        ],
        columns=("run_id", "attempt", "node_id", "token", "log_id", "time_ms", "created_at"),
        ignore_duplicates_of=("run_id", "attempt"),
    )


def expected_logs(
    conn: sa.Connection, node_ids: Collection[int], *, limit: int
) -> list[ExpectedLog]:
    """Attempts of these nodes whose log is to be read."""
    if not node_ids:
        return []
    return _read(
        conn,
        sa.select(xxl_log, *_GIVEN)
        .join(_run, _run.c.id == xxl_log.c.run_id, isouter=True)
        .where(xxl_log.c.node_id.in_(sorted(node_ids)), ~_IS_LIVE)
        .order_by(xxl_log.c.node_id, xxl_log.c.run_id)
        .limit(limit),
    )


def stored_lines(conn: sa.Connection, run_id: int, attempt: int) -> int:
    """The number of the last line that is stored of an attempt's log."""
    last = sa.func.max(run_log.c.first_seq + run_log.c.line_count - 1)
    found = sa.select(last).where(run_log.c.run_id == run_id, run_log.c.attempt == attempt)
    return conn.execute(found).scalar() or 0


def oldest_logs(conn: sa.Connection, *, limit: int) -> list[tuple[int, int]]:
    """Attempts whose log has been waited for the longest, by (run, attempt)."""
    by_age = sa.select(xxl_log.c.run_id, xxl_log.c.attempt).order_by(xxl_log.c.created_at)
    return [(row.run_id, row.attempt) for row in conn.execute(by_age.limit(limit))]


def give_up_logs(conn: sa.Connection, unread: Collection[tuple[int, int]]) -> None:
    """What is stored of the logs of these attempts, (run, attempt), is all there will be."""
    of_runs = xxl_log.c.run_id.in_(sorted({run_id for run_id, _ in unread}))
    found = sa.select(xxl_log, *_GIVEN).join(_run, _run.c.id == xxl_log.c.run_id, isouter=True)
    waiting = _read(conn, found.where(of_runs))
    ended = [(each.run, each.attempt, each.lines) for each in waiting]
    logs_are_read(conn, [each for each in ended if each[:2] in unread])


def _read(conn: sa.Connection, query: sa.Select[Any]) -> list[ExpectedLog]:
    rows = conn.execute(query).all()
    if not rows:
        return []
    last = sa.func.max(run_log.c.first_seq + run_log.c.line_count - 1)
    stored = {
        (each[0], each[1]): int(each[2])
        for each in conn.execute(
            sa.select(run_log.c.run_id, run_log.c.attempt, last)
            .where(run_log.c.run_id.in_(sorted({row.run_id for row in rows})))
            .group_by(run_log.c.run_id, run_log.c.attempt)
        )
    }
    return [
        ExpectedLog(
            run=row.run_id,
            attempt=row.attempt,
            token=row.token,
            node_id=row.node_id,
            log_id=row.log_id,
            time_ms=row.time_ms,
            lines=stored.get((row.run_id, row.attempt), 0),
            given=None if row.job_id is None else GivenParameters(*(row[-len(_GIVEN) :])),
        )
        for row in rows
    ]


def is_log_expected(conn: sa.Connection, run_id: int, attempt: int) -> bool:
    """Whether lines of an ended attempt may still come."""
    found = conn.execute(
        sa.select(xxl_log.c.run_id).where(xxl_log.c.run_id == run_id, xxl_log.c.attempt == attempt)
    )
    return found.first() is not None


def logs_are_read(conn: sa.Connection, read: Sequence[tuple[int, int, int]]) -> None:
    """All lines of these attempts are stored, or will never be: (run, attempt, lines)."""
    if not read:
        return
    counted = [each for each in sorted(read) if each[2]]
    update_values(conn, run, counted, match=("id", "attempt"), values=("log_lines",))
    update_values(conn, run_attempt, counted, match=("run_id", "attempt"), values=("log_lines",))
    by_attempt: defaultdict[int, list[int]] = defaultdict(list)
    for run_id, attempt, _ in read:
        by_attempt[attempt].append(run_id)
    for attempt, run_ids in by_attempt.items():
        of_these = sa.and_(xxl_log.c.run_id.in_(sorted(run_ids)), xxl_log.c.attempt == attempt)
        conn.execute(sa.delete(xxl_log).where(of_these))
