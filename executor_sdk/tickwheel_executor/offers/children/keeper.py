"""The agent's side of the keeper: starts it, and takes supervisors from it."""

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
_MAX_IDLE = 16  # supervisors; each has three megabytes of its own
_BACKLOG_SECONDS = 5.0  # for a keeper that is busy with other runs


class KeeperError(Exception):
    """There is no keeper, and none can be started; says why."""


class Supervisor:
    """The socket to a supervisor, and where it makes private directories."""

    __slots__ = ("__weakref__", "connection", "directory")

    def __init__(self, connection: socket.socket, directory: str) -> None:
        self.connection = connection
        self.directory = directory
        forks.watch(self)

    @property
    def is_alive(self) -> bool:
        """Whether it waits for an order."""
        try:
            self.connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False  # it was closed, or says what nobody asked for

    def close(self) -> None:
        """Let it kill what it runs, and end."""
        self.connection.close()

    def forked(self) -> None:
        """In a child of this process: it would keep the run alive when the agent dies."""
        forks.release_file(self.connection.fileno())


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
        self._idle: list[Supervisor] = []
        forks.watch(self)

    def start(self) -> None:
        """Start it if it does not run.

        Raises:
            KeeperError: that is not possible.
        """
        with self._lock:
            self._started()

    def take(self) -> Supervisor:
        """An idle supervisor, or a new one. The caller closes it, or gives it back.

        Raises:
            KeeperError: no keeper can be started.
            OSError: this process has too many open files.
        """
        with self._lock:
            directory = self._started()
            while self._idle:
                supervisor = self._idle.pop()
                if supervisor.is_alive:
                    return supervisor
                supervisor.close()
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    self._request(theirs)
                except OSError:  # it was killed
                    self._forget()
                    directory = self._started()
                    self._request(theirs)
            ours.setblocking(False)
            return Supervisor(ours, directory)

    def give_back(self, supervisor: Supervisor) -> None:
        """It has reported the end of its command, and nothing else was asked of it."""
        with self._lock:
            if len(self._idle) < _MAX_IDLE and self._process is not None:
                self._idle.append(supervisor)
                return
        supervisor.close()

    def _request(self, theirs: socket.socket) -> None:
        if self._socket is not None:
            socket.send_fds(self._socket, [b"+"], [theirs.fileno()])

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
        self._idle = []

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
        idle, self._idle = self._idle, []
        for supervisor in idle:
            supervisor.close()
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_SECONDS)  # longer only if runs go on
        self._process = self._socket = None
