"""Starts and stops the node of an executor, any number of times."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING
from urllib.parse import quote

from tickwheel_executor.errors import ConfigurationError
from tickwheel_executor.handlers.handlers import Handlers
from tickwheel_executor.link.channel import connect
from tickwheel_executor.logs.capture import capture
from tickwheel_executor.process import forks
from tickwheel_executor.settings import NodeSettings
from tickwheel_executor.spool.file_spool import FileSpool
from tickwheel_shared.otel import TracingError

from .metrics import NodeMetrics
from .node import Node

if TYPE_CHECKING:
    from tickwheel_executor.tracing.spans import AttemptTracer

_logger = logging.getLogger("tickwheel.executor")


class NodeLifecycle:
    """Has at most one node; each start creates a new one, with a new key.

    Args:
        settings: called at each start, because a forked process has another name.
    """

    def __init__(
        self,
        settings: Callable[[], NodeSettings],
        handlers: Handlers,
        *,
        spool_dir: Path | None,
        grace_seconds: float,
    ) -> None:
        self._settings = settings
        self._handlers = handlers
        self._spool_dir = spool_dir
        self._grace_seconds = grace_seconds
        self._node: Node | None = None
        self._tracer: AttemptTracer | None = None  # of the newest node
        self._spool: FileSpool | None = None  # of the newest node
        forks.watch(self)

    async def start(self) -> None:
        """Create a node on the running loop; returns when its spool is open.

        Raises:
            ConfigurationError: it was already started; or the environment asks for an exporter of
                traces that is not installed.
            SpoolError: the spool cannot be used.
        """
        if self._node is not None:
            raise ConfigurationError(["this executor has been started already"])
        settings = self._settings()
        random = SystemRandom()
        directory = self._spool_dir or _default_spool_dir(settings.executor)
        self._spool = spool = FileSpool(directory, f"{random.getrandbits(128):032x}")
        self._tracer = _tracer_of(settings)
        self._node = node = Node(
            settings,
            self._handlers,
            connect=partial(connect, tls=settings.tls),
            spool=spool,
            clock=lambda: time.time_ns() // 1_000_000,
            random=random,
            tracer=self._tracer,
        )
        _logger.info(
            "executor %s, node %s: %d handlers, %d slots, admins %s, spool %s",
            settings.executor,
            settings.name,
            len(self._handlers),
            settings.slots,
            ", ".join(settings.admins),
            directory,
        )
        if not len(self._handlers):
            _logger.warning("no handlers are registered: every run will be refused")
        capture.begin()
        try:
            await node.start()
        except BaseException:  # also when cancelled: leave nothing behind in the host process
            self._node = None
            capture.end()
            node.abort(break_channels=True)
            spool.give_up()
            raise

    def metrics(self) -> NodeMetrics:
        """Numbers of the node; zeros, if there is none."""
        node = self._node  # a thread may ask while another stops it
        return NodeMetrics() if node is None else node.metrics()

    async def until_refused(self) -> str:
        """Wait until every configured admin has refused the node and none ever welcomed it; why."""
        if self._node is None:
            raise ConfigurationError(["this executor has not been started"])
        return await self._node.until_refused()

    async def stop(self) -> bool:
        """Stop the node, if there is one; returns whether nothing was left behind."""
        node, spool = self._node, self._spool
        if node is None or spool is None:
            return True
        try:
            clean = await node.drain(self._grace_seconds)
            if self._tracer is not None:
                await self._tracer.flush()
        except BaseException:  # cancelled while draining: nothing may continue in the background
            node.abort(break_channels=True)
            spool.give_up()  # unlocked, so that the next node delivers its results
            raise
        finally:
            if self._node is node:  # else another call has stopped it
                self._node = None
                capture.end()
        _logger.info("ended%s", "" if clean else "; something was left behind, see above")
        return clean

    def forked(self) -> None:
        """In a child: the node is the parent's."""
        self._node = None


def _tracer_of(settings: NodeSettings) -> AttemptTracer | None:
    if not settings.tracing:
        return None
    # Only here: OpenTelemetry is an extra, and who does not trace must not wait for it.
    from tickwheel_executor.tracing.spans import AttemptTracer

    try:
        return AttemptTracer.of_process(service=settings.executor, instance=settings.name)
    except TracingError as error:
        raise ConfigurationError([str(error)]) from None


def _default_spool_dir(executor: str) -> Path:
    base = os.environ.get("XDG_STATE_HOME", "")
    try:
        root = Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        raise ConfigurationError(
            ["this user has no home directory for the spool: give `spool_dir`"]
        ) from None
    # A name may be any text: make it one path component other than "." and "..".
    return root / "tickwheel" / quote(executor, safe="").replace(".", "%2E")
