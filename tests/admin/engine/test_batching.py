"""Requests that arrive while a batch is being answered form the next batch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tickwheel_admin.engine.batching import Coalescer
from tickwheel_admin.store.database.database import DatabaseUnavailable, StatementRefused


class Oracle:
    """Answers a number with its double, as soon as it may."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.may_answer = asyncio.Event()
        self.coalescer = Coalescer(self.answer, limit=3)

    async def answer(self, questions: Sequence[int]) -> list[int]:
        self.asked.append(list(questions))
        await self.may_answer.wait()
        if 13 in questions:
            raise StatementRefused("13 cannot be stored")
        if 99 in questions:
            raise DatabaseUnavailable("away")
        return [2 * question for question in questions]

    def ask(self, *questions: int) -> list[asyncio.Task[int]]:
        return [asyncio.create_task(self.coalescer.submit(question)) for question in questions]


async def test_who_waits_is_asked_about_together_and_in_order() -> None:
    oracle = Oracle()
    first = oracle.ask(1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    others = oracle.ask(2, 3, 4, 5)
    await asyncio.sleep(0)
    oracle.may_answer.set()
    assert await asyncio.gather(*first, *others) == [2, 4, 6, 8, 10]
    assert oracle.asked == [[1], [2, 3, 4], [5]]
    assert await oracle.coalescer.submit(6) == 12  # and anew after a rest


async def test_a_refused_question_holds_up_no_other() -> None:
    oracle = Oracle()
    oracle.may_answer.set()
    one, refused, three = oracle.ask(1, 13, 3)
    assert (await one, await three) == (2, 6)
    with pytest.raises(StatementRefused):
        await refused


async def test_an_outage_is_told_to_all_who_asked_and_is_over_with_the_next() -> None:
    oracle = Oracle()
    oracle.may_answer.set()
    ends = await asyncio.gather(*oracle.ask(1, 99, 3), return_exceptions=True)
    assert [type(end) for end in ends] == [DatabaseUnavailable] * 3
    assert oracle.asked == [[1, 99, 3]]
    assert await oracle.coalescer.submit(4) == 8


async def test_who_stopped_waiting_is_not_asked_about() -> None:
    oracle = Oracle()
    (first,) = oracle.ask(1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gone, there = oracle.ask(2, 3)
    await asyncio.sleep(0)
    gone.cancel()
    first.cancel()  # while it is being answered: the others are answered all the same
    await asyncio.sleep(0)
    oracle.may_answer.set()
    assert await there == 6
    assert oracle.asked == [[1], [3]]
