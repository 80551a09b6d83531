"""Runs as the bridge needs them: who may report them, and which call started them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import sqlalchemy as sa

from tickwheel_admin.domain.runs import moves
from tickwheel_admin.domain.runs.run import TIMEOUT, RunState
from tickwheel_admin.domain.xxl_job.bridge import WATCHED_PER_NODE, GivenParameters, RunFacts
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.tables import run
from tickwheel_admin.store.runs.attempts import attempt_tokens
from tickwheel_admin.store.runs.deadlines import live_runs_of_nodes
from tickwheel_admin.store.runs.rows import SELECTED_RUN, read_runs
from tickwheel_admin.store.runs.runs import lock_runs, move_runs

_RUNS = sa.select(*SELECTED_RUN).where(among(run.c.id, "ids"))


def run_facts(conn: sa.Connection, run_ids: Iterable[int]) -> dict[int, RunFacts]:
    """What the ledger says of these runs; unknown ones are left out."""
    now = now_ms(conn)
    return {
        each.id: RunFacts(
            run=each.id,
            executor_id=each.executor_id,
            job_id=each.job_id,
            node_id=each.node_id,
            attempt=each.attempt,
            token=each.claim_token or "",
            state=each.state,
            dispatched_at=each.dispatched_at,
            started_at=each.started_at,
            cancel_requested=each.cancel_requested_at is not None,
            cancel_reason=each.cancel_reason,
            now=now,
            given=GivenParameters(
                each.executor_id, each.job_id, each.job_revision, each.parameters
            ),
        )
        for each in read_runs(conn, _RUNS, {"ids": sorted(set(run_ids))})
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


def stop_for_timeout(conn: sa.Connection, run_id: int, attempt: int, token: str) -> None:
    """An attempt has run past its timeout, on a node that does not end it by itself."""
    found = lock_runs(conn, [run_id]).get(run_id)
    if (
        found is not None
        and found.state is RunState.RUNNING
        and (found.attempt, found.claim_token) == (attempt, token)
        and found.cancel_requested_at is None
    ):
        move_runs(conn, [moves.stop_wanted(found, reason=TIMEOUT, now=now_ms(conn))])
