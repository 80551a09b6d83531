"""Plans the people of an import, and which rights they get."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.imports.fate import Fate
from tickwheel_admin.domain.imports.merge import ImportKind
from tickwheel_admin.domain.imports.notes import note
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Grant, Role
from tickwheel_admin.domain.xxl_job.records import XxlUser
from tickwheel_admin.services.xxl_job.imports.known import KnownHere
from tickwheel_admin.services.xxl_job.imports.plan import PlannedExecutor, PlannedUser, kept
from tickwheel_admin.store.users.grants import grants_of
from tickwheel_admin.store.users.users import find_user, get_user

_USER_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,99}")


def plan_user(
    conn: sa.Connection,
    known: KnownHere,
    groups: Mapping[int, PlannedExecutor],
    user: XxlUser,
) -> PlannedUser:
    """Plan a person.

    Args:
        groups: those that are planned, by id.
    """
    name = user.username.lower()
    usable = {each.their_id for each in groups.values() if each.fate != Fate.CANNOT}
    planned = PlannedUser(
        their_id=user.id,
        name=name,
        fate=Fate.CREATED,
        is_admin=user.is_admin,
        group_ids=() if user.is_admin else tuple(sorted(usable & set(user.group_ids))),
    )
    if not _USER_NAME.fullmatch(name):
        reason = note("user_name", "names here have a-z, 0-9 and . _ @ - only")
        return replace(planned, fate=Fate.CANNOT, reasons=(reason,))
    stored = known.imports.get((ImportKind.USER, user.id))
    if stored is None:
        if (found := find_user(conn, name)) is None:
            return planned
        told = note("exists", "is here already: left as it is")
        return replace(planned, fate=Fate.UNCHANGED, our_id=found.id, notes=(told,))
    ours = get_user(conn, stored.our_id)
    if ours is None:
        reason = note("deleted_here", "was imported, and deleted here since")
        return replace(planned, fate=Fate.CANNOT, reasons=(reason,))
    planned = replace(planned, name=ours.name, our_id=ours.id, fate=Fate.UNCHANGED)
    if user_content(planned) == stored.content:
        return planned
    grants = grants_of(conn, ours.id)
    executors = {each.their_id: each.our_id for each in groups.values()}
    if grants != grants_of_content(stored.content, executors):
        return replace(planned, notes=(kept("rights"),))
    return replace(planned, fate=Fate.CHANGED)


def user_content(user: PlannedUser) -> dict[str, Any]:
    """What is kept of a person."""
    return {"is_admin": user.is_admin, "groups": list(user.group_ids)}


def grants_of_content(
    content: Mapping[str, Any], executors: Mapping[int, int | None]
) -> dict[int, Grant]:
    """The grants of a person; those who may use a group in XXL-JOB edit its jobs there.

    Args:
        executors: ours by their groups.
    """
    if content["is_admin"]:
        return {ALL_EXECUTORS: Grant(Role.ADMIN)}
    found = (executors.get(each) for each in content["groups"])
    return {each: Grant(Role.DEVELOPER) for each in found if each is not None}
