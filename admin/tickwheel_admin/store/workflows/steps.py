"""Steps of workflow runs, and the items of a `for_each`, as rows.

A step has a row from when something is known of it: when it begins, ends, or is taken over, or when
a person has said something about it. Whoever writes here holds the lock of the workflow's run,
which it also writes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import Run
from tickwheel_admin.domain.workflows.graph import Workflow
from tickwheel_admin.domain.workflows.states import StepStatus
from tickwheel_admin.store.database.batch import insert_values, update_values
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.structs import Packed, StructReader
from tickwheel_admin.store.database.tables import spawned_items, workflow_item, workflow_step

COLUMNS = StepStatus.__struct_fields__
_KEY = ("workflow_run_id", "step_index")
_KEPT = tuple(name for name in COLUMNS if name not in _KEY)
_inserted = attrgetter(*COLUMNS)
_kept = attrgetter(*_KEPT)

_steps = StructReader(StepStatus, workflow_step)
_STEPS = (
    sa.select(*_steps.columns)
    .where(among(workflow_step.c.workflow_run_id, "ids"))
    .order_by(workflow_step.c.workflow_run_id, workflow_step.c.step_index)
)


class ItemRun(NamedTuple):
    """The run of one item."""

    workflow_run_id: int
    step_index: int
    item_index: int
    run_id: int


class SpawnedItems(NamedTuple):
    """The items that the run of a step has spawned, or the list of a `for_each`."""

    workflow_run_id: int
    run_id: int  # of a list: -1 minus the index of its step
    item_count: int
    item_list: str  # JSON


def read_steps(conn: sa.Connection, run_ids: Iterable[int]) -> dict[int, list[StepStatus]]:
    """The rows of steps of workflow runs, by run, in the order of their graphs.

    Raises:
        msgspec.ValidationError: a row is unreadable, by SQL from outside.
    """
    return {run_id: steps_from(rows) for run_id, rows in read_step_rows(conn, run_ids).items()}


def read_step_rows(conn: sa.Connection, run_ids: Iterable[int]) -> dict[int, list[Packed]]:
    """The same, of which `steps_from` makes steps."""
    found: defaultdict[int, list[Packed]] = defaultdict(list)
    for run_id, row in _steps.read_packed(conn, _STEPS, {"ids": sorted(run_ids)}):
        found[run_id].append(row)
    return found


def steps_from(rows: Iterable[Packed]) -> list[StepStatus]:
    """The steps of one run; raises as `read_steps`."""
    return list(map(_steps.unpack, rows))


def readable_steps(rows: Iterable[Packed]) -> list[StepStatus]:
    """Those of the rows that can be read."""
    found = []
    for row in rows:
        with suppress(msgspec.ValidationError):
            found += steps_from([row])
    return found


def with_all_steps(run: Run, graph: Workflow, stored: Iterable[StepStatus]) -> list[StepStatus]:
    """The steps of a run in the order of its graph; those that have no row wait since it began."""
    since = run.created_at if run.started_at is None else run.started_at
    there = {each.step_index: each for each in stored}
    return [
        there.get(index) or StepStatus(workflow_run_id=run.id, step_index=index, since=since)
        for index in range(len(graph.steps))
    ]


def insert_steps(conn: sa.Connection, steps: Sequence[StepStatus]) -> None:
    """Write steps that have no row yet; those that have one already are left alone."""
    insert_values(
        conn,
        workflow_step,
        list(map(_inserted, steps)),
        columns=COLUMNS,
        ignore_duplicates_of=_KEY,
    )


def update_steps(conn: sa.Connection, changes: Sequence[tuple[StepStatus, StepStatus]]) -> None:
    """Write what has become of steps: as they were, and as they are to be."""
    if not changes:
        return
    # What differs for none of them is not written: MariaDB takes four times as long for all of it.
    old, new = (zip(*map(_kept, steps), strict=True) for steps in zip(*changes, strict=True))
    changed = [name for name, a, b in zip(_KEPT, old, new, strict=True) if a != b]
    if not changed:
        return
    values = attrgetter(*_KEY, *changed)
    rows = [values(after) for _, after in changes]
    update_values(conn, workflow_step, rows, match=_KEY, values=changed)


def insert_items(conn: sa.Connection, items: Sequence[ItemRun]) -> None:
    """Note the runs of items."""
    insert_values(conn, workflow_item, items, columns=ItemRun._fields)


def items_from(conn: sa.Connection, run_id: int, step_index: int, *, first: int) -> set[int]:
    """Which items from this one on have a run already."""
    item = workflow_item.c
    of_step = sa.and_(item.workflow_run_id == run_id, item.step_index == step_index)
    wanted = sa.select(item.item_index).where(of_step, item.item_index >= first)
    return set(conn.execute(wanted).scalars())


def insert_spawned(conn: sa.Connection, spawned: Sequence[SpawnedItems]) -> None:
    """Note what runs of steps have spawned."""
    insert_values(conn, spawned_items, spawned, columns=SpawnedItems._fields)


def spawned_counts(conn: sa.Connection, runs: Mapping[int, int]) -> dict[int, int]:
    """How many items these runs have spawned.

    Args:
        runs: by their id, the run of their workflow.
    """
    if not runs:
        return {}
    spawned = spawned_items.c
    rows = conn.execute(
        sa.select(spawned.run_id, spawned.item_count).where(
            spawned.workflow_run_id.in_(set(runs.values())), spawned.run_id.in_(runs)
        )
    )
    return {row.run_id: row.item_count for row in rows}


def read_spawned(conn: sa.Connection, workflow_run_id: int, run_id: int) -> str:
    """JSON list of the items that a run has spawned; an empty one if there is nothing."""
    spawned = spawned_items.c
    found = conn.execute(
        sa.select(spawned.item_list).where(
            spawned.workflow_run_id == workflow_run_id, spawned.run_id == run_id
        )
    ).scalar()
    return "[]" if found is None else str(found)


def kept_list(workflow_run_id: int, step_index: int, items: Sequence[Any]) -> SpawnedItems:
    """The list of a step with `for_each`, to be written beside what runs have spawned."""
    return SpawnedItems(workflow_run_id, -1 - step_index, len(items), json.dumps(items))


def read_kept_list(conn: sa.Connection, workflow_run_id: int, step_index: int) -> str | None:
    """JSON list of the items of a step with `for_each`; None: it was not kept."""
    spawned = spawned_items.c
    found = conn.execute(
        sa.select(spawned.item_list).where(
            spawned.workflow_run_id == workflow_run_id, spawned.run_id == -1 - step_index
        )
    ).scalar()
    return None if found is None else str(found)


def delete_steps(conn: sa.Connection, run_ids: Collection[int]) -> None:
    """The workflow runs are deleted."""
    for table in (spawned_items, workflow_item, workflow_step):
        conn.execute(sa.delete(table).where(table.c.workflow_run_id.in_(run_ids)))
