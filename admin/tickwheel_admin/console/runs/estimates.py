"""When a run that goes on would end, guessed from what it says of itself."""

from __future__ import annotations

from tickwheel_admin.domain.runs.run import Run

LEAST_PROGRESS = 0.02  # less says nothing of the rest
LEAST_MS = 2_000


def end_by_progress(run: Run, progress: float | None, now: int) -> int | None:
    """When it would end if it went on as fast as so far; None where too little is known.

    Never of a workflow: its steps are not alike, and may wait for people.

    Args:
        progress: what its handler last said, 0 to 1.
        now: UTC epoch ms, as is the result.
    """
    if (
        run.is_workflow
        or run.started_at is None
        or progress is None
        or not LEAST_PROGRESS <= progress < 1
    ):
        return None
    elapsed = now - run.started_at
    if elapsed < LEAST_MS:
        return None
    return now + round(elapsed * (1 - progress) / progress)
