"""Runs as the bridge needs them: who may report them, and which call started them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.xxl_job.bridge import WATCHED_PER_NODE, RunFacts
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.tables import run
from tickwheel_admin.store.runs.attempts import attempt_tokens
from tickwheel_admin.store.runs.deadlines import live_runs_of_nodes

_FACTS = sa.select(
    run.c.id,
    run.c.executor_id,
    run.c.job_id,
    run.c.node_id,
    run.c.attempt,
    run.c.claim_token,
    run.c.state,
    run.c.dispatched_at,
    run.c.started_at,
    run.c.cancel_requested_at,
    run.c.cancel_reason,
).where(among(run.c.id, "ids"))


def run_facts(conn: sa.Connection, run_ids: Iterable[int]) -> dict[int, RunFacts]:
    """What the ledger says of these runs; unknown ones are left out."""
    now = now_ms(conn)
    return {
        row.id: RunFacts(
            run=row.id,
            executor_id=row.executor_id,
            job_id=row.job_id,
            node_id=row.node_id,
            attempt=row.attempt,
            token=row.claim_token or "",
            state=RunState(row.state),
            dispatched_at=row.dispatched_at,
            started_at=row.started_at,
            cancel_requested=row.cancel_requested_at is not None,
            cancel_reason=row.cancel_reason,
            now=now,
        )
        for row in conn.execute(_FACTS, {"ids": sorted(set(run_ids))})
    }


def live_runs_of_node(conn: sa.Connection, node_id: int) -> list[RunFacts]:
    """Dispatched and running runs of a node."""
    ids = live_runs_of_nodes(conn, [node_id], limit=WATCHED_PER_NODE)
    return list(run_facts(conn, ids).values()) if ids else []


def live_runs_except(
    conn: sa.Connection, node_ids: Collection[int], known: Collection[int]
) -> list[RunFacts]:
    """Dispatched and running runs of nodes, besides the known ones."""
    ids = live_runs_of_nodes(conn, node_ids, limit=WATCHED_PER_NODE)
    unknown = set(ids).difference(known)
    return list(run_facts(conn, unknown).values()) if unknown else []


def tokens_of_attempts(
    conn: sa.Connection, attempts: Collection[tuple[int, int]]
) -> dict[tuple[int, int], str | None]:
    """Claim tokens of attempts that others followed, by (run, attempt)."""
    return attempt_tokens(conn, attempts)
