"""Signals for everything below this process, and its end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from . import linux
from .run_cgroup import RunCgroup

_FIRST_PAUSE_SECONDS = 0.0005
_LONGEST_PAUSE_SECONDS = 0.02
_PATIENCE_SECONDS = 5.0  # with processes that this one may not kill


def signal_tree(number: signal.Signals, *, but_group: int) -> None:
    """Send a signal to every process below this one, except to this process group."""
    for pid in linux.descendants():
        with suppress(OSError):
            if os.getpgid(pid) != but_group:
                os.kill(pid, number)


def kill_tree(group: int, cgroup: RunCgroup | None, *, reaped: Callable[[int, int], None]) -> int:
    """Kill everything below this process, and wait for it; returns how many processes it killed.

    Who kills one process after another can be outrun by a program that forks: so a cgroup, which
    kills all at once, comes first, and otherwise the whole tree is killed again and again. Whatever
    loses its parent becomes a child of this process, so when there is no child, nothing is left.

    Args:
        group: a process group whose leader was not reaped; 0: none.
        reaped: called with pid and status of each child.
    """
    pause = _FIRST_PAUSE_SECONDS
    killed = 0
    refused_since: float | None = None
    while True:
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = found
                group = 0 if pid == group else group
                killed += os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
                reaped(pid, status)
        except ChildProcessError:
            return killed
        if cgroup is not None:
            cgroup.kill()
        if group:
            with suppress(OSError):
                os.killpg(group, signal.SIGKILL)
        if _kill_each(linux.descendants()):
            refused_since = None
        else:
            refused_since = refused_since or time.monotonic()
            if time.monotonic() - refused_since > _PATIENCE_SECONDS:
                return killed
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def _kill_each(pids: list[int]) -> bool:
    """Kill these; False: one of them belongs to another user, and must not be killed."""
    is_allowed = True
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except PermissionError:
            is_allowed = False
        except ProcessLookupError:
            continue
    return is_allowed
