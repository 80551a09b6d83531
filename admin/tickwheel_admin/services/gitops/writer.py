"""The transaction that applies a plan: all of it, or nothing.

Locks are taken in the order: this one, users, links between jobs, calendars, pools, rules with
channels, executors, jobs by ascending id; then each job's triggers, runs and pools as its own edit
does. Each object is compared with what was planned from, so whatever somebody else changed
meanwhile undoes the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, InvalidInput, Problem, UserError
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.gitops.kinds.base import ObjectKind, PlanWriting
from tickwheel_admin.services.gitops.kinds.jobs import JobObjects, in_order, takes_links_away
from tickwheel_admin.services.gitops.objects import (
    ChangeAction,
    ObjectChange,
    ObjectPlan,
    ObjectType,
)
from tickwheel_admin.services.gitops.planner import ObjectKinds
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.edit_locks import lock_edits
from tickwheel_admin.store.gitops.managed import ManagedObject, forget_managed, write_managed
from tickwheel_admin.store.system.audit import NewAudit, find_audits, write_audits

LOCK = "gitops"  # of applications: one at a time
_WRITTEN = (ChangeAction.CREATE, ChangeAction.UPDATE)


class DryRun(Exception):
    """Everything was tried and would work: the transaction is rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A plan that is applied, and the ids that its transaction may use."""

    plan: ObjectPlan
    actor: Actor
    entry_ids: Sequence[int]  # one for each of `executors_of`
    ids: Mapping[str, Sequence[int]]
    is_dry: bool = False


def executors_of(plan: ObjectPlan) -> list[int]:
    """Whose objects change; 0 for those that belong to no executor."""
    return sorted({change.executor_id for change in plan.changes})


def apply_plan(
    conn: sa.Connection, kinds: ObjectKinds, application: Application, run_ids: Sequence[int]
) -> None:
    """Write it.

    Raises:
        InvalidInput: with all that is wrong with any of the documents.
        Conflict: gitops.plan_changed, or what stands against a deletion.
        TooFewIds: more `run_ids` are needed.
        DryRun: of an application that is one.
    """
    if find_audits(conn, application.entry_ids):
        return  # an earlier try of this transaction was committed
    _Transaction(conn, kinds, application, run_ids).run()
    if application.is_dry:
        raise DryRun


class _Transaction:
    def __init__(
        self,
        conn: sa.Connection,
        kinds: ObjectKinds,
        application: Application,
        run_ids: Sequence[int],
    ) -> None:
        self._conn, self._kinds, self._application = conn, kinds, application
        self._plan = application.plan
        self._jobs = [each for each in self._plan.changes if each.key.type is ObjectType.JOB]
        self._refused: dict[int | str, UserError] = {}
        lock_edits(conn, LOCK)
        ids: dict[str, Iterator[int]] = {name: iter(some) for name, some in application.ids.items()}
        self._writing = PlanWriting(
            conn=conn,
            actor=application.actor,
            now=now_ms(conn),
            ids=ids,
            run_ids=run_ids,
            edits=sum(each.stored is not None for each in self._jobs),
        )

    def run(self) -> None:
        self._note()
        # Users are locked before all else, then links between jobs.
        for kind in (ObjectType.USER_ROLES, ObjectType.JOB, *ObjectType):
            some = self._of(kind, *_WRITTEN, ChangeAction.DELETE)
            if some:
                self._kinds[kind].lock(self._writing, some)
        for kind in ObjectType:
            if kind is not ObjectType.JOB:
                for change in self._kind(kind).ordered(self._of(kind, *_WRITTEN)):
                    self._write(change)
        self._write_jobs()
        for kind in reversed(ObjectType):
            for change in reversed(self._kind(kind).ordered(self._of(kind, ChangeAction.DELETE))):
                self._try(change, self._kind(kind).delete)
        self._raise_if_refused()
        self._label()

    def _kind(self, kind: ObjectType) -> ObjectKind:
        return self._kinds[kind]

    def _of(self, kind: ObjectType, *actions: ChangeAction) -> list[ObjectChange]:
        return [
            each for each in self._plan.changes if each.key.type is kind and each.action in actions
        ]

    def _write_jobs(self) -> None:
        jobs = self._kinds[ObjectType.JOB]
        assert isinstance(jobs, JobObjects)  # noqa: S101
        jobs.lock_rows(
            self._writing, [*self._of(ObjectType.JOB, ChangeAction.UPDATE, ChangeAction.DELETE)]
        )
        refused, linked = jobs.write_plain(
            self._writing, self._of(ObjectType.JOB, ChangeAction.CREATE)
        )
        self._refused |= refused
        for change in in_order(linked):
            self._write(change)
        updates = sorted(
            self._of(ObjectType.JOB, ChangeAction.UPDATE),
            key=lambda each: (not takes_links_away(each), each.object_id),
        )
        for change in updates:
            self._write(change)

    def _write(self, change: ObjectChange) -> None:
        self._try(change, self._kinds[change.key.type].write)

    def _try(self, change: ObjectChange, work: object) -> None:
        try:
            work(self._writing, change)  # type: ignore[operator]
        except UserError as error:
            if isinstance(error, Conflict) and error.code == "gitops.plan_changed":
                raise  # all else would follow from that
            key = str(change.key) if change.place is None else change.place
            self._refused[key] = error

    def _raise_if_refused(self) -> None:
        """All that was refused, at the documents; nothing is committed after that."""
        problems: list[Problem] = []
        for place, error in self._refused.items():
            path = "" if isinstance(place, str) else f"documents[{place}]"
            if isinstance(error, InvalidInput):
                problems += [
                    replace(each, field=f"{path}.{each.field}" if each.field else path)
                    for each in error.problems
                ]
            else:
                problems.append(
                    Problem(
                        field=path, code=error.code, template=error.template, params=error.params
                    )
                )
        if problems:
            raise InvalidInput(problems)

    def _note(self) -> None:
        """An entry for each executor, whose parts are those of the single changes."""
        plan, actor = self._plan, self._application.actor
        entries = dict(zip(executors_of(plan), self._application.entry_ids, strict=True))
        counts = Counter(change.executor_id for change in plan.changes)
        by = {} if plan.owner is None else {"owner": plan.owner}
        write_audits(
            self._conn,
            actor,
            [
                NewAudit(
                    id=audit_id,
                    action="gitops.applied",
                    executor_id=executor_id or None,
                    object_id=None,
                    detail=by | {"done": counts[executor_id]},
                )
                for executor_id, audit_id in entries.items()
            ],
        )
        self._writing.actor = replace(actor, part_of=entries)

    def _label(self) -> None:
        """Write whose the objects are from now on, and how they were left."""
        owner = self._plan.owner
        for kind in ObjectType:
            gone = [each.object_id for each in self._of(kind, ChangeAction.DELETE)]
            forget_managed(self._conn, kind.value, gone)
            kept = [each.object_id for each in self._of(kind, *_WRITTEN, ChangeAction.ADOPT)]
            if owner is None:
                forget_managed(self._conn, kind.value, kept)
                continue
            marks = self._kinds[kind].marks(self._conn, kept) if kept else {}
            write_managed(
                self._conn,
                [
                    ManagedObject(
                        type=kind.value,
                        object_id=object_id,
                        owner=owner,
                        mark=mark,
                        applied_at=self._writing.now,
                        applied_by=self._application.actor.name[:100],
                    )
                    for object_id, mark in marks.items()
                ],
            )
