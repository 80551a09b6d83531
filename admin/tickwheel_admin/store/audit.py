"""The audit: who changed what, written in the transaction of the change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.user import Actor
from tickwheel_admin.store.batch import insert_rows
from tickwheel_admin.store.clock import now_ms
from tickwheel_admin.store.tables import audit


def write_audit(
    conn: sa.Connection,
    *,
    id: int,  # noqa: A002 - the name of the column
    actor: Actor,
    action: str,
    executor_id: int | None,
    object_id: int | None,
    detail: Mapping[str, Any],
) -> None:
    """Note a change; the same note again is a transaction repeated after an unknown commit.

    Args:
        action: noun and past participle, "job.updated".
        detail: what a reader needs to understand it; never a secret.
    """
    row = {
        "id": id,
        "at": now_ms(conn),
        "user_id": actor.user_id or None,  # the command line is no stored person
        "user_name": actor.name[:100],
        "address": actor.address[:100],
        "action": action,
        "executor_id": executor_id,
        "object_id": object_id,
        "detail": json.dumps(detail, ensure_ascii=False, separators=(",", ":")),
    }
    insert_rows(conn, audit, [row], columns=tuple(row), ignore_duplicates_of=("id",))
