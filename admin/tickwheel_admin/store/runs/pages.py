"""Pages of runs, newest scheduled first: which runs fit a filter, found in an index.

A list that must filter what no index sorts for it looks at a bounded number of entries and then
says where to go on. Lists show whole fires and leave out their shards, which the page of their fire
shows; only what a node ran and what failed alike is listed shard by shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import FAILURES, LIVE, Origin, RunState
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.run_conditions import listed_as
from tickwheel_admin.store.database.scans import beyond, merge_scans
from tickwheel_admin.store.database.tables import run
from tickwheel_admin.store.runs.lists import RunItem, read_items
from tickwheel_admin.store.runs.retries import IS_MADE_GOOD, IS_RETRIED

CHUNK = 1_000  # index entries read at once while filtering
MAX_SCANNED = 10_000  # index entries that one request looks at, 30 to 60 ms
MAX_READ = 4_000  # the same where each entry's row has to be read
MAX_SCANNED_TO_COUNT = 50_000
MAX_JOB_RANGES = 10  # jobs whose runs are read from their own index, one job after the other
MAX_ERROR_RANGES = 40  # errors whose runs are read so; each is one look-up


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class RunPosition:
    """A place in the order of lists: newest scheduled first."""

    scheduled_at: Annotated[int, msgspec.Meta(ge=0, le=2**53)]  # bounds for what callers send
    id: Annotated[int, msgspec.Meta(ge=0, le=2**53)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs a list shows."""

    states: frozenset[RunState] | None = None  # None: any
    retried: bool | None = None  # whether a retry by hand does it again; None: either
    made_good: bool | None = None  # whether such a retry has succeeded
    job_id: int | None = None
    jobs: frozenset[int] | None = None  # of one of these; None: of any
    errors: frozenset[int] | None = None  # failed with one of these; None: or not at all
    error_id: int | None = None  # failed with this one
    executors: frozenset[int] | None = None  # None: all
    trigger_id: int | None = None
    node_id: int | None = None  # of the last attempt
    origin: Origin | None = None
    without_steps: bool = False  # of workflows, whose own runs are listed
    requested_by: str | None = None
    parent_run_id: int | None = None  # the run whose end asked for them
    from_at: int | None = None  # scheduled at or after
    to_at: int | None = None  # scheduled before


def page_runs(
    conn: sa.Connection,
    wanted: RunFilter,
    *,
    before: RunPosition | None,
    limit: int,
    newer: bool = False,
) -> tuple[list[RunItem], RunPosition | None]:
    """Newest scheduled first, and where the next page begins.

    A page can be shorter than `limit`, even empty, and still have a next one: then as many entries
    as one request may look at did not fit the filter.

    Args:
        before: the place that the page is older than; None: the newest there are.
        newer: the page that ends before this place instead, and where the one before it ends.
    """
    ranges = _ranges(wanted)
    scans = [
        _Scan(conn, each, state, before, limit + 1, share=len(ranges), newer=newer)
        for each, state in ranges
    ]
    read = [(scan.found, scan.stopped_at) for scan in scans]
    places, more_at = merge_scans(read, limit=limit, newer=newer)
    return read_items(conn, [place.id for place in places]), more_at


def count_runs(conn: sa.Connection, wanted: RunFilter, *, limit: int) -> tuple[int, bool]:
    """How many runs fit, up to `limit`, and whether there may be more.

    There may also be more when as many entries as one count may look at did not fit.
    """
    count, more = 0, False
    ranges = _ranges(wanted)
    for each, state in ranges:
        most = MAX_SCANNED_TO_COUNT
        if wanted.jobs or wanted.errors:
            most = max(most // len(ranges), CHUNK)
        scan = _Scan(conn, each, state, None, limit + 1 - count, most=most)
        count += len(scan.found)
        if count > limit:
            return limit, True
        more = more or scan.stopped_at is not None
    return count, more


def _ranges(wanted: RunFilter) -> Sequence[tuple[RunFilter, RunState | None]]:
    """The index ranges to read: one per error, job or state, or one for everything."""
    if wanted.errors is not None:
        if len(wanted.errors) <= MAX_ERROR_RANGES:
            return [(replace(wanted, error_id=e, errors=None), None) for e in sorted(wanted.errors)]
        states = FAILURES if wanted.states is None else wanted.states & FAILURES
        wanted = replace(wanted, states=states)
    if wanted.jobs is not None and len(wanted.jobs) <= MAX_JOB_RANGES and not _by_trigger(wanted):
        return [(replace(wanted, job_id=job_id, jobs=None), None) for job_id in sorted(wanted.jobs)]
    if wanted.states is None or wanted.job_id is not None or _by_trigger(wanted):
        return [(wanted, None)]  # a job's states are filtered: it has no index of its own by state
    return [(wanted, state) for state in sorted(wanted.states)]


def _by_trigger(wanted: RunFilter) -> bool:
    """Whether the index of fires is read, in which shards do not stand one by one."""
    return wanted.trigger_id is not None and not _with_shards(wanted)


def _with_shards(wanted: RunFilter) -> bool:
    """Whether shards are listed one by one: by what is known of them and not of their fire."""
    return wanted.node_id is not None or wanted.errors is not None or wanted.error_id is not None


class _Scan:
    """One index range, read newest first, or oldest first, until enough was found."""

    found: list[RunPosition]
    stopped_at: RunPosition | None  # entries behind it were not looked at; None: there are none

    def __init__(
        self,
        conn: sa.Connection,
        wanted: RunFilter,
        state: RunState | None,
        before: RunPosition | None,
        enough: int,
        *,
        most: int | None = None,
        share: int = 1,
        newer: bool = False,
    ) -> None:
        self.found = []
        self.stopped_at = None
        filters = _filters(wanted, state)
        # The index knows everything but whether an entry is a shard: that is asked of what fits.
        is_covered = [*filters] == ["executor_id"] and not (wanted.job_id or wanted.trigger_id)
        is_narrow = bool(filters)
        if wanted.without_steps and not is_covered:
            filters.setdefault("origin", _NO_STEPS)
        fits = _filter(filters, shards=is_covered or _with_shards(wanted))
        if most is None:
            most = MAX_SCANNED if is_covered else min(MAX_SCANNED, MAX_READ)
            if wanted.job_id is not None or wanted.error_id is not None:
                most = max(most // share, 1)
        size = min(CHUNK, most) if is_narrow else enough
        scanned = 0
        while scanned < most:
            rows = conn.execute(
                _keys(wanted, state, filters, before, newer=newer, is_covered=is_covered).limit(
                    size
                )
            ).all()
            whole = None
            if is_covered:
                chosen = filter(fits, rows)
                whole = _whole_fires(conn, chosen, without_steps=wanted.without_steps)
            for row in rows:
                before = RunPosition(scheduled_at=row.scheduled_at, id=row.id)
                if fits(row) if whole is None else row.id in whole:
                    self.found.append(before)
                    if len(self.found) == enough:
                        self.stopped_at = before
                        return
            if len(rows) < size:
                return
            scanned += size
            size = CHUNK  # many shards lie in between
        self.stopped_at = before


_Filters = dict[str, frozenset[Any]]
_NO_STEPS = frozenset(origin.value for origin in Origin) - {Origin.STEP.value}
# What no column of the run says: one look-up by key for each entry.
_LOOKED_UP = {"is_retried": IS_RETRIED, "is_made_good": IS_MADE_GOOD}


def _filters(wanted: RunFilter, state: RunState | None) -> _Filters:
    """Columns that the index range does not see to, with the values that fit."""
    filters: _Filters = {}
    if wanted.executors is not None:
        filters["executor_id"] = wanted.executors
    if state is None and wanted.states is not None:
        filters["state"] = wanted.states
    if wanted.trigger_id is not None and not _by_trigger(wanted):
        filters["trigger_id"] = frozenset({wanted.trigger_id})
    if wanted.errors is not None:
        filters["error_id"] = wanted.errors
    if wanted.job_id is not None and (_by_trigger(wanted) or wanted.error_id is not None):
        filters["job_id"] = frozenset({wanted.job_id})
    elif wanted.jobs is not None:
        filters["job_id"] = wanted.jobs
    if wanted.node_id is not None:
        filters["node_id"] = frozenset({wanted.node_id})
    if wanted.origin is not None:
        filters["origin"] = frozenset({wanted.origin.value})
    if wanted.requested_by is not None:
        filters["requested_by"] = frozenset({wanted.requested_by})
    if wanted.parent_run_id is not None:
        filters["parent_run_id"] = frozenset({wanted.parent_run_id})
    if wanted.retried is not None:
        filters["is_retried"] = frozenset({wanted.retried})
    if wanted.made_good is not None:
        filters["is_made_good"] = frozenset({wanted.made_good})
    return filters


def _filter(filters: _Filters, *, shards: bool) -> Callable[[Any], bool]:
    each = [(f"filter_{name}", values) for name, values in filters.items()]
    return lambda row: (
        (shards or row.fire_id is None)
        and all(getattr(row, name) in values for name, values in each)
    )


def _whole_fires(
    conn: sa.Connection, rows: Iterable[Any], *, without_steps: bool
) -> frozenset[int]:
    """The ids of those that are no shards, and no steps of workflows."""
    ids = [row.id for row in rows]
    if not ids:
        return frozenset()
    chosen = sa.select(run.c.id).where(run.c.id.in_(ids), run.c.fire_id.is_(None))
    if without_steps:
        chosen = chosen.where(run.c.origin != Origin.STEP.value)
    return frozenset(conn.execute(chosen).scalars())


def _keys(
    wanted: RunFilter,
    state: RunState | None,
    filters: _Filters,
    before: RunPosition | None,
    *,
    newer: bool,
    is_covered: bool,
) -> sa.Select[Any]:
    """Entries of one index range, newest first, or oldest first of what is newer."""
    columns: list[sa.ColumnElement[Any]] = [run.c.scheduled_at, run.c.id]
    if not is_covered:
        columns.append(run.c.fire_id)
    columns += [
        (run.c[name] if name in run.c else _LOOKED_UP[name]).label(f"filter_{name}")
        for name in filters
    ]
    conditions: list[sa.ColumnElement[bool]] = []
    order: tuple[sa.Column[Any], ...] = (run.c.scheduled_at, run.c.id)
    if _by_trigger(wanted):
        index = "uq_run_fires_once"
        # One run at each instant: whole fires are shard -1, and what has no shards is shard 0.
        conditions += [
            run.c.trigger_id == wanted.trigger_id,
            run.c.shard_index <= 0,
            run.c.fire_id.is_(None),
        ]
        order = (run.c.scheduled_at,)
    elif wanted.error_id is not None:
        index = "ix_run_of_error"
        conditions.append(run.c.error_id == wanted.error_id)
    elif wanted.job_id is not None:
        index = "ix_run_of_job"
        conditions.append(run.c.job_id == wanted.job_id)
    elif state is not None:
        index = "ix_run_to_sweep" if state in LIVE else "ix_run_by_state"
        conditions.append(listed_as(state))
    else:
        index = "ix_run_recent"
    if wanted.from_at is not None:
        conditions.append(run.c.scheduled_at >= wanted.from_at)
    if wanted.to_at is not None:
        conditions.append(run.c.scheduled_at < wanted.to_at)
    if before is not None:
        conditions += beyond(before.scheduled_at, before.id, of=run.c.scheduled_at, newer=newer)
    sorted_by = [column.asc() if newer else column.desc() for column in order]
    return reading(sa.select(*columns).where(*conditions).order_by(*sorted_by), run, index)
