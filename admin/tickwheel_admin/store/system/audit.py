"""The audit: who changed what, written in the transaction of the change."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.tables import audit

MAX_TOLD = 10_000  # parts of a bulk action that are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedChange:
    """A change that was made."""

    action: str
    object_id: int | None
    detail: Mapping[str, Any]


def find_audit(conn: sa.Connection, audit_id: int) -> AuditedChange | None:
    """The change that an earlier try of this transaction made, if it made one.

    Its answer was lost on the way: the caller answers as it would have then, instead of meeting its
    own change as another edit. So every edit takes its audit id first and looks it up first.
    """
    return find_audits(conn, [audit_id]).get(audit_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAudit:
    """A change to be noted; its fields are explained at `write_audit`."""

    id: int
    action: str
    executor_id: int | None
    object_id: int | None
    detail: Mapping[str, Any]


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
    new = NewAudit(
        id=id, action=action, executor_id=executor_id, object_id=object_id, detail=detail
    )
    write_audits(conn, actor, [new])


def write_audits(conn: sa.Connection, actor: Actor, changes: Sequence[NewAudit]) -> None:
    """Note many changes that one person made at once."""
    if not changes:
        return
    now = now_ms(conn)
    # After a token leaked, people search for what was done with it.
    more = {} if actor.token_id is None else {"by_token": actor.token_id}
    rows = [
        {
            "id": each.id,
            "at": now,
            "user_id": actor.user_id or None,  # the command line is no stored person
            "user_name": actor.name[:100],
            "address": actor.address[:100],
            "action": each.action,
            "executor_id": each.executor_id,
            "object_id": each.object_id,
            "detail": _text({**each.detail, **more}),
            "part_of": actor.part_of.get(each.executor_id or 0, 0),
        }
        for each in changes
    ]
    insert_rows(conn, audit, rows, columns=tuple(rows[0]), ignore_duplicates_of=("id",))


def find_audits(conn: sa.Connection, audit_ids: Sequence[int]) -> dict[int, AuditedChange]:
    """Those of the changes that were made, as `find_audit`."""
    rows = conn.execute(
        sa.select(audit.c.id, audit.c.action, audit.c.object_id, audit.c.detail).where(
            audit.c.id.in_(audit_ids)
        )
    )
    return {
        row.id: AuditedChange(
            action=row.action, object_id=row.object_id, detail=json.loads(row.detail)
        )
        for row in rows
    }


def additions_by_request(
    conn: sa.Connection, job_ids: Collection[int], user_name: str, request: str
) -> set[int]:
    """Those of the jobs that this person added with this request.

    Args:
        request: what the entry keeps of the request's key.
    """
    rows = conn.execute(
        sa.select(audit.c.object_id, audit.c.detail).where(
            audit.c.object_id.in_(job_ids),
            audit.c.action == "job.created",
            audit.c.user_name == user_name[:100],
        )
    )
    return {row.object_id for row in rows if json.loads(row.detail).get("request") == request}


def find_entries(
    conn: sa.Connection, bulk: int, *, action: str, user_name: str
) -> dict[int | None, int]:
    """The entries of a bulk action, one for each executor that it was about: their ids.

    Args:
        bulk: the number of the action, which its entries have for their object.
        user_name: whose action it must be.
    """
    rows = conn.execute(
        sa.select(audit.c.executor_id, audit.c.id).where(
            audit.c.object_id == bulk,
            audit.c.action == action,
            audit.c.user_name == user_name[:100],
            audit.c.part_of == 0,
        )
    )
    return {row.executor_id: row.id for row in rows}


def tell_figures(
    conn: sa.Connection, entry_ids: Collection[int], skipped: Mapping[str, int]
) -> None:
    """Write into entries of a bulk action how many changes are part of them, up to `MAX_TOLD`.

    Args:
        skipped: how many more were left alone, by the code of the reason; the first entry tells.
    """
    for entry_id in sorted(entry_ids):
        row = conn.execute(
            sa.select(audit.c.detail).where(audit.c.id == entry_id).with_for_update()
        ).one_or_none()
        if row is None:
            continue
        parts = sa.select(audit.c.id).where(audit.c.part_of == entry_id).limit(MAX_TOLD + 1)
        done = conn.execute(sa.select(sa.func.count()).select_from(parts.subquery())).scalar_one()
        detail = json.loads(row.detail) | {"done": done}
        if skipped:
            detail["skipped"] = dict(Counter(detail.get("skipped", {})) + Counter(skipped))
            skipped = {}
        conn.execute(sa.update(audit).where(audit.c.id == entry_id).values(detail=_text(detail)))


def _text(detail: Mapping[str, Any]) -> str:
    return json.dumps(detail, ensure_ascii=False, separators=(",", ":"))


def remove_old_audit(conn: sa.Connection, *, older_than_ms: int, limit: int) -> int:
    """Forget changes that were made longer ago; returns how many."""
    ids = list(
        conn.execute(
            sa.select(audit.c.id)
            .where(audit.c.at < now_ms(conn) - older_than_ms)
            .order_by(audit.c.at)
            .limit(limit)
        ).scalars()
    )
    if ids:
        conn.execute(sa.delete(audit).where(audit.c.id.in_(ids)))
    return len(ids)
