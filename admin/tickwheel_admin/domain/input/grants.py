"""Grants as people write them: `{"executor_id": 7, "role": "operator"}`.

Without `executor_id`, or with null, a grant counts for all executors. `"scripts": true` is read and
kept, but neither documented nor told where it is false: nodes do not run scripts yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Grant, Role, may_have_scripts

MAX_GRANTS = 500  # of one person
MAX_ID = 2**53 - 1  # what every JSON reader keeps exactly


def parse_grants(fields: Fields, name: str) -> dict[int, Grant]:
    """A list of grants by executor (0: all); problems are noted in `fields`."""
    raw = fields.raw.get(name)
    if not isinstance(raw, list):
        fields.refuse(name, "wrong_type", "This must be a list.")
        return {}
    if len(raw) > MAX_GRANTS:
        fields.refuse(name, "grants.too_many", "At most %(limit)s, please.", limit=MAX_GRANTS)
        return {}
    grants: dict[int, Grant] = {}
    for place, each in enumerate(raw):
        one = Fields(each, f"{fields.where(name)}[{place}]", fields.problems)
        executor_id, grant = _parse_grant(one)
        if executor_id in grants:
            one.refuse(
                "executor_id", "grants.repeated", "Give each executor, and all, only one role."
            )
        grants[executor_id] = grant
    return grants


def check_grants(grants: Mapping[int, Grant]) -> None:
    """Refuse what no person may be given.

    Raises:
        InvalidInput: on "grants".
    """
    if len(grants) > MAX_GRANTS:
        raise InvalidInput.one(
            "grants", "grants.too_many", "At most %(limit)s, please.", limit=MAX_GRANTS
        )
    if any(each.scripts and not may_have_scripts(each.role) for each in grants.values()):
        raise InvalidInput.one(
            "grants",
            "grants.scripts_need_developer",
            "Only developers and admins can be allowed to edit scripts.",
        )


def grants_to_raw(grants: Mapping[int, Grant]) -> list[dict[str, Any]]:
    """What `parse_grants` reads."""
    return [
        {
            "executor_id": None if executor_id == ALL_EXECUTORS else executor_id,
            "role": each.role.value,
            **({"scripts": True} if each.scripts else {}),
        }
        for executor_id, each in sorted(grants.items())
    ]


def grants_mark(grants: Mapping[int, Grant]) -> str:
    """The same text for the same grants: "0:admin 7:developer+scripts"."""
    return " ".join(
        f"{executor_id}:{each.role.value}{'+scripts' if each.scripts else ''}"
        for executor_id, each in sorted(grants.items())
    )


def _parse_grant(fields: Fields) -> tuple[int, Grant]:
    if not fields.is_object:
        return ALL_EXECUTORS, Grant(Role.VIEWER)
    known = ("executor_id", "role")
    fields.only((*known, "scripts") if "scripts" in fields.raw else known)
    if not fields.has("role"):
        fields.refuse("role", "required", "This is required.")
    executor_id = fields.integer("executor_id", low=1, high=MAX_ID, default=ALL_EXECUTORS)
    role = fields.member("role", Role, default=Role.VIEWER)
    return executor_id, Grant(role, fields.boolean("scripts", default=False))
