"""The disk under a node's spool: the SDK's own spool on real files, in virtual time.

The disk outlives processes. Sometimes it is full, and what was being written when a process died
may be there, or not, or in part.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from tests.simulation.history import History
from tests.simulation.scheduler import Process, SimLoop
from tickwheel_executor.spool import record as spool_record
from tickwheel_executor.spool.file_spool import FileSpool
from tickwheel_shared.protocol import Result

Key = tuple[int, int]  # run, attempt

_decoder = msgspec.json.Decoder(Result)


class SimDisk:
    """One spool directory; nodes of one machine may share it."""

    def __init__(self, directory: Path, loop: SimLoop, random: Random, history: History) -> None:
        self.directory = directory
        self.loop = loop
        self.random = random
        self.history = history
        self.is_full = False
        self.was_full = False  # at some time: then results may have been sent unsafe
        self.synced: dict[int, int] = {}  # inode → bytes that survive a crash
        self.torn = 0  # writes of which a crash left a part
        self.ever: dict[Key, Result] = {}  # all that was ever confirmed as safe
        self._spools: list[SimSpool] = []

    def spool(self, process: Process) -> SimSpool:
        """The spool of a new process."""
        spool = SimSpool(self, process)
        self._spools = [each for each in self._spools if not each.is_released]
        self._spools.append(spool)
        return spool

    def died(self, process: Process) -> None:
        """The system closes the files of a process that is no more."""
        for spool in self._spools:
            if spool.process is process:
                spool.crash()

    def pending(self) -> list[Key]:
        """What is on it and not yet delivered."""
        known = [spool for spool in self._spools if not spool.is_released]
        keys = {key for spool in known for key in spool.undelivered}
        homes = {name for spool in known for name in spool.homes}
        for path in sorted(self.directory.glob("*/*.results")):
            if path.parent.name not in homes:
                results = map(_decoder.decode, spool_record.unpack(path.read_bytes()))
                keys |= {(result.run, result.attempt) for result in results}
        return sorted(keys)

    def sync(self, file: int) -> None:
        """What `fsync` does here."""
        if self.is_full:
            self.was_full = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        found = os.fstat(file)
        self.synced[found.st_ino] = found.st_size

    def delay(self) -> float:
        return self.random.uniform(0.0005, 0.01)


class SimSpool(FileSpool):
    """The SDK's spool for one simulated process."""

    def __init__(self, disk: SimDisk, process: Process) -> None:
        key = f"{disk.random.getrandbits(128):032x}"
        super().__init__(disk.directory, key, fsync=disk.sync, segment_bytes=4096)
        self.process = process
        self.is_released = False
        self._in_flight = False
        self._size_before = 0
        self._place = disk
        self._disk: Any = _DiskThread(disk, self)

    @property
    def homes(self) -> list[str]:
        """Directories it holds the locks of."""
        return list(self._homes)

    @property
    def undelivered(self) -> list[Key]:
        """Results without a receipt."""
        removed = set(self._removed)
        return [claim[:2] for claim in self._by_claim if claim not in removed]

    async def adopt(self) -> list[Result]:
        adopted = await super().adopt()
        for result in adopted:
            self._place.ever[result.run, result.attempt] = result
        if adopted:
            keys = " ".join(f"{result.run}/{result.attempt}" for result in adopted)
            self._place.history.note(self.process.name, f"adopts {keys}")
        return adopted

    async def write(self, results: Sequence[Result]) -> None:
        self._in_flight, self._size_before = True, self._active_size
        await super().write(results)
        self._in_flight = False
        for result in results:
            self._place.ever[result.run, result.attempt] = result
            self._place.history.note(
                self.process.name, f"spooled {result.run}/{result.attempt} {result.outcome}"
            )

    def crash(self) -> None:
        """As the system does it: files are closed, and an unconfirmed write is left in part."""
        if self.is_released:
            return
        if self._active is not None:
            with suppress(OSError):
                self._tear(os.fstat(self._active_file))
            os.close(self._active_file)
            self._active = None
        for home in self._homes.values():
            os.close(home.lock)
        self._homes.clear()
        self.is_released = True

    def _tear(self, found: os.stat_result) -> None:
        """What was not synced is there, or not, or in part; what nobody knows of, likewise."""
        size, safe = found.st_size, self._place.synced.get(found.st_ino, 0)
        if self._in_flight:
            safe = min(safe, self._size_before)
        if size > safe:
            left = self._place.random.randint(safe, size)
            os.ftruncate(self._active_file, left)
            self._place.torn += left not in (safe, size)

    def _close(self) -> None:
        super()._close()
        self.is_released = True


class _DiskThread(Executor):
    """Does the work of the spool's thread, in virtual time and in the steps of its process."""

    def __init__(self, disk: SimDisk, spool: SimSpool) -> None:
        self._disk = disk
        self._spool = spool

    def submit(self, work: Callable[..., Any], /, *_args: Any, **_kwargs: Any) -> Any:
        self._disk.loop.call_later(self._disk.random.uniform(0, 0.5), self._do_unless_over, work)
        return None

    async def later(self, work: Callable[[], Any]) -> Any:
        """Do the work after a while; the process learns of it after another one."""
        await asyncio.sleep(self._disk.delay())
        answer = self._do(work)
        # Done, but nobody knows yet: a crash in here may leave it or not.
        await asyncio.sleep(self._disk.delay())
        return answer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        pass

    def _do(self, work: Callable[[], Any]) -> Any:
        if self._is_over:
            raise asyncio.CancelledError
        return work()

    def _do_unless_over(self, work: Callable[[], Any]) -> None:
        if not self._is_over:
            work()

    @property
    def _is_over(self) -> bool:
        return self._disk.history.closed or self._spool.is_released
