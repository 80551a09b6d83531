"""Interface of the spool: results are stored before they are sent and until their receipt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tickwheel_shared.protocol import Result


class Spool(Protocol):
    """Stores results safely."""

    async def open(self) -> None:
        """Open it.

        Raises:
            SpoolError: nothing can be written there.
        """

    async def adopt(self) -> list[Result]:
        """Results of processes that have died, each returned once; the caller delivers them."""

    async def write(self, results: Sequence[Result]) -> None:
        """Store them: when this returns they survive a crash of process and machine.

        An empty sequence tests whether writing works.

        Raises:
            SpoolError: they are not stored.
        """

    def remove(self, result: Result) -> None:
        """An admin has this result, identified by run, attempt and token.

        May take effect later; unknown results are ignored.
        """

    async def close(self) -> None:
        """Close it; results without receipt stay for the next process."""
