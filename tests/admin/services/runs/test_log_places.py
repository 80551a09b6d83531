"""A run's log read backwards and searched: a bounded part of it at a time, nothing left out."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, FAR, World
from tests.admin.services.runs.test_log import end, write
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.services.runs import log as run_log
from tickwheel_admin.services.runs.log_lines import LinesWanted
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.runs.logs import append_log_chunks
from tickwheel_admin.store.runs.retention import LINES_PER_BATCH, remove_old_runs
from tickwheel_shared.protocol import Level, LogChunk, WireLine

pytestmark = pytest.mark.every_database


async def backwards(
    world: World, run_id: int, *, limit: int, wanted: LinesWanted | None = None
) -> list[int]:
    """Every line, read from the end to the start."""
    seen: list[int] = []
    before = None
    while before is None or before > 1:
        page = await world.runs.log_before(
            ADMIN, run_id, before=before, limit=limit, wanted=wanted or LinesWanted()
        )
        numbers = [line.seq for line in page.lines]
        assert all(page.first <= number < (before or FAR) for number in numbers)
        assert before is None or page.first < before
        seen = numbers + seen
        before = page.first
    return seen


async def test_every_line_comes_once_from_the_end_backwards_and_when_searched(
    world: World, run_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = 1
    for size in (1, 2, 200, 1, 1, 7):
        write(world, run_id, first, [f"line {n}" for n in range(first, first + size)])
        first += size
    for limit in (1_000, 100, 7):
        assert await backwards(world, run_id, limit=limit) == list(range(1, first))
    monkeypatch.setattr(run_log, "MAX_SCANNED", 10)  # less than a chunk
    assert await backwards(world, run_id, limit=1_000) == list(range(1, first))

    tens = LinesWanted(text="0")
    expected = [number for number in range(1, first) if "0" in str(number)]
    assert await backwards(world, run_id, limit=7, wanted=tens) == expected
    seen, after, more = [], 0, True
    while more:
        page = await world.runs.log(ADMIN, run_id, after=after, limit=7, wanted=tens)
        seen += [line.seq for line in page.lines]
        after, more = page.next, page.more
    assert seen == expected
    assert after == first - 1
    monkeypatch.undo()  # a page knows how far it is behind
    page = await world.runs.log(ADMIN, run_id, limit=10)
    assert (page.next, page.last, page.more) == (10, first - 1, True)


async def test_the_end_of_a_log_that_is_being_written_stops_before_a_gap(
    world: World, run_id: int
) -> None:
    wrong: list[dict[str, Any]] = [{"before": -1}, {"before": 2**31}, {"limit": 0}]
    for numbers in wrong:
        with pytest.raises(InvalidInput):
            await world.runs.log_before(ADMIN, run_id, **numbers)
    page = await world.runs.log_before(ADMIN, run_id)
    assert (page.lines, page.first, page.next) == ([], 1, 0)
    write(world, run_id, 4, ["d"])
    page = await world.runs.log_before(ADMIN, run_id)
    assert (page.lines, page.first, page.next) == ([], 1, 0)
    write(world, run_id, 1, ["a", "b"])
    page = await world.runs.log_before(ADMIN, run_id)
    assert ([line.text for line in page.lines], page.first, page.next) == (["a", "b"], 1, 2)
    write(world, run_id, 3, ["c"])
    page = await world.runs.log_before(ADMIN, run_id)
    assert ([line.text for line in page.lines], page.next) == (["a", "b", "c", "d"], 4)
    # Long after its end, and before a named line, a gap is shown as it is.
    write(world, run_id, 9, ["i"])
    assert [x.seq for x in (await world.runs.log_before(ADMIN, run_id, before=20)).lines][-1] == 9
    end(world, log_lines=9, ended_at=1)
    assert (await world.runs.log_before(ADMIN, run_id)).next == 9


async def test_lines_are_found_by_level_and_by_text_whatever_colours_it_has(
    world: World, run_id: int
) -> None:
    lines = [
        (Level.INFO, 'said "error" twice'),
        (Level.ERROR, "\x1b[31mS3 Slow\x1b[0mDown"),
        (Level.WARNING, 'back\\slash, "quotes" and tab\t.'),
        (Level.INFO, "分区 压缩完成"),
        (Level.ERROR, "ÄRGER"),
    ]
    for number, (level, text) in enumerate(lines, 1):  # each in a chunk of its own
        line = WireLine(at=number, level=level, text=text)
        chunk = LogChunk(run=run_id, attempt=1, token="t", first_seq=number, lines=[line])
        world.database.run_sync(append_log_chunks, [chunk])

    async def found(text: str = "", *levels: Level) -> list[int]:
        wanted = LinesWanted(text=text, levels=frozenset(levels))
        return await backwards(world, run_id, limit=2, wanted=wanted)

    assert await found("", Level.ERROR) == [2, 5]
    assert await found("", Level.ERROR, Level.WARNING) == [2, 3, 5]
    assert await found("slowdown") == [2]
    assert await found('SLASH, "quotes" and tab\t') == [3]
    assert await found("\\slash") == [3]
    assert await found("压缩") == [4]
    assert await found("ärger", Level.ERROR) == [5]
    assert await found("error") == [1]
    assert await found("31m") == []


async def test_old_runs_with_long_logs_go_a_few_at_a_time(world: World, run_id: int) -> None:
    [job] = world.rows(sa.select(tables.run.c.executor_id, tables.run.c.job_id))
    for lines in (LINES_PER_BATCH * 5, 10, LINES_PER_BATCH - 10, 1):
        world.run(
            executor_id=job.executor_id, job_id=job.job_id, state="succeeded", scheduled_at=0,
            log_lines=lines,
        )  # fmt: skip
    removed = [
        world.database.run_sync(remove_old_runs, older_than_ms=1_000, limit=500) for _ in range(4)
    ]
    assert removed == [1, 2, 1, 0]
    assert [row.id for row in world.rows(sa.select(tables.run.c.id))] == [run_id]
