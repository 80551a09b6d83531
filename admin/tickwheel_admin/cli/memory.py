"""Memory that the process does not use any more is given back to the system.

Python frees it, but the C library keeps it in an arena for each thread, for the next time. After a
flood of large frames and forms an admin would hold several times what it uses, for good.
"""

from __future__ import annotations

import asyncio
import ctypes
import ctypes.util
import sys
from collections.abc import Callable
from pathlib import Path

ARENAS = 2  # of the C library; a dozen threads would have one each
LOOK_SECONDS = 30.0
GROWTH_MIB = 32  # since the last time, before it is worth while: it stops all threads for moments
_M_ARENA_MAX = -8  # of mallopt(3)


def use_few_arenas() -> None:
    """To be called before threads are started; does nothing where the C library is another."""
    library = _library()
    if library is not None:
        library.mallopt(_M_ARENA_MAX, ARENAS)


class Trimmer:
    """Gives memory back from time to time, when there is some."""

    def __init__(
        self,
        *,
        resident_mib: Callable[[], int] | None = None,
        trim: Callable[[], None] | None = None,
    ) -> None:
        self._resident_mib = resident_mib or _resident_mib
        self._trim = trim or _trim
        self._after_last = 0

    def look(self) -> bool:
        """Trim when much has come since the last time; whether it did."""
        if self._resident_mib() - self._after_last < GROWTH_MIB:
            self._after_last = min(self._after_last, self._resident_mib())
            return False
        self._trim()
        self._after_last = self._resident_mib()
        return True

    async def run(self) -> None:
        """Look until cancelled, in a thread: the loop goes on meanwhile."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await asyncio.to_thread(self.look)


def _resident_mib() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0  # no Linux: nothing is trimmed either
    return pages * 4096 // 1024**2


def _trim() -> None:
    library = _library()
    if library is not None:
        library.malloc_trim(0)


def _library() -> ctypes.CDLL | None:
    """The GNU C library, if this process uses it."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    known = hasattr(library, "malloc_trim") and hasattr(library, "mallopt")
    return library if known else None
