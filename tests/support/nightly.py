"""How much is tried: by day what fits into `make test`, in the nightly tier many times that."""

from __future__ import annotations

import os

IS_NIGHT = "TICKWHEEL_NIGHTLY" in os.environ


def often(by_day: int, *, by_night: int) -> int:
    """How many random tries a test makes; those of the day are the first of the night's."""
    return by_night if IS_NIGHT else by_day
