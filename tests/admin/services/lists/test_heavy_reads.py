"""What computes or reads for long is never in the way of the engine, or of other people."""

from __future__ import annotations

import asyncio
import threading

import pytest
import sqlalchemy as sa

from tests.admin.kit.clock import Clock
from tests.admin.kit.services import ADMIN, World
from tickwheel_admin.domain.errors import NotFound, TooMany
from tickwheel_admin.services.lists import heavy_reads
from tickwheel_admin.services.lists.heavy_reads import Breath, HeavyReads
from tickwheel_admin.services.runs.log_lines import LinesWanted
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Database


async def test_people_who_read_for_long_take_no_thread_or_connection_from_the_engine(
    sqlite_url: str,
) -> None:
    database = Database(sqlite_url, threads=1, for_people=2)
    begun, over = threading.Barrier(3), threading.Event()

    def read_for_long(conn: sa.Connection) -> None:
        now_ms(conn)
        begun.wait(10)
        over.wait(10)

    people = database.for_people
    try:
        reading = [asyncio.create_task(people.read(read_for_long)) for _ in range(2)]
        waiting = asyncio.create_task(people.read(now_ms))  # behind those two
        await asyncio.to_thread(begun.wait, 10)
        async with asyncio.timeout(10):
            assert await database.read(now_ms)
            assert await database.run(now_ms)
        assert not waiting.done()
    finally:
        over.set()
    await asyncio.gather(*reading, waiting)
    await database.close()


async def test_people_take_turns_and_nobody_queues_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heavy_reads, "MAX_OF_USER", 2)
    reads = HeavyReads()
    order: list[str] = []

    async def read(person: int, name: str) -> None:
        async with reads.turn(person):
            order.append(name)

    async with reads.turn(1):
        mine = asyncio.create_task(read(1, "mine again"))
        await asyncio.sleep(0)
        with pytest.raises(TooMany):
            await read(1, "mine once more")
        await read(2, "another's")
    await mine
    assert order == ["another's", "mine again"]
    assert not reads._turns


def test_whoever_computes_rests_as_long_as_they_worked() -> None:
    clock = Clock()
    rests: list[float] = []
    breath = Breath(clock=lambda: clock.monotonic(), rest=rests.append)
    breath.take()
    assert rests == []
    clock.advance(0.008)
    breath.take()
    assert rests == [pytest.approx(0.008, rel=0.01)]
    breath.take()
    assert len(rests) == 1


async def test_searches_of_a_log_wait_for_their_turn_and_its_pages_do_not(world: World) -> None:
    async with world.runs._searches.turn(ADMIN.user_id):
        search = world.runs.log(ADMIN, 1, wanted=LinesWanted(text="needle"))
        searching = asyncio.create_task(search)
        with pytest.raises(NotFound):
            await world.runs.log(ADMIN, 1)
        assert not searching.done()
    with pytest.raises(NotFound):
        await searching
