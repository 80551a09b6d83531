"""Looks for garbage in processes of tests, which build and drop much at once."""

from __future__ import annotations

import gc


def look_rarely() -> None:
    """Leave out what is there, and look at the rest less often.

    With the usual thresholds a twentieth of the time of tests, and a tenth of that of simulated
    clusters, goes into looks that find nothing.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
