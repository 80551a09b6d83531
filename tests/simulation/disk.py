"""The disk under a node's spool: it outlives processes, and sometimes it does not work."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.simulation.history import History
from tests.simulation.scheduler import Process, SimLoop
from tickwheel_executor.errors import SpoolError
from tickwheel_shared.protocol import Result

Key = tuple[int, int]  # run, attempt


@dataclass(slots=True)
class _Entry:
    result: Result
    owner: SimSpool  # whose directory it is in


class SimDisk:
    """One spool directory; nodes of one machine may share it."""

    def __init__(self, loop: SimLoop, random: Random, history: History) -> None:
        self.loop = loop
        self.random = random
        self.history = history
        self.is_full = False
        self.was_full = False  # at some time: then results may have been sent unsafe
        self.entries: dict[Key, _Entry] = {}
        self.ever: dict[Key, Result] = {}  # all that was ever confirmed as safe


class SimSpool:
    """The SDK's Spool for one process."""

    def __init__(self, disk: SimDisk, process: Process) -> None:
        self._disk = disk
        self._process = process
        self._is_closed = False

    @property
    def is_abandoned(self) -> bool:
        """Whether another process may take over what is in it."""
        return self._is_closed or self._process.is_dead

    async def open(self) -> None:
        await self._work()

    async def adopt(self) -> list[Result]:
        await self._work()
        adopted = []
        for entry in self._disk.entries.values():
            if entry.owner is not self and entry.owner.is_abandoned:
                entry.owner = self
                adopted.append(entry.result)
                self._disk.ever[entry.result.run, entry.result.attempt] = entry.result
        if adopted:
            keys = " ".join(f"{result.run}/{result.attempt}" for result in adopted)
            self._disk.history.note(self._process.name, f"adopts {keys}")
        return adopted

    async def write(self, results: Sequence[Result]) -> None:
        await self._work()
        # Written, but nobody has been told: a crash in here may leave it or not.
        unsure = [result for result in results if self._disk.random.random() < 0.5]
        self._put(unsure)
        await self._work()
        self._put(results)
        for result in results:
            self._disk.ever[result.run, result.attempt] = result
            self._disk.history.note(
                self._process.name, f"spooled {result.run}/{result.attempt} {result.outcome}"
            )

    def remove(self, run: int, attempt: int) -> None:
        # The disk gets to it later, and not at all when the process dies before.
        asyncio.get_running_loop().call_later(
            self._disk.random.uniform(0, 0.5), self._disk.entries.pop, (run, attempt), None
        )

    async def close(self) -> None:
        self._is_closed = True

    def _put(self, results: Sequence[Result]) -> None:
        for result in results:
            self._disk.entries[result.run, result.attempt] = _Entry(result, self)

    async def _work(self) -> None:
        await asyncio.sleep(self._disk.random.uniform(0.0005, 0.01))
        if self._disk.is_full:
            self._disk.was_full = True
            raise SpoolError("no space left on device")
