"""Runs that somebody asks for: by hand, through the API, or as a retry."""

from __future__ import annotations

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.fields import is_clean
from tickwheel_admin.domain.job import Job
from tickwheel_admin.domain.run import Origin, Run, RunState
from tickwheel_admin.domain.user import Actor
from tickwheel_admin.store.audit import write_audit
from tickwheel_admin.store.clock import now_ms
from tickwheel_admin.store.runs import insert_requested_run

MAX_KEY_CHARS = 100


def check_request_key(key: str | None) -> None:
    """Raise InvalidInput for a key that cannot be stored."""
    if key is not None and not (0 < len(key) <= MAX_KEY_CHARS and is_clean(key)):
        raise InvalidInput.one(
            "request_key",
            "request_key.invalid",
            "A request key has 1 to %(limit)d characters and no control characters.",
            limit=MAX_KEY_CHARS,
        )


def request_run(
    conn: sa.Connection,
    actor: Actor,
    job: Job,
    *,
    run_id: int,
    audit_id: int,
    origin: Origin,
    parameters: str | None,
    request_key: str | None,
    retry_of: int | None = None,
) -> int:
    """Queue one run of a locked job, due now; returns the run that already has the key, if any."""
    now = now_ms(conn)
    asked = insert_requested_run(
        conn,
        Run(
            id=run_id,
            executor_id=job.executor_id,
            job_id=job.id,
            job_revision=job.revision,
            trigger_id=None,
            origin=origin,
            scheduled_at=now,
            request_key=request_key,
            requested_by=actor.name[:100],
            retry_of=retry_of,
            parameters=parameters,
            priority=job.config.priority,
            created_at=now,
            state=RunState.QUEUED,
            due_at=now,
        ),
    )
    if asked == run_id:
        write_audit(
            conn,
            id=audit_id,
            actor=actor,
            action="run.requested" if retry_of is None else "run.retried",
            executor_id=job.executor_id,
            object_id=run_id,
            detail={"job": job.id} if retry_of is None else {"job": job.id, "retry_of": retry_of},
        )
    return asked
