"""Progress of running attempts: the latest of each, sent at most once a second."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from contextvars import Context

from tickwheel_executor.link.link import Link
from tickwheel_executor.link.links import AdminLinks
from tickwheel_executor.process import forks
from tickwheel_shared.protocol import Progress

_SECONDS = 1.0


class ProgressReporter:
    """Keeps the latest report of each attempt and sends it at most once a second."""

    def __init__(self, links: AdminLinks, *, context: Context) -> None:
        self._links = links
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._lock = threading.Lock()
        self._newest: dict[tuple[int, int], tuple[Progress, Link]] = {}
        self._armed = False
        self._flushed_at = float("-inf")
        forks.watch(self)

    def forked(self) -> None:
        """In a child: nothing is sent, and the thread that held the lock does not exist."""
        self._lock = threading.Lock()
        self._armed = True

    def report(self, progress: Progress, link: Link) -> None:
        """Take the latest progress of an attempt, from any thread."""
        with self._lock:
            self._newest[progress.run, progress.attempt] = (progress, link)
            if self._armed:
                return
            self._armed = True
        if threading.get_ident() == self._loop_thread:
            self._arm()
            return
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._arm, context=self._context)

    def close(self, key: tuple[int, int]) -> None:
        """The attempt has ended: send its last report."""
        with self._lock:
            last = self._newest.pop(key, None)
        if last is not None:
            self._send(*last)

    def _arm(self) -> None:
        at = max(self._loop.time(), self._flushed_at + _SECONDS)
        self._loop.call_at(at, self._flush, context=self._context)

    def _flush(self) -> None:
        with self._lock:
            self._armed = False
            newest, self._newest = self._newest, {}
        self._flushed_at = self._loop.time()
        for progress, link in newest.values():
            self._send(progress, link)

    def _send(self, progress: Progress, link: Link) -> None:
        target = self._links.pick(link)
        if target is not None:  # without a link it is dropped: progress is not guaranteed
            target.send(progress)
