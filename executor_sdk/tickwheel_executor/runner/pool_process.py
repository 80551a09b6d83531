"""One process of the pool, from the node's side: start, messages, supervision, kill."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from tickwheel_executor.process import forks

from .guard import ProcessGuard, python
from .process_wire import FromProcess, MessageReader, ReadySignal, Setup, frame_of

_PROGRAM = Path(__file__).with_name("process_boot.py")
_CHUNK_BYTES = 256 * 1024
_LOOK_AGAIN_MS = 500  # where there is no pidfd to wait for
START_SECONDS = 60.0  # for the imports of a service
_LEAVE_SECONDS = 2.0


class NotStartedError(Exception):
    """The process could not be started; says why."""


class PoolProcess:
    """A running process. All methods but `kill` are for the one thread that talks to it."""

    def __init__(self, guard: ProcessGuard, *, title: str) -> None:
        """Start it; `begin` comes next.

        Raises:
            NotStartedError: the system gives no process.
        """
        self._guard = guard
        self._lock = threading.Lock()  # guards sending, killing and the end of the process
        self._reader = MessageReader(FromProcess)
        self._inbox: list[Any] = []
        self._socket, theirs = socket.socketpair()
        self._pidfd = -1
        self._is_over = False
        self._is_sending = False
        self.is_ready = False  # it has loaded the handlers
        self._was_too_slow = False  # to load them, and was killed
        forks.watch(self)
        try:
            with theirs:
                self._process = self._spawn(theirs, title)
        except OSError as error:
            self._socket.close()
            raise NotStartedError(str(error)) from error
        self.pid = self._process.pid
        guard.watch(self.pid)
        with suppress(AttributeError, OSError):  # Linux has it, macOS does not
            self._pidfd = os.pidfd_open(self.pid)
        self._socket.setblocking(False)

    def _spawn(self, theirs: socket.socket, title: str) -> subprocess.Popen[bytes]:
        flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        return subprocess.Popen(  # noqa: S603 (our own program)
            [python(), *flags, str(_PROGRAM), str(theirs.fileno()), title],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # its own process group, and no signals of a terminal
        )

    def begin(self, setup: Setup) -> bool:
        """Wait until it is ready; returns whether it is. It may be killed meanwhile."""
        path = [each for each in sys.path if isinstance(each, str)]  # imports ignore the others
        first = json.dumps(path).encode() + b"\n" + frame_of(setup)
        timer = threading.Timer(START_SECONDS, self._give_up)
        timer.daemon = True
        timer.start()
        self._send_bytes(first)
        self.is_ready = isinstance(self.receive(), ReadySignal)
        timer.cancel()
        return self.is_ready

    def _give_up(self) -> None:
        self._was_too_slow = True
        self.kill()

    def why_not_ready(self, how: str) -> str:
        """Why it did not become ready; `how` is the result of `end`."""
        if self._was_too_slow:
            return f"it was not ready within {START_SECONDS:g} s and was killed"
        return f"it {how} before it was ready"

    def forked(self) -> None:
        """In a child of the node: the socket belongs to the parent."""
        forks.release_file(self._socket.fileno())
        forks.release_file(self._pidfd)
        self._is_over = True

    # --- messages ---------------------------------------------------------------------------------

    def send(self, message: Any) -> None:
        """Send a message; waits while the process does not read, does nothing if it is dead."""
        self._send_bytes(frame_of(message))

    def send_now(self, message: Any) -> None:
        """Send a short message from any thread, if that is possible without waiting."""
        with self._lock, suppress(OSError):
            if self.is_ready and not self._is_over and not self._is_sending:
                self._socket.send(frame_of(message))

    def _send_bytes(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self.is_dead:
            with self._lock:
                try:
                    view = view[self._socket.send(view) :]
                    self._is_sending = bool(view)  # nothing may come between
                    continue
                except BlockingIOError:
                    pass
                except OSError:
                    return
            self._wait(select.POLLOUT)

    def receive(self) -> Any:
        """The next message; None when the process is dead and has sent nothing more."""
        while not self._inbox:
            is_dead = self.is_dead  # checked before reading: everything it sent before is then read
            try:
                data = self._socket.recv(_CHUNK_BYTES)
            except BlockingIOError:
                if is_dead:
                    return None
                self._wait(select.POLLIN)
                continue
            except OSError:
                return None
            if not data:
                self._await_death()  # its files close a moment before it is dead
                return None
            self._inbox = self._reader.feed(data)[::-1]
        return self._inbox.pop()

    def _wait(self, event: int) -> None:
        """Until the socket is ready, or the process is dead."""
        poll = select.poll()
        poll.register(self._socket, event)
        if self._pidfd >= 0:
            poll.register(self._pidfd, select.POLLIN)
        poll.poll(None if self._pidfd >= 0 else _LOOK_AGAIN_MS)

    # --- the end ----------------------------------------------------------------------------------

    @property
    def is_dead(self) -> bool:
        """Whether it has ended, in whatever way; it may not be reaped yet."""
        if self._is_over:
            return True
        if self._pidfd >= 0:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            return bool(poll.poll(0))
        # Without reaping it: until then its number is not reused.
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        with suppress(ChildProcessError):
            return os.waitid(os.P_PID, self.pid, flags) is not None
        return True

    def kill(self) -> None:
        """Kill it and all that it started, from any thread."""
        with self._lock:
            self._kill()

    def _kill(self) -> None:
        if not self._is_over:
            with suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)

    def end(self, *, gently: bool = False) -> str:
        """Kill it and all that it started; returns how it ended.

        Args:
            gently: it is idle, and may exit by itself within two seconds.
        """
        if gently:
            self._socket.close()
            self._await_death()
        with self._lock:
            self._kill()
            self._is_over = True
        self._guard.forget(self.pid)
        code = self._process.wait()
        self._socket.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        return ended_with(code)

    def _await_death(self) -> None:
        if self._pidfd >= 0:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            poll.poll(int(_LEAVE_SECONDS * 1000))


def ended_with(code: int) -> str:
    """What a return code means, as the rest of a sentence."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (out of memory?)" if -code == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"
