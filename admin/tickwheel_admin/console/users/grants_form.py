"""The form in which a person is given roles: a row for each executor, and one for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from multidict import MultiMapping

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Grant, Role, may_have_scripts

MOST_ROWS = 60  # of executors; an installation with more shows those with a role, and empty rows
EMPTY_ROWS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRow:
    """What a person may do with one executor."""

    executor_id: int  # 0: all
    executor: str  # its name; "" for all
    role: str  # "" for none
    scripts: bool  # may also edit what nodes run as scripts


def grant_rows(grants: Mapping[int, Grant], executors: Mapping[int, str]) -> list[GrantRow]:
    """Rows by name, that of all executors first."""
    shown = sorted(executors, key=lambda each: executors[each])
    if len(shown) > MOST_ROWS:
        shown = [each for each in shown if each in grants]
    return [_row(each, grants, executors) for each in (ALL_EXECUTORS, *shown)]


def has_more(executors: Mapping[int, str]) -> bool:
    """Whether executors without a role are typed by name."""
    return len(executors) > MOST_ROWS


def grants_of_form(form: MultiMapping[str], executors: Mapping[int, str]) -> dict[int, Grant]:
    """What the form says.

    Raises:
        InvalidInput: on "grants": no such role, or no such executor.
    """
    grants: dict[int, Grant] = {}
    for executor_id in (ALL_EXECUTORS, *executors):
        if role := form.get(f"role_{executor_id}"):
            known = _role(role)
            scripts = may_have_scripts(known) and f"scripts_{executor_id}" in form
            grants[executor_id] = Grant(known, scripts)
    ids = {name: executor_id for executor_id, name in executors.items()}
    typed: Sequence[str] = form.getall("more_executor", [])
    roles: Sequence[str] = form.getall("more_role", [])
    for name, role in zip(map(str.strip, typed), roles, strict=False):
        if not name:
            continue
        if name not in ids:
            raise InvalidInput.one(
                "grants", "executor.unknown", "There is no executor %(id)s.", id=name[:100]
            )
        if role:
            grants[ids[name]] = Grant(_role(role))
    return grants


def _role(text: str) -> Role:
    try:
        return Role(text)
    except ValueError:
        raise InvalidInput.one(
            "grants", "role.unknown", "There is no role “%(role)s”.", role=text[:30]
        ) from None


def _row(executor_id: int, grants: Mapping[int, Grant], executors: Mapping[int, str]) -> GrantRow:
    grant = grants.get(executor_id)
    return GrantRow(
        executor_id=executor_id,
        executor=executors.get(executor_id, ""),
        role="" if grant is None else grant.role.value,
        scripts=grant is not None and grant.scripts,
    )
