"""What the audit is asked about: "job:invoices", "run:123", or a number alone."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.fields import is_clean
from tickwheel_admin.store.system import audit_names as store

# What one may ask about, and what the actions begin with that are done to it.
NOUNS: dict[str, frozenset[str]] = {
    "job": frozenset({"job", "trigger", "declared"}),
    "run": frozenset({"run"}),
    "executor": frozenset({"executor"}),
    "node": frozenset({"node"}),
    "calendar": frozenset({"calendar"}),
    "user": frozenset({"user"}),
}
MAX_CHARS = 320
MAX_DIGITS = 15


class AuditedObject(NamedTuple):
    """What the audit is asked about."""

    kind: str  # one of NOUNS; "": whatever has the number
    name: str  # or a number

    @property
    def number(self) -> int | None:
        """The id, when it was given instead of a name."""
        text = self.name.removeprefix("#")
        is_number = text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
        # Names may be all digits: a number of what has names is told by its "#".
        plain = self.kind in ("", "run") or self.name.startswith("#")
        return int(text) if is_number and plain else None


def read_object(text: str) -> AuditedObject | None:
    """What a text means; None for no text.

    Raises:
        InvalidInput: on "object".
    """
    text = text.strip()
    if not text:
        return None
    kind, colon, name = text.partition(":")
    asked = (
        AuditedObject(kind.strip().lower(), _unquoted(name)) if colon else AuditedObject("", text)
    )
    known = not asked.kind or asked.kind in NOUNS
    needs_number = asked.kind in ("", "run")
    if (
        not known
        or not asked.name
        or len(text) > MAX_CHARS
        or not is_clean(text)
        or (needs_number and asked.number is None)
    ):
        raise InvalidInput.one(
            "object",
            "audit.object_invalid",
            "Say what it was done to as job:NAME, run:NUMBER, executor:NAME, node:NAME,"
            " calendar:NAME or user:NAME.",
        )
    return asked


def find_objects(
    conn: sa.Connection, asked: AuditedObject, executors: frozenset[int] | None
) -> frozenset[int]:
    """Ids of what is meant, deleted ones too; at most 20.

    Args:
        executors: whose jobs are meant; None: all.
    """
    if asked.number is not None:
        return frozenset({asked.number})
    match asked.kind:
        case "job":
            owner, slash, name = asked.name.partition(" / ")
            found = store.jobs_of_name(conn, asked.name, executors, executor_name=None)
            if slash and not found:
                found = store.jobs_of_name(conn, name, executors, executor_name=owner)
        case "executor":
            found = store.executors_of_name(conn, asked.name)
        case "node":
            found = store.nodes_of_name(conn, asked.name)
        case "calendar":
            found = store.calendars_of_name(conn, asked.name)
        case _:
            found = store.users_of_name(conn, asked.name.lower())
    return frozenset(found)


def _unquoted(name: str) -> str:
    name = name.strip()
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] == '"' else name
