"""Who may answer a step: what each role needs, with and without names."""

from __future__ import annotations

import pytest

from tests.admin.kit.workflows import step
from tickwheel_admin.domain.users.user import Actor, Permission, Role
from tickwheel_admin.domain.workflows.answering import permission_to_answer
from tickwheel_admin.domain.workflows.graph import Approval

ANYONE = Approval()
NAMED = Approval(people=("eve",), roles=("viewer",))


@pytest.mark.parametrize(
    ("body", "name", "role", "needed"),
    [
        (None, "eve", Role.VIEWER, Permission.OPERATE),  # a breakpoint
        (ANYONE, "eve", Role.VIEWER, Permission.OPERATE),
        (NAMED, "eve", Role.DEVELOPER, Permission.VIEW),
        (NAMED, "bob", Role.VIEWER, Permission.VIEW),
        (NAMED, "bob", Role.DEVELOPER, Permission.ADMINISTER),
        (NAMED, "bob", None, Permission.ADMINISTER),
    ],
)
def test_who_may_answer(
    body: Approval | None, name: str, role: Role | None, needed: Permission
) -> None:
    actor = Actor(user_id=1, name=name, grants={} if role is None else {5: role})
    asked = step("a") if body is None else step("a", body=body)
    assert permission_to_answer(actor, asked, 5) is needed
