"""Numbers that stand for our runs and jobs on the wire."""

from __future__ import annotations

from dataclasses import dataclass

# A logId stays below 2^53: a client in JavaScript would round what is larger.
MAX_RUN = (1 << 37) - 1
MAX_COPY = 255
_END_OF_LOG_IDS = 1 << 53
_HALF = 1 << 30  # of the positive Java ints: below it jobs, above it their copies


@dataclass(frozen=True, slots=True, kw_only=True)
class LogId:
    """What a logId of ours says."""

    run: int
    attempt_low: int  # the attempt's lowest 8 bits
    copy: int  # which of the runs that one job has at one node at the same time


def log_id(run: int, attempt: int, copy: int) -> int:
    """The logId of one attempt.

    Raises:
        ValueError: no such run or copy can be told on the wire.
    """
    if not 1 <= run <= MAX_RUN:
        raise ValueError(f"run {run} has no logId: 1 to {MAX_RUN} have")
    if not 0 <= copy <= MAX_COPY:
        raise ValueError(f"copy {copy} is not 0 to {MAX_COPY}")
    return run << 16 | (attempt & 0xFF) << 8 | copy


def read_log_id(number: int) -> LogId | None:
    """What the logId stands for; None: it is none of ours."""
    if not 1 << 16 <= number < _END_OF_LOG_IDS:
        return None
    return LogId(run=number >> 16, attempt_low=number >> 8 & 0xFF, copy=number & 0xFF)


def wire_job_id(job_id: int, copy: int) -> int:
    """The jobId by which the executor keeps apart, queues and kills: a positive Java int.

    Copies beyond the first have ids of their own, so that they run side by side and one can be
    killed alone. Ids of jobs beyond 2^30 may meet; then the executor refuses the second as busy.
    """
    if copy:
        return _HALF + (job_id * (MAX_COPY + 1) + copy) % _HALF
    return job_id if job_id < _HALF else job_id % _HALF or _HALF - 1
