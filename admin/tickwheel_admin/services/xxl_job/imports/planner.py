"""Works out what an import from XXL-JOB would do from both sides, changing nothing."""

from __future__ import annotations

from collections import Counter

import sqlalchemy as sa

from tickwheel_admin.domain.imports.fate import Fate
from tickwheel_admin.domain.imports.merge import ImportKind
from tickwheel_admin.services.xxl_job.imports.executors import ExecutorPlans
from tickwheel_admin.services.xxl_job.imports.installation import XxlInstallation, chosen_jobs
from tickwheel_admin.services.xxl_job.imports.jobs import JobPlans
from tickwheel_admin.services.xxl_job.imports.known import KnownHere
from tickwheel_admin.services.xxl_job.imports.plan import ImportPlan, ImportRequest
from tickwheel_admin.services.xxl_job.imports.users import plan_user
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.imports.records import Imports


def plan_import(conn: sa.Connection, theirs: XxlInstallation, request: ImportRequest) -> ImportPlan:
    """Work out the plan.

    Raises:
        NothingToImport: the filter names what is not there.
    """
    jobs = chosen_jobs(theirs, groups=request.groups, job_ids=request.job_ids)
    known = KnownHere(conn, request.source)
    executors = ExecutorPlans(conn, known, theirs.jobs)
    concerned = {job.group_id for job in jobs}
    for group in theirs.groups:
        named = {group.app_name, group.title} & set(request.groups)
        if request.is_whole or group.id in concerned or (named and not request.job_ids):
            executors.add(group)
    plans = JobPlans(
        known, executors, glue=theirs.glue, cron_zone=request.cron_zone, now=now_ms(conn)
    )
    planned = plans.link([plans.plan(job) for job in jobs])
    people = theirs.users if request.is_whole else ()
    alive = {job.id for job in theirs.jobs}
    return ImportPlan(
        request=request,
        executors=list(executors.planned.values()),
        jobs=planned,
        users=[plan_user(conn, known, executors.planned, each) for each in people],
        gone_jobs={
            their_id: known.configs[stored.our_id].name
            for (kind, their_id), stored in known.imports.items()
            if kind is ImportKind.JOB and their_id not in alive
            if stored.our_id in known.configs and request.is_whole
        },
        needs_token=tuple(
            each.app_name
            for each in executors.planned.values()
            if each.fate is Fate.CREATED and each.our_id is None and each.same_as is None
            if not theirs.tokens.get(each.their_id)
        ),
    )


def zone_imported(imports: Imports) -> str | None:
    """The zone of cron of an earlier import; None: there was none."""
    zones = Counter(
        trigger["timezone"]
        for (kind, _), stored in imports.items()
        if kind is ImportKind.JOB
        for trigger in stored.content["job"]["triggers"]
        if trigger["kind"] == "cron"
    )
    return zones.most_common(1)[0][0] if zones else None
