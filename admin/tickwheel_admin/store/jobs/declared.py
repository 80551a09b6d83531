"""Jobs that nodes declare in their code, and what became of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.domain.jobs.declared_job import (
    CodeJobs,
    DeclaredJob,
    DeclaredReason,
    DeclaredState,
    Ruling,
    problems_from_json,
    problems_to_json,
)
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.tables import declared_job, executor, node

_names = msgspec.json.Decoder(list[str])


def set_policy(conn: sa.Connection, executor_id: int, policy: CodeJobs) -> None:
    """Say what becomes of the jobs that an executor's nodes declare."""
    conn.execute(
        sa.update(executor).where(executor.c.id == executor_id).values(code_jobs=policy.value)
    )


# --- declarations --------------------------------------------------------------------------------


def read_declared(conn: sa.Connection, executor_id: int) -> dict[str, DeclaredJob]:
    """Every declaration of an executor, by name."""
    rows = conn.execute(
        sa.select(declared_job)
        .where(declared_job.c.executor_id == executor_id)
        .order_by(declared_job.c.name)
    )
    return {row.name: _from_row(row) for row in rows}


def get_declared(conn: sa.Connection, executor_id: int, name: str) -> DeclaredJob | None:
    """One declaration."""
    row = conn.execute(
        sa.select(declared_job).where(
            declared_job.c.executor_id == executor_id, declared_job.c.name == name
        )
    ).one_or_none()
    return None if row is None else _from_row(row)


def write_declared(conn: sa.Connection, declared: DeclaredJob) -> None:
    """Write a declaration over the one of its name, if there is one."""
    row = {
        "executor_id": declared.executor_id,
        "name": declared.name,
        "raw": declared.raw,
        "job_id": declared.job_id,
        "state": declared.ruling.state.value,
        "reason": None if declared.ruling.reason is None else declared.ruling.reason.value,
        "renamed_from": declared.ruling.renamed_from,
        "problems": problems_to_json(declared.ruling.problems),
        "declared_by": declared.declared_by,
        "node_id": declared.node_id,
        "declared_at": declared.declared_at,
    }
    insert_rows(
        conn,
        declared_job,
        [row],
        columns=tuple(row),
        replace_duplicates_of=("executor_id", "name"),
    )


def forget_declared(
    conn: sa.Connection, executor_id: int, names: Collection[str] | None = None
) -> None:
    """Remove some declarations, or all of the executor."""
    statement = sa.delete(declared_job).where(declared_job.c.executor_id == executor_id)
    if names is not None:
        statement = statement.where(declared_job.c.name.in_(sorted(names)))
    conn.execute(statement)


def managed_jobs(conn: sa.Connection, job_ids: Collection[int]) -> dict[int, str]:
    """Those of the jobs that code manages, with the names by which it declares them."""
    rows = conn.execute(
        sa.select(declared_job.c.job_id, declared_job.c.name).where(
            declared_job.c.job_id.in_(sorted(job_ids))
        )
    )
    return {row.job_id: row.name for row in rows}


def give_up_declared(conn: sa.Connection, job_ids: Collection[int]) -> int:
    """Their jobs were deleted: what code declares makes no new ones. Returns how many there are."""
    given_up = conn.execute(
        sa.update(declared_job)
        .where(declared_job.c.job_id.in_(sorted(job_ids)))
        .values(
            job_id=None,
            state=DeclaredState.IGNORED.value,
            reason=DeclaredReason.DELETED.value,
            renamed_from=None,
        )
    )
    return given_up.rowcount


def names_in_state(
    conn: sa.Connection, state: DeclaredState, executor_ids: Iterable[int] | None
) -> dict[int, dict[str, int]]:
    """Names in this state and since when, by executor; None: of all executors."""
    statement = sa.select(
        declared_job.c.executor_id, declared_job.c.name, declared_job.c.declared_at
    ).where(declared_job.c.state == state.value)
    if executor_ids is not None:
        statement = statement.where(declared_job.c.executor_id.in_(sorted(executor_ids)))
    found: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for row in conn.execute(statement):
        found[row.executor_id][row.name] = row.declared_at
    return found


# --- what nodes declare --------------------------------------------------------------------------


def names_declared_now(
    conn: sa.Connection, executor_ids: Collection[int], *, without_node: int | None = None
) -> dict[int, frozenset[str] | None]:
    """Names that live nodes declare, by executor; one without live nodes is left out.

    None: unknown, because the manifest of one of its nodes was not read yet.

    Args:
        without_node: whose word does not count.
    """
    rows = conn.execute(
        sa.select(node.c.executor_id, node.c.declared)
        .where(
            node.c.executor_id.in_(sorted(executor_ids)),
            node.c.state == NodeState.LIVE.value,
            node.c.id != (without_node or 0),
        )
        .distinct()
    )
    found: dict[int, frozenset[str] | None] = {}
    for row in rows:
        so_far = found.get(row.executor_id, frozenset())
        if row.declared is None or so_far is None:
            found[row.executor_id] = None
        else:
            found[row.executor_id] = so_far.union(_names.decode(row.declared))
    return found


def said_by_newer_nodes(
    conn: sa.Connection, executor_id: int, *, node_id: int, connected_at: int
) -> tuple[frozenset[str], frozenset[str]]:
    """(jobs, handlers) on which live nodes that came after this one have had the last word."""
    rows = conn.execute(
        sa.select(node.c.declared, node.c.handlers).where(
            node.c.executor_id == executor_id,
            node.c.state == NodeState.LIVE.value,
            sa.or_(
                node.c.connected_at > connected_at,
                sa.and_(node.c.connected_at == connected_at, node.c.id > node_id),
            ),
            node.c.declared.is_not(None),
        )
    )
    jobs: set[str] = set()
    handlers: set[str] = set()
    for row in rows:
        jobs.update(_names.decode(row.declared))
        handlers.update(_names.decode(row.handlers))
    return frozenset(jobs), frozenset(handlers)


def note_looked_at(conn: sa.Connection, node_id: int, names: Collection[str]) -> None:
    """Note that what the node says of its code was looked at."""
    conn.execute(
        sa.update(node)
        .where(node.c.id == node_id)
        .values(declared=msgspec.json.encode(sorted(names)).decode())
    )


def _from_row(row: Any) -> DeclaredJob:
    return DeclaredJob(
        executor_id=row.executor_id,
        name=row.name,
        raw=row.raw,
        job_id=row.job_id,
        ruling=Ruling(
            state=DeclaredState(row.state),
            reason=None if row.reason is None else DeclaredReason(row.reason),
            renamed_from=row.renamed_from,
            problems=problems_from_json(row.problems),
        ),
        declared_by=row.declared_by,
        node_id=row.node_id,
        declared_at=row.declared_at,
    )
