"""Whether this process is one of a node's pool, which runs handlers with isolation="process"."""

from __future__ import annotations

_is_pool_process = False


class PoolProcessReached(BaseException):
    """A script without a main guard came to where it would run an executor."""


def in_pool_process() -> bool:
    """Whether nodes must not be started here: the script is only read for its handlers."""
    return _is_pool_process


def enter() -> None:
    """This process belongs to a pool from now on."""
    global _is_pool_process
    _is_pool_process = True
