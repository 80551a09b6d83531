"""Batches: requests that arrive together are coalesced, and refused batches are bisected."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from sqlalchemy.exc import IntegrityError

from tickwheel_admin.domain.errors import DEFECTS
from tickwheel_admin.store.database.database import StatementRefused

T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")


async def write_or_bisect(
    batch: Sequence[T],
    write: Callable[[Sequence[T]], Awaitable[None]],
    give_up: Callable[[T, str], Awaitable[None]],
) -> None:
    """Write the batch; if it is refused, its halves, in order, until the refused rows are alone.

    A single row that is refused goes to `give_up`, so that it does not hold up the others. An
    AssertionError is a row that our own rules refuse, such as an illegal move of a run; any other
    defect that shows with one row must not stop the others either.
    """
    try:
        await write(batch)
    except (StatementRefused, IntegrityError, *DEFECTS) as error:
        if len(batch) == 1:
            # Of a KeyError the text alone says little.
            named = isinstance(error, StatementRefused | IntegrityError | AssertionError)
            await give_up(batch[0], str(error) if named else repr(error))
            return
        middle = len(batch) // 2
        await write_or_bisect(batch[:middle], write, give_up)
        await write_or_bisect(batch[middle:], write, give_up)


class Coalescer(Generic[Q, A]):
    """Answers requests of many tasks in batches, in the order they came.

    A request that arrives while no batch is being answered is answered at once; those that arrive
    meanwhile form the next batch. Used from the event loop's thread only.
    """

    def __init__(
        self, answer: Callable[[Sequence[Q]], Awaitable[Sequence[A]]], *, limit: int
    ) -> None:
        """Answer with `answer`, which returns one answer for each of at most `limit` requests."""
        self._answer = answer
        self._limit = limit
        self._waiting: deque[tuple[Q, asyncio.Future[A]]] = deque()
        self._answering: asyncio.Task[None] | None = None

    async def submit(self, request: Q) -> A:
        """The answer; raises what `answer` raised for the batch."""
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if self._answering is None:
            self._answering = asyncio.create_task(self._run(), name="coalescer")
        return await future

    async def _run(self) -> None:
        try:
            while self._waiting:
                size = min(len(self._waiting), self._limit)
                batch = [self._waiting.popleft() for _ in range(size)]
                # Without the requests whose tasks were cancelled meanwhile.
                await self._settle([each for each in batch if not each[1].done()])
        finally:
            self._answering = None

    async def _settle(self, batch: Sequence[tuple[Q, asyncio.Future[A]]]) -> None:
        if not batch:
            return
        try:
            answers = await self._answer([request for request, _ in batch])
        except (StatementRefused, IntegrityError) as error:
            if len(batch) > 1:  # a refused request must not fail the others
                middle = len(batch) // 2
                await self._settle(batch[:middle])
                await self._settle(batch[middle:])
            else:
                _fail(batch, error)
        except Exception as error:  # noqa: BLE001 - every caller of the batch gets it
            _fail(batch, error)
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)


def _fail(batch: Sequence[tuple[Q, asyncio.Future[A]]], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
