"""Computing in processes of their own: for seconds, and no longer than somebody waits for it.

A thread would not do: Python that computes holds up the admin's loops, and a thread cannot be
ended. A process gets JSON, has limits of time and memory, no environment that could hold secrets,
and is killed when its reader leaves, when it takes too long, and when the admin stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process

MAX_PROBLEM_BYTES = 2_000  # of what a process that fails says, its end
_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "TZ")


class WorkerTooSlow(Exception):
    """It was ended."""


class WorkerFailed(Exception):
    """It ended by itself, without an answer."""

    def __init__(self, status: int | None, problem: str) -> None:
        super().__init__(problem)
        self.status = status
        self.problem = problem


class WorkersClosed(Exception):
    """The admin stops."""


class WorkerProcesses:
    """Starts one for each request. Used from the event loop's thread only."""

    def __init__(self, *, seconds: float) -> None:
        """Allow each so many seconds, its start included."""
        self.seconds = seconds
        self.running: set[Process] = set()
        self._closed = False

    async def ask(
        self, module: str, *arguments: str, text: bytes, seconds: float | None = None
    ) -> bytes:
        """What a module answers to a text; whoever is cancelled leaves no process behind.

        Args:
            seconds: allow this one so many.

        Raises:
            WorkerTooSlow: it took too long.
            WorkerFailed: it said why, or not.
            WorkersClosed: by `close`.
        """
        if self._closed:
            raise WorkersClosed
        environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            module,
            *arguments,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=environment,
            start_new_session=True,  # a Ctrl-C at the admin is the admin's to handle
        )
        self.running.add(process)
        try:
            async with asyncio.timeout(self.seconds if seconds is None else seconds):
                told, problem = await process.communicate(text)
        except TimeoutError:
            raise WorkerTooSlow from None
        finally:
            self.running.discard(process)
            await _ended(process)
        if self._closed:
            raise WorkersClosed
        if process.returncode != 0:
            raise WorkerFailed(
                process.returncode, problem[-MAX_PROBLEM_BYTES:].decode(errors="replace")
            )
        return told

    def close(self) -> None:
        """End all of them, and start no more."""
        self._closed = True
        for process in self.running:
            _kill(process)


async def _ended(process: Process) -> None:
    """Kill it if it still runs, and wait for its end, also while the caller is cancelled."""
    if process.returncode is None:
        _kill(process)
    await asyncio.shield(_gone(process))


async def _gone(process: Process) -> None:
    await process.wait()
    if process.stdin is not None:
        process.stdin.close()
        # It need not have read all of its text. Before Python 3.11.4 asyncio logs that as an error
        # unless somebody asks.
        with contextlib.suppress(ConnectionError):
            await process.stdin.wait_closed()


def _kill(process: Process) -> None:
    """With its children: it leads a session of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
