"""Figures that the journals and the ledger tell, in seconds."""

from __future__ import annotations

from tests.e2e.fires import Settled

WINDOW_SECONDS = 20.0


def _first_starts(settled: Settled) -> list[tuple[float, float]]:
    """(due, started) of every fire of a parallel job that started, by its first attempt."""
    runs = [run for run in settled.ledger.runs if run.job_id not in settled.serial_jobs]
    due = {run.id: run.scheduled_at / 1000 for run in runs}
    started: dict[int, float] = {}
    for (run, _), at in settled.journals.started_at.items():
        if run in due:
            started[run] = min(at, started.get(run, at))
    return [(due[run], at) for run, at in started.items()]


def takeover(settled: Settled, *, since: float) -> float:
    """From the death of an admin until the first fire due after it starts."""
    return min(at for due, at in _first_starts(settled) if due >= since) - since


def handed_on(settled: Settled, *, since: float) -> float:
    """From the death of an admin until the last fire due before it has started."""
    waiting = [at for due, at in _first_starts(settled) if due < since <= at]
    return max(waiting, default=since) - since


def late(settled: Settled, *, since: float) -> float:
    """The latest start among the fires that were due in the 20 s after something happened."""
    return max(
        at - due for due, at in _first_starts(settled) if since <= due <= since + WINDOW_SECONDS
    )
