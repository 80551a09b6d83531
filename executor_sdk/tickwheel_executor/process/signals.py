"""SIGTERM and SIGINT for `Executor.run()`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from . import forks


class ShutdownSignals:
    """Calls `on_signal` on the running loop until that loop is closed."""

    NUMBERS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self, on_signal: Callable[[signal.Signals], None]) -> None:
        self._on_signal = on_signal
        self._before: dict[signal.Signals, signal._HANDLER] = {}
        forks.watch(self)

    def take(self) -> None:
        """Install the signal handlers. Main thread only."""
        loop = asyncio.get_running_loop()
        for number in self.NUMBERS:
            self._before[number] = signal.getsignal(number)
            loop.add_signal_handler(number, self._on_signal, number)

    def forked(self) -> None:
        """In a child, for example of a handler: its signals must not stop the node.

        asyncio notifies its loop of a signal through a socket, which the child shares.
        """
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
