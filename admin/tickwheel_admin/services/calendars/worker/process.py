"""Work that nobody can bound beforehand, in a process of its own with limits of time and memory.

A thread would not do: Python that computes holds up every other thread of its process, and a thread
cannot be ended. The process is started when it is first needed and ended after a minute's rest; one
that takes too long is killed, and the next one starts clean. It gets no environment variables that
could hold secrets, and answers in JSON only, so what it was made to read cannot reach the admin.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
import weakref
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec
import structlog

from tickwheel_admin.domain.errors import InvalidInput, Problem, TooMany, Unavailable
from tickwheel_admin.services.calendars.worker.main import WorkAnswer, WorkRequest, receive, send

log = structlog.get_logger(__name__)

T = TypeVar("T")

SECONDS = 3.0  # of one piece of work
START_SECONDS = 15.0  # of a machine under load, until the process has read its modules
IDLE_SECONDS = 60.0
MAX_PENDING = 8  # pieces of work, of all users together; they are done one after the other
RETRY_SECONDS = 5
_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "TZ")


class TookTooLong(Exception):
    """The work was ended; `at` says where it was."""

    def __init__(self, at: str) -> None:
        super().__init__(at)
        self.at = at


class WorkerProcess:
    """Does one piece of work at a time. Used from the event loop's thread only."""

    def __init__(self, *, seconds: float = SECONDS) -> None:
        """Allow each piece of work `seconds`, the start of the process not counted."""
        self._seconds = seconds
        # One thread that waits for the answers: to wait costs nothing but its stack.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="worker")
        self._users: Counter[int] = Counter()
        self._rest: asyncio.TimerHandle | None = None
        self._child = _Child()
        weakref.finalize(self, self._child.end)

    async def run(self, task: str, arguments: Any, answer: type[T], *, user_id: int) -> T:
        """Do a task of `main.TASKS`.

        Args:
            arguments: its keyword arguments; anything that JSON holds.
            answer: the type of what it returns.
            user_id: who wants it: one piece of work at a time.

        Raises:
            InvalidInput: as the task raised it.
            TookTooLong: it was ended.
            TooMany: this user, or too many users, have work under way.
            Unavailable: the process cannot be started, or died.
        """
        if self._users[user_id] or self._users.total() >= MAX_PENDING:
            raise TooMany(
                "work.busy",
                "Other files are being read; try again in %(retry_after_seconds)d s.",
                retry_after_seconds=RETRY_SECONDS,
            )
        if self._rest is not None:
            self._rest.cancel()
        self._users[user_id] += 1
        loop = asyncio.get_running_loop()
        request = msgspec.json.encode(WorkRequest(task=task, arguments=arguments))
        try:
            # Shielded: a browser that goes away does not make room for the next piece of work.
            doing = loop.run_in_executor(self._thread, self._child.do, request, self._seconds)
            doing.add_done_callback(lambda done: self._done(user_id, loop, done))
        except RuntimeError:  # the thread was ended: the admin stops
            del self._users[user_id]
            raise _unavailable() from None
        return _read(await asyncio.shield(doing), answer)

    def close(self) -> None:
        """End the process and whatever it does."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._child.end()

    def _done(
        self, user_id: int, loop: asyncio.AbstractEventLoop, done: asyncio.Future[WorkAnswer]
    ) -> None:
        if not done.cancelled():
            done.exception()  # read here as well: the caller may have gone
        del self._users[user_id]
        if not self._users:
            self._rest = loop.call_later(IDLE_SECONDS, self._child.end)


class _Child:
    """The process, if there is one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def do(self, request: bytes, seconds: float) -> WorkAnswer:
        """Blocks until the answer is there or the time is over."""
        at = ""
        try:
            ours = self._started()
            ours.settimeout(seconds)
            send(ours, request)
            until = time.monotonic() + seconds
            while True:
                ours.settimeout(max(until - time.monotonic(), 0.001))
                answer = msgspec.json.decode(receive(ours), type=WorkAnswer)
                if answer.at is None:
                    return answer
                at = answer.at
        except TimeoutError:
            self.end()
            log.warning("worker.took_too_long", seconds=seconds, at=at[:200])
            raise TookTooLong(at) from None
        except (OSError, EOFError, msgspec.DecodeError) as error:
            self.end()
            log.warning("worker.failed", cause=f"{type(error).__name__}: {error}", at=at[:200])
            raise _unavailable() from None

    def end(self) -> None:
        """Kill the process; the next piece of work starts another one."""
        process, self._process = self._process, None
        ours, self._socket = self._socket, None
        if ours is not None:
            ours.close()
        if process is not None:
            process.kill()
            process.wait()

    def _started(self) -> socket.socket:
        if self._socket is not None and self._process is not None and self._process.poll() is None:
            return self._socket
        self.end()
        ours, theirs = socket.socketpair()
        with theirs:
            self._socket = ours
            self._process = subprocess.Popen(  # noqa: S603 - our own module, no shell
                [
                    sys.executable,
                    "-m",
                    "tickwheel_admin.services.calendars.worker.main",
                    str(theirs.fileno()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
                start_new_session=True,  # a Ctrl-C at the admin is the admin's to handle
            )
        ours.settimeout(START_SECONDS)
        receive(ours)  # it says that it is ready
        return ours


def _read(answer: WorkAnswer, kind: type[T]) -> T:
    if answer.refused is not None:
        raise InvalidInput([msgspec.convert(each, Problem) for each in answer.refused])
    if answer.failed is not None:
        log.error("worker.failed", cause=answer.failed)
        raise _unavailable()
    return msgspec.json.decode(answer.done, type=kind)


def _unavailable() -> Unavailable:
    return Unavailable("work.failed", "The process that reads files failed; try again later.")
