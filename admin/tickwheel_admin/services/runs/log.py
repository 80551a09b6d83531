"""A run's log as its readers follow it: every line once, in order."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.runs.run import FINAL, LIVE, Attempt, Run, RunState
from tickwheel_admin.services.lists.heavy_reads import Breath
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.runs.log_lines import EVERY_LINE, LinesWanted, LogEntry
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.runs.lists import get_attempt, last_attempt
from tickwheel_admin.store.runs.logs import (
    last_log_line,
    log_chunks_after,
    log_chunks_before,
)
from tickwheel_admin.store.xxl_job.logs import is_log_expected

MAX_LINES = 5_000
MAX_CHARS = 2_000_000  # of all lines of a page: one line has up to 16,000
MAX_SCANNED = 8_000_000  # characters of chunks looked through for a page of wanted lines
MAX_SEQ = 2**31 - 1
# Lines of an ended attempt may still be on their way: after so long, a gap is shown as it is.
SETTLED_MS = 60_000
FIRST_CHUNKS = 4  # a chunk may hold megabytes, or one short line
MAX_CHUNKS = 16  # a chunk of many lines takes milliseconds to look through


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """Some lines, and how to go on."""

    lines: list[LogEntry]
    attempt: int  # 0: there was none yet
    next: int  # the last line looked at, or `after`; what to send as `after` next
    more: bool  # there are more lines now
    ended: bool  # no more will come
    last: int  # the newest stored line; with `more`, how far this page is behind


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierPage:
    """Some lines before a place, or the last of all."""

    lines: list[LogEntry]
    attempt: int
    first: int  # the lowest line looked at; what to send as `before` next; 1: nothing is before
    next: int  # the highest line looked at; what to send as `after` to go on behind it


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
    conn: sa.Connection,
    run: Run,
    *,
    attempt: int | None,
    after: int,
    limit: int,
    wanted: LinesWanted = EVERY_LINE,
    breath: Breath | None = None,
) -> LogPage:
    """Lines behind `after`, as many as fit into a page.

    Chunks of one attempt come over several sockets and may overtake each other, so reading stops
    before a gap until it is clear that it will not be filled.
    """
    attempt = _existing(conn, run, attempt)
    end = _end(conn, run, attempt)
    lines: list[LogEntry] = []
    chars = scanned = 0
    position = after
    chunks = FIRST_CHUNKS
    more = False
    while not more:
        found = log_chunks_after(conn, run_id=run.id, attempt=attempt, after=position, limit=chunks)
        for chunk in found:
            if chunk.first_seq > position + 1 and not (end is not None and end.settled):
                return LogPage(
                    lines=lines,
                    attempt=attempt,
                    next=position,
                    more=False,
                    ended=False,
                    last=position,
                )
            if more := scanned > MAX_SCANNED:
                break
            if breath is not None:
                breath.take()
            scanned += len(chunk.text)
            for entry in wanted.of_chunk(chunk):
                if entry.seq <= position:
                    continue
                if len(lines) == limit or chars > MAX_CHARS:
                    more = True
                    break
                lines.append(entry)
                chars += len(entry.text)
                position = entry.seq
            if more:
                break
            position = max(position, chunk.last_seq)
        if len(found) < chunks:
            break
        chunks = _next_chunks(chunks, scanned)
    ended = (
        end is not None
        and not more
        and (end.settled or (end.lines is not None and position >= end.lines))
    )
    return LogPage(
        lines=lines,
        attempt=attempt,
        next=position,
        more=more,
        ended=ended,
        last=last_log_line(conn, run_id=run.id, attempt=attempt) if more else position,
    )


def read_earlier(
    conn: sa.Connection,
    run: Run,
    *,
    attempt: int | None,
    before: int | None,
    limit: int,
    wanted: LinesWanted = EVERY_LINE,
    breath: Breath | None = None,
) -> EarlierPage:
    """The last wanted lines before `before`; None: the last of all.

    Behind the last lines a reader goes on with `read_log`, so what lies beyond a gap that may still
    be filled is left to it.
    """
    attempt = _existing(conn, run, attempt)
    fills = before is None and not ((end := _end(conn, run, attempt)) and end.settled)
    lowest = MAX_SEQ if before is None else before
    newest: int | None = None if before is None else before - 1
    lines: list[LogEntry] = []  # the newest first
    chars = scanned = 0
    chunks = FIRST_CHUNKS
    while lowest > 1:
        found = log_chunks_before(conn, run_id=run.id, attempt=attempt, before=lowest, limit=chunks)
        for chunk in found:
            if breath is not None:
                breath.take()
            if newest is None or (fills and chunk.last_seq < lowest - 1):
                lines, newest = [], chunk.last_seq
            for entry in reversed(wanted.of_chunk(chunk)):
                if entry.seq >= lowest:
                    continue
                if len(lines) == limit or chars > MAX_CHARS:
                    return _earlier(attempt, lines, lowest, newest)
                lines.append(entry)
                chars += len(entry.text)
                lowest = entry.seq
            lowest = min(lowest, chunk.first_seq)
            scanned += len(chunk.text)
            if scanned > MAX_SCANNED:
                return _earlier(attempt, lines, lowest, newest)
        if len(found) < chunks:
            if fills and lowest > 1:
                lines, newest = [], 0
            lowest = 1
        chunks = _next_chunks(chunks, scanned)
    return _earlier(attempt, lines, lowest, newest)


def _earlier(attempt: int, lines: list[LogEntry], lowest: int, newest: int | None) -> EarlierPage:
    return EarlierPage(lines=lines[::-1], attempt=attempt, first=lowest, next=newest or 0)


def _next_chunks(chunks: int, scanned: int) -> int:
    """How many to fetch next: more at a time, unless those before were large."""
    return min(chunks * 2, MAX_CHUNKS) if scanned < MAX_CHARS else chunks


def _existing(conn: sa.Connection, run: Run, attempt: int | None) -> int:
    """The attempt that was asked for; None: the newest that may have lines."""
    if attempt is None:
        attempt = _newest_with_lines(conn, run)
    if not 0 <= attempt <= run.attempt:
        raise not_found()
    return attempt


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
            return _told(conn, run, run_id=run.id)
    archived = get_attempt(conn, run.id, attempt)
    # Without a row it was refused and never ran.
    if archived is None:
        return _End(lines=0, settled=True)
    return _told(conn, archived, run_id=run.id)


def _told(conn: sa.Connection, ended: Run | Attempt, *, run_id: int) -> _End:
    if is_log_expected(conn, run_id, ended.attempt):
        return _End(lines=None, settled=False)  # it is still being read from the executor
    # Nobody counted the lines of an attempt that the admin had to end by itself.
    counted = ended.state is not RunState.LOST and ended.reason != "timeout_not_enforced"
    return _End(
        lines=ended.log_lines if counted else None,
        settled=ended.ended_at is None or now_ms(conn) - ended.ended_at > SETTLED_MS,
    )
