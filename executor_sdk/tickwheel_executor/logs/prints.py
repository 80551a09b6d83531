"""What code inside a handler prints is still printed, and is a line of its run's log, too."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from tickwheel_executor.run.context import running
from tickwheel_shared.protocol import Level

_STREAMS = (("stdout", Level.INFO), ("stderr", Level.WARNING))


class _ThreadState(threading.local):
    """What this thread is doing."""

    is_muted = False  # it prints what the run's log is told in another way
    expected: str | None = None  # what it prints next, and the run's log knows already


_thread = _ThreadState()


@contextmanager
def muted() -> Iterator[None]:
    """What this thread prints meanwhile is no line: the run's log is told in another way."""
    before, _thread.is_muted = _thread.is_muted, True
    try:
        yield
    finally:
        _thread.is_muted = before


def expect(text: str) -> None:
    """This thread is about to print just this, which is in the run's log already."""
    _thread.expected = text


class PrintCapture:
    """Stands in for sys.stdout and sys.stderr between `begin` and `end`."""

    def __init__(self) -> None:
        self._streams: dict[str, _Stream] = {}

    def begin(self) -> None:
        """Capture. Whoever took hold of a stream before writes past us."""
        for name, level in _STREAMS:
            stream = getattr(sys, name)
            if stream is not None:  # a program without a terminal may have none
                self._streams[name] = _Stream(stream, level)
                setattr(sys, name, self._streams[name])

    def end(self) -> None:
        """Put back what was there, unless somebody has put something else there since."""
        for name, stream in self._streams.items():
            stream.is_on = False
            if getattr(sys, name) is stream:
                setattr(sys, name, stream.beneath)
        self._streams.clear()


class _Stream:
    """A text stream that shows what is written to it to the run that is going on."""

    def __init__(self, beneath: TextIO, level: Level) -> None:
        self.beneath = beneath
        self.is_on = True
        self._level = level

    def write(self, text: str) -> int:
        """Write it, and let the run have it; may wait, as all its log calls may."""
        count = self.beneath.write(text)
        if self.is_on and not _thread.is_muted and (run := running.get(None)) is not None:
            if _thread.expected is None or text.rstrip("\n") != _thread.expected:
                run.log.printed(self._level, text)
            else:
                # A newline may come by itself, and is expected, too.
                _thread.expected = None if text.endswith("\n") else ""
        return count

    def writelines(self, lines: Iterable[str]) -> None:
        """Write them all."""
        for line in lines:
            self.write(line)

    def __iter__(self) -> Iterator[str]:
        return iter(self.beneath)

    def __enter__(self) -> TextIO:
        self.beneath.__enter__()
        return cast("TextIO", self)

    def __exit__(self, *error: Any) -> None:
        self.beneath.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)
