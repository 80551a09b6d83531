"""Writes new jobs that come from another scheduler, many in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.jobs.job import Job, JobConfig
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.handlers.scripts import check_script, noted
from tickwheel_admin.services.jobs.alarm_rules import plan_rules, write_rules
from tickwheel_admin.services.jobs.checks import name_taken
from tickwheel_admin.services.runs.secret_references import check_secret_references
from tickwheel_admin.services.triggers.cutover import new_triggers
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.jobs import jobs as store_jobs
from tickwheel_admin.store.system.audit import NewAudit, write_audits
from tickwheel_admin.store.triggers import triggers as job_triggers

_NAMES_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class NewImportedJob:
    """A job that is to be written, with the ids that it may use."""

    config: JobConfig
    job_id: int
    audit_id: int
    trigger_ids: Sequence[int]
    rule_ids: Sequence[int] = ()  # one for each of its alarms
    detail: Mapping[str, object]  # for the audit, beside the name
    paused: Collection[TriggerSpec] = ()  # those of its triggers that stay paused
    earlier: Sequence[JobConfig] = ()  # what it said before, oldest first: its first revisions


def add_imported_jobs(
    conn: sa.Connection,
    actor: Actor,
    executor_id: int,
    new: Sequence[NewImportedJob],
    *,
    paused: bool,
    calendars: Mapping[str, Calendar],
) -> None:
    """Add jobs with their triggers and audit entries; handlers need not be known yet.

    Args:
        paused: whether the jobs are: the other scheduler goes on firing them.
        calendars: those that their triggers name.

    Raises:
        Conflict: job.name_taken.
        InvalidInput: trigger.never_fires; script.forbidden; a reference to a secret that the
            executor does not have; a channel of alarms that is not there; too many rules.
        NotAllowed: there is a script, and this person may not give one.
    """
    with_script = [each.config for each in new if each.config.script is not None]
    for config in with_script[:1]:  # permission and executor are the same for all
        check_script(conn, actor, executor_id, config)
    for each in new:
        check_secret_references(conn, executor_id, each.config)
    names = [each.config.name for each in new]
    for start in range(0, len(names), _NAMES_AT_ONCE):
        some = names[start : start + _NAMES_AT_ONCE]
        for name in store_jobs.jobs_named(conn, executor_id, some):
            raise name_taken(name)
    now = now_ms(conn)
    jobs: list[Job] = []
    triggers: list[job_triggers.NewTrigger] = []
    audits: list[NewAudit] = []
    for each in new:
        job = Job(
            id=each.job_id,
            executor_id=executor_id,
            revision=len(each.earlier) + 1,
            config=each.config,
            paused=paused,
            created_at=now,
            updated_at=now,
        )
        jobs.append(job)
        added = new_triggers(
            job,
            each.config.triggers,
            trigger_ids=each.trigger_ids,
            calendars=calendars,
            now=now,
        )
        triggers += [
            replace(t, paused=True, next_fire_at=None) if t.spec in each.paused else t
            for t in added
        ]
        audits.append(
            NewAudit(
                id=each.audit_id,
                action="job.created",
                executor_id=executor_id,
                object_id=job.id,
                detail={"name": each.config.name, **each.detail, **_noted(each.config)},
            )
        )
    store_jobs.add_jobs(conn, jobs, by=actor.name)
    for each in new:
        for revision, config in enumerate(each.earlier, 1):
            store_jobs.add_revision(conn, each.job_id, revision, config, now=now, by=actor.name)
    job_triggers.add_triggers(conn, triggers)
    for each in new:
        rules = plan_rules(conn, each.job_id, (), each.config.alarms, rule_ids=each.rule_ids)
        write_rules(conn, rules, now=now)
    write_audits(conn, actor, audits)


def _noted(config: JobConfig) -> dict[str, object]:
    detail: dict[str, object] = dict(noted(config))
    if config.alarms:
        detail["alarms"] = {"added": [alarm.name for alarm in config.alarms]}
    return detail
