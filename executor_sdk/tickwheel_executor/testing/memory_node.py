"""A node without admin, network or disk, which runs what a test asks it to."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from dataclasses import replace

from tickwheel_executor.handlers.handlers import Handlers
from tickwheel_executor.logs.capture import capture
from tickwheel_executor.node.node import Node
from tickwheel_executor.settings import NodeSettings
from tickwheel_shared.protocol import Progress, RunRequest

from .attempts import FakeAttempt
from .handler_end import HandlerEnd, ReportedProgress
from .memory import MemoryChannel, MemorySpool
from .session import FakeAdminState

_URL = "http://run-handler.invalid"
_GRACE_SECONDS = 5.0  # the handler has ended by then; what it started may not have


class MemoryNode:
    """Runs handlers as a node does, while its block is entered.

    Args:
        name: of the node.
        slots: how many runs at once; more than that are refused.
    """

    def __init__(self, handlers: Handlers, *, name: str, slots: int = 1) -> None:
        self._progress: defaultdict[int, list[ReportedProgress]] = defaultdict(list)
        self._ready = asyncio.Event()
        self._channel = MemoryChannel(FakeAdminState(), on_change=self._ready.set)
        settings = NodeSettings(
            executor="test", admins=(_URL,), token="", name=name, slots=slots, labels={}
        )
        self._node = Node(
            settings,
            handlers,
            connect=self._connect,
            spool=MemorySpool(),
            clock=lambda: time.time_ns() // 1_000_000,
            random=random.Random(),
            on_progress=self._on_progress,
        )

    async def __aenter__(self) -> MemoryNode:
        """Start it; raises HandlerError for a handler that no node would take."""
        capture.begin()
        try:
            await self._node.start()
            await self._ready.wait()
        except BaseException:  # cancelled or refused
            self._abort()
            raise
        return self

    async def __aexit__(self, kind: object, error: object, traceback: object) -> None:
        """End it; after an error nothing may continue after the test."""
        if error is not None:
            self._abort()
            return
        try:
            await self._node.drain(_GRACE_SECONDS)
        except BaseException:
            self._node.abort(break_channels=True)
            raise
        finally:
            capture.end()

    async def run(self, request: RunRequest, *, cancel_after: float | None = None) -> HandlerEnd:
        """How the handler ended.

        Args:
            cancel_after: seconds after which it is cancelled.

        Raises:
            RunRefusedError: the node did not start it.
        """
        attempt = FakeAttempt(request)
        self._channel.session.dispatch(attempt)
        if cancel_after is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(cancel_after, self._channel.session.cancel, request)
        end = await attempt.end()
        # All reports: a node sends only some of them.
        return replace(end, progress=self._progress[request.run])

    def _abort(self) -> None:
        self._node.abort(break_channels=True)
        capture.end()

    async def _connect(self, url: str, token: str) -> MemoryChannel:
        return self._channel

    def _on_progress(self, report: Progress) -> None:
        self._progress[report.run].append(ReportedProgress(report.fraction, report.text))
