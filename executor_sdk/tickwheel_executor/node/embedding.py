"""A node in a background thread, for programs without an event loop.

When the main thread ends, Python first stops its thread pools and then calls `atexit`: too late for
a node that still has results to write. So the node is stopped just before that.
"""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401 (imported first: what registers later is called earlier)
import logging
import threading

from tickwheel_executor.errors import ConfigurationError, SpoolError
from tickwheel_executor.process import forks
from tickwheel_executor.process.loop_thread import LoopThread
from tickwheel_executor.run.context import running

from .lifecycle import NodeLifecycle

_logger = logging.getLogger("tickwheel.executor")

_STOP_SECONDS = 30.0  # on top of the grace period: more than all other steps of a shutdown take

_at_exit = getattr(threading, "_register_atexit", atexit.register)


class EmbeddedNode:
    """Starts and stops a node in a background thread; callable from any thread."""

    def __init__(self, life: NodeLifecycle, *, grace_seconds: float) -> None:
        self._lifecycle = life
        self._stop_seconds = grace_seconds + _STOP_SECONDS
        self._guard = threading.Lock()
        self._thread: LoopThread | None = None
        forks.watch(self)

    def start(self, timeout: float | None) -> None:
        """Start a node; returns when its spool is open.

        Raises:
            ConfigurationError: it was already started.
            SpoolError: the spool cannot be used, or did not open within `timeout` seconds.
        """
        with self._guard:
            if self._thread is not None:
                raise ConfigurationError(["this executor has been started already"])
            _running.register()
            thread = LoopThread()
            try:
                thread.call(self._lifecycle.start(), timeout=timeout)
            except BaseException as error:
                thread.end()
                if isinstance(error, TimeoutError) and timeout is not None:
                    raise SpoolError(f"the spool did not open within {timeout:g} s") from error
                raise
            self._thread = thread
            _running.add(self)

    def stop(self) -> bool:
        """Stop the node, if there is one; returns whether nothing was left behind.

        Raises:
            RuntimeError: called from a handler, which would deadlock.
        """
        thread = self._thread
        if thread is not None and (thread.is_current or running.get(None) is not None):
            raise RuntimeError("a handler cannot stop its own executor: it would wait for itself")
        with self._guard:
            thread, self._thread = self._thread, None
            _running.discard(self)
            if thread is None:
                return True
            try:
                clean = thread.call(self._lifecycle.stop(), timeout=self._stop_seconds)
            except TimeoutError:
                clean = False
            finally:
                has_ended = thread.end()
            if not has_ended:
                _logger.warning("a handler blocks the event loop: the node is left behind")
            return clean and has_ended

    def forked(self) -> None:
        """In a child: the thread, and the one that held the lock, exist only in the parent."""
        self._thread = None
        self._guard = threading.Lock()


class _RunningNodes:
    """The nodes to stop when the main thread ends."""

    def __init__(self) -> None:
        self._nodes: list[EmbeddedNode] = []
        self._registered = False

    def register(self) -> None:
        """Register with the interpreter's shutdown.

        Raises:
            RuntimeError: it is shutting down already.
        """
        if not self._registered:
            _at_exit(self._stop_all)
            self._registered = True

    def add(self, node: EmbeddedNode) -> None:
        """Stop this node at the end."""
        self._nodes.append(node)

    def discard(self, node: EmbeddedNode) -> None:
        """This node has been stopped."""
        if node in self._nodes:
            self._nodes.remove(node)

    def forked(self) -> None:
        """In a child: none of them is running."""
        self._nodes.clear()

    def _stop_all(self) -> None:
        for node in list(self._nodes):
            node.stop()


_running = _RunningNodes()
forks.watch(_running)
