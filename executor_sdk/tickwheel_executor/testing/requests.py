"""Builds run requests from plain values."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

import msgspec

from tickwheel_executor.as_json import NULL, encode
from tickwheel_shared.protocol import (
    MAX_CHECKPOINT_BYTES,
    MAX_PARAMETERS_BYTES,
    MAX_SPAWNED_BYTES,
    MAX_STATE_BYTES,
    RunRequest,
    RunScript,
)

_STARTED_AT = time.time()
_claims = itertools.count(1)


class RequestFields(TypedDict, total=False):
    """Optional attributes of a run under test."""

    state: Mapping[str, Any] | None  # from the job's last run; None: the job has no state
    checkpoint: Any  # of an earlier try of the run
    run_id: int  # the same one and another `attempt` are a redelivery of the run
    attempt: int | None  # from 1; None: as try_number
    try_number: int  # from 1
    max_tries: int
    shard_index: int  # from 0
    shard_total: int
    scheduled_at: datetime | None  # aware; None: now
    due_at: datetime | None  # aware; None: at scheduled_at
    interval_start: datetime | None  # aware; None: no data interval
    origin: str  # schedule, misfire, manual, api, retry, child, backfill
    recovering: bool  # an earlier attempt was lost
    timeout: float | None  # seconds
    job: str | None  # name of the job; None: that of the handler
    job_id: int
    script: RunScript | None  # of a script job
    traceparent: str | None  # W3C Trace Context; None: it is part of no trace
    may_spawn: bool  # the run is that of a workflow's step
    item: Any  # that a run of the step has spawned; None: none
    secrets: Sequence[str]  # values among the parameters that are hidden in what the run writes


def make_request(
    run: int,
    handler: str,
    parameters: Mapping[str, Any],
    *,
    state: Mapping[str, Any] | None = None,
    checkpoint: Any = None,
    run_id: int | None = None,
    attempt: int | None = None,
    try_number: int = 1,
    max_tries: int = 1,
    shard_index: int = 0,
    shard_total: int = 1,
    scheduled_at: datetime | None = None,
    due_at: datetime | None = None,
    interval_start: datetime | None = None,
    origin: str = "manual",
    recovering: bool = False,
    timeout: float | None = None,
    job: str | None = None,
    job_id: int = 1,
    script: RunScript | None = None,
    traceparent: str | None = None,
    may_spawn: bool = False,
    item: Any = None,
    secrets: Sequence[str] = (),
) -> RunRequest:
    """The request for one attempt of a run.

    Raises:
        ValueError: a value is not JSON or too large, or a datetime is naive.
    """
    instants = {"scheduled_at": scheduled_at, "due_at": due_at, "interval_start": interval_start}
    for name, moment in instants.items():
        if moment is not None and moment.tzinfo is None:
            raise ValueError(f"{name} is naive: give it a time zone")
    if scheduled_at is not None:
        at = scheduled_at.timestamp()
    else:  # all attempts of a run are about the same instant
        at = time.time() if run_id is None else _STARTED_AT
    number = max(try_number, 1) if attempt is None else attempt
    run = run if run_id is None else run_id
    kept = NULL if state is None else _json(dict(state), "the state", MAX_STATE_BYTES)
    return RunRequest(
        run=run,
        attempt=number,
        token=f"test-{next(_claims)}",  # no two claims have the same one
        job_id=job_id,
        job=handler if job is None else job,
        handler=handler,
        parameters=_json(dict(parameters), "the parameters", MAX_PARAMETERS_BYTES),
        scheduled_at=round(at * 1000),
        due_at=_instant(due_at),
        interval_start=_instant(interval_start),
        timeout_ms=None if timeout is None else round(timeout * 1000),
        try_number=try_number,
        max_tries=max(max_tries, try_number),
        origin=origin,
        shard_index=shard_index,
        shard_total=shard_total,
        state=kept,
        checkpoint=_json(checkpoint, "the checkpoint", MAX_CHECKPOINT_BYTES),
        recovering=recovering,
        script=msgspec.UNSET if script is None else script,
        may_spawn=may_spawn or msgspec.UNSET,
        item=msgspec.UNSET if item is None else _json(item, "the item", MAX_SPAWNED_BYTES),
        secrets=list(secrets) or msgspec.UNSET,
        traceparent=msgspec.UNSET if traceparent is None else traceparent,
    )


def _instant(moment: datetime | None) -> int | msgspec.UnsetType:
    return msgspec.UNSET if moment is None else round(moment.timestamp() * 1000)


def _json(value: object, what: str, limit: int) -> msgspec.Raw:
    text, problem = encode(value, what=what, limit=limit)
    if problem:
        raise ValueError(problem)
    return text
