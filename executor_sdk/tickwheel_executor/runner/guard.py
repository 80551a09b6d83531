"""Starts and feeds process_guard.py, which kills the pool processes of a node that died."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from multiprocessing.spawn import get_executable
from pathlib import Path

from tickwheel_executor.process import forks

_logger = logging.getLogger("tickwheel.executor")

_PROGRAM = Path(__file__).with_name("process_guard.py")


def python() -> str:
    """The interpreter for other processes; multiprocessing.set_executable() can change it."""
    executable = get_executable()
    return executable.decode() if isinstance(executable, bytes) else executable or sys.executable


class ProcessGuard:
    """Knows every process group that is alive; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._living: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        forks.watch(self)

    def forked(self) -> None:
        """In a child: the groups, and the pipe to the guard, belong to the parent."""
        if self._process is not None and self._process.stdin is not None:
            forks.release_file(self._process.stdin.fileno())
        self._process = None
        self._living = set()
        self._lock = threading.Lock()

    def watch(self, group: int) -> None:
        """Kill this process group if the node dies."""
        with self._lock:
            self._living.add(group)
            self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        """It has ended; called before its number can be reused."""
        with self._lock:
            self._living.discard(group)
            self._tell(f"-{group}\n")

    def close(self) -> None:
        """Kill all groups that are left."""
        with self._lock:
            self._closed = True
            process, self._process = self._process, None
        if process is not None:
            process.communicate()  # closes its input, which makes it act

    def _tell(self, line: str) -> None:
        if self._closed:
            return  # everything has been killed
        if self._process is not None:
            try:
                self._write(self._process, line)
            except OSError:  # it was killed
                self._process.communicate()
                self._process = None
            else:
                return
        if not self._living:
            return
        try:
            self._process = self._start()
            self._write(self._process, "".join(f"+{group}\n" for group in sorted(self._living)))
        except OSError as error:  # without it, only hanging processes would outlive the node
            _logger.warning("no guard for the processes of handlers: %s", error)

    @staticmethod
    def _write(process: subprocess.Popen[bytes], text: str) -> None:
        assert process.stdin is not None  # noqa: S101 (requested below)
        process.stdin.write(text.encode())

    @staticmethod
    def _start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 (our own program)
            [python(), "-I", "-S", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # signals of the node's terminal must not end it
        )
