"""Why a plan is not applied."""

from __future__ import annotations

from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed, Problem
from tickwheel_admin.services.gitops.objects import ObjectKey


def changed_meanwhile(key: ObjectKey | None = None) -> Conflict:
    """The state is not the one that was planned from."""
    if key is None:
        return Conflict(
            "gitops.plan_changed",
            "What is stored, or what the files say, is not what was planned from. Nothing was"
            " applied. Plan again and look at the difference.",
        )
    return Conflict(
        "gitops.plan_changed",
        "Somebody changed %(object)s since the plan was made. Nothing was applied. Plan again and"
        " look at the difference.",
        object=str(key),
    )


def unknown_executor(name: str) -> InvalidInput:
    """A document names an executor that is not there, or not for this caller to see."""
    return InvalidInput.one(
        "executor",
        "workflow.unknown_executor_name",
        "There is no executor “%(name)s”, or you may not see it.",
        name=name,
    )


def not_allowed(keys: list[ObjectKey]) -> NotAllowed:
    """The caller may not make all of the changes, and so makes none."""
    named = ", ".join(str(key) for key in keys[:5])
    return NotAllowed(
        "gitops.not_allowed",
        "Your role, or that of the token, does not cover %(count)d of the changes: %(objects)s."
        " Nothing was applied.",
        count=len(keys),
        objects=named + (", …" if len(keys) > 5 else ""),
    )


def roles_not_by_token() -> NotAllowed:
    """A token would give roles."""
    return NotAllowed(
        "gitops.roles_not_by_token",
        "A token takes roles away and never gives any. Apply these documents with `tickwheel user"
        " apply`, where the admin’s configuration is. Nothing was applied.",
    )


def too_many_edits(count: int, limit: int) -> tuple[Problem, ...]:
    """More than one transaction should hold."""
    refused = InvalidInput.one(
        "",
        "gitops.too_many_edits",
        "%(count)d objects would change or go; one transaction takes %(limit)d."
        " Apply a part of the files first.",
        count=count,
        limit=limit,
    )
    return refused.problems
