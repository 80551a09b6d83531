"""What a forked child inherits of a running node, and must not keep.

A fork copies the memory of every thread and lets one of them go on: in the child a node is a
picture without life. Open files are shared, though. A socket that the child holds stays open when
the parent dies, and the lock of a spool stays locked. So whatever owns such things is watched here,
and lets go of them in the child, which may then start a node of its own.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import NoReturn, Protocol
from weakref import WeakSet


class ForkObserver(Protocol):
    """Something of a node that means nothing in a forked child, or does harm there."""

    def forked(self) -> None:
        """We are the child now, its only thread: let go of everything. Must not wait or log."""


_watched: WeakSet[ForkObserver] = WeakSet()
# In a child: never freed, for then coroutines would be ended and sockets taken out of the selector,
# which is the parent's too.
_kept: set[ForkObserver] = set()


def watch(owner: ForkObserver) -> None:
    """Call its `forked` in every child that is forked while it lives."""
    _watched.add(owner)


def release_file(file: int) -> None:
    """Give up an open file of the parent; nothing for -1.

    Its number now means the null device, and is not free: the object that owns the number may
    close it yet, and must not hit another file by that.
    """
    if file < 0:
        return
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, file, inheritable=False)
    os.close(null)


def exit_child(error: BaseException | None = None) -> NoReturn:
    """End the child whose handler has returned, or come to an `await`, in it.

    What comes next on its stack is the node's, which is the parent's alone.
    """
    if error is not None:
        traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed, or broken: there is nobody to tell
            stream.flush()
    os._exit(0 if error is None else 1)


def _in_child() -> None:
    _kept.update(_watched)
    for owner in list(_watched):  # they stay watched: a child that is a node may fork, too
        with suppress(OSError):  # too many open files: the others are no less important
            owner.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
