"""People, what their roles allow, and who is asking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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


_RANKS = {role: rank for rank, role in enumerate(Role)}


@dataclass(frozen=True, slots=True)
class Grant:
    """What a person may do with one executor, or with all."""

    role: Role
    scripts: bool = False  # may also edit what nodes run as scripts; only beside `may_have_scripts`


def may_have_scripts(role: Role) -> bool:
    """Whether the role edits jobs at all: only then may it be allowed to edit scripts as well."""
    return Permission.DEVELOP in ROLE_PERMISSIONS[role]


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Whoever asks: a person, or a token acting for one."""

    user_id: int
    name: str
    grants: Mapping[int, Role]  # executor id (or ALL_EXECUTORS) → role
    address: str = ""  # where the request came from, for the audit
    scripts: frozenset[int] = frozenset()  # executor ids of grants that cover scripts as well
    token_id: int | None = None  # set when an API token acts
    session: str | None = None  # hash of the cookie, when a person asks with a session
    must_change_password: bool = False
    # The bulk action under way: by executor id (0: about none), the audit entry that tells of it.
    part_of: Mapping[int, int] = field(default_factory=dict)

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

    def narrowed(self, role: Role | None, executors: frozenset[int] | None) -> Actor:
        """What is left of the grants within the scope of a token: never more than there was.

        Args:
            role: at most this one; None: as it is.
            executors: only on these; None: wherever a grant is.
        """
        grants, scripts = dict(self.grants), self.scripts
        if executors is not None:
            held = {each: self.role_on(each) for each in executors - {ALL_EXECUTORS}}
            grants = {each: found for each, found in held.items() if found is not None}
            if ALL_EXECUTORS not in scripts:
                scripts &= grants.keys()
            else:
                scripts = frozenset(grants)
        if role is not None:
            grants = {each: min(role, found, key=_rank) for each, found in grants.items()}
            if not may_have_scripts(role):
                scripts = frozenset()
        return replace(self, grants=grants, scripts=scripts)

    def covers(self, other: Actor) -> bool:
        """Whether the other one may do nothing that this one may not."""
        for permission in Permission:
            if permission in (Permission.PUBLIC, Permission.LOGGED_IN):
                continue
            mine, theirs = self.scope(permission), other.scope(permission)
            if mine is not None and (theirs is None or not theirs <= mine):
                return False
        return True

    def role_on(self, executor_id: int) -> Role | None:
        """The higher one of the roles on this executor and on all; None: neither."""
        found = [self.grants[each] for each in (ALL_EXECUTORS, executor_id) if each in self.grants]
        return max(found, key=_rank, default=None)

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

    def require_in_person(self) -> None:
        """Raise unless a person asks with a session of their own, not a token acting for them.

        A token that leaks must not be able to make itself outlive its end.
        """
        if self.token_id is not None:
            raise not_in_person()


def not_in_person() -> NotAllowed:
    """A token asks for what only people with a session may do."""
    return NotAllowed(
        "token.not_in_person",
        "A token cannot do this; log in to the console, or use the command line.",
    )


def everywhere(role: Role, *, scripts: bool = False) -> dict[int, Grant]:
    """The grants of somebody with one role for all executors."""
    return {ALL_EXECUTORS: Grant(role, scripts)}


def grants_to_actor(grants: Mapping[int, Grant]) -> tuple[dict[int, Role], frozenset[int]]:
    """The two halves of an actor's rights: roles, and where they cover scripts."""
    return (
        {executor_id: each.role for executor_id, each in grants.items()},
        frozenset(executor_id for executor_id, each in grants.items() if each.scripts),
    )


def rights_of(grants: Mapping[int, Grant]) -> Actor:
    """Somebody with these grants, to be compared with others."""
    roles, scripts = grants_to_actor(grants)
    return Actor(user_id=0, name="", grants=roles, scripts=scripts)


def _rank(role: Role) -> int:
    return _RANKS[role]
