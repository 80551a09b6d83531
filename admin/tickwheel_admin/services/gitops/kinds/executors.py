"""Executors as documents. Their tokens are no part of them, and none is deleted by a plan."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.executors.executor import (
    MAX_DESCRIPTION_CHARS,
    Protocol,
    check_executor,
)
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.jobs.declared_job import CodeJobs
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Actor, Permission
from tickwheel_admin.services.events.transactions import AuditEntry
from tickwheel_admin.services.executors.service import check_name_is_free
from tickwheel_admin.services.gitops.kinds.base import ObjectKind, PlanView, PlanWriting
from tickwheel_admin.services.gitops.objects import (
    ObjectChange,
    ObjectDocument,
    ObjectKey,
    ObjectType,
    StoredObject,
    WantedObject,
)
from tickwheel_admin.services.gitops.refusals import changed_meanwhile
from tickwheel_admin.store.executors import executors as store
from tickwheel_admin.store.executors.executors import StoredExecutor
from tickwheel_admin.store.jobs.declared import set_policy

FIELDS = ("name", "description", "scripts", "code_jobs")
MAX_READ = 1_000


class ExecutorObjects(ObjectKind):
    """Those whose nodes connect to the admins; executors of XXL-JOB are made in the console."""

    type: ClassVar = ObjectType.EXECUTOR

    def ids(
        self, conn: sa.Connection, keys: Collection[ObjectKey], executors: Mapping[str, int]
    ) -> dict[ObjectKey, int]:
        return {key: executors[key.name] for key in keys if key.name in executors}

    def stored(self, view: PlanView, object_ids: Collection[int]) -> list[StoredObject]:
        wanted = set(object_ids) & view.names.keys()
        found = store.list_executors(view.conn, scope=wanted, limit=MAX_READ) if wanted else []
        return [
            StoredObject(
                key=ObjectKey(type=self.type, name=each.name),
                id=each.id,
                executor_id=each.id,
                fields=_fields(each),
                mark=_mark(each),
                content=each,
            )
            for each in found
        ]

    def all_ids(self, view: PlanView) -> list[int]:
        found = store.list_executors(view.conn, scope=view.names.keys(), limit=MAX_READ)
        return [each.id for each in found if each.protocol is Protocol.TICKWHEEL]

    def read(
        self, view: PlanView, document: ObjectDocument, object_id: int, stored: StoredObject | None
    ) -> WantedObject:
        fields = Fields(document.fields, "", [])
        fields.only(FIELDS)
        description = fields.text("description", max_chars=MAX_DESCRIPTION_CHARS, lines=True)
        wanted = {
            "name": document.key.name,
            "description": description,
            "scripts": fields.boolean("scripts", default=True),
            "code_jobs": fields.member("code_jobs", CodeJobs, default=CodeJobs.APPLY).value,
        }
        try:
            check_executor(document.key.name, description)
        except InvalidInput as error:
            fields.problems += error.problems
        if stored is not None and stored.content.protocol is not Protocol.TICKWHEEL:
            fields.refuse(
                "name",
                "executor.other_protocol",
                "This is an executor of XXL-JOB; it is changed in the console only.",
            )
        raise_if_any(fields.problems)
        return WantedObject(
            document=document, id=object_id, executor_id=object_id, fields=wanted, content=wanted
        )

    def may_write(self, actor: Actor, executor_id: int) -> bool:
        # What an executor allows is for those who administer it; a new one, for those of all.
        return actor.may(Permission.ADMINISTER, executor_id)

    def write(self, writing: PlanWriting, change: ObjectChange) -> None:
        conn, wanted = writing.conn, change.wanted
        assert wanted is not None  # noqa: S101 - what is deleted does not come here
        entry = AuditEntry(conn, writing.take_one("audit"), writing.actor)
        said = wanted.fields
        if change.stored is None:
            writing.actor.require(Permission.ADMINISTER, ALL_EXECUTORS)
            check_name_is_free(conn, wanted.key.name)
            store.add_executor(
                conn,
                executor_id=wanted.id,
                name=wanted.key.name,
                description=said["description"],
                token_hash=_token_that_nobody_has(),
                now=writing.now,
            )
        else:
            found = store.get_executor(conn, wanted.id, lock=True)
            if found is None or _mark(found) != change.stored.mark:
                raise changed_meanwhile(change.key)
            store.describe_executor(conn, wanted.id, said["description"])
        store.set_scripts(conn, wanted.id, allowed=said["scripts"])
        set_policy(conn, wanted.id, CodeJobs(said["code_jobs"]))
        action = "executor.created" if change.stored is None else "executor.updated"
        more = {} if change.stored is None else {"changed": list(change.differences)}
        entry.write(action, wanted.id, executor_id=wanted.id, name=wanted.key.name, **more)

    def delete(self, writing: PlanWriting, change: ObjectChange) -> None:
        raise Conflict(
            "gitops.executor_stays",
            "The executor “%(name)s” is deleted in the console only: its jobs and its nodes go with"
            " it.",
            name=change.key.name,
        )

    def marks(self, conn: sa.Connection, object_ids: Collection[int]) -> dict[int, str]:
        found = store.list_executors(conn, scope=object_ids, limit=MAX_READ)
        return {each.id: _mark(each) for each in found}


def _fields(executor: StoredExecutor) -> dict[str, Any]:
    return {
        "name": executor.name,
        "description": executor.description,
        "scripts": executor.scripts,
        "code_jobs": executor.code_jobs.value,
    }


def _mark(executor: StoredExecutor) -> str:
    """It has no version; a hash of what it says stands for one."""
    said = "\0".join(str(value) for value in _fields(executor).values())
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def _token_that_nobody_has() -> str:
    """The hash of one: nodes connect after somebody has made a new token and kept it."""
    return hashlib.sha256(secrets.token_bytes(32)).hexdigest()
