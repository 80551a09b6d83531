"""The agent's side of the keeper: starts it, and takes supervisors from it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from weakref import finalize

from tickwheel_executor.process import forks
from tickwheel_executor.runner.guard import python

_PROGRAM = Path(__file__).parents[1] / "keeper" / "boot.py"
_END_SECONDS = 1.0
_MAX_IDLE = 16  # supervisors; each has three megabytes of its own
_BACKLOG_SECONDS = 5.0  # for a keeper that is busy with other runs


class KeeperError(Exception):
    """There is no keeper, and none can be started; says why."""


class SupervisorHandle:
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


@dataclass(slots=True)
class _Process:
    """A keeper that was started."""

    process: subprocess.Popen[bytes]
    connection: socket.socket
    directory: str  # for the runs' own ones
    idle: list[SupervisorHandle] = field(default_factory=list)

    def end(self) -> None:
        for supervisor in self.idle:
            supervisor.close()
        self.idle.clear()
        self.connection.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_SECONDS)  # longer only if runs go on


class KeeperHandle:
    """One keeper process, started when it is needed. Safe to use from any thread.

    It ends with this object, or with this process.

    Args:
        parent: directory for the private directories of runs; None: that for temporary files.
        is_open: whether users other than this process's own may pass through it.
        cgroup: a group to remove at the end.
    """

    def __init__(self, parent: Path | None, *, is_open: bool, cgroup: Path | None = None) -> None:
        self._parent = parent
        self._cgroup = cgroup
        self._is_open = is_open
        self._lock = threading.Lock()
        self._running: _Process | None = None
        self._finalizer: finalize[[], KeeperHandle] | None = None
        forks.watch(self)

    @property
    def pid(self) -> int | None:
        """Its process id; None: it does not run."""
        return self._running.process.pid if self._running is not None else None

    def start(self) -> None:
        """Start it if it does not run.

        Raises:
            KeeperError: that is not possible.
        """
        with self._lock:
            self._started()

    def take(self) -> SupervisorHandle:
        """An idle supervisor, or a new one. The caller closes it, or gives it back.

        Raises:
            KeeperError: no keeper can be started.
            OSError: this process has too many open files.
        """
        with self._lock:
            running = self._started()
            while running.idle:
                supervisor = running.idle.pop()
                if supervisor.is_alive:
                    return supervisor
                supervisor.close()
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    socket.send_fds(running.connection, [b"+"], [theirs.fileno()])
                except OSError:  # it was killed
                    self._end()
                    running = self._started()
                    socket.send_fds(running.connection, [b"+"], [theirs.fileno()])
            ours.setblocking(False)
            return SupervisorHandle(ours, running.directory)

    def give_back(self, supervisor: SupervisorHandle) -> None:
        """It has reported the end of its command, and nothing else was asked of it."""
        with self._lock:
            running = self._running
            if running is not None and len(running.idle) < _MAX_IDLE:
                running.idle.append(supervisor)
                return
        supervisor.close()

    def close(self) -> None:
        """Let it end; runs that go on are killed."""
        with self._lock:
            self._end()

    def forked(self) -> None:
        """In a child: the keeper is the parent's."""
        self._lock = threading.Lock()
        running, self._running = self._running, None
        if running is not None:
            forks.release_file(running.connection.fileno())
            running.idle.clear()
        if self._finalizer is not None:
            self._finalizer.detach()

    def _started(self) -> _Process:
        if self._running is not None and self._running.process.poll() is not None:
            self._end()  # it was killed; the supervisors that it had go on
        if self._running is None:
            self._running = self._start()
            self._finalizer = finalize(self, self._running.end)
        return self._running

    def _start(self) -> _Process:
        ours, theirs = socket.socketpair()
        ours.settimeout(_BACKLOG_SECONDS)
        directory = ""
        try:
            with theirs:
                directory = tempfile.mkdtemp(prefix="tickwheel-agent-", dir=self._parent)
                directory = os.path.realpath(directory)
                os.chmod(directory, 0o711 if self._is_open else 0o700)
                process = subprocess.Popen(  # noqa: S603 (our own program)
                    [
                        *(python(), "-I", "-S", "-X", "utf8", str(_PROGRAM)),
                        *(str(theirs.fileno()), directory, str(self._cgroup or "")),
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
        return _Process(process, ours, directory)

    def _end(self) -> None:
        running, self._running = self._running, None
        if running is not None and self._finalizer is not None:
            self._finalizer.detach()
            running.end()
