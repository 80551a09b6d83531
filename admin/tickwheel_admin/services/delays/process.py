"""Matrices of delays in processes of their own."""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from tickwheel_admin.domain.delays.history import DelayHistory
from tickwheel_admin.domain.delays.matrix import DelayMatrix
from tickwheel_admin.domain.errors import Unavailable
from tickwheel_admin.services.workers.processes import (
    WorkerFailed,
    WorkerProcesses,
    WorkersClosed,
    WorkerTooSlow,
)

log = structlog.get_logger(__name__)

SECONDS = 30.0  # of one matrix, the start of the process included
_MODULE = "tickwheel_admin.services.delays.worker"


class DelayProcesses:
    """Starts one for each request. Used from the event loop's thread only."""

    def __init__(self, *, seconds: float = SECONDS) -> None:
        """Allow each matrix so many seconds."""
        self._processes = WorkerProcesses(seconds=seconds)

    async def matrix(self, history: DelayHistory) -> DelayMatrix:
        """The matrix of a history.

        Raises:
            Unavailable: delays.too_long, or delays.failed.
        """
        text = await asyncio.to_thread(msgspec.json.encode, history)
        try:
            told = await self._processes.ask(_MODULE, text=text)
        except WorkerTooSlow:
            log.warning("delays.took_too_long", seconds=self._processes.seconds)
            raise Unavailable(
                "delays.too_long",
                "This takes longer than %(seconds)d s; ask for less time.",
                seconds=int(self._processes.seconds),
            ) from None
        except (WorkerFailed, WorkersClosed) as error:
            if isinstance(error, WorkerFailed):
                log.error("delays.failed", status=error.status, problem=error.problem)
            raise Unavailable("delays.failed", "The process that computes delays failed.") from None
        return await asyncio.to_thread(msgspec.json.decode, told, type=DelayMatrix)

    def close(self) -> None:
        """End all of them."""
        self._processes.close()
