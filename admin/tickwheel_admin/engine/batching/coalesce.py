"""Whoever asks while an answer is being got joins the next one: batches that form by themselves."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from sqlalchemy.exc import IntegrityError

from tickwheel_admin.store.database.database import Refused

Q = TypeVar("Q")
A = TypeVar("A")


class Gathering(Generic[Q, A]):
    """Questions of many tasks, answered in one transaction each time, in the order they came.

    Who asks alone is answered at once. Used from the event loop's thread only.
    """

    def __init__(
        self, answer: Callable[[Sequence[Q]], Awaitable[Sequence[A]]], *, limit: int
    ) -> None:
        """Answer with `answer`, which says as many things as it is asked, and at most `limit`."""
        self._answer = answer
        self._limit = limit
        self._waiting: deque[tuple[Q, asyncio.Future[A]]] = deque()
        self._answering: asyncio.Task[None] | None = None

    async def ask(self, question: Q) -> A:
        """The answer; raises what `answer` raised for all that were asked with it."""
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if self._answering is None:
            self._answering = asyncio.create_task(self._run(), name="gathering")
        return await future

    async def _run(self) -> None:
        try:
            while self._waiting:
                size = min(len(self._waiting), self._limit)
                batch = [self._waiting.popleft() for _ in range(size)]
                # Not those who stopped waiting, whose task was cancelled.
                await self._settle([each for each in batch if not each[1].done()])
        finally:
            self._answering = None

    async def _settle(self, batch: Sequence[tuple[Q, asyncio.Future[A]]]) -> None:
        if not batch:
            return
        try:
            answers = await self._answer([question for question, _ in batch])
        except (Refused, IntegrityError) as error:
            if len(batch) > 1:  # no question holds up its neighbours
                middle = len(batch) // 2
                await self._settle(batch[:middle])
                await self._settle(batch[middle:])
            else:
                _fail(batch, error)
        except Exception as error:  # noqa: BLE001 - whatever it was, those who asked are told
            _fail(batch, error)
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)


def _fail(batch: Sequence[tuple[Q, asyncio.Future[A]]], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
