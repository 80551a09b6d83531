"""The hook of `executor.receipts`: a run that is delivered again looks for its receipt first."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from tickwheel_executor.receipts.check import ReceiptCheck

from .context import Run, own_effect_of


class RedeliveryCheck:
    """Called with each run before its handler. A first attempt has no receipt to look for."""

    def __init__(self, source: Any) -> None:
        self._check = ReceiptCheck(source)

    def __call__(self, run: Run) -> Awaitable[None] | None:
        """Claim the run's effect.

        Raises:
            AlreadyDone: it is committed.
            StaleAttemptError: a later attempt has begun.
        """
        return None if run.attempt == 1 else self._check(own_effect_of(run))
