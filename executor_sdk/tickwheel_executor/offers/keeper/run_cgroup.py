"""A cgroup (version 2) of one run: its limits, and the end of all its processes at once."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from . import linux

_REMOVE_TRIES = 200
_REMOVE_PAUSE_SECONDS = 0.005


class RunCgroup:
    """A group below that of the agent.

    Args:
        path: of its directory, which does not exist yet.
        limits: contents of its files, by name: {"pids.max": "100"}.

    Raises:
        OSError: it cannot be created, or has no such limit.
    """

    def __init__(self, path: str, limits: dict[str, str]) -> None:
        self._path = path
        os.mkdir(path, 0o755)
        try:
            for name, value in limits.items():
                self._write(name, value)
        except OSError:
            self.remove()
            raise

    def fork(self) -> int:
        """Fork a child that is in it; returns as `os.fork`.

        Raises:
            OSError: the system cannot: fork, and `join` in the child.
        """
        directory = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return linux.fork_into_cgroup(directory)
        finally:
            os.close(directory)

    def join(self) -> None:
        """Move this process into it."""
        self._write("cgroup.procs", "0")

    def kill(self) -> None:
        """Kill every process in it, also those that are being forked (Linux 5.14)."""
        try:
            self._write("cgroup.kill", "1")
        except OSError:
            with suppress(OSError), open(f"{self._path}/cgroup.procs", encoding="ascii") as file:
                for line in file:
                    with suppress(OSError):
                        os.kill(int(line), signal.SIGKILL)

    def oom_kills(self) -> int:
        """How many of its processes the kernel killed because of the memory limit."""
        with suppress(OSError), open(f"{self._path}/memory.events", encoding="ascii") as file:
            for line in file:
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count)
        return 0

    def remove(self) -> None:
        """Remove it; its processes have ended."""
        for _ in range(_REMOVE_TRIES):
            try:
                os.rmdir(self._path)
            except FileNotFoundError:
                return
            except OSError:  # the last process is on its way out, or the command made groups, too
                for directory, _, _ in os.walk(self._path, topdown=False):
                    with suppress(OSError):
                        os.rmdir(directory)
                time.sleep(_REMOVE_PAUSE_SECONDS)
            else:
                return

    def _write(self, name: str, value: str) -> None:
        file = os.open(f"{self._path}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(file, value.encode("ascii"))
        finally:
            os.close(file)
