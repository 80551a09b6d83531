"""A run's log as its readers follow it: every line once, in order, and a clear end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from tests.admin.kit.services import ADMIN, World
from tests.support.nightly import IS_NIGHT
from tickwheel_admin.domain.errors import InvalidInput, NotFound
from tickwheel_admin.services.runs import log as run_log
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.runs.logs import (
    append_fetched_chunks,
    append_log_chunks,
    log_chunks_after,
)
from tickwheel_shared.protocol import Level, LogChunk, WireLine

pytestmark = pytest.mark.every_database


def write(
    world: World, run_id: int, first_seq: int, texts: Sequence[str], attempt: int = 1
) -> None:
    chunk = LogChunk(
        run=run_id,
        attempt=attempt,
        token="t",
        first_seq=first_seq,
        lines=[WireLine(at=1_000 + n, level=Level.INFO, text=text) for n, text in enumerate(texts)],
    )
    world.database.run_sync(append_log_chunks, [chunk])


async def test_lines_that_two_admins_fetch_are_stored_once(world: World, run_id: int) -> None:
    # Another attempt's lines are nobody's here.
    write(world, run_id, 1, ["of another attempt"] * 9, attempt=2)
    for first, last in ((1, 1), (3, 4), (1, 2), (2, 6), (1, 6), (9, 9), (8, 12)):
        chunk = LogChunk(
            run=run_id,
            attempt=1,
            token="t",
            first_seq=first,
            lines=[
                WireLine(at=1_000, level=Level.INFO, text=f"line {n}")
                for n in range(first, last + 1)
            ],
        )
        world.database.run_sync(append_fetched_chunks, [chunk, chunk])
    with world.database.engine.connect() as conn:
        stored = run_log_lines(conn, run_id)
    assert stored == [(n, f"line {n}") for n in range(1, 13) if n != 7]


def run_log_lines(conn: sa.Connection, run_id: int) -> list[tuple[int, str]]:
    """Every stored line of the first attempt, with its number."""
    chunks = log_chunks_after(conn, run_id=run_id, attempt=1, after=0, limit=100)
    return [
        (chunk.first_seq + n, line.text) for chunk in chunks for n, line in enumerate(chunk.lines)
    ]


def end(world: World, **values: object) -> None:
    ended = {"state": "succeeded", "ended_at": world.now, "log_lines": 0}
    world.change(sa.update(tables.run).values(ended | values))


async def follow(world: World, run_id: int, limit: int) -> list[str]:
    seen: list[str] = []
    after = 0
    while True:
        page = await world.runs.log(ADMIN, run_id, after=after, limit=limit)
        seen += (line.text for line in page.lines)
        assert [line.seq for line in page.lines] == list(range(after + 1, page.next + 1))
        after = page.next
        if not page.more:
            return seen


async def test_lines_come_once_in_pages_of_any_size(world: World, run_id: int) -> None:
    first = 1
    for size in (1, 2, 500, 1, 1, 1, 1, 7):
        write(world, run_id, first, [f"line {first + n}" for n in range(size)])
        first += size
    for limit in (*([1] if IS_NIGHT else []), 3, 100, 500, 1_000):
        assert await follow(world, run_id, limit) == [f"line {n}" for n in range(1, first)]


async def test_reading_stops_before_a_gap_until_it_is_filled(world: World, run_id: int) -> None:
    write(world, run_id, 1, ["a", "b"])
    write(world, run_id, 5, ["e"])
    page = await world.runs.log(ADMIN, run_id)
    assert ([line.text for line in page.lines], page.next) == (["a", "b"], 2)
    assert (page.more, page.ended) == (False, False)
    end(world, log_lines=5)
    assert not (await world.runs.log(ADMIN, run_id, after=2)).ended
    write(world, run_id, 3, ["c", "d"])
    page = await world.runs.log(ADMIN, run_id, after=2)
    assert ([line.text for line in page.lines], page.ended) == (["c", "d", "e"], True)


async def test_a_gap_that_nobody_will_fill_is_passed_over(world: World, run_id: int) -> None:
    write(world, run_id, 5, ["e"])
    end(world, log_lines=6, ended_at=world.now - run_log.SETTLED_MS - 1_000)
    page = await world.runs.log(ADMIN, run_id)
    assert ([line.seq for line in page.lines], page.next, page.ended) == ([5], 5, True)


async def test_the_log_of_a_lost_run_ends_when_nothing_can_come(world: World, run_id: int) -> None:
    write(world, run_id, 1, ["a"])
    end(world, state="lost")
    assert not (await world.runs.log(ADMIN, run_id)).ended
    end(world, state="lost", ended_at=world.now - run_log.SETTLED_MS - 1_000)
    assert (await world.runs.log(ADMIN, run_id)).ended


async def test_each_attempt_has_its_own_log(world: World, run_id: int) -> None:
    write(world, run_id, 1, ["first"])
    write(world, run_id, 1, ["second"], attempt=3)
    world.change(
        sa.update(tables.run).values(attempt=3),
        sa.insert(tables.run_attempt).values(
            run_id=run_id, attempt=1, state="failed", ended_at=world.now, log_lines=1
        ),
    )
    newest = await world.runs.log(ADMIN, run_id)
    assert (newest.attempt, [line.text for line in newest.lines]) == (3, ["second"])
    first = await world.runs.log(ADMIN, run_id, attempt=1)
    assert ([line.text for line in first.lines], first.ended) == (["first"], True)
    refused = await world.runs.log(ADMIN, run_id, attempt=2)
    assert (refused.lines, refused.ended) == ([], True)
    # Queued again after a refusal: what its last try wrote is what there is to read.
    world.change(sa.update(tables.run).values(state="queued"))
    assert (await world.runs.log(ADMIN, run_id)).attempt == 1
    for attempt in (-1, 4):
        with pytest.raises(NotFound):
            await world.runs.log(ADMIN, run_id, attempt=attempt)


@pytest.mark.every_database(nightly=True)
async def test_before_the_first_attempt_there_is_nothing_yet(world: World, run_id: int) -> None:
    world.change(sa.update(tables.run).values(state="queued", attempt=0))
    page = await world.runs.log(ADMIN, run_id)
    assert (page.lines, page.attempt, page.ended) == ([], 0, False)
    end(world, state="cancelled", attempt=0)
    assert (await world.runs.log(ADMIN, run_id)).ended


async def test_a_page_is_bounded_in_size(
    world: World, run_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log, "MAX_CHARS", 10_000)
    for n in range(20):
        write(world, run_id, 1 + 5 * n, ["x" * 1_000] * 5)
    page = await world.runs.log(ADMIN, run_id)
    assert len(page.lines) == 11
    assert page.more
    assert len(await follow(world, run_id, 1_000)) == 100


@pytest.mark.every_database(nightly=True)
async def test_numbers_out_of_range_are_refused(world: World, run_id: int) -> None:
    wrong: list[dict[str, Any]] = [{"after": -1}, {"after": 2**31}, {"limit": 0}, {"limit": 5_001}]
    for query in wrong:
        with pytest.raises(InvalidInput) as caught:
            await world.runs.log(ADMIN, run_id, **query)
        assert [p.field for p in caught.value.problems] == list(query)


async def test_a_flood_is_stored_by_statements_that_a_server_takes(
    world: World, run_id: int
) -> None:
    flood = [
        LogChunk(
            run=run_id,
            attempt=1,
            token="t",
            first_seq=1 + n * 20,
            lines=[WireLine(at=n, level=Level.INFO, text="x" * 15_000)] * 20,
        )
        for n in range(20)
    ]
    sizes: list[int] = []

    @event.listens_for(world.database.engine, "before_cursor_execute")
    def note(*args: Any) -> None:
        _conn, _cursor, statement, given, *_ = args
        if statement.startswith("INSERT"):
            values = given.values() if isinstance(given, dict) else given
            sizes.append(sum(len(value) for value in values if isinstance(value, str)))

    world.database.run_sync(append_log_chunks, flood)
    event.remove(world.database.engine, "before_cursor_execute", note)
    with world.database.engine.connect() as conn:
        stored = conn.execute(sa.select(sa.func.sum(tables.run_log.c.line_count))).scalar_one()
    assert stored == 400
    assert len(sizes) == 3
    assert max(sizes) < 3_000_000
