"""Copies what handlers print into the log of their run; it is printed as well."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from tickwheel_executor.run.context import running
from tickwheel_shared.protocol import Level
from tickwheel_shared.secret_mask import hidden

_STREAMS = (("stdout", Level.INFO), ("stderr", Level.WARNING))


class _ThreadState(threading.local):
    """What is printed by this thread."""

    is_muted = False  # what it prints is in the run's log already
    expected: str | None = None  # what it prints next, which is in the run's log already


_thread = _ThreadState()


@contextmanager
def muted() -> Iterator[None]:
    """Do not copy what this thread prints in the block: it is in the run's log already."""
    before, _thread.is_muted = _thread.is_muted, True
    try:
        yield
    finally:
        _thread.is_muted = before


def expect(text: str) -> None:
    """This thread is about to print this text, which is in the run's log already."""
    _thread.expected = text


class PrintCapture:
    """Replaces sys.stdout and sys.stderr between `begin` and `end`."""

    def __init__(self) -> None:
        self._streams: dict[str, _Stream] = {}

    def begin(self) -> None:
        """Replace the streams. Code with a reference to the old ones is not captured."""
        for name, level in _STREAMS:
            stream = getattr(sys, name)
            if stream is not None:  # a program may have none
                self._streams[name] = _Stream(stream, level)
                setattr(sys, name, self._streams[name])

    def end(self) -> None:
        """Restore the streams, unless they have been replaced since."""
        for name, stream in self._streams.items():
            stream.is_on = False
            if getattr(sys, name) is stream:
                setattr(sys, name, stream.beneath)
        self._streams.clear()


class _Stream:
    """A text stream that also writes to the log of the current run."""

    def __init__(self, beneath: TextIO, level: Level) -> None:
        self.beneath = beneath
        self.is_on = True
        self._level = level

    def write(self, text: str) -> int:
        """Write to the stream and to the run's log; may wait, as every log call."""
        run = running.get(None) if self.is_on else None
        if run is None:
            return self.beneath.write(text)
        self.beneath.write(hidden(run.log.mask, text))
        if not _thread.is_muted:
            if _thread.expected is None or text.rstrip("\n") != _thread.expected:
                run.log.printed(self._level, text)
            else:
                # The newline may be written separately.
                _thread.expected = None if text.endswith("\n") else ""
        return len(text)

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
