"""Log lines of runs, stored in the chunks in which their nodes sent them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.facts import facts_of
from tickwheel_admin.store.database.tables import run_log
from tickwheel_shared.protocol import MAX_LINES_PER_CHUNK, LogChunk, WireLine

# A chunk more may come on top: servers take 16 MiB and more.
_STATEMENT_BYTES = 2 * 1024 * 1024

_decoder = msgspec.json.Decoder(list[WireLine])
_CHUNK = sa.select(run_log.c.first_seq, run_log.c.line_count, run_log.c.lines)
_PLACES = sa.select(
    run_log.c.run_id, run_log.c.attempt, run_log.c.first_seq, run_log.c.line_count
).where(
    among(run_log.c.run_id, "runs"),
    run_log.c.first_seq > sa.bindparam("after"),
    run_log.c.first_seq <= sa.bindparam("last"),
)


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
    def lines(self) -> list[WireLine]:
        return _decoder.decode(self.text)


def append_log_chunks(conn: sa.Connection, chunks: Sequence[LogChunk]) -> None:
    """Store chunks; one that is already there was resent and is left as it is."""
    for rows, size in _statements(chunks):
        insert_rows(
            conn,
            run_log,
            rows,
            columns=("run_id", "attempt", "first_seq", "line_count", "lines"),
            ignore_duplicates_of=("run_id", "attempt", "first_seq"),
        )
        facts_of(conn).log_bytes += size


def append_fetched_chunks(conn: sa.Connection, chunks: Sequence[LogChunk]) -> None:
    """Store those lines of the chunks that are not there, whatever chunks hold the others.

    Their runs must be locked: two admins that fetch the same log come one after the other.
    """
    if not chunks:
        return
    stored: defaultdict[tuple[int, int], list[range]] = defaultdict(list)
    for row in conn.execute(
        _PLACES,
        {
            "runs": sorted({each.run for each in chunks}),
            "after": min(each.first_seq for each in chunks) - MAX_LINES_PER_CHUNK,
            "last": max(each.first_seq + len(each.lines) for each in chunks),
        },
    ):
        lines = range(row.first_seq, row.first_seq + row.line_count)
        stored[row.run_id, row.attempt].append(lines)
    parts: list[LogChunk] = []
    for chunk in chunks:
        taken = stored[chunk.run, chunk.attempt]
        for lines in _uncovered(range(chunk.first_seq, chunk.first_seq + len(chunk.lines)), taken):
            begin = lines.start - chunk.first_seq
            texts = chunk.lines[begin : begin + len(lines)]
            parts.append(replace(chunk, first_seq=lines.start, lines=texts))
            taken.append(lines)
    append_log_chunks(conn, parts)


def _uncovered(lines: range, covered: Iterable[range]) -> list[range]:
    """The parts of a range that are in none of the others, in order."""
    left = [lines]
    for each in covered:
        left = [
            part
            for whole in left
            for part in (
                range(whole.start, min(whole.stop, each.start)),
                range(max(whole.start, each.stop), whole.stop),
            )
            if part
        ]
    return left


def _statements(chunks: Sequence[LogChunk]) -> Iterator[tuple[list[dict[str, int | str]], int]]:
    """Rows of one statement after the other, and the bytes of their lines: of a flood that comes
    all at once only a little is held as text, and no statement is larger than servers take."""
    rows: list[dict[str, int | str]] = []
    size = 0
    for chunk in chunks:
        lines = msgspec.json.encode(chunk.lines)
        rows.append(
            {
                "run_id": chunk.run,
                "attempt": chunk.attempt,
                "first_seq": chunk.first_seq,
                "line_count": len(chunk.lines),
                "lines": lines.decode(),
            }
        )
        size += len(lines)
        if size >= _STATEMENT_BYTES:
            yield rows, size
            rows, size = [], 0
    if rows:
        yield rows, size


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
