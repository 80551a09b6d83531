"""What the audit is about, by name: the names behind its numbers, and the numbers behind names.

Names of what has been deleted are found as well, for the audit outlives it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.store.database.tables import (
    api_token,
    calendar,
    executor,
    job,
    node,
    run,
    user,
)

_NODE_STATES = sorted(state.value for state in NodeState)  # an index is sorted by them
MAX_FOUND = 20  # objects of one name, the newest


def job_names(conn: sa.Connection, job_ids: Iterable[int]) -> dict[int, str]:
    """Names of jobs, deleted ones too, by id."""
    return _names(conn, job, job_ids)


def token_names(conn: sa.Connection, token_ids: Iterable[int]) -> dict[int, str]:
    """Names of API tokens by id; those that are revoked are gone."""
    return _names(conn, api_token, token_ids)


def jobs_of_runs(conn: sa.Connection, run_ids: Iterable[int]) -> dict[int, int]:
    """Ids of the jobs of runs, by run; runs that retention has deleted are left out."""
    wanted = sorted(set(run_ids))
    if not wanted:
        return {}
    rows = conn.execute(sa.select(run.c.id, run.c.job_id).where(run.c.id.in_(wanted)))
    return {row.id: row.job_id for row in rows}


def jobs_of_name(
    conn: sa.Connection, name: str, executors: frozenset[int] | None, *, executor_name: str | None
) -> list[int]:
    """Jobs of exactly this name, deleted ones too.

    Args:
        executors: only of these; None: of all.
        executor_name: only of executors of this name.
    """
    owners = sa.select(executor.c.id)
    if executor_name is not None:
        owners = owners.where(executor.c.name == executor_name)
    if executors is not None:
        owners = owners.where(executor.c.id.in_(sorted(executors)))
    return _ids(conn, sa.select(job.c.id).where(job.c.executor_id.in_(owners), job.c.name == name))


def nodes_of_name(conn: sa.Connection, name: str) -> list[int]:
    """Nodes of exactly this name, as far back as they are remembered."""
    everywhere = node.c.executor_id.in_(sa.select(executor.c.id)), node.c.state.in_(_NODE_STATES)
    return _ids(conn, sa.select(node.c.id).where(*everywhere, node.c.name == name))


def executors_of_name(conn: sa.Connection, name: str) -> list[int]:
    """Executors of exactly this name, deleted ones too."""
    return _ids(conn, sa.select(executor.c.id).where(executor.c.name == name))


def calendars_of_name(conn: sa.Connection, name: str) -> list[int]:
    """Calendars of exactly this name, deleted ones too."""
    return _ids(conn, sa.select(calendar.c.id).where(calendar.c.name == name))


def users_of_name(conn: sa.Connection, name: str) -> list[int]:
    """The person of exactly this name."""
    return _ids(conn, sa.select(user.c.id).where(user.c.name == name))


def _ids(conn: sa.Connection, chosen: sa.Select[int]) -> list[int]:
    (column,) = chosen.selected_columns
    return list(conn.execute(chosen.order_by(column.desc()).limit(MAX_FOUND)).scalars())


def _names(conn: sa.Connection, table: sa.Table, ids: Iterable[int]) -> dict[int, str]:
    wanted = sorted(set(ids))
    if not wanted:
        return {}
    chosen: sa.Select[Any] = sa.select(table.c.id, table.c.name).where(table.c.id.in_(wanted))
    return {row.id: row.name for row in conn.execute(chosen)}
