"""Wakes a poll when a child has ended."""

from __future__ import annotations

import os
import signal
from contextlib import suppress


class ChildWake:
    """A pipe that becomes readable with every SIGCHLD of this process."""

    def __init__(self) -> None:
        self.file, self._writer = os.pipe()
        os.set_blocking(self.file, False)
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, ignore)  # only a Python handler writes to the pipe

    def clear(self) -> None:
        """Make it unreadable; look for children that have ended after this."""
        with suppress(BlockingIOError):
            while os.read(self.file, 4096):
                pass

    def close(self) -> None:
        """Close it, as in a child that makes its own."""
        signal.set_wakeup_fd(-1)
        os.close(self.file)
        os.close(self._writer)


def ignore(*_: object) -> None:
    """Handle a signal by doing nothing. Programs started from here get the default again.

    They would inherit SIG_IGN.
    """
