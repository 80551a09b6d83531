"""The spool on a real disk: one directory per process, append-only segments of checked records.

    <spool_dir>/.lock                       held briefly, while directories are created or adopted
    <spool_dir>/<process>/lock              held by the process for as long as it lives
    <spool_dir>/<process>/000001.results    records: magic, length, CRC-32, the result as JSON

A batch of results costs one write and one fsync. A segment is deleted when all its results have
their receipt. A process that dies leaves its directory; the first process that finds its lock free
adopts it. A record that a crash cut short is skipped: results are sent only after the fsync, so it
was never sent. All disk work runs on one thread, in order, and never blocks the event loop.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from tickwheel_executor.attempt_key import Claim, claim_of
from tickwheel_executor.errors import SpoolError
from tickwheel_executor.process import forks
from tickwheel_shared.protocol import Result

from . import disk
from . import record as spool_record
from .segment import SUFFIX, ProcessDirectory, SpoolSegment, read

_logger = logging.getLogger("tickwheel.spool")

SEGMENT_BYTES = 4 * 1024 * 1024  # a new segment is begun when the newest has reached this
_PROBE = b"\0" * (256 * 1024)  # more than one result may have, with state, checkpoint and message
_PROCESS = re.compile(r"[0-9a-f]{32}")

_encoder = msgspec.json.Encoder()
_T = TypeVar("_T")


class FileSpool:
    """A Spool in a directory, which processes may share: each writes to its own subdirectory.

    `process` is the name of ours: 32 hex digits, new for every process. POSIX only, for its locks.
    """

    def __init__(
        self,
        directory: Path,
        process: str,
        *,
        fsync: Callable[[int], None] | None = None,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self._directory = directory
        self._process = process
        self._fsync = fsync or disk.full_fsync
        self._segment_bytes = segment_bytes
        self._disk = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tickwheel-spool")
        self._homes: dict[str, ProcessDirectory] = {}
        self._by_claim: dict[Claim, SpoolSegment] = {}
        self._active: SpoolSegment | None = None
        self._active_file = -1
        self._active_size = 0
        self._numbers = 0
        self._removed: deque[Claim] = deque()
        self._tidying = False
        self._unreadable: set[Path] = set()  # logged already
        forks.watch(self)

    # --- Spool ------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Create the directories, take our lock, and test that writing works."""
        try:
            await self._on_disk(self._open)
        except BaseException:  # cancelled too
            self.give_up()
            raise

    async def adopt(self) -> list[Result]:
        """Take over the directories of dead processes; returns their results."""
        return await self._on_disk(self._adopt)

    async def write(self, results: Sequence[Result]) -> None:
        """Append and fsync. If that fails, the segment is closed: its end is in doubt."""
        payloads = [(claim_of(result), _encoder.encode(result)) for result in results]
        await self._on_disk(lambda: self._write(payloads))

    def remove(self, result: Result) -> None:
        """Mark it as removed; the disk thread deletes it soon."""
        self._removed.append(claim_of(result))
        if not self._tidying:
            self._tidying = True
            with suppress(RuntimeError):  # closed: the next process sends it again, harmlessly
                self._disk.submit(self._tidy_quietly)

    async def close(self) -> None:
        """Delete what is not needed, unlock the rest."""
        await self._on_disk(self._close)
        self._disk.shutdown(wait=False)

    def give_up(self) -> None:
        """Close it in the background, without waiting for the disk."""
        with suppress(RuntimeError):  # it is closed already
            self._disk.submit(self._close_quietly)
        self._disk.shutdown(wait=False)

    def forked(self) -> None:
        """In a child: close inherited locks, which are held while any process has them open."""
        forks.release_file(self._active_file)
        for home in self._homes.values():
            forks.release_file(home.lock)

    async def _on_disk(self, work: Callable[[], _T]) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._disk, work)
        except OSError as error:
            raise SpoolError(disk.explain(self._directory, error)) from error

    # --- on the disk thread -----------------------------------------------------------------------

    def _open(self) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._make_home()
        self._write([])

    def _make_home(self) -> ProcessDirectory:
        """Create our own directory; again if somebody has deleted it."""
        with self._directories_locked():
            path = self._directory / self._process
            path.mkdir(mode=0o700, exist_ok=True)
            lock = disk.lock(path / "lock")
            if lock is None:
                raise SpoolError(f"{path} is in use by another process")
            before = self._homes.get(self._process)
            self._homes[self._process] = home = ProcessDirectory(path, lock)
        if before is not None:
            os.close(before.lock)
        self._sync_directory(self._directory)
        return home

    @contextmanager
    def _directories_locked(self) -> Iterator[None]:
        """Only one process at a time creates or adopts directories."""
        file = os.open(self._directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)

    def _write(self, payloads: Sequence[tuple[Claim, bytes]]) -> None:
        try:
            segment = self._active
            if segment is None or self._active_size >= self._segment_bytes:
                segment = self._begin_segment()
            data = b"".join(spool_record.pack(payload) for _, payload in payloads)
            disk.write_all(self._active_file, data or _PROBE)
            if not data:  # a test for free space: nothing to keep
                os.ftruncate(self._active_file, self._active_size)
            self._fsync(self._active_file)
            if not os.fstat(self._active_file).st_nlink:
                raise FileNotFoundError(errno.ENOENT, "somebody has deleted it, with results")
        except OSError:
            # After a failed write or fsync the contents of the file are unknown: the same results
            # are written again to a new one. The records before them are still valid.
            self._end_segment()
            raise
        self._active_size += len(data)
        for claim, _ in payloads:
            self._by_claim[claim] = segment
            segment.claims.add(claim)

    def _begin_segment(self) -> SpoolSegment:
        self._end_segment()
        home = self._homes[self._process]
        if not (home.path / "lock").exists():
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            home = self._make_home()
        self._numbers += 1
        path = home.path / f"{self._numbers:06}{SUFFIX}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._active_file = os.open(path, flags, 0o600)
        self._active_size = 0
        self._active = segment = SpoolSegment(path, home)
        home.segments.add(segment)
        self._sync_directory(home.path)
        return segment

    def _end_segment(self) -> None:
        segment, self._active = self._active, None
        if segment is None:
            return
        file, self._active_file = self._active_file, -1
        os.close(file)
        if not segment.claims:
            self._drop(segment)

    def _sync_directory(self, path: Path) -> None:
        file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._fsync(file)
        finally:
            os.close(file)

    def _tidy_quietly(self) -> None:
        try:
            self._tidy()
        except OSError as error:
            # What cannot be removed is sent again by the next process, which is harmless.
            _logger.warning("cannot tidy up %s: %s", self._directory, error)

    def _tidy(self) -> None:
        self._tidying = False
        while self._removed:
            claim = self._removed.popleft()
            segment = self._by_claim.pop(claim, None)
            if segment is None:
                continue
            segment.claims.discard(claim)
            if not segment.claims:
                if segment is self._active:
                    os.ftruncate(self._active_file, 0)
                    self._active_size = 0
                else:
                    self._drop(segment)

    def _drop(self, segment: SpoolSegment) -> None:
        """Delete a segment whose results all have their receipt."""
        segment.home.segments.discard(segment)
        segment.remove()
        if not segment.home.segments and segment.home.path.name != self._process:
            self._leave(segment.home)

    def _leave(self, home: ProcessDirectory) -> None:
        """Unlock a directory, and remove it if it is empty."""
        del self._homes[home.path.name]
        try:
            if all(path.name == "lock" for path in home.path.iterdir()):
                (home.path / "lock").unlink()
                home.path.rmdir()
        finally:
            os.close(home.lock)

    def _adopt(self) -> list[Result]:
        results: list[Result] = []
        with self._directories_locked():
            for path in sorted(self._directory.iterdir()):
                # Only directories like ours: spool_dir may contain other things.
                if path.name in self._homes or not _PROCESS.fullmatch(path.name):
                    continue
                try:
                    results += self._adopt_home(path)
                except OSError as error:
                    self._passed_over(path, error)
        return results

    def _adopt_home(self, path: Path) -> list[Result]:
        lock = disk.lock(path / "lock")
        if lock is None:
            return []  # its process is alive
        home = ProcessDirectory(path, lock)
        self._homes[path.name] = home
        results: list[Result] = []
        for file in sorted(path.glob(f"*{SUFFIX}")):
            try:
                results += self._adopt_segment(file, home)
            except OSError as error:
                self._passed_over(file, error)
        if not home.segments:
            self._leave(home)
        return results

    def _passed_over(self, path: Path, error: OSError) -> None:
        """Log once that this cannot be read; the rest is still delivered."""
        if path not in self._unreadable:
            self._unreadable.add(path)
            _logger.error("results in %s cannot be read and stay there: %s", path, error)

    def _adopt_segment(self, path: Path, home: ProcessDirectory) -> list[Result]:
        found, has_problems = read(path)
        segment = SpoolSegment(path, home, is_kept=has_problems)
        home.segments.add(segment)
        results = [result for result in found if claim_of(result) not in self._by_claim]
        for claim in map(claim_of, results):
            self._by_claim[claim] = segment
            segment.claims.add(claim)
        if not segment.claims:
            home.segments.discard(segment)
            segment.remove()
        return results

    def _close(self) -> None:
        self._tidy()
        self._end_segment()
        for home in list(self._homes.values()):
            if home.segments:
                os.close(home.lock)  # unlocks it: the next process delivers what is left
            else:
                self._leave(home)
        self._homes.clear()

    def _close_quietly(self) -> None:
        with suppress(OSError):
            self._close()
