"""Which runs were there at an instant, found by bounded reads.

Nearly all runs are there only within a few minutes behind their instant: the ledger's order finds
them. Those that were there at another time are noted when they end, by how long they were there in
powers of four: of each power only the ends within its reach can belong to an instant.
"""

from __future__ import annotations

from tickwheel_admin.domain.runs.run import FINAL, Run

SHORT_MS = 300_000  # so long behind its instant a run is found without a note
EARLY_MS = 60_000  # and so long before it: fires are written a little ahead
# The longest time that runs of each length were there; None: any.
REACHES_MS: tuple[int | None, ...] = (*(SHORT_MS * 4**power for power in range(6)), None)


def needs_note(run: Run) -> bool:
    """Whether an ended run was there outside of the time in which the ledger's order finds it."""
    if run.state not in FINAL or run.ended_at is None or run.ended_at <= run.created_at:
        return False
    late = run.ended_at > run.scheduled_at + SHORT_MS
    return late or run.created_at < run.scheduled_at - EARLY_MS


def length_of(span_ms: int) -> int:
    """The power that a time belongs to: an index of REACHES_MS."""
    return next(
        index for index, reach in enumerate(REACHES_MS) if reach is None or span_ms <= reach
    )
