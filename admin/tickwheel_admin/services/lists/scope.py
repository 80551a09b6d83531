"""What a caller may see, as a condition that queries take."""

from __future__ import annotations

from tickwheel_admin.domain.errors import NotFound
from tickwheel_admin.domain.users.user import Actor, Permission


def visible_executors(actor: Actor, executor_id: int | None = None) -> frozenset[int] | None:
    """The executors a list shows: those the caller sees, or of them the one asked for.

    None means all. An executor outside the caller's scope gives an empty list, as does one that
    does not exist.
    """
    scope = actor.scope(Permission.VIEW)
    if executor_id is None:
        return scope
    if scope is None or executor_id in scope:
        return frozenset({executor_id})
    return frozenset()


def not_found() -> NotFound:
    """The same for what does not exist and for what the caller may not see."""
    return NotFound("not_found", "There is nothing here, or you may not see it.")
