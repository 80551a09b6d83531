"""The last run of a job that succeeded before one that failed, and the nodes of both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import Origin, Run, RunState
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import node, run
from tickwheel_admin.store.runs.logs import log_chunks_after

LOOKED_AT = 1_000  # runs before the failed one, of which the newest that succeeded is taken
CHUNKS_AT_ONCE = 10  # of a log
MAX_LINES = 1_000

_labels = msgspec.json.Decoder(dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What a node says of itself."""

    sdk: str
    labels: dict[str, str]


def last_good_run(conn: sa.Connection, failed: Run) -> int | None:
    """The newest run of its job that was due before it and succeeded: of a shard the same shard."""
    of = run.c
    newest = (
        reading(
            sa.select(of.id, of.state, of.scheduled_at, of.shard_index, of.origin)
            .where(
                of.job_id == failed.job_id,
                of.scheduled_at <= failed.scheduled_at,
                of.id != failed.id,
            )
            .order_by(of.scheduled_at.desc(), of.id.desc())
            .limit(LOOKED_AT),
            run,
            "ix_run_of_job",
        )
    ).subquery()
    return conn.execute(
        sa.select(newest.c.id)
        .where(
            newest.c.state == RunState.SUCCEEDED.value,
            newest.c.shard_index == failed.shard_index,
            newest.c.origin != Origin.TRY.value,
        )
        .order_by(newest.c.scheduled_at.desc(), newest.c.id.desc())
        .limit(1)
    ).scalar()


def facts_of_nodes(conn: sa.Connection, node_ids: Iterable[int]) -> dict[int, NodeFacts]:
    """By node; those that are gone are left out."""
    wanted = sa.select(node.c.id, node.c.sdk, node.c.labels).where(node.c.id.in_(set(node_ids)))
    return {
        row.id: NodeFacts(sdk=row.sdk, labels=_labels.decode(row.labels))
        for row in conn.execute(wanted)
    }


def log_texts(conn: sa.Connection, run_id: int, attempt: int) -> Iterator[str]:
    """The lines of an attempt, read as far as somebody asks; at most `MAX_LINES`."""
    after = 0
    while after < MAX_LINES:
        chunks = log_chunks_after(
            conn, run_id=run_id, attempt=attempt, after=after, limit=CHUNKS_AT_ONCE
        )
        if not chunks:
            return
        for chunk in chunks:
            for number, line in enumerate(chunk.lines, chunk.first_seq):
                if after < number <= MAX_LINES:
                    after = number
                    yield line.text
        after = max(after, chunks[-1].last_seq)
