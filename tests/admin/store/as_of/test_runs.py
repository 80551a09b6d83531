"""What was there at an instant is found whole: by the ledger's order, by notes, and by state."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import World
from tickwheel_admin.domain.as_of.spans import length_of
from tickwheel_admin.domain.runs.moves import cancelled_while_queued
from tickwheel_admin.store.as_of.runs import PastScope, failed_between, runs_there
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.runs.runs import lock_runs, move_runs
from tickwheel_admin.store.runs.spans import remove_old_spans

pytestmark = pytest.mark.every_database

NOW = 1_800_000_000_000
HOUR_MS = 3_600_000


def _drawn(random: Random, number: int) -> dict[str, Any]:
    """A run of any kind: of a minute, of days, of a backfill, asked for ahead, or not ended."""
    scheduled_at = NOW - random.randrange(40 * HOUR_MS)
    created_at = scheduled_at + random.choice((-2_000, 0, 5_000, -2 * HOUR_MS, 9 * HOUR_MS))
    length = random.choice((500, 60_000, 301_000, HOUR_MS, 9 * HOUR_MS, 30 * HOUR_MS))
    ended_at = max(created_at, scheduled_at) + length
    state = random.choice(("succeeded", "failed", "lost", "cancelled"))
    if ended_at > NOW:
        state, ended_at = random.choice(("queued", "running", "dispatched")), 0
    return {
        "id": number,
        "executor_id": number % 3 + 1,
        "job_id": number % 7 + 1,
        "scheduled_at": scheduled_at,
        "due_at": scheduled_at,
        "created_at": created_at,
        "state": state,
        "ended_at": ended_at or None,
    }


def _fill(world: World, rows: list[dict[str, Any]]) -> None:
    """With the notes that their ends would have written."""
    world.add_runs(rows)
    notes = [
        {
            "run_id": row["id"],
            "length": length_of(row["ended_at"] - row["created_at"]),
            "from_at": row["created_at"],
            "ended_at": row["ended_at"],
            "executor_id": row["executor_id"],
            "job_id": row["job_id"],
        }
        for row in rows
        if row["ended_at"]
        and (
            row["ended_at"] > row["scheduled_at"] + 300_000
            or row["created_at"] < row["scheduled_at"] - 60_000
        )
    ]
    assert notes
    world.database.run_sync(insert_rows, tables.run_span, notes, columns=[*notes[0]])


def test_what_was_there_is_found_whole(world: World) -> None:
    random = Random(7)
    rows = [_drawn(random, number) for number in range(1, 1_500)]
    _fill(world, rows)
    scopes = (
        PastScope(),
        PastScope(executors=frozenset({1, 2})),
        PastScope(job_id=3),
        PastScope(executors=frozenset()),
    )
    seen = 0
    for at in (NOW - random.randrange(30 * HOUR_MS) for _ in range(12)):
        for scope in scopes:
            found = world.database.read_sync(runs_there, scope, at=at)
            wanted = {
                row["id"]
                for row in rows
                if row["created_at"] <= at < (row["ended_at"] or NOW + 1)
                and (scope.executors is None or row["executor_id"] in scope.executors)
                and scope.job_id in (None, row["job_id"])
            }
            assert {each.id for each in found.runs} == wanted
            assert not found.is_cut
            seen += len(wanted)
    assert seen > 1_000


def test_what_failed_in_an_hour_is_found_whole(world: World) -> None:
    random = Random(8)
    rows = [_drawn(random, number) for number in range(1, 1_500)]
    _fill(world, rows)
    seen = 0
    for until in (NOW - random.randrange(30 * HOUR_MS) for _ in range(8)):
        for scope in (PastScope(), PastScope(executors=frozenset({2})), PastScope(job_id=3)):
            found, is_cut = world.database.read_sync(
                failed_between, scope, after=until - HOUR_MS, until=until
            )
            wanted = [
                row
                for row in rows
                if row["state"] in ("failed", "lost")
                and until - HOUR_MS < row["ended_at"] <= until
                and (scope.executors is None or row["executor_id"] in scope.executors)
                and scope.job_id in (None, row["job_id"])
            ]
            wanted.sort(key=lambda row: (-row["ended_at"], -row["id"]))
            assert [each.id for each in found] == [row["id"] for row in wanted]
            assert not is_cut
            seen += len(wanted)
    assert seen > 100


def test_a_long_list_is_cut_and_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    at = NOW - HOUR_MS
    run = {"scheduled_at": at - 1_000, "due_at": at - 1_000, "created_at": at - 1_000}
    world.add_runs(
        run | {"id": number, "state": "succeeded", "ended_at": at + 1_000}
        for number in range(1, 40)
    )
    monkeypatch.setattr("tickwheel_admin.store.as_of.runs.COUNT_LIMIT", 30)
    found = world.database.read_sync(runs_there, PastScope(), at=at)
    assert (len(found.runs), found.is_cut) == (30, True)
    monkeypatch.setattr("tickwheel_admin.store.as_of.runs.COUNT_LIMIT", 50)
    monkeypatch.setattr("tickwheel_admin.store.as_of.runs.MAX_SCANNED", 20)
    assert world.database.read_sync(runs_there, PastScope(), at=at).is_cut


def test_a_run_that_ends_after_long_is_noted_by_its_end_and_forgotten(world: World) -> None:
    now = world.now
    short, long = (
        world.run(state="queued", scheduled_at=at, due_at=at, created_at=at, attempt=0, tries=0)
        for at in (now - 5_000, now - HOUR_MS)
    )

    def end(conn: sa.Connection) -> None:
        runs = lock_runs(conn, [short, long])
        move_runs(conn, [cancelled_while_queued(each, now=now) for each in runs.values()])

    world.database.run_sync(end)
    [note] = world.rows(sa.select(tables.run_span))
    assert (note.run_id, note.from_at, note.ended_at) == (long, now - HOUR_MS, now)
    found = world.database.read_sync(runs_there, PastScope(), at=now - HOUR_MS // 2)
    assert [each.id for each in found.runs] == [long]
    assert world.database.run_sync(remove_old_spans, before=now, limit=9) == 0
    assert world.database.run_sync(remove_old_spans, before=now + 1, limit=9) == 1
    assert not world.rows(sa.select(tables.run_span))
