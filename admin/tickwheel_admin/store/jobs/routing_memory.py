"""What the nodes had of the jobs whose routing looks at that: uses so far, and live runs.

Rows are written by claims that hold the row of their job, so two admins never count side by side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

import sqlalchemy as sa

from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.domain.routing.uses import Use
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.index_hints import reading, unindexed
from tickwheel_admin.store.database.run_conditions import IS_LIVE
from tickwheel_admin.store.database.tables import job_node, node, run

_COLUMNS = ("job_id", "node_id", "uses", "last_turn")
_USES = sa.select(*(job_node.c[name] for name in _COLUMNS)).where(among(job_node.c.job_id, "jobs"))
# By `ix_run_to_sweep`: an entry for each live run there is, a row for those of the executor.
_LIVE_RUNS = reading(
    sa.select(run.c.job_id, run.c.node_id)
    .where(
        run.c.executor_id == sa.bindparam("executor"),
        IS_LIVE,
        # Not by the index of the job, which holds every run that it ever had.
        among(unindexed(run.c.job_id), "jobs"),
    )
    .distinct(),
    run,
    "ix_run_to_sweep",
)


def read_uses(conn: sa.Connection, job_ids: Iterable[int]) -> dict[int, dict[int, Use]]:
    """What each node had of these jobs, by job and node; every job is there."""
    jobs = sorted(job_ids)
    found: dict[int, dict[int, Use]] = {job_id: {} for job_id in jobs}
    for job_id, node_id, uses, last_turn in conn.execute(_USES, {"jobs": jobs}):
        found[job_id][node_id] = Use(runs=uses, last_turn=last_turn)
    return found


def save_uses(conn: sa.Connection, uses: Mapping[int, Mapping[int, Use]]) -> None:
    """Keep what nodes have had, by job and node."""
    insert_rows(
        conn,
        job_node,
        [
            {"job_id": job_id, "node_id": node_id, "uses": use.runs, "last_turn": use.last_turn}
            for job_id, nodes in sorted(uses.items())
            for node_id, use in sorted(nodes.items())
        ],
        columns=_COLUMNS,
        replace_duplicates_of=("job_id", "node_id"),
    )


def busy_nodes(
    conn: sa.Connection, job_ids: Iterable[int], *, executor_id: int
) -> dict[int, set[int]]:
    """The nodes that run each of these jobs; every job is there."""
    jobs = sorted(job_ids)
    found: defaultdict[int, set[int]] = defaultdict(set, {job_id: set() for job_id in jobs})
    for job_id, node_id in conn.execute(_LIVE_RUNS, {"executor": executor_id, "jobs": jobs}):
        found[job_id].add(node_id)
    return dict(found)


def forget_uses(conn: sa.Connection, job_ids: Collection[int]) -> None:
    """Remove what nodes had of jobs that are deleted."""
    conn.execute(sa.delete(job_node).where(job_node.c.job_id.in_(sorted(job_ids))))


def forget_ended_nodes(conn: sa.Connection, *, limit: int) -> int:
    """Remove the uses of nodes that ended; returns of how many nodes.

    One that comes back with the same key counts as a node that is new to the job.
    """
    of_node = sa.select(sa.func.min(job_node.c.node_id)).where(job_node.c.node_id == node.c.id)
    ended = (
        sa.select(node.c.id)
        .where(node.c.state != NodeState.LIVE.value, of_node.scalar_subquery().is_not(None))
        .limit(limit)
    )
    node_ids = list(conn.execute(ended).scalars())
    if node_ids:
        conn.execute(sa.delete(job_node).where(job_node.c.node_id.in_(node_ids)))
    return len(node_ids)
