"""Names what holds the event loop: nothing fires and nobody is answered meanwhile.

The loop says every few milliseconds that it lives. A thread of its own looks whether it does; when
it has not for a tenth of a second, the thread looks at what the loop's thread is doing, and the
loop reports it once it goes on.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from types import FrameType

import structlog
from aiohttp import web

from tickwheel_admin.domain.admin_status import LoopStall

log = structlog.get_logger(__name__)

STALL_SECONDS = 0.1
BEAT_SECONDS = 0.1
LOOK_SECONDS = 0.05
MAX_FRAMES = 6  # of our own code that are told, the innermost first
KEPT = 50  # of the last stalls
TOLD_SECONDS = 600  # so long people are told of one
LONG_MS = 1_000  # people are told of it, whatever the loop did
LOG_EVERY_SECONDS = 10.0  # at most one event; those between are counted in the next one
OURS = "tickwheel_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A time in which the loop went no further."""

    at: float  # monotonic seconds at its end
    milliseconds: int
    busy: bool  # it computed for most of it; else it waited: for the processor, or for a thread
    stack: tuple[str, ...]  # our frames, "function (file:line)", the innermost first
    request: str  # "GET /jobs/{job_id}" when it was answering one; "": it was not


class Watchdog:
    """Watches the loop that it was started in, until it is stopped."""

    def __init__(self, *, seconds: float = STALL_SECONDS) -> None:
        self._seconds = seconds
        self._beat_at = 0.0  # written by the loop, read by the thread
        self._computed = 0.0  # processor time of the loop's thread at the last beat
        self._seen: tuple[tuple[str, ...], str] | None = None  # by the thread, during a stall
        self._stop = threading.Event()
        self._loop_thread = 0
        self._timer: asyncio.TimerHandle | None = None
        self._logged_at = float("-inf")
        self._unlogged = 0
        self.stalls: deque[Stall] = deque(maxlen=KEPT)
        self.count = 0  # of all stalls since the start
        self.seconds = 0.0  # how long they were together

    def start(self) -> None:
        """Call in the loop's thread."""
        self._loop_thread = threading.get_ident()
        self._beat_at, self._computed = time.monotonic(), time.thread_time()
        self._timer = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat)
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        """Call in the loop's thread."""
        self._stop.set()
        if self._timer is not None:
            self._timer.cancel()

    def told(self) -> LoopStall | None:
        """The worst of the last ten minutes that people should know of.

        A loop that was merely not given the processor has nobody to be blamed, unless it was long.
        """
        now = time.monotonic()
        lately = [
            stall
            for stall in self.stalls
            if stall.at >= now - TOLD_SECONDS and (stall.busy or stall.milliseconds >= LONG_MS)
        ]
        if not lately:
            return None
        worst = max(lately, key=lambda stall: stall.milliseconds)
        return LoopStall(
            milliseconds=worst.milliseconds,
            ms_ago=round((now - worst.at) * 1000),
            count=len(lately),
            place=worst.stack[0] if worst.stack else "",
            request=worst.request,
        )

    def _beat(self) -> None:
        now = time.monotonic()
        late = now - self._beat_at - BEAT_SECONDS
        computed = time.thread_time() - self._computed
        seen, self._seen = self._seen, None
        self._beat_at, self._computed = now, self._computed + computed
        self._timer = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat)
        if late >= self._seconds:
            self._report(late, computed >= late / 2, seen)

    def _report(self, late: float, busy: bool, seen: tuple[tuple[str, ...], str] | None) -> None:
        stack, request = seen or ((), "")
        stall = Stall(
            at=time.monotonic(),
            milliseconds=round(late * 1000),
            busy=busy,
            stack=stack,
            request=request,
        )
        self.stalls.append(stall)
        self.count += 1
        self.seconds += late
        self._unlogged += 1
        if stall.at - self._logged_at < LOG_EVERY_SECONDS:
            return
        log.warning(
            "loop.stalled",
            milliseconds=stall.milliseconds,
            busy=busy,
            place=stack[0] if stack else "unknown: no other thread ran either",
            stack=list(stack[1:]),
            request=request or None,
            count=self._unlogged,  # with those since the last event
        )
        self._logged_at, self._unlogged = stall.at, 0

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            late = time.monotonic() - self._beat_at - BEAT_SECONDS
            if late >= self._seconds and self._seen is None:
                frame = sys._current_frames().get(self._loop_thread)
                if frame is not None:
                    self._seen = _stack_of(frame), _request_of(frame)


def _stack_of(frame: FrameType | None) -> tuple[str, ...]:
    """Where a thread is: the innermost frame, and our own frames that led there."""
    found: list[str] = []
    innermost = frame
    while frame is not None and len(found) < MAX_FRAMES:
        if str(frame.f_globals.get("__name__", "")).startswith(OURS):
            found.append(_told(frame))
        frame = frame.f_back
    if not found and innermost is not None:
        found.append(_told(innermost))
    return tuple(found)


def _told(frame: FrameType) -> str:
    code = frame.f_code
    file = "/".join(code.co_filename.split("/")[-3:])
    return f"{code.co_qualname} ({file}:{frame.f_lineno})"


def _request_of(frame: FrameType | None) -> str:
    """The request that is being answered, by its route: a path may hold what nobody is to read."""
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith(OURS):
            request = frame.f_locals.get("request")
            if isinstance(request, web.Request):
                resource = request.match_info.route.resource
                return f"{request.method} {resource.canonical if resource else '?'}"
        frame = frame.f_back
    return ""
