"""More of the sample installation: an executor whose code says what it takes and declares jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from tests.browser.samples.rows import ADMIN, NOW, row
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input.job import parse_job
from tickwheel_admin.domain.jobs.declared_job import (
    CodeJobs,
    DeclaredJob,
    DeclaredReason,
    DeclaredState,
    Ruling,
)
from tickwheel_admin.services.services import Services
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.executors.handler_schemas import set_schemas
from tickwheel_admin.store.jobs.declared import set_policy, write_declared

HOUR = 3_600_000
NODE = 61
SCHEMA: dict[str, Any] = {
    "description": "Builds the statements of one month and sends them.",
    "type": "object",
    "properties": {
        "month": {"type": "string", "maxLength": 7, "description": "Such as 2026-11."},
        "currency": {"enum": ["chf", "cny", "eur"], "default": "eur"},
        "copies": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1},
        "rate": {"type": "number", "default": 0.5},
        "dry_run": {"type": "boolean", "default": False, "description": "Sends nothing."},
        "due": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
        "sent_after": {
            "anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}],
            "default": None,
        },
        "customers": {"type": "array", "items": {"type": "string"}, "default": []},
    },
    "required": ["month"],
    "additionalProperties": False,
}


def _cron(expression: str) -> list[dict[str, Any]]:
    return [{"kind": "cron", "expression": expression, "timezone": "Europe/Berlin"}]


# name: its job's fields; what is stored differs in `_STORED`
DECLARED: dict[str, dict[str, Any]] = {
    "month-end": {
        "handler": "reports.month-end",
        "parameters": {"month": "2026-10", "customers": ["a", "b"]},
        "triggers": _cron("0 3 1 * *"),
    },
    "weekly-digest": {
        "handler": "reports.digest",
        "description": "What happened in the last seven days.",
        "retries": 3,
        "timeout_seconds": 900,
        "parameters": {"days": 7},
        "triggers": _cron("0 7 * * 1"),
    },
    "tax-export": {"handler": "reports.tax", "triggers": _cron("30 4 * * *"), "retries": 2},
    "statement-export": {"handler": "reports.statements", "triggers": _cron("15 5 * * *")},
    "statements": {"handler": "reports.statements", "triggers": _cron("15 5 * * *")},
    "audit-trail": {"handler": "reports.audit", "triggers": _cron("0 6 * * *"), "tags": ["audit"]},
    "odd-hours": {"handler": "reports.odd", "timeout_seconds": 0, "retries": -1},
    "experiment": {"handler": "reports.experiment"},
    "ledger-copy": {
        "handler": "reports.month-end",
        "parameters": {"month": "2026-09", "copies": 2},
        "triggers": _cron("0 2 * * *"),
    },
}
_STORED: dict[str, dict[str, Any]] = {
    "weekly-digest": {"handler": "reports.digest", "triggers": _cron("0 8 * * 1")},
    "tax-export": {"handler": "reports.tax-csv"},
}
_RULINGS = {
    "month-end": Ruling(state=DeclaredState.APPLIED),
    "weekly-digest": Ruling(state=DeclaredState.WAITING, reason=DeclaredReason.POLICY_ASK),
    "tax-export": Ruling(state=DeclaredState.WAITING, reason=DeclaredReason.MADE_BY_HAND),
    "statement-export": Ruling(
        state=DeclaredState.WAITING, reason=DeclaredReason.RENAMED, renamed_from="statements"
    ),
    "statements": Ruling(state=DeclaredState.APPLIED),
    "audit-trail": Ruling(state=DeclaredState.WAITING, reason=DeclaredReason.POLICY_ASK),
    "experiment": Ruling(state=DeclaredState.IGNORED, reason=DeclaredReason.PERSON),
    "ledger-copy": Ruling(state=DeclaredState.RELEASED),
}
_MANAGED = ("month-end", "weekly-digest", "statements")
_BY_HAND = ("tax-export", "ledger-copy")


async def add_declared(
    services: Services, job_ids: dict[str, int], executor_ids: dict[str, int], ids: Iterator[int]
) -> dict[str, int]:
    """Add the executor, its jobs and a failed run; returns ids by name."""
    made = await services.executors.create(
        ADMIN, name="reports", description="Statements and exports, declared in code"
    )
    executor_ids["reports"] = made.id
    for name in (*_MANAGED, *_BY_HAND):
        raw = {"name": name, **_STORED.get(name, DECLARED[name])}
        job_ids[name] = await services.jobs.create(ADMIN, made.id, raw)
    return await services.store.run(_add_rows, made.id, job_ids, ids)


def _add_rows(
    conn: sa.Connection, executor_id: int, job_ids: dict[str, int], ids: Iterator[int]
) -> dict[str, int]:
    handlers = sorted({str(raw["handler"]) for raw in DECLARED.values()})
    conn.execute(
        tables.node.insert().values(
            id=NODE, executor_id=executor_id, node_key="e" * 32, name="reports-a1", state="live",
            draining=False, cordoned=False, drain_wanted=False, slots=8, slots_wanted=None,
            in_use=0, handlers=json.dumps(handlers), unstoppable="[]", labels="{}", weight=1,
            sdk="python/0.1.0", address="10.2.1.61", connected_at=NOW - HOUR,
            lease_expires_at=NOW + 12_000, full_lease_at=NOW + 12_000,
            declared=json.dumps([name for name in DECLARED if name != "statements"]),
        )
    )  # fmt: skip
    set_schemas(
        conn, executor_id, {"reports.month-end": json.dumps(SCHEMA)}, node_id=NODE, at=NOW - HOUR
    )
    for name, fields in DECLARED.items():
        raw = {"name": name, **fields}
        write_declared(
            conn,
            DeclaredJob(
                executor_id=executor_id,
                name=name,
                raw=json.dumps(raw),
                job_id=job_ids[name] if name in _MANAGED else None,
                ruling=_RULINGS.get(name) or _broken(raw),
                declared_by="reports-a1",
                node_id=NODE,
                declared_at=NOW - HOUR,
            ),
        )
    set_policy(conn, executor_id, CodeJobs.ASK)
    run_id = next(ids)
    began = NOW - 2 * HOUR
    conn.execute(
        tables.run.insert(),
        row(
            id=run_id, executor_id=executor_id, job_id=job_ids["month-end"], scheduled_at=began,
            created_at=began, due_at=began, state="failed", node_id=NODE, dispatched_at=began,
            started_at=began, ended_at=began + 4_000, message="ValueError: no rate for CNY",
        ),
    )  # fmt: skip
    return {"run:month-end": run_id}


def _broken(raw: dict[str, Any]) -> Ruling:
    try:
        parse_job(raw)
    except InvalidInput as error:
        return Ruling(state=DeclaredState.INVALID, problems=tuple(error.problems))
    raise AssertionError(raw)
