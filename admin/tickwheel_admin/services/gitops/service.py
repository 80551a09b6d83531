"""Directories of files as the state that is wanted: plan it, apply it, write it.

A plan reads, compares, and then tries the changes in a transaction that is rolled back: what only
the database can tell, such as a circle of jobs or a calendar that leaves no fire, is told by the
plan and not first by its application. Applying makes the plan again, refuses when its fingerprint
is another one, and writes everything in one transaction. That is bounded: see `MAX_EDITS`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tickwheel_admin.domain.errors import InvalidInput, NotAllowed
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.events import (
    ALARMS,
    CALENDARS,
    JOBS,
    NODES,
    QUEUED,
    RUNS,
    TRIGGERS,
    USERS,
    Events,
)
from tickwheel_admin.services.gitops.envelopes import MAX_DOCUMENTS, read_envelopes
from tickwheel_admin.services.gitops.export import ExportChoice, export_documents
from tickwheel_admin.services.gitops.kinds.base import ObjectKind
from tickwheel_admin.services.gitops.kinds.calendars import CalendarObjects
from tickwheel_admin.services.gitops.kinds.channels import ChannelObjects
from tickwheel_admin.services.gitops.kinds.executors import ExecutorObjects
from tickwheel_admin.services.gitops.kinds.jobs import JobObjects
from tickwheel_admin.services.gitops.kinds.pools import PoolObjects
from tickwheel_admin.services.gitops.kinds.rules import RuleObjects
from tickwheel_admin.services.gitops.kinds.user_roles import UserRoles
from tickwheel_admin.services.gitops.objects import ChangeAction, ObjectPlan, ObjectType
from tickwheel_admin.services.gitops.planner import Wish, digest_of, make_plan, missing
from tickwheel_admin.services.gitops.refusals import (
    changed_meanwhile,
    not_allowed,
    roles_not_by_token,
    too_many_edits,
)
from tickwheel_admin.services.gitops.writer import (
    Application,
    DryRun,
    apply_plan,
    executors_of,
)
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids

# An edit or deletion locks triggers, which the planner waits for, and costs 5 ms: 500 are 2.5 s of
# a transaction, far from the 15 s of a lease. A new job locks nothing that anybody waits for, and
# costs 0.4 ms.
MAX_EDITS = 500
_ID_NAMES = {
    ObjectType.EXECUTOR: "executor",
    ObjectType.USER_ROLES: "user",  # never used: no plan adds users
    ObjectType.CALENDAR: "calendar",
    ObjectType.POOL: "pool",
    ObjectType.CHANNEL: "alarm_channel",
    ObjectType.RULE: "alarm_rule",
    ObjectType.JOB: "job",
}


class GitOps:
    """Use cases of plans."""

    def __init__(
        self, store: Store, ids: Ids, events: Events, cipher: Cipher, *, languages: Collection[str]
    ) -> None:
        self._store = store
        self._ids = ids
        self._events = events
        kinds: Sequence[ObjectKind] = (
            ExecutorObjects(),
            UserRoles(),
            CalendarObjects(),
            PoolObjects(),
            ChannelObjects(cipher, languages),
            RuleObjects(),
            JobObjects(),
        )
        self._kinds = {each.type: each for each in kinds}
        self._turn = asyncio.Lock()  # thousands of documents at a time are enough work

    async def plan(
        self,
        actor: Actor,
        documents: Sequence[Any],
        *,
        owner: str | None,
        prune: bool = False,
        take_over: bool = False,
    ) -> ObjectPlan:
        """What would become of the documents' objects. Nothing is written.

        Whoever may see objects may compare them with documents; only when the caller may make all
        of the changes are these tried, and `is_checked`.

        Args:
            documents: at most 5,000 objects as they were sent.
            owner: the label of what is applied; None: no label, and no `prune`.

        Raises:
            InvalidInput: of the request as such. What is wrong with documents is in the plan.
        """
        actor.require(Permission.LOGGED_IN)
        async with self._turn:
            plan = await self._compared(actor, documents, owner, prune, take_over)
            if plan.problems or not plan.is_allowed or not plan.changes:
                return plan
            try:
                await self._write(actor, plan, is_dry=True)
            except DryRun:
                return replace(plan, is_checked=True)
            except InvalidInput as error:
                return replace(plan, problems=error.problems)
            return plan

    async def apply(
        self,
        actor: Actor,
        documents: Sequence[Any],
        *,
        fingerprint: str,
        owner: str | None,
        prune: bool = False,
        take_over: bool = False,
    ) -> ObjectPlan:
        """Make the changes of a plan, all of them or none; returns what was done.

        Raises:
            InvalidInput: with all that is wrong with any of the documents.
            Conflict: gitops.plan_changed, when the fingerprint is not that of the plan.
            NotAllowed: gitops.not_allowed.
        """
        async with self._turn:
            plan = await self._compared(actor, documents, owner, prune, take_over)
            if plan.problems:
                raise InvalidInput(plan.problems)
            if plan.fingerprint != fingerprint:
                raise changed_meanwhile()
            if not plan.is_allowed:
                raise _refusal(actor, plan)
            if plan.changes:
                await self._write(actor, plan, is_dry=False)
                for topic in (JOBS, TRIGGERS, RUNS, QUEUED, NODES, CALENDARS, ALARMS, USERS):
                    self._events.publish(topic)
            return replace(plan, is_checked=True)

    def export(
        self, actor: Actor, choice: ExportChoice
    ) -> AsyncIterator[Sequence[Mapping[str, Any]]]:
        """Documents of what is stored and the caller may see, some at a time."""
        actor.require(Permission.LOGGED_IN)
        return export_documents(self._store, self._kinds, actor, choice)

    async def _compared(
        self,
        actor: Actor,
        documents: Sequence[Any],
        owner: str | None,
        prune: bool,
        take_over: bool,
    ) -> ObjectPlan:
        if len(documents) > MAX_DOCUMENTS:
            raise InvalidInput.one(
                "documents",
                "out_of_range",
                "At most %(limit)s documents at once; divide the directory.",
                limit=f"{MAX_DOCUMENTS:,}",
            )
        if prune and owner is None:
            raise InvalidInput.one(
                "prune",
                "gitops.prune_without_owner",
                "Only what has the label of an owner is deleted: name the owner of these files.",
            )
        wish = Wish(
            envelopes=await asyncio.to_thread(read_envelopes, documents),
            owner=owner,
            prune=prune,
            take_over=take_over,
            digest=digest_of(documents),
        )
        keys = await self._store.read(missing, self._kinds, actor, wish.envelopes.documents)
        new_ids = {key: await self._ids.take(_ID_NAMES[key.type]) for key in sorted(set(keys))}
        plan = await self._store.read(make_plan, self._kinds, actor, wish, new_ids)
        edits = sum(
            each.action in (ChangeAction.UPDATE, ChangeAction.DELETE) for each in plan.changes
        )
        if edits > MAX_EDITS:
            plan = replace(plan, problems=[*plan.problems, *too_many_edits(edits, MAX_EDITS)])
        return plan

    async def _write(self, actor: Actor, plan: ObjectPlan, *, is_dry: bool) -> None:
        needs: Counter[str] = Counter(audit=len(plan.changes))
        for change in plan.changes:
            needs.update(self._kinds[change.key.type].needs(change))
        application = Application(
            plan=plan,
            actor=actor,
            entry_ids=await self._ids.take_many("audit", len(executors_of(plan))),
            ids={name: await self._ids.take_many(name, count) for name, count in needs.items()},
            is_dry=is_dry,
        )

        async def write(run_ids: Sequence[int]) -> None:
            await self._store.run(apply_plan, self._kinds, application, run_ids)

        await self._ids.run_with_ids("run", write)


def _refusal(actor: Actor, plan: ObjectPlan) -> NotAllowed:
    refused = [each.key for each in plan.changes if not each.is_allowed]
    if actor.may(Permission.ADMINISTER) and any(
        each.type is ObjectType.USER_ROLES for each in refused
    ):
        return roles_not_by_token()
    return not_allowed(refused)
