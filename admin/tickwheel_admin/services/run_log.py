"""A run's log as its readers follow it: every line once, in order."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.run import FINAL, LIVE, Attempt, Run, RunState
from tickwheel_admin.services.scope import not_found
from tickwheel_admin.store.clock import now_ms
from tickwheel_admin.store.run_lists import get_attempt, last_attempt
from tickwheel_admin.store.run_logs import log_chunks_after
from tickwheel_shared.protocol import Level

MAX_LINES = 5_000
MAX_CHARS = 2_000_000  # of all lines of a page: one line has up to 16,000
MAX_SEQ = 2**31 - 1
# Lines of an ended attempt may still be on their way: after so long, a gap is shown as it is.
SETTLED_MS = 60_000
FIRST_CHUNKS = 4  # a chunk may hold megabytes, or one short line
MAX_CHUNKS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One line."""

    seq: int  # from 1 within its attempt
    at: int  # by the node's clock
    level: Level
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """Some lines, and how to go on."""

    lines: list[LogEntry]
    attempt: int  # 0: there was none yet
    next: int  # the last line returned, or `after`; what to send as `after` next
    more: bool  # there are more lines now
    ended: bool  # no more will come


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """How many lines an ended attempt has, and whether to wait for those that are missing."""

    lines: int | None  # None: its node did not say
    settled: bool


def check_log_query(*, after: int, limit: int) -> None:
    """Raise InvalidInput for numbers that are out of range."""
    ranges = {"after": (after, 0, MAX_SEQ), "limit": (limit, 1, MAX_LINES)}
    problems = [
        Problem(
            field=field,
            code="out_of_range",
            template="This must lie between %(low)s and %(high)s.",
            params={"low": low, "high": high},
        )
        for field, (value, low, high) in ranges.items()
        if not low <= value <= high
    ]
    if problems:
        raise InvalidInput(problems)


def read_log(
    conn: sa.Connection, run: Run, *, attempt: int | None, after: int, limit: int
) -> LogPage:
    """Lines behind `after`, as many as fit into a page.

    Chunks of one attempt come over several sockets and may overtake each other, so reading stops
    before a gap until it is clear that it will not be filled.
    """
    if attempt is None:
        attempt = _newest_with_lines(conn, run)
    if not 0 <= attempt <= run.attempt:
        raise not_found()
    end = _end(conn, run, attempt)
    lines: list[LogEntry] = []
    chars = 0
    position = after
    chunks = FIRST_CHUNKS
    more = False
    while not more:
        found = log_chunks_after(conn, run_id=run.id, attempt=attempt, after=position, limit=chunks)
        for first_seq, chunk in found:
            if first_seq > position + 1 and not (end is not None and end.settled):
                return LogPage(lines=lines, attempt=attempt, next=position, more=False, ended=False)
            for seq, line in enumerate(chunk, first_seq):
                if seq <= position:
                    continue
                if len(lines) == limit or chars > MAX_CHARS:
                    more = True
                    break
                lines.append(LogEntry(seq=seq, at=line.at, level=line.level, text=line.text))
                chars += len(line.text)
                position = seq
            if more:
                break
        if len(found) < chunks:
            break
        chunks = min(chunks * 2, MAX_CHUNKS)
    ended = (
        end is not None
        and not more
        and (end.settled or (end.lines is not None and position >= end.lines))
    )
    return LogPage(lines=lines, attempt=attempt, next=position, more=more, ended=ended)


def _newest_with_lines(conn: sa.Connection, run: Run) -> int:
    """While a run waits, its attempt number may be that of a refused one, which never ran."""
    if run.state is RunState.QUEUED and run.attempt:
        archived = last_attempt(conn, run.id)
        return run.attempt if archived is None else archived.attempt
    return run.attempt


def _end(conn: sa.Connection, run: Run, attempt: int) -> _End | None:
    """How the attempt ended; None: it may still write lines."""
    if attempt == run.attempt:
        if run.state in LIVE or (run.state is RunState.QUEUED and attempt == 0):
            return None
        if run.state in FINAL:
            return _told(conn, run)
    archived = get_attempt(conn, run.id, attempt)
    # Without a row it was refused and never ran.
    return _End(lines=0, settled=True) if archived is None else _told(conn, archived)


def _told(conn: sa.Connection, ended: Run | Attempt) -> _End:
    # Nobody counted the lines of an attempt that the admin had to end by itself.
    counted = ended.state is not RunState.LOST and ended.reason != "timeout_not_enforced"
    return _End(
        lines=ended.log_lines if counted else None,
        settled=ended.ended_at is None or now_ms(conn) - ended.ended_at > SETTLED_MS,
    )
