"""Whether this process belongs to a node's pool for handlers with isolation="process"."""

from __future__ import annotations

_is_pool_process = False


class PoolProcessReached(BaseException):
    """A script without a main guard tries to run an executor in a pool process."""


def in_pool_process() -> bool:
    """Whether no node may be started here: the script is only loaded for its handlers."""
    return _is_pool_process


def enter() -> None:
    """Mark this process as part of a pool."""
    global _is_pool_process
    _is_pool_process = True
