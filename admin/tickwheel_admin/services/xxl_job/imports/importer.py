"""Imports an XXL-JOB installation: executors, jobs, triggers and users.

A new executor and its new jobs are one transaction; each change of a job, and each link to
children, is one of its own, after all jobs exist. What was done is found again by the next import,
so that one that was interrupted is finished by running it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import sqlalchemy as sa

from tickwheel_admin.domain.errors import UserError
from tickwheel_admin.domain.executors.xxl_job import read_settings
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.imports.fate import Fate
from tickwheel_admin.domain.imports.merge import ImportKind
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.events import JOBS, NODES, QUEUED, TRIGGERS, USERS, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.jobs.edits import Edit
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.system.bulk_entries import BulkAction, BulkEntries
from tickwheel_admin.services.users.edits import create_user, set_grants
from tickwheel_admin.services.xxl_job.imports.edits import (
    ImportEdit,
    change_job,
    check_not_imported,
    import_executor,
)
from tickwheel_admin.services.xxl_job.imports.installation import XxlInstallation
from tickwheel_admin.services.xxl_job.imports.plan import (
    ImportPlan,
    ImportRequest,
    PlannedExecutor,
    PlannedJob,
    PlannedUser,
)
from tickwheel_admin.services.xxl_job.imports.planner import plan_import, zone_imported
from tickwheel_admin.services.xxl_job.imports.users import grants_of_content, user_content
from tickwheel_admin.services.xxl_job.moves.situation import Moving
from tickwheel_admin.services.xxl_job.tokens import encrypt_token
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.imports.records import StoredImport, read_imports, write_imports
from tickwheel_admin.store.jobs.jobs import brief_jobs
from tickwheel_admin.store.users.users import StoredUser

Failures = dict[tuple[ImportKind, int], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessTokens:
    """Access tokens of new executors."""

    by_group: Mapping[int, str] = field(repr=False, default_factory=dict)
    for_all: str = field(repr=False, default="")  # of groups without one of their own


class Importer:
    """Use cases of importing."""

    def __init__(self, store: Store, ids: Ids, events: Events, cipher: Cipher) -> None:
        self._store = store
        self._ids = ids
        self._events = events
        self._cipher = cipher
        self._audited = AuditedTransactions(store, ids, events)
        self._entries = BulkEntries(store, ids)

    async def zone_before(self, source: str) -> str | None:
        """The zone of cron of an earlier import of this installation; None: there was none."""
        return zone_imported(await self._store.read(read_imports, source))

    async def plan(
        self, actor: Actor, theirs: XxlInstallation, request: ImportRequest
    ) -> ImportPlan:
        """What an import would do; raises NothingToImport."""
        actor.require(Permission.ADMINISTER)
        return await self._store.read(plan_import, theirs, request)

    async def apply(self, actor: Actor, plan: ImportPlan, tokens: AccessTokens) -> Failures:
        """Do what the plan says; returns what was refused meanwhile, and why.

        Raises:
            InvalidInput: an access token that is none.
            Conflict: secret_key.missing.
        """
        actor.require(Permission.ADMINISTER)
        actor.require_in_person()
        sealed = await self._sealed(plan, tokens)
        failures: Failures = {}
        executor_ids: dict[int, int] = {}
        for executor in plan.executors:
            if executor.fate is not Fate.CANNOT:
                await self._executor(actor, plan, executor, executor_ids, sealed, failures)
        # Links that go first make room: what takes their place may not close a circle with them.
        for job in sorted(plan.jobs, key=lambda job: len(job.links or ())):
            is_wanted = job.links is not None or job.fate is Fate.CHANGED
            if is_wanted and (ImportKind.JOB, job.their_id) not in failures:
                await self._change(actor, plan, job, failures)
        for user in plan.users:
            if user.fate in (Fate.CREATED, Fate.CHANGED):
                await self._user(actor, plan, user, executor_ids, failures)
        for topic in (NODES, JOBS, TRIGGERS, QUEUED, USERS):
            self._events.publish(topic)
        return failures

    async def imported(self, source: str, job_ids: Sequence[int]) -> dict[int, Moving]:
        """Those of XXL-JOB's jobs that were imported and are still here."""

        def read(conn: sa.Connection) -> dict[int, Moving]:
            stored = read_imports(conn, source)
            ours = {
                each: stored[ImportKind.JOB, each].our_id
                for each in job_ids
                if (ImportKind.JOB, each) in stored
            }
            brief = brief_jobs(conn, ours.values())
            return {
                their_id: Moving(their_id=their_id, job_id=our_id, name=brief[our_id].name)
                for their_id, our_id in ours.items()
                if our_id in brief
            }

        return await self._store.read(read)

    # --- steps -----------------------------------------------------------------------------------

    async def _sealed(self, plan: ImportPlan, tokens: AccessTokens) -> dict[int, tuple[int, str]]:
        """Ids and encrypted tokens of new executors, by their groups."""
        sealed: dict[int, tuple[int, str]] = {}
        for each in plan.executors:
            if each.fate is not Fate.CREATED:
                continue
            token = tokens.by_group.get(each.their_id) or tokens.for_all
            _settings, problems = read_settings(
                app_name=each.app_name, token=token, addresses=each.addresses
            )
            raise_if_any(problems)
            executor_id = await self._ids.take("executor")
            sealed[each.their_id] = executor_id, encrypt_token(self._cipher, executor_id, token)
        return sealed

    async def _executor(
        self,
        actor: Actor,
        plan: ImportPlan,
        executor: PlannedExecutor,
        executor_ids: dict[int, int],
        sealed: Mapping[int, tuple[int, str]],
        failures: Failures,
    ) -> None:
        """One executor with its new jobs."""
        jobs = [each for each in plan.jobs if each.group_id == executor.their_id]
        new = [each for each in jobs if each.fate is Fate.CREATED]
        executor_id, token = sealed.get(executor.their_id, (executor.our_id, ""))
        if executor_id is None and executor.same_as is not None:
            executor_id = executor_ids.get(executor.same_as)
        if executor_id is None:
            failures[ImportKind.EXECUTOR, executor.their_id] = "The one it shares was not created."
            failures.update({(ImportKind.JOB, e.their_id): "Its executor failed." for e in new})
            return
        bulk = BulkAction(action="jobs.created", detail={"jobs": len(new)})
        step = await self._entries.open(actor, bulk, [executor_id] if len(new) > 1 else [])
        counts = {each.their_id: len(each.raw["triggers"]) for each in new}
        job_ids = await self._ids.take_many("job", len(new))
        trigger_ids = iter(await self._ids.take_many("trigger", sum(counts.values())))
        edit = ImportEdit(
            source=plan.request.source,
            actor=step.actor,
            executor=executor,
            jobs=new,
            rebased=[e for e in jobs if e.fate is Fate.UNCHANGED and e.is_rebased],
            executor_id=executor_id,
            sealed_token=token,
            audit_ids=await self._ids.take_many("audit", 1 + len(new)),
            job_ids={each.their_id: id_ for each, id_ in zip(new, job_ids, strict=True)},
            trigger_ids={
                their_id: [next(trigger_ids) for _ in range(count)]
                for their_id, count in counts.items()
            },
        )
        try:
            await self._store.run(import_executor, edit)
            executor_ids[executor.their_id] = executor_id
        except (UserError, sa.exc.IntegrityError) as error:
            why = str(error) if isinstance(error, UserError) else "A name was taken meanwhile."
            failures[ImportKind.EXECUTOR, executor.their_id] = why
            failures.update({(ImportKind.JOB, each.their_id): why for each in new})
        await self._entries.tell(step, {})

    async def _change(
        self, actor: Actor, plan: ImportPlan, job: PlannedJob, failures: Failures
    ) -> None:
        """Bring what changed of a job there, and its children."""
        edit = Edit(
            actor=actor,
            audit_id=await self._ids.take("audit"),
            trigger_ids=await self._ids.take_many("trigger", len(job.raw["triggers"])),
        )

        async def change(run_ids: Sequence[int]) -> None:
            one = Edit(
                actor=actor,
                audit_id=edit.audit_id,
                trigger_ids=edit.trigger_ids,
                run_ids=run_ids,
            )
            await self._store.run(change_job, one, plan.request.source, job)

        try:
            await self._ids.run_with_ids("run", change)
        except UserError as error:
            failures[ImportKind.JOB, job.their_id] = str(error)

    async def _user(
        self,
        actor: Actor,
        plan: ImportPlan,
        user: PlannedUser,
        executor_ids: Mapping[int, int],
        failures: Failures,
    ) -> None:
        content = user_content(user)
        content["groups"] = [each for each in content["groups"] if each in executor_ids]
        grants = grants_of_content(content, executor_ids)
        user_id = user.our_id or await self._ids.take("user")
        source = plan.request.source

        def write(conn: sa.Connection, entry: AuditEntry) -> bool:
            now = now_ms(conn)
            if user.our_id is None:
                check_not_imported(conn, source, ImportKind.USER, user.their_id)
                new = StoredUser(
                    id=user_id,
                    name=user.name,
                    password_hash=None,  # nobody can log in until an administrator sets one
                    must_change_password=True,
                    disabled=False,
                    created_at=now,
                )
                if not create_user(conn, entry, new, grants):
                    return False
            else:
                set_grants(conn, entry, user_id, grants)
            row = StoredImport(
                kind=ImportKind.USER, their_id=user.their_id, our_id=user_id, content=content
            )
            write_imports(conn, source, [row], now=now)
            return True

        try:
            done = await self._audited.run(actor, partial(write), repeated=lambda _noted: True)
        except UserError as error:
            failures[ImportKind.USER, user.their_id] = str(error)
        else:
            if not done:
                failures[ImportKind.USER, user.their_id] = "The name was taken meanwhile."
