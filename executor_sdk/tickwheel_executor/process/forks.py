"""Releases what a forked child inherits from a running node.

A fork copies the memory, but only the forking thread continues: in the child the node is dead. Open
files are shared, though. A socket that the child keeps open stays open when the parent dies, and
the lock of a spool stays locked. So owners of such resources register here and release them in the
child, which may then start a node of its own.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import NoReturn, Protocol
from weakref import WeakSet


class ForkObserver(Protocol):
    """A part of a node that must not be used in a forked child."""

    def forked(self) -> None:
        """Called in the child, its only thread: release everything. Must not wait or log."""


_watched: WeakSet[ForkObserver] = WeakSet()
# In a child: never freed, because that would end coroutines and remove sockets from the selector,
# which the parent uses too.
_kept: set[ForkObserver] = set()


def watch(owner: ForkObserver) -> None:
    """Call its `forked` in every child that is forked during its lifetime."""
    _watched.add(owner)


def release_file(file: int) -> None:
    """Release an open file of the parent; does nothing for -1.

    Its number now refers to the null device instead of being free: the object that owns the number
    may still close it, and must not close another file by that.
    """
    if file < 0:
        return
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, file, inheritable=False)
    os.close(null)


def exit_child(error: BaseException | None = None) -> NoReturn:
    """End a child whose handler has returned, or reached an `await`.

    The rest of its stack belongs to the node, which exists only in the parent.
    """
    if error is not None:
        traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed or broken
            stream.flush()
    os._exit(0 if error is None else 1)


def _in_child() -> None:
    _kept.update(_watched)
    for owner in list(_watched):  # still registered: the child may start a node and fork again
        with suppress(OSError):  # such as too many open files: continue with the others
            owner.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
