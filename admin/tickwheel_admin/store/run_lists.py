"""Runs for people: lists, and one run with its attempts.

Lists find the ids they show in an index first and read only those rows. A list that must filter
what no index sorts for it looks at a bounded number of entries and then says where to go on. Lists
show whole fires and leave out their shards, which the page of their fire shows. Claim tokens prove
attempts and so are never read here; lists leave out `parameters` and `result`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.run import Attempt, Run, RunState
from tickwheel_admin.store.index_hints import reading
from tickwheel_admin.store.runs import RUN_COLUMNS, run_from_row
from tickwheel_admin.store.tables import executor, job, node, run, run_attempt

CHUNK = 1_000  # index entries read at once while filtering
MAX_SCANNED = 10_000  # entries one request looks at, 25 to 75 ms
MAX_SHARDS_SHOWN = 1_000
RETRIES_WITHIN = 2_000  # how many later runs of the job are searched for retries by hand


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Position:
    """A place in the order of lists: newest scheduled first."""

    scheduled_at: Annotated[int, msgspec.Meta(ge=0, le=2**53)]  # bounds for what callers send
    id: Annotated[int, msgspec.Meta(ge=0, le=2**53)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs a list shows."""

    states: frozenset[RunState] | None = None  # None: any
    job_id: int | None = None
    executors: frozenset[int] | None = None  # None: all
    from_at: int | None = None  # scheduled at or after
    to_at: int | None = None  # scheduled before


@dataclass(frozen=True, slots=True, kw_only=True)
class RunItem:
    """A run with the names it refers to."""

    run: Run
    job_name: str
    executor_name: str
    node_name: str | None  # of the last attempt, or where it must run
    progress: float | None  # 0..1, as its handler last said
    progress_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """An attempt with its node's name."""

    attempt: Attempt
    node_name: str | None
    late_outcome: str | None = None  # what its node said after another attempt had begun
    late_message: str | None = None
    late_at: int | None = None


# --- pages -----------------------------------------------------------------------------------


def page_runs(
    conn: sa.Connection, wanted: RunFilter, *, before: Position | None, limit: int
) -> tuple[list[RunItem], Position | None]:
    """Newest scheduled first, and where the next page begins.

    A page can be shorter than `limit`, even empty, and still have a next one: then as many entries
    as one request may look at did not fit the filter.
    """
    scans = [_Scan(conn, wanted, state, before, limit + 1) for state in _ranges(wanted)]
    # Each scan knows everything newer than where it stopped; beyond the newest stop, one is blind.
    stops = [scan.stopped_at for scan in scans if scan.stopped_at is not None]
    horizon = max(stops, default=None)
    found = sorted(
        (key for scan in scans for key in scan.found if horizon is None or key >= horizon),
        reverse=True,
    )
    if len(found) > limit:
        return read_items(conn, found[:limit]), found[limit - 1]
    return read_items(conn, found), horizon


def _ranges(wanted: RunFilter) -> Sequence[RunState | None]:
    """The index ranges to read: one per state, or one for everything."""
    if wanted.states is None or wanted.job_id is not None:
        return [None]  # a job's states are filtered: it has no index by state of its own
    return sorted(wanted.states)


class _Scan:
    """One index range, read newest first until enough was found."""

    found: list[Position]
    stopped_at: Position | None  # older entries were not looked at; None: there are none

    def __init__(
        self,
        conn: sa.Connection,
        wanted: RunFilter,
        state: RunState | None,
        before: Position | None,
        enough: int,
    ) -> None:
        self.found = []
        self.stopped_at = None
        fits = _filter(wanted, state)
        size = CHUNK if _is_narrow(wanted, state) else enough
        scanned = 0
        while scanned < MAX_SCANNED:
            rows = conn.execute(_keys(wanted, state, before).limit(size)).all()
            for row in rows:
                before = Position(scheduled_at=row.scheduled_at, id=row.id)
                if fits(row):
                    self.found.append(before)
                    if len(self.found) == enough:
                        self.stopped_at = before
                        return
            if len(rows) < size:
                return
            scanned += size
            size = CHUNK  # many shards lie in between
        self.stopped_at = before


def _is_narrow(wanted: RunFilter, state: RunState | None) -> bool:
    """Whether most entries of the index range may not fit."""
    return wanted.executors is not None or (state is None and wanted.states is not None)


def _filter(wanted: RunFilter, state: RunState | None) -> Callable[[Any], bool]:
    """What the index range itself does not see to."""
    executors = wanted.executors
    states = None if state is not None else wanted.states
    return lambda row: (
        row.fire_id is None
        and (executors is None or row.executor_id in executors)
        and (states is None or row.state in states)
    )


def _keys(wanted: RunFilter, state: RunState | None, before: Position | None) -> sa.Select[Any]:
    """Entries of one index range, newest first."""
    columns: list[sa.ColumnElement[Any]] = [run.c.scheduled_at, run.c.id, run.c.fire_id]
    if wanted.executors is not None:
        columns.append(run.c.executor_id)
    conditions: list[sa.ColumnElement[bool]] = []
    if wanted.job_id is not None:
        index = "ix_run_of_job"
        conditions.append(run.c.job_id == wanted.job_id)
        if wanted.states is not None:
            columns.append(run.c.state)
    elif state is not None:
        index = "ix_run_by_state"
        conditions.append(run.c.state == state.value)
    else:
        index = "ix_run_recent"
    if wanted.from_at is not None:
        conditions.append(run.c.scheduled_at >= wanted.from_at)
    if wanted.to_at is not None:
        conditions.append(run.c.scheduled_at < wanted.to_at)
    if before is not None:
        # The first half alone bounds the index range; MariaDB cannot use a row comparison for it.
        conditions.append(run.c.scheduled_at <= before.scheduled_at)
        conditions.append(sa.or_(run.c.scheduled_at < before.scheduled_at, run.c.id < before.id))
    return reading(
        sa.select(*columns).where(*conditions).order_by(run.c.scheduled_at.desc(), run.c.id.desc()),
        run,
        index,
    )


# --- runs ------------------------------------------------------------------------------------


def read_items(conn: sa.Connection, keys: Sequence[Position]) -> list[RunItem]:
    """The runs at these places, in this order."""
    if not keys:
        return []
    rows = conn.execute(
        _select_items(without=("claim_token", "parameters", "result")).where(
            run.c.id.in_([key.id for key in keys])
        )
    )
    items = {row.id: _item_from_row(row) for row in rows}
    return [items[key.id] for key in keys if key.id in items]


def get_run(conn: sa.Connection, run_id: int) -> RunItem | None:
    """One run, whole but for its claim token."""
    row = conn.execute(
        _select_items(without=("claim_token",)).where(run.c.id == run_id)
    ).one_or_none()
    return None if row is None else _item_from_row(row)


def shards_of_fire(conn: sa.Connection, fire_id: int) -> list[RunItem]:
    """The shards of a whole fire, by their index; at most `MAX_SHARDS_SHOWN`."""
    rows = conn.execute(
        _select_items(without=("claim_token", "parameters", "result"))
        .where(run.c.fire_id == fire_id)
        .order_by(run.c.shard_index)
        .limit(MAX_SHARDS_SHOWN)
    )
    return [_item_from_row(row) for row in rows]


def shard_runs(conn: sa.Connection, fire_id: int) -> list[Run]:
    """The shards of a whole fire as they stand, by their index, read without a lock."""
    rows = conn.execute(
        sa.select(*_run_columns(("claim_token",)))
        .where(run.c.fire_id == fire_id)
        .order_by(run.c.shard_index)
    )
    return [run_from_row(row) for row in rows]


def requested_runs(conn: sa.Connection, job_ids: Iterable[int], request_key: str) -> list[RunItem]:
    """Runs of these jobs with this request key, at most one of each job."""
    rows = conn.execute(
        _select_items(without=("claim_token", "parameters", "result"))
        .where(run.c.job_id.in_(sorted(set(job_ids))), run.c.request_key == request_key)
        .order_by(run.c.id)
    )
    return [_item_from_row(row) for row in rows]


def executor_of_run(conn: sa.Connection, run_id: int) -> int | None:
    """Whose run it is."""
    return conn.execute(sa.select(run.c.executor_id).where(run.c.id == run_id)).scalar_one_or_none()


def attempts_of_run(conn: sa.Connection, run_id: int, *, limit: int) -> list[AttemptView]:
    """Ended attempts that another try followed, oldest first."""
    rows = conn.execute(
        sa.select(run_attempt, node.c.name.label("node_name"))
        .outerjoin(node, node.c.id == run_attempt.c.node_id)
        .where(run_attempt.c.run_id == run_id)
        .order_by(run_attempt.c.attempt)
        .limit(limit)
    )
    return [
        AttemptView(
            attempt=_attempt_from_row(row),
            node_name=row.node_name,
            late_outcome=row.late_outcome,
            late_message=row.late_message,
            late_at=row.late_at,
        )
        for row in rows
    ]


def last_attempt(conn: sa.Connection, run_id: int) -> Attempt | None:
    """The newest of the ended attempts that another try followed."""
    row = conn.execute(
        sa.select(run_attempt)
        .where(run_attempt.c.run_id == run_id)
        .order_by(run_attempt.c.attempt.desc())
        .limit(1)
    ).one_or_none()
    return None if row is None else _attempt_from_row(row)


def get_attempt(conn: sa.Connection, run_id: int, attempt: int) -> Attempt | None:
    """One of the ended attempts that another try followed."""
    row = conn.execute(
        sa.select(run_attempt).where(
            run_attempt.c.run_id == run_id, run_attempt.c.attempt == attempt
        )
    ).one_or_none()
    return None if row is None else _attempt_from_row(row)


def retries_of_run(conn: sa.Connection, of: Run) -> list[int]:
    """Runs that retry this one by hand, among the job's next `RETRIES_WITHIN` runs after it.

    No index leads from a run to its retries: it would cost every run of the hot path something,
    for a link that is nearly always made soon after the run ended.
    """
    if of.ended_at is None:
        return []
    later = reading(
        sa.select(run.c.id, run.c.retry_of, run.c.fire_id)
        .where(run.c.job_id == of.job_id, run.c.scheduled_at >= of.ended_at)
        .order_by(run.c.scheduled_at, run.c.id)
        .limit(RETRIES_WITHIN),
        run,
        "ix_run_of_job",
    ).subquery()
    rows = conn.execute(
        sa.select(later.c.id).where(later.c.retry_of == of.id, later.c.fire_id.is_(None))
    )
    return sorted(rows.scalars())


# --- rows ------------------------------------------------------------------------------------


def _select_items(*, without: Sequence[str]) -> sa.Select[Any]:
    return (
        sa.select(
            *_run_columns(without),
            run.c.progress,
            run.c.progress_text,
            job.c.name.label("job_name"),
            executor.c.name.label("executor_name"),
            node.c.name.label("node_name"),
        )
        .join(job, job.c.id == run.c.job_id)
        .join(executor, executor.c.id == run.c.executor_id)
        .outerjoin(node, node.c.id == sa.func.coalesce(run.c.node_id, run.c.pinned_node_id))
    )


def _run_columns(without: Sequence[str]) -> Iterator[sa.ColumnElement[Any]]:
    for name in RUN_COLUMNS:
        yield sa.null().label(name) if name in without else run.c[name]


def _item_from_row(row: Any) -> RunItem:
    return RunItem(
        run=run_from_row(row),
        job_name=row.job_name,
        executor_name=row.executor_name,
        node_name=row.node_name,
        progress=row.progress,
        progress_text=row.progress_text or "",
    )


def _attempt_from_row(row: Any) -> Attempt:
    return Attempt(
        run_id=row.run_id,
        attempt=row.attempt,
        state=RunState(row.state),
        node_id=row.node_id,
        claim_token=None,
        dispatched_at=row.dispatched_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        reason=row.reason,
        message=row.message,
        log_lines=row.log_lines,
    )
