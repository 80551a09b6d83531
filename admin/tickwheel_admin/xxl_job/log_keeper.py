"""Hands lines of ended runs to the recorder, many runs at once, and waits until they are stored."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence

from tickwheel_admin.engine.recorder.loop import Recorder
from tickwheel_shared.protocol import LogChunk, LogReceipt, Message

# The recorder keeps what a database that is away does not take. After this, others get their turn.
STORED_SECONDS = 60.0


class LogKeeper:
    """Used from the event loop's thread only."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._sessions: dict[int, _KeepingSession] = {}  # by executor

    async def keep(
        self,
        chunks: Sequence[tuple[int, LogChunk]],
        *,
        handed_over: Callable[[LogChunk], None],
    ) -> None:
        """Return once all are committed.

        Args:
            chunks: each with the id of its executor.
            handed_over: is told of each that the recorder has.

        Raises:
            TimeoutError: some are not, perhaps not yet.
        """
        by_executor: defaultdict[int, list[LogChunk]] = defaultdict(list)
        for executor_id, chunk in chunks:
            by_executor[executor_id].append(chunk)
        async with asyncio.timeout(STORED_SECONDS), asyncio.TaskGroup() as group:
            for executor_id, of_executor in by_executor.items():
                group.create_task(self._session(executor_id).keep(of_executor, handed_over))

    def _session(self, executor_id: int) -> _KeepingSession:
        if executor_id not in self._sessions:
            self._sessions[executor_id] = _KeepingSession(executor_id, self._recorder)
        return self._sessions[executor_id]


class _KeepingSession:
    """Towards the recorder: whoever has lines of an executor's runs, and waits for receipts."""

    def __init__(self, executor_id: int, recorder: Recorder) -> None:
        self.node_id = 0
        self.executor_id = executor_id
        self._recorder = recorder
        self._waiting: dict[tuple[int, int, int], asyncio.Future[None]] = {}

    def send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if isinstance(message, LogReceipt):
                key = (message.run, message.attempt, message.first_seq)
                waiting = self._waiting.pop(key, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(None)

    def opened(self) -> None:
        """It never is: it says nothing but lines."""

    async def keep(
        self, chunks: Sequence[LogChunk], handed_over: Callable[[LogChunk], None]
    ) -> None:
        await self._recorder.room(self)
        loop = asyncio.get_running_loop()
        futures = []
        for chunk in chunks:
            future: asyncio.Future[None] = loop.create_future()
            self._waiting[chunk.run, chunk.attempt, chunk.first_seq] = future
            futures.append(future)
        self._recorder.receive(self, chunks)
        for chunk in chunks:
            handed_over(chunk)
        await asyncio.gather(*futures)
