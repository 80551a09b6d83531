"""Jobs declared in code, for people: what code says, and what is to become of it."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.jobs.declared_job import CodeJobs
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.events import JOBS, NODES, QUEUED, RUNS, TRIGGERS, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions
from tickwheel_admin.services.jobs.declared import edits as declared_edits
from tickwheel_admin.services.jobs.declared.edits import DeclaredEdit, Needs
from tickwheel_admin.services.jobs.declared.lists import DeclaredItem as DeclaredItem
from tickwheel_admin.services.jobs.declared.lists import Difference as Difference
from tickwheel_admin.services.jobs.declared.lists import read_items
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids

T = TypeVar("T")


class DeclaredJobs:
    """Use cases of jobs that code declares."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._ids = ids
        self._events = events
        self._audited = AuditedTransactions(store, ids, events)

    async def list(self, actor: Actor, executor_id: int) -> builtins.list[DeclaredItem]:
        """What code declares at an executor, by name."""
        actor.require(Permission.VIEW, executor_id)
        return await self._store.read(read_items, executor_id)

    async def accept(
        self,
        actor: Actor,
        executor_id: int,
        name: str,
        *,
        rename_from: str | None = None,
        declared_at: int | None = None,
    ) -> int:
        """Make the job as code declares it, and let code manage it; returns the job's id.

        A job of that name is changed, whoever made it; else one is created. Accepting what is
        applied changes nothing.

        Args:
            rename_from: the declared job that this one is the new name of: its job is changed, and
                keeps its runs.
            declared_at: of the declaration that was looked at; None: whatever code says by now.

        Raises:
            NotFound: nobody declares this name.
            InvalidInput: no job can be made of it; on "rename_from": code manages no such job.
            Conflict: job.name_taken; declared.changed.
        """
        actor.require(Permission.DEVELOP, executor_id)
        needs = await self._store.read(declared_edits.read_needs, executor_id, name)
        return await self._change(
            actor,
            executor_id,
            needs,
            lambda conn, edit: declared_edits.accept(
                conn,
                edit,
                executor_id=executor_id,
                name=name,
                rename_from=rename_from,
                declared_at=declared_at,
            ),
        )

    async def ignore(self, actor: Actor, executor_id: int, name: str) -> None:
        """Make no job of it, or leave the job as it is until code says something else.

        Raises:
            NotFound: nobody declares this name.
            Conflict: declared.applied.
        """
        await self._change(
            actor,
            executor_id,
            Needs(),
            lambda conn, edit: declared_edits.ignore(
                conn, edit, executor_id=executor_id, name=name
            ),
        )

    async def release(self, actor: Actor, executor_id: int, name: str) -> None:
        """Take the job out of code's hands: it stays as it is, and people may edit it.

        Raises:
            NotFound: nobody declares this name.
            Conflict: declared.not_managed.
        """
        await self._change(
            actor,
            executor_id,
            Needs(),
            lambda conn, edit: declared_edits.release(
                conn, edit, executor_id=executor_id, name=name
            ),
        )

    async def set_policy(self, actor: Actor, executor_id: int, policy: str) -> None:
        """Say what becomes of declared jobs: from the next process that starts on.

        Args:
            policy: a CodeJobs.

        Raises:
            InvalidInput: on "policy".
            Conflict: executor.other_protocol.
        """
        actor.require(Permission.ADMINISTER, executor_id)
        if policy not in set(CodeJobs):
            raise InvalidInput.one(
                "policy",
                "not_one_of",
                "This must be one of %(choices)s.",
                choices=", ".join(CodeJobs),
            )
        set_policy = partial(
            declared_edits.set_policy, executor_id=executor_id, policy=CodeJobs(policy)
        )
        await self._audited.run(actor, set_policy, NODES)

    async def _change(
        self,
        actor: Actor,
        executor_id: int,
        needs: Needs,
        work: Callable[[sa.Connection, DeclaredEdit], T],
    ) -> T:
        actor.require(Permission.DEVELOP, executor_id)
        edit = await take_edit(self._ids, actor, needs)

        def change(conn: sa.Connection, run_ids: Sequence[int]) -> T:
            return work(conn, replace(edit, run_ids=run_ids))

        done = await self._ids.run_with_ids("run", lambda run_ids: self._store.run(change, run_ids))
        announce(self._events)
        return done


async def take_edit(ids: Ids, actor: Actor, needs: Needs) -> DeclaredEdit:
    """The ids that one edit may need."""
    return DeclaredEdit(
        actor=actor,
        audit_id=await ids.take("audit"),
        job_audit_id=await ids.take("audit"),
        job_id=await ids.take("job"),
        trigger_ids=await ids.take_many("trigger", needs.triggers),
        rule_ids=await ids.take_many("alarm_rule", needs.alarms),
        step_ids=await ids.take_many("job", needs.steps),
    )


def announce(events: Events) -> None:
    """Tell who listens that a job may have changed."""
    for topic in (JOBS, TRIGGERS, RUNS, QUEUED, NODES):
        events.publish(topic)
