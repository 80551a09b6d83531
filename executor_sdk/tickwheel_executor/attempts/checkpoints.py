"""Checkpoints of running attempts: the latest of each, sent at most once a second.

Checkpoints have no receipts. One that was sent on a socket that closed afterwards may be lost, so
it is sent again on another socket; its number tells the admins which is newer. The last checkpoint
of an attempt is also part of its result, unless it succeeds.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass

import msgspec

from tickwheel_executor.as_json import NULL
from tickwheel_executor.attempt_key import Key, key_of
from tickwheel_executor.link.link import Link
from tickwheel_executor.link.links import AdminLinks
from tickwheel_executor.process import forks
from tickwheel_shared.protocol import Checkpoint, RunRequest

_SECONDS = 1.0


@dataclass(slots=True)
class _LatestCheckpoint:
    """The checkpoint that an attempt saved last."""

    request: RunRequest
    link: Link  # where the run came from
    data: bytes = b"null"  # JSON
    seq: int = 0  # of the checkpoint, from 1
    sent_on: Link | None = None  # None: it must be sent


class Checkpoints:
    """Keeps the newest checkpoint of every attempt in flight and sends it to an admin."""

    def __init__(
        self, links: AdminLinks, *, context: Context, is_running: Callable[[Key], bool]
    ) -> None:
        self._links = links
        self._is_running = is_running  # whether the handler of an attempt has not ended
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._lock = threading.Lock()
        self._by_key: dict[Key, _LatestCheckpoint] = {}  # attempts that have saved one
        self._armed = False
        self._flushed_at = float("-inf")
        forks.watch(self)

    def forked(self) -> None:
        """In a child: nothing is in flight, and the thread that held the lock does not exist."""
        self._lock = threading.Lock()
        self._by_key = {}
        self._is_running = lambda _: False

    def save(self, request: RunRequest, link: Link, data: msgspec.Raw) -> None:
        """Take the latest checkpoint of an attempt, from any thread; ignored after its end."""
        key = key_of(request)
        with self._lock:
            newest = self._by_key.get(key)
            if newest is None:
                if not self._is_running(key):
                    return
                newest = self._by_key[key] = _LatestCheckpoint(request, link)
            newest.data, newest.sent_on = bytes(data), None
            newest.seq += 1
            if self._armed:
                return
            self._armed = True
        if threading.get_ident() == self._loop_thread:
            self._arm()
            return
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._arm, context=self._context)

    def end(self, key: Key) -> msgspec.Raw:
        """The handler has ended: returns its last checkpoint, null if there is none."""
        with self._lock:
            newest = self._by_key.pop(key, None)
        if newest is None:
            return NULL
        if newest.data == b"null" and newest.sent_on is None:
            self._send(newest)  # a result cannot remove an earlier checkpoint
        return msgspec.Raw(newest.data)

    def opened(self) -> None:
        """A socket has opened."""
        self._arm_if_needed()

    def closed(self, link: Link) -> None:
        """What was sent on this socket last may not have arrived."""
        with self._lock:
            for newest in self._by_key.values():
                if newest.sent_on is link:
                    newest.sent_on = None
        self._arm_if_needed()

    def _arm_if_needed(self) -> None:
        with self._lock:
            waits = any(each.sent_on is None for each in self._by_key.values())
            if self._armed or not waits:
                return
            self._armed = True
        self._arm()

    def _arm(self) -> None:
        at = max(self._loop.time(), self._flushed_at + _SECONDS)
        self._loop.call_at(at, self._flush, context=self._context)

    def _flush(self) -> None:
        self._flushed_at = self._loop.time()
        with self._lock:
            self._armed = False
            for newest in self._by_key.values():
                if newest.sent_on is None:
                    newest.sent_on = self._send(newest)

    def _send(self, newest: _LatestCheckpoint) -> Link | None:
        """Send it; None: no socket is open, and it is sent on the next one."""
        target = self._links.pick(newest.link)
        if target is not None:
            request = newest.request
            target.send(
                Checkpoint(
                    run=request.run,
                    attempt=request.attempt,
                    token=request.token,
                    seq=newest.seq,
                    data=msgspec.Raw(newest.data),
                )
            )
        return target
