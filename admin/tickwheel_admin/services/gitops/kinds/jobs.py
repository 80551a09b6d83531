"""Jobs and workflows as documents, with their triggers and rules; whether one is paused is none of
their concern."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, InvalidInput, UserError
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.input.job import job_to_raw, read_job
from tickwheel_admin.domain.jobs.children import MAX_DEPTH
from tickwheel_admin.domain.jobs.job import Job, JobConfig
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.gitops.kinds.base import ObjectKind, PlanView, PlanWriting
from tickwheel_admin.services.gitops.kinds.references import (
    jobs_named_in,
    with_reference_names,
)
from tickwheel_admin.services.gitops.objects import (
    ObjectChange,
    ObjectDocument,
    ObjectKey,
    ObjectType,
    StoredObject,
    WantedObject,
)
from tickwheel_admin.services.gitops.refusals import changed_meanwhile, unknown_executor
from tickwheel_admin.services.jobs import edits
from tickwheel_admin.services.jobs.checks import merged
from tickwheel_admin.services.jobs.creation import WantedJob, create_jobs
from tickwheel_admin.services.jobs.edits import Edit
from tickwheel_admin.services.jobs.yaml import shown_fields
from tickwheel_admin.services.workflows.names import KnownNames, with_ids
from tickwheel_admin.store.database.ids import TooFewIds
from tickwheel_admin.store.gitops.jobs import read_jobs, visible_job_ids
from tickwheel_admin.store.jobs import jobs as store
from tickwheel_admin.store.jobs.child_links import LinkedJob, lock_child_links, named_jobs
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.jobs.declared import managed_jobs
from tickwheel_admin.store.jobs.scripts import jobs_with_sources

NAMES_AT_ONCE = 500
MOST_STEPS_OF_DELETION = 20  # of 500 runs each: one transaction must stay within its bounds


class JobObjects(ObjectKind):
    """Jobs. What code declares is left to code."""

    type: ClassVar = ObjectType.JOB

    def __init__(self) -> None:
        self._configs = JobConfigs(keep=1_000)

    # --- reading -----------------------------------------------------------------------------

    def ids(
        self, conn: sa.Connection, keys: Collection[ObjectKey], executors: Mapping[str, int]
    ) -> dict[ObjectKey, int]:
        by_executor: defaultdict[str, list[ObjectKey]] = defaultdict(list)
        for key in sorted(keys):
            by_executor[key.executor].append(key)
        found: dict[ObjectKey, int] = {}
        for executor, wanted in by_executor.items():
            if executor not in executors:
                continue
            for start in range(0, len(wanted), NAMES_AT_ONCE):
                some = {key.name: key for key in wanted[start : start + NAMES_AT_ONCE]}
                ids = store.jobs_named(conn, executors[executor], some.keys())
                found |= {some[name]: job_id for name, job_id in ids.items()}
        return found

    def stored(self, view: PlanView, object_ids: Collection[int]) -> list[StoredObject]:
        jobs = [each for each in read_jobs(view.conn, object_ids) if each.executor_id in view.names]
        jobs = jobs_with_sources(view.conn, jobs)
        raws = [job_to_raw(job.config) for job in jobs]
        named = named_jobs(view.conn, {each for raw in raws for each in jobs_named_in(raw)})
        by_code = declared_ids(view.conn, [job.id for job in jobs])
        return [
            StoredObject(
                key=ObjectKey(
                    type=self.type, executor=view.names[job.executor_id], name=job.config.name
                ),
                id=job.id,
                executor_id=job.executor_id,
                fields=with_reference_names(raw, job.executor_id, named, view.names),
                mark=str(job.revision),
                content=job,
                is_declared=job.id in by_code,
            )
            for job, raw in zip(jobs, raws, strict=True)
        ]

    def all_ids(self, view: PlanView) -> list[int]:
        ids = visible_job_ids(view.conn, view.names.keys())
        by_code = declared_ids(view.conn, ids)
        return [each for each in ids if each not in by_code]

    def read(
        self, view: PlanView, document: ObjectDocument, object_id: int, stored: StoredObject | None
    ) -> WantedObject:
        key = document.key
        executor_id = view.executors.get(key.executor)
        if executor_id is None:
            raise unknown_executor(key.executor)
        known = KnownNames(executors=view.executors, jobs=view.new_jobs)
        fields, unknown = with_ids(
            view.conn, view.actor, executor_id, {**document.fields, "name": key.name}, known=known
        )
        is_new_executor = executor_id not in view.names
        protocol = Protocol.TICKWHEEL if is_new_executor else view.protocol_of(executor_id)
        config, problems = read_job(fields, protocol)
        if found := merged(unknown, problems):
            raise InvalidInput(found)
        raw = job_to_raw(config)
        new = (
            {
                job_id: LinkedJob(name=name, executor_id=of)
                for (of, name), job_id in view.new_jobs.items()
            }
            if raw["children"] or raw["workflow"]
            else {}
        )
        named = named_jobs(view.conn, jobs_named_in(raw)) | new
        executors = {**view.names, **{each: name for name, each in view.executors.items()}}
        return WantedObject(
            document=document,
            id=object_id,
            executor_id=executor_id,
            fields=with_reference_names(raw, executor_id, named, executors),
            content=config,
        )

    def differences(
        self, stored: StoredObject, wanted: WantedObject
    ) -> Mapping[str, tuple[Any, Any]]:
        """By the hashes of scripts, with which a document may leave out what is stored."""
        before, after = _without_sources(stored.fields), _without_sources(wanted.fields)
        return {
            name: (stored.fields.get(name), wanted.fields[name])
            for name, value in after.items()
            if before.get(name) != value
        }

    def shown(self, stored: StoredObject) -> Mapping[str, Any]:
        return shown_fields(stored.fields)

    def may_write(self, actor: Actor, executor_id: int) -> bool:
        return actor.may(Permission.DEVELOP, executor_id)

    # --- writing -----------------------------------------------------------------------------

    def needs(self, change: ObjectChange) -> Mapping[str, int]:
        config = _config(change)
        if config is None:
            return {}
        workflow = config.workflow
        return {
            "trigger": len(config.triggers),
            "alarm_rule": len(config.alarms),
            "job": 0 if workflow is None else len(workflow.inline_steps),
        }

    def lock(self, writing: PlanWriting, changes: Sequence[ObjectChange]) -> None:
        configs = [config for change in changes if (config := _config(change)) is not None]
        if any(config.children or config.workflow is not None for config in configs):
            lock_child_links(writing.conn)

    def lock_rows(self, writing: PlanWriting, changes: Sequence[ObjectChange]) -> None:
        """The jobs that are there, by ascending id, before the triggers of any of them."""
        for change in sorted(changes, key=lambda each: each.object_id):
            if change.stored is not None and store.lock_job(writing.conn, change.object_id) is None:
                raise changed_meanwhile(change.key)

    def write_plain(
        self, writing: PlanWriting, changes: Sequence[ObjectChange]
    ) -> tuple[dict[int | str, UserError], list[ObjectChange]]:
        """Add new jobs that need no look at others, together; (refusals by place, the others)."""
        plain: list[ObjectChange] = []
        others: list[ObjectChange] = []
        for change in changes:
            config = _config(change)
            assert config is not None  # noqa: S101 - they are new
            is_plain = not (config.children or config.alarms or config.workflow is not None)
            (plain if is_plain else others).append(change)
        wanted = [
            WantedJob(
                place=place,
                executor_id=change.executor_id,
                config=config,
                job_id=change.object_id,
                edit=self._edit(writing, config),
            )
            for place, change in enumerate(plain)
            if (config := _config(change)) is not None
        ]
        refused: dict[int | str, UserError] = {}
        for start in range(0, len(wanted), NAMES_AT_ONCE):
            outcomes = create_jobs(writing.conn, wanted[start : start + NAMES_AT_ONCE])
            for place, outcome in outcomes.items():
                document = plain[place].place
                if isinstance(outcome, UserError) and document is not None:
                    refused[document] = outcome
        return refused, others

    def write(self, writing: PlanWriting, change: ObjectChange) -> None:
        config = _config(change)
        assert config is not None  # noqa: S101 - what is deleted does not come here
        if change.stored is None:
            edits.create_job(
                writing.conn,
                self._edit(writing, config),
                job_id=change.object_id,
                executor_id=change.executor_id,
                config=config,
            )
            return
        try:
            edits.update_job(
                writing.conn,
                self._edit(writing, config, may_need_runs=True),
                job_id=change.object_id,
                revision=int(change.stored.mark),
                config=config,
            )
        except TooFewIds as error:
            raise writing.too_few(error) from None
        except Conflict as error:
            if error.code != "job.changed":
                raise
            raise changed_meanwhile(change.key) from None

    def delete(self, writing: PlanWriting, change: ObjectChange) -> None:
        assert change.stored is not None  # noqa: S101 - what is deleted is there
        found = store.get_job(writing.conn, change.object_id)
        if found is None or str(found.revision) != change.stored.mark:
            raise changed_meanwhile(change.key)
        edit = self._edit(writing, None, may_need_runs=True)
        try:
            for _ in range(MOST_STEPS_OF_DELETION):
                if edits.delete_job(
                    writing.conn, edit, job_id=change.object_id, configs=self._configs
                ):
                    return
        except TooFewIds as error:
            raise writing.too_few(error) from None
        raise Conflict(
            "gitops.too_many_waiting",
            "More than %(limit)s runs of “%(name)s” wait. Cancel them, or delete the job by hand.",
            limit=f"{MOST_STEPS_OF_DELETION * edits.CANCELLED_PER_STEP:,}",
            name=change.key.name,
        )

    def marks(self, conn: sa.Connection, object_ids: Collection[int]) -> dict[int, str]:
        return {
            each: str(found.revision) for each, found in store.brief_jobs(conn, object_ids).items()
        }

    def _edit(
        self, writing: PlanWriting, config: JobConfig | None, *, may_need_runs: bool = False
    ) -> Edit:
        workflow = None if config is None else config.workflow
        return Edit(
            actor=writing.actor,
            audit_id=writing.take_one("audit"),
            trigger_ids=[] if config is None else writing.take("trigger", len(config.triggers)),
            rule_ids=[] if config is None else writing.take("alarm_rule", len(config.alarms)),
            job_ids=[] if workflow is None else writing.take("job", len(workflow.inline_steps)),
            run_ids=writing.runs_of_next() if may_need_runs else (),
        )


def in_order(changes: Sequence[ObjectChange]) -> list[ObjectChange]:
    """New jobs after those that they name; what stands in a circle comes last, to be refused."""
    by_id = {change.object_id: change for change in changes}
    done: set[int] = set()
    ordered: list[ObjectChange] = []

    def add(change: ObjectChange, around: frozenset[int]) -> None:
        if change.object_id in done:
            return
        config = _config(change)
        around |= {change.object_id}
        for job_id in _named(config):
            if job_id in by_id and job_id not in around and len(around) <= MAX_DEPTH:
                add(by_id[job_id], around)
        if change.object_id not in done:
            done.add(change.object_id)
            ordered.append(change)

    for change in changes:
        add(change, frozenset())
    return ordered


def takes_links_away(change: ObjectChange) -> bool:
    """Whether an edit adds no link: it comes first, so that none stands in the way of another."""
    job: Job | None = None if change.stored is None else change.stored.content
    before = set() if job is None else set(_named(job.config))
    return not set(_named(_config(change))) - before


def _named(config: JobConfig | None) -> list[int]:
    if config is None:
        return []
    steps = () if config.workflow is None else config.workflow.job_ids
    return [*(link.job_id for link in config.children), *steps]


def _config(change: ObjectChange) -> JobConfig | None:
    config: JobConfig | None = None if change.wanted is None else change.wanted.content
    return config


def declared_ids(conn: sa.Connection, job_ids: Sequence[int]) -> set[int]:
    """Those of the jobs, of any number, that code declares."""
    found: set[int] = set()
    for start in range(0, len(job_ids), NAMES_AT_ONCE):
        found |= managed_jobs(conn, job_ids[start : start + NAMES_AT_ONCE]).keys()
    return found


def _without_sources(fields: Mapping[str, Any]) -> dict[str, Any]:
    shown = dict(fields)
    if shown["script"] is not None:
        shown["script"] = _without_source(shown["script"])
    if shown["workflow"] is not None:
        steps = [
            {**step, "script": _without_source(step["script"])} if "script" in step else step
            for step in shown["workflow"]["steps"]
        ]
        shown["workflow"] = {**shown["workflow"], "steps": steps}
    return shown


def _without_source(script: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in script.items() if name != "source"}
