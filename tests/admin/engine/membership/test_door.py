"""An admin that keeps nodes waiting at its door cannot tell who is dead (G10).

Time is virtual here: each sleep moves a clock and waits for nothing.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.executor_sdk.virtual_time import virtual_time
from tickwheel_admin.engine.membership.admission import Door
from tickwheel_admin.store.database.database import DatabaseUnavailable


async def comes_in(door: Door, *, after: float) -> None:
    with door.opening():
        await asyncio.sleep(after)


@virtual_time
async def test_who_gets_in_at_once_leaves_it_open() -> None:
    door = Door()
    for _ in range(100):
        await asyncio.gather(*(comes_in(door, after=0.3) for _ in range(10)))
        assert not door.holds_back(since=0)


@virtual_time
async def test_who_waits_long_keeps_it_shut_and_for_a_while_afterwards() -> None:
    door = Door()
    waiting = asyncio.gather(comes_in(door, after=4), comes_in(door, after=0.1))
    await asyncio.sleep(0.9)
    assert not door.holds_back(since=0)
    await asyncio.sleep(0.2)
    assert door.holds_back(since=0)  # the first one still waits, whoever else got in
    await waiting
    await comes_in(door, after=0.1)
    await asyncio.sleep(14)
    assert door.holds_back(since=0)
    await asyncio.sleep(1)
    assert not door.holds_back(since=0)


@virtual_time
async def test_who_is_turned_away_keeps_it_shut_for_a_while() -> None:
    door = Door()
    with pytest.raises(DatabaseUnavailable), door.opening():
        raise DatabaseUnavailable("it is away")
    await asyncio.sleep(14)
    assert door.holds_back(since=0)
    await asyncio.sleep(1.1)
    assert not door.holds_back(since=0)


@virtual_time
async def test_a_node_that_is_refused_says_nothing_about_the_database() -> None:
    door = Door()
    with pytest.raises(LookupError), door.opening():
        raise LookupError("no such executor")
    assert not door.holds_back(since=0)


@virtual_time
async def test_a_door_that_is_never_quiet_holds_back_for_a_minute() -> None:
    """Else a stream of slow hellos, or of wrong tokens, kept dead nodes alive for ever."""
    door = Door()
    held = 0
    for _ in range(20):
        await comes_in(door, after=2)
        held += door.holds_back(since=0)
        await asyncio.sleep(8)
    assert held == 6
    await asyncio.sleep(10)  # then it was quiet
    await comes_in(door, after=2)
    assert door.holds_back(since=0)


@virtual_time
async def test_one_who_waits_for_ever_holds_back_for_a_minute() -> None:
    door = Door()
    waiting = asyncio.create_task(comes_in(door, after=1_000))
    await asyncio.sleep(59)
    assert door.holds_back(since=0)
    await asyncio.sleep(2)
    assert not door.holds_back(since=0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


@virtual_time
async def test_an_outage_uses_up_none_of_the_time() -> None:
    """All nodes come at once when the database is back."""
    door = Door()
    for _ in range(100):
        with pytest.raises(DatabaseUnavailable), door.opening():
            raise DatabaseUnavailable("it is away")
        await asyncio.sleep(1)
    now = asyncio.get_running_loop().time()
    assert not door.holds_back(since=0)
    assert door.holds_back(since=now)
