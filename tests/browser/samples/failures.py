"""Failures that several jobs of the sample installation had alike."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from tests.browser.samples.rows import NOW
from tickwheel_admin.domain.failures.canary import CanaryReason, CanaryRetry, CanaryState
from tickwheel_admin.domain.failures.group import FailureGroup
from tickwheel_admin.store.failures.canaries import add_canary
from tickwheel_admin.store.failures.groups import GroupJob, insert_groups, write_jobs

HOUR = 3_600_000
STANDING = 4_711


def add_failures(
    conn: sa.Connection,
    job_ids: Mapping[str, int],
    executor_ids: Mapping[str, int],
    *,
    text: str,
    failed_run: int,
) -> dict[str, int]:
    """Add a failure of two jobs that stands, and one that is over; returns ids by name."""
    standing = FailureGroup(
        id=STANDING,
        executor_id=executor_ids["billing"],
        text=text,
        since=NOW - 3 * HOUR,
        last_at=NOW - 42_000,
        runs=43,
        jobs=2,
        first_run_id=failed_run,
        first_job_id=job_ids["payment-reconcile"],
        first_revision=1,
        first_node_id=1,
        last_run_id=failed_run,
        returns=1,
        owner="ana",
        notes="The acquirer works on it; ticket 20481.",
        acknowledged_by="ana",
        acknowledged_at=NOW - 2 * HOUR,
    )
    over = FailureGroup(
        id=STANDING + 1,
        executor_id=executor_ids["ml"],
        text="CUDA out of memory: tried to allocate 2.31 GiB",
        since=NOW - 30 * HOUR,
        last_at=NOW - 29 * HOUR,
        runs=3,
        jobs=1,
        first_run_id=failed_run,
        first_job_id=job_ids["churn-scoring"],
        first_revision=1,
        first_node_id=7,
        last_run_id=failed_run,
        resolved_at=NOW - 28 * HOUR,
    )
    insert_groups(conn, [standing, over])
    jobs = [
        GroupJob(
            group_id=STANDING,
            job_id=job_ids[name],
            runs=runs,
            last_run_id=failed_run,
            last_at=NOW - 42_000,
        )
        for name, runs in (("payment-reconcile", 31), ("fetch-statements", 12))
        if name in job_ids
    ]
    write_jobs(conn, jobs, [])
    canary = CanaryRetry(
        id=3,
        group_id=STANDING,
        executor_id=executor_ids["billing"],
        state=CanaryState.STOPPED,
        reason=CanaryReason.FAILED,
        user_id=0,
        started_by="ana",
        started_at=NOW - HOUR,
        since=NOW - 3 * HOUR,
        before_at=NOW - HOUR,
        before_id=failed_run,
        wave=4,
        retried=7,
        succeeded=6,
        failed=1,
        ended_at=NOW - HOUR // 2,
    )
    add_canary(conn, canary)
    return {"failure:acquirer": STANDING}
