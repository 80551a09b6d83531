"""Makes every stored text that people, nodes or handlers wrote an attack on whoever reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.store.database.tables import metadata

PAYLOAD = (
    """</title></script></textarea>"'><img src=x onerror="window.__hacked=1">"""
    """<svg onload="window.__hacked=1">{{7777*7}}${7777*7}"""
)

# Columns that this system alone writes, and whose values mean something to it. Any other text
# column is somebody's free text, also one that is added later.
_OUR_OWN = frozenset({
    "action", "cancel_reason", "claim_token", "code_jobs", "csrf_token", "delays",
    "durations", "id_hash",
    "late_outcome", "node_key", "oidc_key", "old_token_hash", "origin", "page", "password_hash",
    "preferences", "request_key", "role", "state", "token_hash",
})  # fmt: skip
_OUR_OWN_HERE = frozenset(
    {
        ("admin", "status"),
        ("alembic_version", "version_num"),
        ("api_token", "executors"),
        ("backfill_run", "outcome"),
        ("declared_job", "reason"),
        ("executor", "protocol"),
        ("failure_canary", "open_runs"),
        ("failure_canary", "reason"),
        ("id_block", "name"),
        ("run", "reason"),
        ("run_attempt", "reason"),
        ("script_source", "sha256"),
        ("self_audit_absence", "instants"),  # JSON: numbers
        ("self_audit_absence", "reason"),
        ("self_audit_hour", "absent"),  # JSON: words of ours, with numbers
        ("self_audit_hour", "explained"),
        ("setting", "name"),
        ("xxl_address", "dialect"),
        ("xxl_executor", "token"),  # encrypted
        ("user", "name"),  # letters, digits and . _ @ - alone; it is needed to log in
    }
)
# Of JSON objects whose other members are words of ours: the members that are free text.
_FREE_MEMBERS = frozenset({
    "base", "calendar", "description", "handler", "instance_name", "labels", "name", "owner",
    "parameters", "tags", "title",
})  # fmt: skip


def poison(conn: sa.Connection) -> int:
    """Put the payload behind every free text; returns how many texts were changed."""
    changed = 0
    for table in metadata.sorted_tables:
        for column in table.columns:
            if not isinstance(column.type, sa.String) or column.name in _OUR_OWN or column.computed:
                continue
            if (table.name, column.name) in _OUR_OWN_HERE:
                continue
            changed += _poison_column(conn, column)
    return changed


def _poison_column(conn: sa.Connection, column: sa.Column[Any]) -> int:
    change = _IN_JSON.get((column.table.name, column.name), lambda text: text + PAYLOAD)
    texts = conn.execute(sa.select(column).where(column.is_not(None)).distinct()).scalars().all()
    for text in texts:
        conn.execute(sa.update(column.table).where(column == text).values({column: change(text)}))
    return len(texts)


def _everything(value: Any) -> Any:
    """Every text in it, names of members too."""
    if isinstance(value, str):
        return value + PAYLOAD
    if isinstance(value, list):
        return [_everything(each) for each in value]
    if isinstance(value, dict):
        return {key + PAYLOAD: _everything(each) for key, each in value.items()}
    return value


def _free_members(value: Any) -> Any:
    """The texts in members that are free text; all the rest stays as it is."""
    if isinstance(value, list):
        return [_free_members(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _free(key, each) if key in _FREE_MEMBERS else _free_members(each)
        for key, each in value.items()
    }


def _free(member: str, value: Any) -> Any:
    if member == "parameters" and isinstance(value, str):  # JSON within JSON
        return json.dumps(_everything(json.loads(value)))
    return _everything(value) if isinstance(value, str | list) else _free_members(value)


def _values(value: Any) -> Any:
    """Every text in it but the names of members."""
    if isinstance(value, dict):
        return {key: _values(each) for key, each in value.items()}
    return [_values(each) for each in value] if isinstance(value, list) else _everything(value)


def _choice(value: list[Any]) -> list[Any]:
    passed = [[node + PAYLOAD, why] for node, why in value[4]] if len(value) > 4 else []
    return [*value[:4], passed, *value[5:]]


def _lines(value: list[Any]) -> list[Any]:
    return [[*line[:-1], line[-1] + PAYLOAD] for line in value]


def _within(change: Callable[[Any], Any]) -> Callable[[str], str]:
    return lambda text: json.dumps(change(json.loads(text)))


_IN_JSON: dict[tuple[str, str], Callable[[str], str]] = {
    ("audit", "detail"): _within(_values),
    ("backfill", "parameters"): _within(_everything),
    ("backfill", "spec"): _within(_free_members),
    ("calendar", "spec"): _within(_free_members),
    ("declared_job", "problems"): _within(_free_members),
    ("declared_job", "raw"): _within(_free_members),
    ("handler_schema", "schema"): _within(_free_members),
    ("job_revision", "config"): _within(_free_members),
    ("job_state", "state"): _within(_everything),
    ("node", "declared"): _within(_everything),
    ("node", "handlers"): _within(_everything),
    ("node", "labels"): _within(_everything),
    ("node", "unstoppable"): _within(_everything),
    ("run", "choice"): _within(_choice),
    ("run", "parameters"): _within(_everything),
    ("run", "result"): _within(_everything),
    ("run_attempt", "choice"): _within(_choice),
    ("run_checkpoint", "data"): _within(_everything),
    ("run_log", "lines"): _within(_lines),
    ("setting", "value"): _within(_free_members),
    ("trigger", "spec"): _within(_free_members),
    ("xxl_executor", "addresses"): _within(_everything),
}
