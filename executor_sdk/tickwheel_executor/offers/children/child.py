"""One child process, from the agent's side: its order, its output, its report."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tickwheel_executor.offers.keeper.wire import FrameReader, frame
from tickwheel_executor.process import forks

from .keeper import KeeperHandle

_CHUNK_BYTES = 64 * 1024
_REPORT_BYTES = 256 * 1024


class ChildLostError(Exception):
    """The supervisor ended without a report: somebody killed it."""


class Child:
    """Made on the running loop; use it in one task, and `close` it."""

    def __init__(self, keeper: KeeperHandle) -> None:
        """Take a supervisor.

        Raises:
            KeeperError: there is none.
            OSError: this process has too many open files.
        """
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader()
        self._messages: list[dict[str, Any]] = []
        self._open: dict[int, None] = {}  # files that can still be read
        self._ready: dict[int, None] = {}  # those that have something
        self._armed: set[int] = set()
        self._waiter: asyncio.Future[None] | None = None
        self.report: dict[str, Any] | None = None
        self._keeper = keeper
        self._is_reusable = True  # its supervisor, after the report
        self._supervisor = keeper.take()
        self._control = self._supervisor.connection
        self.directory = self._supervisor.directory  # for the private directory of the run
        self._theirs: list[int] = []  # the ends of the pipes for the command
        self.output = self.errors = -1
        try:
            self.output = self._pipe()
            self.errors = self._pipe()
        except OSError:
            self.close()
            raise
        self._open = dict.fromkeys((self._control.fileno(), self.output, self.errors))
        forks.watch(self)

    def _pipe(self) -> int:
        reader, writer = os.pipe()
        self._theirs.append(writer)
        os.set_blocking(reader, False)
        return reader

    def forked(self) -> None:
        """In a child of this process: the pipes belong to the parent."""
        for file in (self.output, self.errors, *self._theirs):
            forks.release_file(file)

    async def order(self, order: dict[str, Any]) -> None:
        """Say what to start."""
        data = frame(order)
        with suppress(ConnectionError):  # `wait` finds out
            sent = socket.send_fds(self._control, [data], self._theirs)  # its buffer is empty
            self._close_theirs()
            if sent < len(data):
                await self._loop.sock_sendall(self._control, data[sent:])

    def _close_theirs(self) -> None:
        files, self._theirs = self._theirs, []
        for file in files:
            os.close(file)

    def stop(self, grace_seconds: float) -> None:
        """Ask it to end, and kill what is left after these seconds; 0: kill it now."""
        self._is_reusable = False  # this may come after the report
        with suppress(OSError):
            self._control.send(frame({"stop": grace_seconds}))

    async def wait(self) -> None:
        """Wait until there is something to take, or nothing more will come.

        Raises:
            ChildLostError: there is no report, and none will come.
        """
        if self.report is not None:  # nobody is left who could write more than the pipes hold
            self._ready = dict.fromkeys(self._open)
            await asyncio.sleep(0)
            return
        for file in self._open:
            if file not in self._armed:
                self._loop.add_reader(file, self._on_readable, file)
                self._armed.add(file)
        if not self._ready:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def take(
        self,
        output: Callable[[bytes], None],
        errors: Callable[[bytes], None],
        file: Callable[[dict[str, Any]], None],
    ) -> None:
        """Hand over what has come: output, errors, and a file that changed."""
        ready, self._ready = self._ready, {}
        for number in ready:
            if number == self._control.fileno():
                self._take_messages(file)
            elif data := self._read(number):
                (output if number == self.output else errors)(data)

    @property
    def is_over(self) -> bool:
        """Whether there is a report, and all output has been taken."""
        return self.report is not None and not self._open

    def close(self) -> None:
        """Close all files; a command that still runs is killed."""
        self._close_theirs()
        for file in self._armed:
            self._loop.remove_reader(file)
        self._armed.clear()
        for file in (self.output, self.errors):
            if file >= 0:
                os.close(file)
        if self.report is not None and self._is_reusable:
            self._keeper.give_back(self._supervisor)
        else:
            self._supervisor.close()

    def _on_readable(self, file: int) -> None:
        # Once: whoever reads may have to wait before, and would be called in every turn.
        self._loop.remove_reader(file)
        self._armed.discard(file)
        self._ready[file] = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _read(self, file: int) -> bytes:
        try:
            data = os.read(file, _CHUNK_BYTES)
        except BlockingIOError:
            if self.report is not None:  # somebody else holds the other end
                self._open.pop(file, None)
            return b""
        if not data:
            self._open.pop(file, None)
        return data

    def _take_messages(self, file: Callable[[dict[str, Any]], None]) -> None:
        try:
            data = self._control.recv(_REPORT_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data and self.report is None:
            raise ChildLostError
        for message in self._reader.feed(data):
            if "report" in message:
                self.report = message["report"]
            else:
                file(message)
        if self.report is not None:
            self._open.pop(self._control.fileno(), None)
