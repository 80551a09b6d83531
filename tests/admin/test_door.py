"""An admin that keeps nodes waiting at its door cannot tell who is dead (G10)."""

from __future__ import annotations

import asyncio

import pytest

from tests.executor_sdk.virtual_time import virtual_time
from tickwheel_admin.engine.door import Door
from tickwheel_admin.store.database import DatabaseUnavailable


async def comes_in(door: Door, *, after: float) -> None:
    with door.opening():
        await asyncio.sleep(after)


@virtual_time
async def test_who_gets_in_at_once_leaves_it_open() -> None:
    door = Door()
    for _ in range(100):
        await asyncio.gather(*(comes_in(door, after=0.3) for _ in range(10)))
        assert door.has_been_open(15)


@virtual_time
async def test_who_waits_long_keeps_it_shut_and_for_a_while_afterwards() -> None:
    door = Door()
    waiting = asyncio.gather(comes_in(door, after=4), comes_in(door, after=0.1))
    await asyncio.sleep(0.9)
    assert door.has_been_open(15)
    await asyncio.sleep(0.2)
    assert not door.has_been_open(15)  # the first one still waits, whoever else got in
    await waiting
    await comes_in(door, after=0.1)
    await asyncio.sleep(14)
    assert not door.has_been_open(15)
    await asyncio.sleep(1)
    assert door.has_been_open(15)


@virtual_time
async def test_who_is_turned_away_keeps_it_shut_for_a_while() -> None:
    door = Door()
    with pytest.raises(DatabaseUnavailable), door.opening():
        raise DatabaseUnavailable("it is away")
    await asyncio.sleep(14)
    assert not door.has_been_open(15)
    await asyncio.sleep(1.1)
    assert door.has_been_open(15)


@virtual_time
async def test_a_node_that_is_refused_says_nothing_about_the_database() -> None:
    door = Door()
    with pytest.raises(LookupError), door.opening():
        raise LookupError("no such executor")
    assert door.has_been_open(15)
