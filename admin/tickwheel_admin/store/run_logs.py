"""Log lines of runs, stored in the chunks in which their nodes sent them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import sqlalchemy as sa

from tickwheel_admin.store.batch import insert_rows
from tickwheel_admin.store.tables import run_log
from tickwheel_shared.protocol import MAX_LINES_PER_CHUNK, LogChunk, LogLine

_decoder = msgspec.json.Decoder(list[LogLine])
_CHUNK = sa.select(run_log.c.first_seq, run_log.c.line_count, run_log.c.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChunk:
    """Lines first_seq, first_seq + 1, …, as they are stored."""

    first_seq: int
    count: int
    text: str  # JSON, for `lines`

    @property
    def last_seq(self) -> int:
        return self.first_seq + self.count - 1

    @property
    def lines(self) -> list[LogLine]:
        return _decoder.decode(self.text)


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
) -> list[StoredChunk]:
    """Chunks that reach beyond line `after`, in order, at most `limit`."""
    return _chunks(
        conn,
        _CHUNK.where(
            run_log.c.run_id == run_id,
            run_log.c.attempt == attempt,
            run_log.c.first_seq + run_log.c.line_count > after + 1,
            # Bounds the index range: no chunk is longer than the protocol allows.
            run_log.c.first_seq > after - MAX_LINES_PER_CHUNK,
        )
        .order_by(run_log.c.first_seq)
        .limit(limit),
    )


def log_chunks_before(
    conn: sa.Connection, *, run_id: int, attempt: int, before: int, limit: int
) -> list[StoredChunk]:
    """Chunks that begin before line `before`, the newest first, at most `limit`."""
    return _chunks(
        conn,
        _CHUNK.where(
            run_log.c.run_id == run_id, run_log.c.attempt == attempt, run_log.c.first_seq < before
        )
        .order_by(run_log.c.first_seq.desc())
        .limit(limit),
    )


def last_log_line(conn: sa.Connection, *, run_id: int, attempt: int) -> int:
    """Number of the newest stored line of an attempt; 0: there is none."""
    row = conn.execute(
        sa.select(run_log.c.first_seq, run_log.c.line_count)
        .where(run_log.c.run_id == run_id, run_log.c.attempt == attempt)
        .order_by(run_log.c.first_seq.desc())
        .limit(1)
    ).first()
    return 0 if row is None else int(row.first_seq + row.line_count - 1)


def _chunks(conn: sa.Connection, query: sa.Select[tuple[int, int, str]]) -> list[StoredChunk]:
    return [
        StoredChunk(first_seq=row.first_seq, count=row.line_count, text=row.lines)
        for row in conn.execute(query)
    ]
