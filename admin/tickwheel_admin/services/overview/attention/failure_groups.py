"""Jobs that fail alike: one row for the failure instead of one for each job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Word
from tickwheel_admin.domain.failures.group import FailureGroup
from tickwheel_admin.services.overview.attention.concern import (
    PER_KIND,
    AlarmKind,
    Concern,
    Severity,
)
from tickwheel_admin.store.executors.executors import executor_names
from tickwheel_admin.store.failures import groups as store
from tickwheel_admin.store.jobs.jobs import names_of_jobs
from tickwheel_admin.store.jobs.revisions import revisions_made_at
from tickwheel_admin.store.overview.alarm_facts import nodes_with_executors
from tickwheel_admin.store.overview.attention import Scope

DAY_MS = 86_400_000
LOOKED_AT = 50  # failures that stand, those that happened last
MAX_JOBS = 100  # of one failure, whose rows and alarms it stands for

_TEXTS = {
    (False, False): Word("%(error)s: %(runs)d runs of %(jobs)d jobs"),
    (True, False): Word("%(error)s: %(runs)d runs of %(jobs)d jobs, first on %(node)s"),
    (False, True): Word(
        "%(error)s: %(runs)d runs of %(jobs)d jobs, first after revision %(revision)d of “%(job)s”"
    ),
    (True, True): Word(
        "%(error)s: %(runs)d runs of %(jobs)d jobs, first on %(node)s after revision %(revision)d"
        " of “%(job)s”"
    ),
}


def failing_alike(
    conn: sa.Connection, scope: Scope, failing: Sequence[Concern], *, now: int
) -> list[Concern]:
    """The failures of several jobs, and those of the concerns that they do not tell already.

    A failure is told while it happened within a day, and longer while several of the concerns
    are about jobs that fail so.

    Args:
        failing: jobs that fail, each told once.
    """
    standing = store.page_groups(conn, executor_ids=scope, limit=LOOKED_AT)
    groups = {each.id: each for each in standing if each.is_of_several}
    if not groups:
        return list(failing)
    of_runs = dict(store.failures_of_runs(conn, {n for each in failing if (n := each.run_id)}))
    alike: dict[int, list[Concern]] = {group_id: [] for group_id in groups}
    for each in failing:
        failure = of_runs.get(each.run_id or 0)
        if failure is not None and failure.group_id in alike:
            alike[failure.group_id].append(each)
    told = [
        group
        for group in groups.values()
        if group.last_at >= now - DAY_MS or len(alike[group.id]) > 1
    ][:PER_KIND]
    covered = {each.job_id for group in told for each in alike[group.id]}
    rest = [each for each in failing if each.job_id not in covered]
    return [*_concerns(conn, told), *rest]


def _concerns(conn: sa.Connection, groups: Sequence[FailureGroup]) -> list[Concern]:
    executors = executor_names(conn, {each.executor_id for each in groups})
    jobs = names_of_jobs(conn, {each.first_job_id for each in groups})
    nodes = nodes_with_executors(conn, {n for each in groups if (n := each.first_node_id)})
    made_at = revisions_made_at(conn, {(each.first_job_id, each.first_revision) for each in groups})
    found = []
    for each in groups:
        params: dict[str, Any] = {
            "error": each.text.rstrip("."),  # a colon follows
            "runs": each.runs,
            "jobs": each.jobs,
        }
        if each.first_node_id in nodes:
            params["node"] = nodes[each.first_node_id][0]
        # A job that was as it is for days did not begin to fail because of that.
        revised_at = made_at.get((each.first_job_id, each.first_revision), 0)
        if each.first_revision > 1 and each.since - revised_at < DAY_MS:
            params |= {"revision": each.first_revision, "job": jobs.get(each.first_job_id, "")}
        found.append(
            Concern(
                kind=AlarmKind.FAILED,
                severity=Severity.ERROR,
                template=str(_TEXTS["node" in params, "revision" in params]),
                params=params,
                since=each.since,
                last_at=each.last_at,
                executor_id=each.executor_id,
                executor_name=executors.get(each.executor_id),
                failure=each,
                failing_jobs=frozenset(
                    job.job_id for job in store.newest_jobs(conn, each.id, limit=MAX_JOBS)
                ),
            )
        )
    return found
