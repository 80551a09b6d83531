"""Results that must not be lost: on disk before they are sent, and until an admin has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tickwheel_shared.protocol import Result


class Spool(Protocol):
    """What the node needs of the place where results are safe."""

    async def open(self) -> None:
        """Get ready.

        Raises:
            SpoolError: nothing can be written there.
        """

    async def adopt(self) -> list[Result]:
        """Results of processes that have died, each given once; ours to deliver from now on."""

    async def write(self, results: Sequence[Result]) -> None:
        """Make them safe: when this returns they survive the death of process and machine.

        An empty sequence is a test whether writing works.

        Raises:
            SpoolError: they are not safe.
        """

    def remove(self, result: Result) -> None:
        """An admin has this result, known by its run, attempt and token.

        May be done later, and again after a crash; unknown is fine.
        """

    async def close(self) -> None:
        """End in good order; what has no receipt stays for the next process."""
