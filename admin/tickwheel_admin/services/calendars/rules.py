"""What must hold between calendars, and between them and triggers, when one is edited."""

from __future__ import annotations

import sqlalchemy as sa

from tickwheel_admin.domain.calendars.calendar import CalendarSpec
from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.store.alarms.rules import rules_of_calendar
from tickwheel_admin.store.calendars import calendars as store_calendars
from tickwheel_admin.store.calendars.calendars import MAX_CHAIN

NAMED_USERS = 3  # so many are named when a calendar cannot be deleted


def check_base(conn: sa.Connection, name: str, spec: CalendarSpec) -> None:
    """Refuse a base that is not there, and chains that are circles or too long.

    Calendars must be locked: two edits that each look for circles alone could close one together.
    """
    if spec.base is None:
        return
    if store_calendars.calendar_of_name(conn, spec.base) is None:
        raise InvalidInput.one(
            "base", "calendar.unknown", "There is no calendar named “%(name)s”.", name=spec.base
        )
    below = [name]
    base: str | None = spec.base
    while base is not None and len(below) <= MAX_CHAIN:
        if base == name:
            raise InvalidInput.one(
                "base",
                "calendar.circle",
                "The calendars would be based on each other in a circle: %(path)s.",
                path=" → ".join([*below, name]),
            )
        below.append(base)
        found = store_calendars.calendar_of_name(conn, base)
        base = None if found is None else found.spec.base
    above = 0
    level = {name}
    while level and len(below) + above <= MAX_CHAIN:
        level = {based for _, based in store_calendars.based_on(conn, level)}
        above += 1 if level else 0
    if len(below) + above > MAX_CHAIN:
        raise InvalidInput.one(
            "base",
            "calendar.chain_too_long",
            "At most %(limit)d calendars may be based on each other.",
            limit=MAX_CHAIN,
        )


def refuse_if_used(conn: sa.Connection, name: str) -> None:
    users = store_calendars.users_of(conn, name, limit=NAMED_USERS + 1)
    if users:
        named = ", ".join(f"{each.executor_name}/{each.job_name}" for each in users[:NAMED_USERS])
        raise Conflict(
            "calendar.in_use",
            "Triggers of these jobs follow “%(name)s”: %(jobs)s. Change them first.",
            name=name,
            jobs=f"{named}, …" if len(users) > NAMED_USERS else named,
        )
    if store_calendars.count_users(conn, [name]):
        raise Conflict(
            "calendar.in_use_unseen",
            "Triggers still follow “%(name)s”; change them first.",
            name=name,
        )
    based = store_calendars.based_on(conn, [name])
    if based:
        raise Conflict(
            "calendar.is_base",
            "These calendars are based on “%(name)s”: %(calendars)s. Change them first.",
            name=name,
            calendars=", ".join(each for _, each in based),
        )
    if rules := rules_of_calendar(conn, name):
        named = ", ".join(f"“{each.name}”" for each in rules[:NAMED_USERS])
        raise Conflict(
            "calendar.in_use_by_rules",
            "Rules of alarms follow “%(name)s”: %(rules)s. Change them first.",
            name=name,
            rules=f"{named}, …" if len(rules) > NAMED_USERS else named,
        )
