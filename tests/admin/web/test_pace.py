"""Requests that arrive at once begin a few in each turn of the event loop."""

from __future__ import annotations

import asyncio

from tickwheel_admin.web.pace import BEGIN_PER_TURN, Pace


async def turns_of(pace: Pace, requests: int) -> list[int]:
    """In which turn of the loop each of so many requests began."""
    turn, began = 0, []

    async def request() -> None:
        await pace.turn()
        began.append(turn)

    tasks = [asyncio.create_task(request()) for _ in range(requests)]
    while len(began) < requests:
        await asyncio.sleep(0)
        turn += 1
    await asyncio.gather(*tasks)
    return began


async def test_a_few_requests_begin_at_once() -> None:
    assert await turns_of(Pace(), BEGIN_PER_TURN) == [0] * BEGIN_PER_TURN


async def test_many_requests_begin_a_few_in_each_turn() -> None:
    began = await turns_of(Pace(), 100)
    assert began == sorted(began)
    assert max(began.count(turn) for turn in set(began)) == BEGIN_PER_TURN
    assert len(set(began)) == 100 // BEGIN_PER_TURN


async def test_who_went_away_takes_nobodys_turn() -> None:
    pace = Pace()
    tasks = [asyncio.create_task(pace.turn()) for _ in range(10)]
    await asyncio.sleep(0)
    for task in tasks[BEGIN_PER_TURN:9]:
        task.cancel()
    await asyncio.wait_for(tasks[9], 5)
    assert await turns_of(pace, 1) == [0]
