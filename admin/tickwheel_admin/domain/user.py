"""People, what their roles allow, and who is asking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tickwheel_admin.domain.errors import NotAllowed, NotFound

ALL_EXECUTORS = 0  # a grant on this "executor" counts for every executor


class Permission(StrEnum):
    """What a route or a use case asks for."""

    PUBLIC = "public"  # no login: login page, health, static files
    LOGGED_IN = "logged_in"  # any person, whatever their grants: own password, own preferences
    VIEW = "view"  # see jobs, runs, logs, nodes
    OPERATE = "operate"  # run, retry, cancel, pause, resume
    DEVELOP = "develop"  # add, edit and delete jobs and triggers
    SCRIPT = "script"  # edit what nodes run as scripts; no role has it by itself
    ADMINISTER = "administer"  # executors, tokens, users, audit


class Role(StrEnum):
    """What a person may do with an executor, or with all; each includes the ones before it."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    DEVELOPER = "developer"
    ADMIN = "admin"


ROLE_PERMISSIONS: dict[Role, frozenset[Permission]] = {
    Role.VIEWER: frozenset({Permission.VIEW}),
    Role.OPERATOR: frozenset({Permission.VIEW, Permission.OPERATE}),
    Role.DEVELOPER: frozenset({Permission.VIEW, Permission.OPERATE, Permission.DEVELOP}),
    Role.ADMIN: frozenset(
        {Permission.VIEW, Permission.OPERATE, Permission.DEVELOP, Permission.ADMINISTER}
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Whoever asks: a person, or a token acting for one."""

    user_id: int
    name: str
    grants: Mapping[int, Role]  # executor id (or ALL_EXECUTORS) → role
    address: str = ""  # where the request came from, for the audit
    scripts: frozenset[int] = frozenset()  # executor ids of grants that cover scripts as well
    token_id: int | None = None  # set when an API token acts
    must_change_password: bool = False

    def may(self, permission: Permission, executor_id: int = ALL_EXECUTORS) -> bool:
        """Whether a grant on this executor, or on all, covers the permission."""
        if permission in (Permission.PUBLIC, Permission.LOGGED_IN):
            return True
        return not {ALL_EXECUTORS, executor_id}.isdisjoint(self._covering(permission))

    def may_anywhere(self, permission: Permission) -> bool:
        """Whether any grant covers the permission; routes ask this, use cases ask `may`."""
        return permission in (Permission.PUBLIC, Permission.LOGGED_IN) or bool(
            self._covering(permission)
        )

    def scope(self, permission: Permission) -> frozenset[int] | None:
        """Executors on which the permission holds; None means all of them."""
        covering = self._covering(permission)
        return None if ALL_EXECUTORS in covering else covering

    def _covering(self, permission: Permission) -> frozenset[int]:
        """The grants, by executor id, that cover the permission."""
        if permission is Permission.SCRIPT:
            return self.scripts
        return frozenset(
            executor_id
            for executor_id, role in self.grants.items()
            if permission in ROLE_PERMISSIONS[role]
        )

    def require(self, permission: Permission, executor_id: int = ALL_EXECUTORS) -> None:
        """Raise unless allowed.

        Raises:
            NotFound: the caller may not even see the executor.
            NotAllowed: may see it, but not do this.
        """
        if self.may(permission, executor_id):
            return
        if not self.may(Permission.VIEW, executor_id):
            raise NotFound("not_found", "There is nothing here, or you may not see it.")
        raise NotAllowed(
            "not_allowed",
            "Your role does not allow this; it needs the permission “%(permission)s”.",
            permission=permission.value,
        )
