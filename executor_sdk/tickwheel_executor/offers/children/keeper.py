"""The agent's side of the keeper: starts it, and hands it the files of each run."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from tickwheel_executor.process import forks
from tickwheel_executor.runner.guard import python

_PROGRAM = Path(__file__).parents[1] / "keeper" / "boot.py"
_END_SECONDS = 1.0
_BACKLOG_SECONDS = 5.0  # for a keeper that is busy with other runs


class KeeperError(Exception):
    """There is no keeper, and none can be started; says why."""


class Keeper:
    """One keeper process, started when it is needed. Safe to use from any thread.

    Args:
        parent: directory for the private directories of runs; None: that for temporary files.
        is_open: whether users other than this process's own may pass through it.
    """

    def __init__(self, parent: Path | None, *, is_open: bool) -> None:
        self._parent = parent
        self._is_open = is_open
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._directory = ""
        forks.watch(self)

    def start(self) -> str:
        """Start it if it does not run; returns the directory for the runs' own ones.

        Raises:
            KeeperError: that is not possible.
        """
        with self._lock:
            return self._started()

    def send(self, files: tuple[int, int, int]) -> None:
        """Let it fork a supervisor with these files: socket, output, errors.

        Raises:
            KeeperError: it has ended; `start` starts another.
        """
        with self._lock:
            if self._socket is None:
                raise KeeperError("the keeper of child processes has ended")
            try:
                socket.send_fds(self._socket, [b"+"], files)
            except OSError as error:
                self._forget()
                raise KeeperError(f"the keeper of child processes has ended: {error}") from error

    def close(self) -> None:
        """Let it end; it ends by itself when this process does."""
        with self._lock:
            self._forget()

    def forked(self) -> None:
        """In a child: the keeper is the parent's."""
        if self._socket is not None:
            forks.release_file(self._socket.fileno())
        self._lock = threading.Lock()
        self._process = self._socket = None

    def _started(self) -> str:
        if self._process is not None and self._process.poll() is not None:
            self._forget()  # it was killed; the supervisors that it had go on
        if self._process is not None:
            return self._directory
        ours, theirs = socket.socketpair()
        ours.settimeout(_BACKLOG_SECONDS)
        directory = ""
        try:
            with theirs:
                directory = tempfile.mkdtemp(prefix="tickwheel-", dir=self._parent)
                directory = os.path.realpath(directory)
                os.chmod(directory, 0o711 if self._is_open else 0o700)
                self._process = subprocess.Popen(  # noqa: S603 (our own program)
                    [
                        *(python(), "-I", "-S", "-X", "utf8", str(_PROGRAM)),
                        *(str(theirs.fileno()), directory),
                    ],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # signals of the agent's terminal must not end it
                )
        except OSError as error:
            ours.close()
            if directory:
                shutil.rmtree(directory, ignore_errors=True)
            raise KeeperError(f"no keeper of child processes can be started: {error}") from error
        self._socket, self._directory = ours, directory
        atexit.register(self.close)
        return directory

    def _forget(self) -> None:
        atexit.unregister(self.close)
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_SECONDS)  # longer only if runs go on
        self._process = self._socket = None
