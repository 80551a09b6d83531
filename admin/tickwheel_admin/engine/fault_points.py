"""Points on the way of a run where a drill kills or freezes this admin.

For drills only (`make drill`). `TICKWHEEL_KILL_POINT="claimed:kill9"` arms one point of one
process, once; `"claimed:stop:5"` arms its fifth pass. In production no point is armed, and each
costs one comparison.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from typing import Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa
import structlog

P = ParamSpec("P")
T = TypeVar("T")

log = structlog.get_logger(__name__)

VARIABLE = "TICKWHEEL_KILL_POINT"

POINTS = (
    "planning",  # fires are written, in a transaction that is not committed
    "planned",  # they are committed
    "claiming",  # runs are claimed, in a transaction that is not committed
    "claimed",  # they are committed, and no node knows of them
    "sent",  # they are on their way to their nodes
    "recording",  # reports are written, in a transaction that is not committed
    "recorded",  # they are committed, and no node has a receipt
    "acknowledged",  # the receipts are on their way
)

ACTIONS = {
    "kill9": signal.SIGKILL,
    "stop": signal.SIGSTOP,  # frozen until somebody sends SIGCONT
}


class FaultPointError(ValueError):
    """The variable's value cannot be used; the message says why."""


class _Armed:
    """The armed point of this process, and how many passes are left."""

    def __init__(self, point: str, action: str, countdown: int) -> None:
        self.point = point
        self.action = action
        self.countdown = countdown
        self.lock = threading.Lock()  # transactions run in threads


_armed: _Armed | None = None


def arm(environment: Mapping[str, str]) -> None:
    """Arm what the variable names; without it, disarm.

    Raises:
        FaultPointError: it names no such point or action, or its number is not a positive one.
    """
    global _armed
    value = environment.get(VARIABLE, "")
    _armed = _read(value) if value else None
    if _armed is not None:
        log.warning("kill_point.armed", point=_armed.point, action=_armed.action)


def reached(point: str) -> None:
    """The process is at this point; if it is armed, the process may be killed or frozen here."""
    if _armed is not None and _armed.point == point:
        _act(_armed)


def before_commit(
    point: str, write: Callable[Concatenate[sa.Connection, P], T]
) -> Callable[Concatenate[sa.Connection, P], T]:
    """The function of a transaction with this fault point after its last statement."""
    if _armed is None or _armed.point != point:
        return write

    def written(conn: sa.Connection, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result = write(conn, *args, **kwargs)
        reached(point)
        return result

    return written


def _read(value: str) -> _Armed:
    point, _, rest = value.partition(":")
    action, _, times = rest.partition(":")
    if point not in POINTS:
        raise FaultPointError(f"{VARIABLE}: no point {point!r}; there are {', '.join(POINTS)}")
    if action not in ACTIONS:
        raise FaultPointError(f"{VARIABLE}: no action {action!r}; there are {', '.join(ACTIONS)}")
    if times and not (times.isascii() and times.isdigit() and int(times)):
        raise FaultPointError(f"{VARIABLE}: {times!r} is not the how-manieth time, such as 5")
    return _Armed(point, action, int(times or 1))


def _act(armed: _Armed) -> None:
    with armed.lock:
        armed.countdown -= 1
        if armed.countdown != 0:
            return
    log.warning("kill_point.reached", point=armed.point, action=armed.action)
    # To this thread: another would let it go on for a few instructions before the process stops.
    signal.pthread_kill(threading.get_ident(), ACTIONS[armed.action])
