"""What Linux offers to keep hold of processes; elsewhere these calls report that they cannot."""

from __future__ import annotations

import errno
import os
import signal
import sys
from contextlib import suppress
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SYS_CLONE3 = 435
_CLONE_INTO_CGROUP = 0x2_0000_0000
_CLONE_FIELDS = 11  # of struct clone_args, 64 bits each
_EXIT_SIGNAL, _CGROUP = 4, 10  # places of two of them

_libc: Any = None
if sys.platform == "linux":
    with suppress(ImportError, OSError):
        import ctypes

        # It keeps the interpreter's lock during a call: a forked child finds it as it was.
        _libc = ctypes.PyDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> bool:
    if _libc is None:
        return False
    zero = ctypes.c_ulong(0)
    return bool(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero) == 0)


def become_subreaper() -> bool:
    """Become the parent of all descendants that lose theirs; returns whether that is possible."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> bool:
    """Get SIGKILL when the parent ends. Changing the user undoes it: call it afterwards."""
    return _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def refuse_new_privileges() -> bool:
    """Let no program of this process or its children gain rights, such as by a setuid bit."""
    return _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def fork_into_cgroup(directory: int) -> int:
    """Fork a child that begins in another cgroup (Linux 5.7); returns as `os.fork`.

    To move into one later takes 20 ms on an idle machine, because the kernel then waits for all
    processors. Only for a process with one thread, whose child replaces itself by another program:
    Python does not learn of the fork.

    Args:
        directory: number of the cgroup's open directory.

    Raises:
        OSError: the system cannot do that, or forbids it.
    """
    if _libc is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    fields = (ctypes.c_uint64 * _CLONE_FIELDS)()
    fields[0] = _CLONE_INTO_CGROUP
    fields[_EXIT_SIGNAL] = signal.SIGCHLD
    fields[_CGROUP] = directory
    size = ctypes.c_size_t(ctypes.sizeof(fields))
    pid = int(_libc.syscall(ctypes.c_long(_SYS_CLONE3), fields, size))
    if pid < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return pid


def children() -> list[int]:
    """Process ids of the direct children of this process, which has one thread."""
    try:
        with open("/proc/thread-self/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:  # a kernel without it, or another system
        me = os.getpid()
        return [pid for pid, parent in _parents().items() if parent == me]


def descendants() -> list[int]:
    """Process ids of all processes below this one, parents first."""
    below: dict[int, list[int]] = {}
    for pid, parent in _parents().items():
        below.setdefault(parent, []).append(pid)
    found: list[int] = []
    open_pids = [os.getpid()]
    while open_pids:
        pids = below.get(open_pids.pop(), [])
        found += pids
        open_pids += pids
    return found


def _parents() -> dict[int, int]:
    """The parent of every process of the system; empty without /proc."""
    parents: dict[int, int] = {}
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            with (
                suppress(OSError, ValueError, IndexError),
                open(f"/proc/{name}/stat", "rb") as file,
            ):
                # "17 (name) S 1 …": the name may contain anything, also parentheses.
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    return parents
