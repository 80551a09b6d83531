"""What is measured of runs: first starts, ends, delays and durations, read from their moves."""

from __future__ import annotations

from tickwheel_admin.domain.runs.run import FINAL, LIVE, Move, Origin, Run, RunState


def is_end(move: Move) -> bool:
    """Whether the run ends for people: neither a shard nor a try of a script, nor a late result."""
    return move.after.state in FINAL and move.before.state not in FINAL and is_counted(move.after)


def is_counted(run: Run) -> bool:
    """Whether it is a fire or a request, and not a part of one or a try of a script."""
    return run.fire_id is None and run.origin is not Origin.TRY


def could_start_at(*, scheduled_at: int, jitter_ms: int | None, created_at: int) -> int:
    """From when on a run could start: a missed fire, or a request, from when it was written."""
    return max(scheduled_at + (jitter_ms or 0), created_at)


def start_delay_ms(move: Move) -> int | None:
    """How late the first try has started; None: it does not start by this move.

    Shards count one by one, and a missed fire is due when it is made up for. The jitter that a
    trigger asks for is no delay. Backfills are left out: they wait behind fires on time.
    """
    before, after = move.before, move.after
    if before.started_at is not None or after.tries != 1 or after.is_fire:
        return None
    # Start and failure of a try may come by one move, after which the run waits for the next try.
    started_at = after.started_at if move.archived is None else move.archived.started_at
    if started_at is None or after.origin in (Origin.TRY, Origin.BACKFILL):
        return None
    return max(0, started_at - after.first_due_at)


def duration_ms(move: Move) -> int | None:
    """How long the last try took, as its node or the sweeper saw it; None: nobody knows."""
    after = move.after
    if move.before.state not in LIVE or after.state is RunState.LOST:
        return None
    if after.started_at is None or after.ended_at is None:
        return None
    return max(0, after.ended_at - after.started_at)
