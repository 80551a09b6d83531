"""Roles of users as documents, by login names. Users and their passwords are no part of files."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.input.grants import MAX_GRANTS, check_grants, grants_mark
from tickwheel_admin.domain.users.user import (
    ALL_EXECUTORS,
    Actor,
    Grant,
    Permission,
    Role,
    rights_of,
)
from tickwheel_admin.services.events.transactions import AuditEntry
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
from tickwheel_admin.services.users.edits import set_grants
from tickwheel_admin.store.users.grants import grants_of_many
from tickwheel_admin.store.users.users import find_user, get_user, list_users, lock_users

FIELDS = ("name", "roles")
MAX_READ = 10_000
IDS_AT_ONCE = 500
Grants = Mapping[int, Grant]


class UserRoles(ObjectKind):
    """Known by login name. To delete one is to take all roles of the user away."""

    type: ClassVar = ObjectType.USER_ROLES
    is_for_administrators: ClassVar = True

    def ids(
        self, conn: sa.Connection, keys: Collection[ObjectKey], executors: Mapping[str, int]
    ) -> dict[ObjectKey, int]:
        found = {key: find_user(conn, key.name) for key in keys}
        return {key: each.id for key, each in found.items() if each is not None}

    def stored(self, view: PlanView, object_ids: Collection[int]) -> list[StoredObject]:
        if not view.actor.may(Permission.ADMINISTER):
            return []
        grants = _grants(view.conn, object_ids)
        users = (get_user(view.conn, each) for each in sorted(object_ids))
        return [
            StoredObject(
                key=ObjectKey(type=self.type, name=each.name),
                id=each.id,
                executor_id=0,
                fields=_fields(each.name, grants.get(each.id, {}), view.names),
                mark=_mark(grants.get(each.id, {})),
                content=grants.get(each.id, {}),
            )
            for each in users
            if each is not None
        ]

    def all_ids(self, view: PlanView) -> list[int]:
        if not view.actor.may(Permission.ADMINISTER):
            return []
        return [each.id for each in list_users(view.conn, limit=MAX_READ)]

    def shown(self, stored: StoredObject) -> Mapping[str, Any]:
        return stored.fields  # also that somebody has no role

    def read(
        self, view: PlanView, document: ObjectDocument, object_id: int, stored: StoredObject | None
    ) -> WantedObject:
        if stored is None:
            raise InvalidInput.one(
                "name",
                "gitops.unknown_user",
                "There is no user called “%(name)s”. Files give roles to users who are there; add"
                " this one first, in the console or with `tickwheel user add`.",
                name=document.key.name,
            )
        fields = Fields(document.fields, "", [])
        fields.only(FIELDS)
        grants = _read_roles(fields, view.executors)
        raise_if_any(fields.problems)
        try:
            check_grants(grants)
        except InvalidInput as error:
            raise InvalidInput.one(
                "roles", error.problems[0].code, error.problems[0].template
            ) from None
        names = {executor_id: name for name, executor_id in view.executors.items()}
        return WantedObject(
            document=document,
            id=object_id,
            executor_id=0,
            fields=_fields(document.key.name, grants, names),
            content=grants,
        )

    def may_write(self, actor: Actor, executor_id: int) -> bool:
        return actor.may(Permission.ADMINISTER)

    def may_make(self, actor: Actor, change: ObjectChange) -> bool:
        """A token takes away and never gives: somebody could act on for who found it."""
        return super().may_make(actor, change) and (actor.token_id is None or not gives(change))

    def ordered(self, changes: Sequence[ObjectChange]) -> list[ObjectChange]:
        """Who is given something comes first, so that an administrator is always left."""
        return sorted(changes, key=lambda each: not gives(each))

    def lock(self, writing: PlanWriting, changes: Sequence[ObjectChange]) -> None:
        lock_users(writing.conn)

    def write(self, writing: PlanWriting, change: ObjectChange) -> None:
        assert change.wanted is not None  # noqa: S101 - what is deleted does not come here
        self._set(writing, change, change.wanted.content)

    def delete(self, writing: PlanWriting, change: ObjectChange) -> None:
        self._set(writing, change, {})

    def marks(self, conn: sa.Connection, object_ids: Collection[int]) -> dict[int, str]:
        grants = _grants(conn, object_ids)
        return {each: _mark(grants.get(each, {})) for each in object_ids}

    @staticmethod
    def _set(writing: PlanWriting, change: ObjectChange, grants: Grants) -> None:
        assert change.stored is not None  # noqa: S101 - a user who is not there is refused
        entry = AuditEntry(writing.conn, writing.take_one("audit"), writing.actor)
        seen = grants_mark(change.stored.content)
        try:
            set_grants(writing.conn, entry, change.object_id, grants, instead_of=seen)
        except Conflict as error:
            if error.code == "user.grants_changed_meanwhile":
                raise changed_meanwhile(change.key) from error
            raise


def gives(change: ObjectChange) -> bool:
    """Whether somebody may do something afterwards that they may not do now."""
    before: Grants = {} if change.stored is None else change.stored.content
    after: Grants = {} if change.wanted is None else change.wanted.content
    return not rights_of(before).covers(rights_of(after))


def _read_roles(fields: Fields, executors: Mapping[str, int]) -> dict[int, Grant]:
    raw = fields.raw.get("roles")
    if not isinstance(raw, list) or len(raw) > MAX_GRANTS:
        fields.refuse(
            "roles",
            "gitops.roles_wanted",
            "This must be a list of at most %(limit)s roles; an empty one takes all away.",
            limit=MAX_GRANTS,
        )
        return {}
    found: dict[int, Grant] = {}
    for place, each in enumerate(raw):
        one = Fields(each, f"roles[{place}]", fields.problems)
        if not one.is_object:
            continue
        one.only(("executor", "role", "scripts"))
        one.require("role")
        role = one.member("role", Role, default=Role.VIEWER)
        grant = Grant(role, one.boolean("scripts", default=False))
        name = one.text("executor", max_chars=200)
        executor_id = executors.get(name) if name else ALL_EXECUTORS
        if executor_id is None:
            one.refuse(
                "executor",
                "workflow.unknown_executor_name",
                "There is no executor “%(name)s”, or you may not see it.",
                name=name,
            )
        elif executor_id in found:
            one.refuse("executor", "grants.repeated", "Give each executor, and all, only one role.")
        else:
            found[executor_id] = grant
    return found


def _fields(name: str, grants: Grants, executors: Mapping[int, str]) -> dict[str, Any]:
    """Without the executors that are no more; all executors first, others by name."""
    roles = [
        ({"executor": executors[executor_id]} if executor_id in executors else {})
        | {"role": each.role.value}
        | ({"scripts": True} if each.scripts else {})
        for executor_id, each in grants.items()
        if executor_id == ALL_EXECUTORS or executor_id in executors
    ]
    return {"name": name, "roles": sorted(roles, key=lambda each: str(each.get("executor", "")))}


def _grants(conn: sa.Connection, user_ids: Collection[int]) -> dict[int, dict[int, Grant]]:
    ids, found = sorted(user_ids), dict[int, dict[int, Grant]]()
    for start in range(0, len(ids), IDS_AT_ONCE):
        found |= grants_of_many(conn, ids[start : start + IDS_AT_ONCE])
    return found


def _mark(grants: Grants) -> str:
    return hashlib.sha256(grants_mark(grants).encode()).hexdigest()[:32]
