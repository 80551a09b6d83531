"""People of the sample: roles of every kind, sessions, API tokens, and what they did lately."""

from __future__ import annotations

import json

import sqlalchemy as sa

from tests.browser.samples.rows import ADMIN, NOW
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Grant, Role
from tickwheel_admin.services.services import Services
from tickwheel_admin.store.database import tables

HOUR = 3_600_000
DAY = 24 * HOUR

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
IPHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 26_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like"
    " Gecko) Version/26.0 Mobile/15E148 Safari/604.1"
)
EDGE = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko)"
    " Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0"
)


async def add_people(
    services: Services, executor_ids: dict[str, int], job_ids: dict[str, int]
) -> dict[str, int]:
    """Add them; what was done so far becomes long ago. Returns ids by "user:…"."""
    everybody: dict[str, dict[int, Grant]] = {
        "maria": {
            executor_ids["billing"]: Grant(Role.DEVELOPER, scripts=True),
            executor_ids["warehouse"]: Grant(Role.DEVELOPER),
            executor_ids["crm"]: Grant(Role.VIEWER),
        },
        "li.wei": {ALL_EXECUTORS: Grant(Role.VIEWER), executor_ids["billing"]: Grant(Role.ADMIN)},
        "jonas": {executor_ids["crm"]: Grant(Role.OPERATOR)},
        "yuki": {executor_ids["ml"]: Grant(Role.ADMIN, scripts=True)},
        "intern": {},
    }
    ids = {}
    for name, grants in everybody.items():
        ids[f"user:{name}"] = (await services.users.create(ADMIN, name, grants=grants)).id
    for who, name, role, executors, days in (
        ("maria", "month-end-script", Role.OPERATOR, [executor_ids["billing"]], 9),
        ("maria", "dashboards", Role.VIEWER, None, 365),
        ("yuki", "deployments", Role.DEVELOPER, None, 90),
        ("yuki", "legacy-exporter", None, None, None),
        ("li.wei", "nightly-checks", Role.OPERATOR, list(executor_ids.values())[:5], 30),
    ):
        await services.api_tokens.create_for(
            ADMIN, who, name=name, role=role, executors=executors, valid_days=days
        )
    await services.users.set_disabled(ADMIN, "jonas", disabled=True)
    await services.settings.save(ADMIN, {"instance_name": "prod-eu", "retention_days": 90})
    for name in ("BANK_API_KEY", "SMTP_PASSWORD"):
        await services.secrets.put(ADMIN, executor_ids["billing"], name, "not shown anywhere")
    await services.store.run(_make_past, ids, executor_ids, job_ids)
    return ids


def _make_past(
    conn: sa.Connection,
    ids: dict[str, int],
    executor_ids: dict[str, int],
    job_ids: dict[str, int],
) -> None:
    audit, token, user = tables.audit, tables.api_token, tables.user
    # All was done at the same instant; it looks like hours of work so.
    conn.execute(sa.update(audit).values(at=audit.c.at - 40 * DAY - audit.c.id % 600 * 60_000))
    conn.execute(sa.update(user).values(created_at=NOW - 41 * DAY))
    for name, ago in (("maria", 2 * HOUR), ("li.wei", 26 * HOUR), ("yuki", 9 * DAY)):
        seen = {"logged_in_at": NOW - ago, "must_change_password": False}
        conn.execute(sa.update(user).where(user.c.name == name).values(seen))
    conn.execute(sa.update(token).values(created_at=NOW - 20 * DAY))
    for name, ago in (("month-end-script", 90_000), ("deployments", 3 * HOUR), ("dashboards", DAY)):
        conn.execute(sa.update(token).where(token.c.name == name).values(used_at=NOW - ago))
    for number, (name, agent, address, ago) in enumerate(
        (("maria", FIREFOX, "10.8.0.14", 2 * HOUR), ("maria", IPHONE, "10.8.3.7", 30 * 60_000)), 1
    ):
        conn.execute(
            sa.insert(tables.session).values(
                id_hash=f"{number:064x}", user_id=ids[f"user:{name}"], csrf_token="x" * 43,
                created_at=NOW - ago, seen_at=NOW - ago // 12, address=address, user_agent=agent,
            )
        )  # fmt: skip
    _add_audit(conn, ids, executor_ids, job_ids)


def _add_audit(
    conn: sa.Connection,
    ids: dict[str, int],
    executor_ids: dict[str, int],
    job_ids: dict[str, int],
) -> None:
    """A day as it may be: who, minutes ago, action, executor, object, detail."""
    reconcile, billing = job_ids["payment-reconcile"], executor_ids["billing"]
    rows: tuple[tuple[str, int, str, int | None, int | None, dict[str, object]], ...] = (
        ("maria", 4, "run.retried", billing, 480_100, {"job": reconcile, "retry_of": 480_099}),
        (
            "maria", 9, "job.updated", billing, reconcile,
            {"name": "payment-reconcile", "revision": 2, "changed": ["timeout_seconds", "retries"]},
        ),
        ("maria", 120, "user.logged_in", None, ids["user:maria"], {}),
        (
            "admin", 200, "settings.updated", None, None,
            {"changes": {
                "instance_name": {"before": "", "after": "prod-eu"},
                "retention_days": {"before": 30, "after": 90},
            }},
        ),
        (
            "admin", 215, "user.grants_changed", None, ids["user:maria"],
            {
                "name": "maria", "sessions_ended": 0, "api_tokens_revoked": 0,
                "before": [{"executor_id": billing, "role": "operator", "scripts": False}],
                "grants": [{"executor_id": billing, "role": "developer", "scripts": True}],
            },
        ),
        (
            "li.wei", 300, "executor.token_rotated", billing, billing,
            {"name": "billing", "overlap_seconds": 86_400},
        ),
        ("yuki", 540, "node.drained", executor_ids["ml"], 8, {"name": "ml-b1"}),
        ("yuki", 700, "job.paused", executor_ids["infra"], job_ids["cert-renewal"],
         {"name": "cert-renewal"}),
        ("command line", 900, "user.disabled", None, ids["user:jonas"],
         {"name": "jonas", "sessions_ended": 1}),
        ("li.wei", 1_500, "runs.purged", billing, billing, {"older_than_seconds": 2_592_000}),
        ("admin", 1_600, "calendar.deleted", None, 77, {"name": "old-holidays"}),
    )  # fmt: skip
    conn.execute(
        sa.insert(tables.audit),
        [
            {
                "id": 900_000 + number,
                "at": NOW - minutes * 60_000,
                "user_id": None,
                "user_name": person,
                "address": "" if person == "command line" else "10.8.0.14",
                "action": action,
                "executor_id": executor_id,
                "object_id": object_id,
                "detail": json.dumps(detail),
            }
            for number, (person, minutes, action, executor_id, object_id, detail) in enumerate(rows)
        ],
    )
