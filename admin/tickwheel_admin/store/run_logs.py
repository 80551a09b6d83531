"""Log lines of runs, stored in the chunks in which their nodes sent them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from tickwheel_admin.store.batch import insert_rows
from tickwheel_admin.store.tables import run_log
from tickwheel_shared.protocol import LogChunk, LogLine

_lines = msgspec.json.Decoder(list[LogLine])


def append_log_chunks(conn: sa.Connection, chunks: Sequence[LogChunk]) -> None:
    """Store chunks; one that is already there was resent and is left as it is."""
    insert_rows(
        conn,
        run_log,
        [
            {
                "run_id": chunk.run,
                "attempt": chunk.attempt,
                "first_seq": chunk.first_seq,
                "line_count": len(chunk.lines),
                "lines": msgspec.json.encode(chunk.lines).decode(),
            }
            for chunk in chunks
        ],
        columns=("run_id", "attempt", "first_seq", "line_count", "lines"),
        ignore_duplicates_of=("run_id", "attempt", "first_seq"),
    )


def log_chunks_after(
    conn: sa.Connection, *, run_id: int, attempt: int, after: int, limit: int
) -> list[tuple[int, list[LogLine]]]:
    """(first_seq, lines) of chunks that reach beyond line `after`, in order, at most `limit`."""
    rows = conn.execute(
        sa.select(run_log.c.first_seq, run_log.c.lines)
        .where(
            run_log.c.run_id == run_id,
            run_log.c.attempt == attempt,
            run_log.c.first_seq + run_log.c.line_count > after + 1,
            # Bounds the index range: no chunk is longer than the protocol allows.
            run_log.c.first_seq > after - 500,
        )
        .order_by(run_log.c.first_seq)
        .limit(limit)
    )
    return [(row.first_seq, _lines.decode(row.lines)) for row in rows]
