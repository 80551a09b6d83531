"""The connection of a pool process to its node, and the signal that interrupts a handler.

A signal raises an exception in the main thread, wherever the handler is. It must not interrupt the
sending of a message, which would corrupt the connection. So while the main thread sends, the signal
is only recorded, and the exception is raised when the message is complete.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

from tickwheel_executor.errors import RunCancelledError
from tickwheel_executor.process import forks

from .process_wire import frame_of

_LAST_SECONDS = 0.2


class NodeConnection:
    """Sends messages to the node, from any thread."""

    def __init__(self, connection: socket.socket, interrupt: Interrupt) -> None:
        self._connection = connection
        self._interrupt = interrupt
        self._lock = threading.RLock()  # objects that are freed meanwhile may log or warn
        self._is_copy = False
        forks.watch(self)

    def forked(self) -> None:
        """In a child of the handler: it sends nothing and keeps nothing open."""
        self._is_copy = True
        forks.release_file(self._connection.fileno())

    def send(self, message: Any) -> None:
        """Send; waits while the node does not read, which slows down a handler that logs a lot."""
        if self._is_copy:
            return
        data = frame_of(message)
        with self._interrupt.deferred(), self._lock:
            try:
                self._connection.sendall(data)
            except OSError:
                os.killpg(0, signal.SIGKILL)  # the node has ended: end with all we started

    def send_last(self, message: Any) -> None:
        """Send it if possible without waiting; nothing may be sent after it."""
        if self._lock.acquire(timeout=_LAST_SECONDS):
            self._connection.setblocking(False)
            with suppress(OSError):
                self._connection.send(frame_of(message))


class Interrupt:
    """Raises RunCancelledError in the main thread while a handler executes, once per run."""

    def __init__(self) -> None:
        self._armed = False
        self._depth = 0  # of nested blocks that must not be interrupted
        self._noted = False
        self._main = threading.main_thread().ident or 0
        signal.signal(signal.SIGTERM, self._on_signal)  # a stray signal must not end the process

    def arm(self) -> None:
        """Allow it; called in the main thread."""
        self._noted = False
        signal.signal(signal.SIGTERM, self._on_signal)  # again: a module may have set another
        self._armed = True

    def disarm(self) -> None:
        """Do not allow it any more."""
        self._armed = False

    def set_off(self) -> None:
        """Raise it, from another thread; system calls of the handler are interrupted."""
        signal.pthread_kill(self._main, signal.SIGTERM)

    def deferred(self) -> _Deferral:
        """Raise it only after this block, if the main thread executes it."""
        return _Deferral(self, threading.get_ident() == self._main)

    def hold(self) -> None:
        self._depth += 1

    def release(self) -> None:
        self._depth -= 1
        if self._noted and not self._depth and self._armed:
            self._noted = self._armed = False
            raise RunCancelledError("the run was told to end")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._armed:
            return  # stray, or too late
        if self._depth:
            self._noted = True
            return
        self._armed = False
        raise RunCancelledError("the run was told to end")


class _Deferral:
    """Context manager of `Interrupt.deferred`."""

    __slots__ = ("_applies", "_interrupt")

    def __init__(self, interrupt: Interrupt, applies: bool) -> None:
        self._interrupt = interrupt
        self._applies = applies

    def __enter__(self) -> None:
        if self._applies:
            self._interrupt.hold()

    def __exit__(self, *_: object) -> None:
        if self._applies:
            self._interrupt.release()
