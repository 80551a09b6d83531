"""A database as a busy installation would have it, the same every time; for pictures and pages."""

from __future__ import annotations

import json
import random

import msgspec
import sqlalchemy as sa

from tests.browser.samples.audited import add_audited_hours
from tests.browser.samples.backfills import add_backfills
from tests.browser.samples.covered import add_intervals
from tests.browser.samples.declared import add_declared
from tests.browser.samples.delayed import add_delayed_runs
from tests.browser.samples.failures import add_failures
from tests.browser.samples.figures import add_figures
from tests.browser.samples.history import add_revisions
from tests.browser.samples.people import add_people
from tests.browser.samples.routing import add_routing
from tests.browser.samples.rows import ADMIN as ADMIN
from tests.browser.samples.rows import NOW as NOW
from tests.browser.samples.rows import row
from tests.browser.samples.rules import HANDLERS, add_rules
from tests.browser.samples.schedules import add_schedules
from tests.browser.samples.scripts import add_scripts
from tests.browser.samples.workflows import add_workflows
from tests.browser.samples.xxl_job import add_xxl_executor
from tickwheel_admin.domain.admin_status import AdminStatus, LoopStatus, status_to_json
from tickwheel_admin.domain.routing.choice import Choice, PassedOver, Why
from tickwheel_admin.services.services import Services
from tickwheel_admin.store.database import tables
from tickwheel_shared.protocol import Level, WireLine

HOUR = 3_600_000
_LEAST_BUSY = Choice(
    by="least_busy", candidates=2, used=3, slots=10, passed=(PassedOver("warehouse-b1", Why.FULL),)
).to_json()

EXECUTORS = {
    "billing": "Invoices, dunning, payment reconciliation",
    "crm": "Customer data and its exchange with partners",
    "infra": "Backups, certificates, housekeeping",
    "ml": "Feature computation and scoring on the GPU nodes",
    "warehouse": "Loads and compaction of the data warehouse",
}

# executor, name, schedule, owner, tags, usual seconds, share that fails
JOBS = (
    ("billing", "dunning-emails", "30 9 * * 1-5", "maria", "email", 95, 0),
    ("billing", "invoice-close", "0 2 * * *", "maria", "finance,critical", 412, 0),
    ("billing", "payment-reconcile", "*/5 * * * *", "li.wei", "finance,critical", 38, 0.16),
    ("crm", "gdpr-erasure", "0 3 * * *", "jonas", "compliance", 210, 0),
    ("crm", "lead-scoring", "50 * * * *", "jonas", "", 133, 0),
    ("crm", "sync-salesforce", "*/15 * * * *", "ana", "external", 71, 0.06),
    ("infra", "backup-postgres", "30 0 * * *", "ops", "critical,backup", 1480, 0),
    ("infra", "cert-renewal", "10 4 * * 0", "ops", "critical", 17, 0),
    ("infra", "disk-usage-probe", "* * * * *", "ops", "", 2, 0),
    ("infra", "log-rotate", "0 * * * *", "ops", "", 4, 0),
    ("ml", "churn-scoring", "20 */2 * * *", "yuki", "gpu", 520, 0.12),
    ("ml", "embeddings-refresh", "40 3 * * *", "yuki", "gpu,nightly", 4080, 0),
    ("ml", "features-backfill", "", "yuki", "gpu", 5160, 0.05),
    ("warehouse", "daily-snapshot", "15 1 * * *", "maria", "", 2300, 0),
    ("warehouse", "events-compact", "5 * * * *", "maria", "", 900, 0.02),
    ("warehouse", "orders-incremental", "*/10 * * * *", "ana", "", 140, 0.02),
    ("warehouse", "对账文件下载", "15 14 * * *", "li.wei", "finance", 44, 0),
)  # fmt: skip

ERRORS = (
    "BankGatewayError: 503 from acquirer.example.net after 3 tries (last: upstream timed out)",
    "CUDA out of memory: tried to allocate 2.31 GiB (GPU 0; 23.69 GiB total capacity)",
    "ConnectTimeout: hooks.partner.example:443 (10.0 s)",
)


async def build(services: Services) -> dict[str, int]:
    """Fill an empty database; returns ids that tests want by name."""
    chance = random.Random(7)
    executor_ids = {}
    for name, description in EXECUTORS.items():
        made = await services.executors.create(ADMIN, name=name, description=description)
        executor_ids[name] = made.id
    await services.store.run(_add_admins_and_nodes, executor_ids)
    job_ids: dict[str, int] = {}
    for executor, name, cron, owner, tags, _seconds, _fails in JOBS:
        job_ids[name] = await services.jobs.create(
            ADMIN,
            executor_ids[executor],
            {
                "name": name,
                "handler": f"{executor}.{name}" if name.isascii() else "billing.download",
                "owner": owner,
                "tags": [tag for tag in tags.split(",") if tag],
                "parameters": {"date": "2026-11-20", "shards": 8, "dry_run": False},
                "retries": 3,
                "timeout_seconds": 1800,
                "triggers": [{"kind": "cron", "expression": cron, "timezone": "Europe/Berlin"}]
                if cron
                else [],
            },
        )
    await services.jobs.pause(ADMIN, job_ids["cert-renewal"])
    ids = iter(range(480_000, 500_000))
    await services.store.run(_add_history, job_ids, executor_ids, ids, chance)
    live = await services.store.run(_add_live_runs, job_ids, executor_ids, ids)
    live |= await add_rules(services, job_ids, executor_ids, ids)
    live |= await add_routing(services, job_ids, executor_ids, ids)
    live |= await add_schedules(services, job_ids, executor_ids)
    await add_revisions(services, job_ids)
    await add_scripts(services, job_ids, executor_ids)
    live |= await add_declared(services, job_ids, executor_ids, ids)
    await add_xxl_executor(services, executor_ids)
    live |= await add_people(services, executor_ids, job_ids)
    live |= await services.store.run(add_backfills, job_ids, executor_ids["billing"])
    await services.store.run(add_intervals, job_ids)
    live |= await add_workflows(services, executor_ids["warehouse"], ids)
    live |= await services.store.run(
        add_failures, job_ids, executor_ids, text=ERRORS[0], failed_run=live["run:failed"]
    )
    live |= await services.store.run(add_delayed_runs, job_ids, executor_ids["ml"], ids)
    live["pool"] = await services.pools.create(ADMIN, {"name": "warehouse", "slots": 3})
    await services.store.run(add_figures, executor_ids)
    await services.store.run(add_audited_hours)
    return (
        {f"job:{name}": value for name, value in job_ids.items()}
        | {f"executor:{name}": value for name, value in executor_ids.items()}
        | live
    )


def _status(offset_ms: int, *, sessions: int, waiting: int, failing: str = "") -> str:
    ago = {
        "recorder": 12, "leases": 840, "sweeper": 410, "dispatcher": 95, "planner": 230,
        "cleaner": 31_000,
    }  # fmt: skip
    return status_to_json(
        AdminStatus(
            clock_offset_ms=offset_ms,
            sessions=sessions,
            waiting=waiting,
            loops={
                name: LoopStatus(
                    last_pass_ms_ago=48_000 if name == failing else ms, failing=name == failing
                )
                for name, ms in ago.items()
            },
        )
    )


_STATUS = {
    1: _status(14, sessions=10, waiting=0),
    2: _status(-3_200, sessions=9, waiting=4),
    3: _status(260, sessions=10, waiting=1_840, failing="recorder"),
}


def _add_admins_and_nodes(conn: sa.Connection, executor_ids: dict[str, int]) -> None:
    for number, name in enumerate(("admin-1", "admin-2", "admin-3"), 1):
        conn.execute(
            tables.admin.insert().values(
                id=number,
                name=name,
                url=f"http://{name}:8500",
                version="0.1.0",
                started_at=NOW - 50 * HOUR,
                lease_expires_at=NOW + HOUR,
                status=_STATUS[number],
            )
        )
    number = 0
    for executor, executor_id in executor_ids.items():
        handlers = [f"{e}.{n}" for e, n, *_ in JOBS if e == executor and n.isascii()]
        handlers += ["billing.download"] if executor == "warehouse" else []
        handlers += HANDLERS.get(executor, ())
        for letter in "ab":
            number += 1
            conn.execute(
                tables.node.insert().values(
                    id=number,
                    executor_id=executor_id,
                    node_key=f"{number:032x}",
                    name=f"{executor}-{letter}1",
                    state="live",
                    draining=executor == "infra" and letter == "b",
                    cordoned=(executor, letter) in (("ml", "b"), ("crm", "b")),
                    drain_wanted=(executor, letter) == ("ml", "b"),
                    slots=6 if (executor, letter) == ("ml", "a") else 10,
                    slots_wanted=6 if (executor, letter) == ("ml", "a") else None,
                    in_use=number * 3 % 8,
                    handlers=json.dumps(sorted(handlers)),
                    unstoppable="[]",
                    labels=json.dumps(
                        {"zone": "eu" if letter == "a" else "us"}
                        | ({"gpu": "a100"} if (executor, letter) == ("ml", "a") else {})
                    ),
                    weight=3 if letter == "a" else 1,
                    sdk="python/0.1.0",
                    address=f"10.2.1.{10 + number}",
                    connected_at=NOW - number * HOUR,
                    lease_expires_at=NOW + 12_000,
                    full_lease_at=NOW + 12_000,
                )
            )
    conn.execute(
        tables.node.insert().values(
            id=99, executor_id=executor_ids["ml"], node_key="f" * 32, name="ml-c1", state="dead",
            draining=False, cordoned=False, drain_wanted=False, slots=4, slots_wanted=None,
            in_use=0, handlers="[]", unstoppable="[]", labels="{}", weight=1, sdk="python/0.1.0",
            address="10.2.1.31", connected_at=NOW - 30 * HOUR,
            lease_expires_at=NOW - 372_000, full_lease_at=NOW - 372_000, ended_at=NOW - 372_000,
        )
    )  # fmt: skip


def _add_history(
    conn: sa.Connection,
    job_ids: dict[str, int],
    executor_ids: dict[str, int],
    ids: object,
    chance: random.Random,
) -> None:
    rows = []
    period = {"*": 1, "*/5": 5, "*/10": 10, "*/15": 15}
    for executor, name, cron, _owner, _tags, seconds, fails in JOBS:
        minute = cron.split(" ")[0] if cron else ""
        minutes = period.get(minute, 60 if cron.split(" ")[1:2] == ["*"] else 180)
        minutes = max(minutes, 3)
        if name == "cert-renewal":
            minutes = 60 * 24
        for at in range(NOW - 24 * HOUR, NOW - 120_000, minutes * 60_000):
            ended = at + round(seconds * 1000 * chance.uniform(0.6, 1.5))
            if ended > NOW:
                continue
            storm = 7.5 * HOUR < NOW - at < 9 * HOUR
            roll = chance.random()
            late = name == "payment-reconcile" and NOW - at < 22 * 60_000
            state = "succeeded"
            if roll < fails * (4 if storm else 1) or late:
                state = "failed"
            elif roll > 0.992:
                state = "timed_out"
            elif roll > 0.986:
                state = "cancelled"
            error = ERRORS[1] if executor == "ml" else ERRORS[2] if executor == "crm" else ERRORS[0]
            rows.append(
                row(
                    id=next(ids),  # type: ignore[call-overload]
                    executor_id=executor_ids[executor],
                    job_id=job_ids[name],
                    scheduled_at=at,
                    created_at=at - 1500,
                    due_at=at,
                    state=state,
                    node_id=1 + sorted(EXECUTORS).index(executor) * 2 + chance.randrange(2),
                    dispatched_at=at + 4,
                    started_at=at + chance.randrange(6, 30),
                    ended_at=ended,
                    message=error if state == "failed" else None,
                    result='{"rows":18422,"skipped":0}' if state == "succeeded" else None,
                    log_lines=12,
                )
            )
    conn.execute(tables.run.insert(), rows)


def _add_live_runs(
    conn: sa.Connection, job_ids: dict[str, int], executor_ids: dict[str, int], ids: object
) -> dict[str, int]:
    rows, made = [], {}
    for name, ago, progress in (
        ("features-backfill", 1617, 0.31),
        ("backup-postgres", 1351, 0.91),
        ("events-compact", 569, 0.62),
        ("orders-incremental", 125, 0.86),
        ("lead-scoring", 65, 0.47),
        ("disk-usage-probe", 14, None),
    ):
        executor = next(e for e, n, *_ in JOBS if n == name)
        at = NOW - ago * 1000
        run_id = made[f"run:{name}"] = next(ids)  # type: ignore[call-overload]
        rows.append(
            row(
                id=run_id, executor_id=executor_ids[executor], job_id=job_ids[name],
                scheduled_at=at, created_at=at - 1500, due_at=at, state="running",
                node_id=1 + sorted(EXECUTORS).index(executor) * 2, dispatched_at=at + 4,
                started_at=at + 14, deadline_at=NOW + HOUR, claim_token="t" * 32,
                progress=progress,
                progress_text="partition hour=14 of 24" if name == "events-compact" else None,
                choice=_LEAST_BUSY if name == "events-compact" else None,
            )
        )  # fmt: skip
    waits = made["run:waiting"] = next(ids)  # type: ignore[call-overload]
    rows.append(
        row(
            id=waits, executor_id=executor_ids["ml"], job_id=job_ids["churn-scoring"],
            scheduled_at=NOW - 26_000, created_at=NOW - 26_000, due_at=NOW + 44_000,
            state="queued", attempt=1, tries=1, reason="retry", message=ERRORS[1], node_id=7,
        )
    )  # fmt: skip
    failed = made["run:failed"] = next(ids)  # type: ignore[call-overload]
    rows.append(
        row(
            id=failed, executor_id=executor_ids["billing"], job_id=job_ids["payment-reconcile"],
            scheduled_at=NOW - 86_000, created_at=NOW - 88_000, due_at=NOW - 71_000,
            state="failed", attempt=3, tries=3, node_id=1, dispatched_at=NOW - 70_000,
            started_at=NOW - 69_990, ended_at=NOW - 42_000, message=ERRORS[0], log_lines=3,
        )
    )  # fmt: skip
    conn.execute(tables.run.insert(), rows)
    conn.execute(
        tables.run_attempt.insert(),
        [
            {
                "run_id": run_id, "attempt": number, "state": "failed", "node_id": 1,
                "claim_token": None, "due_at": NOW - due, "dispatched_at": NOW - sent,
                "started_at": NOW - sent + 10, "ended_at": NOW - ended, "reason": None,
                "message": ERRORS[0] if run_id == failed else ERRORS[1], "log_lines": 2,
                # The first attempt's node was cut off and said what came of it 12 s too late.
                "late_outcome": "succeeded" if (run_id, number) == (failed, 1) else None,
                "late_message": None,
                "late_at": NOW - 66_000 if (run_id, number) == (failed, 1) else None,
            }
            for run_id, number, due, sent, ended in (
                (failed, 1, 86_000, 86_000, 80_000),
                (failed, 2, 79_000, 78_000, 74_000),
                (waits, 1, 26_000, 26_000, 20_000),
            )
        ],
    )  # fmt: skip
    _add_log(conn, made["run:events-compact"], 1, _log_lines(160))
    many = _log_lines(30_000)
    for first in range(0, len(many), 500):
        _add_log(
            conn, made["run:backup-postgres"], 1, many[first : first + 500], first_seq=first + 1
        )
    _add_log(conn, failed, 3, _log_lines(3))
    _add_log(conn, failed, 1, _log_lines(2))
    return made


def _log_lines(count: int) -> list[WireLine]:
    texts = (
        (Level.INFO, "\x1b[2mstart\x1b[0m warehouse.events-compact attempt=1 node=warehouse-a1"),
        (Level.INFO, "connecting to \x1b[36mpg://warehouse-ro.internal:5432/events\x1b[0m"),
        (Level.DEBUG, "session: statement_timeout=900s work_mem=256MB application_name=tickwheel"),
        (Level.INFO, "listing partitions for 2026-11-20 … \x1b[1m24 partitions\x1b[0m"),
        (Level.INFO, "partition hour=00  files=77  →  3   (2.6 GiB) \x1b[32mok\x1b[0m 18.2s"),
        (Level.INFO, "partition hour=01  files=71  →  3   (2.4 GiB) \x1b[32mok\x1b[0m 17.6s"),
        (Level.WARNING, "partition hour=02: 4 files smaller than 64 KiB, merging with hour=03"),
        (Level.INFO, "partition hour=02  files=64  →  2   (2.1 GiB) \x1b[32mok\x1b[0m 15.9s"),
        (Level.DEBUG, "object store: 412 GET, 8 PUT, 64 DELETE, retries=0"),
        (Level.INFO, "分区 hour=03 压缩完成 (2.2 GiB) \x1b[32m成功\x1b[0m 16.4s"),
        (Level.INFO, "partition hour=04  files=69  →  3   (2.5 GiB) \x1b[32mok\x1b[0m 17.0s"),
        (Level.ERROR, "\x1b[31mS3 SlowDown (503)\x1b[0m on PUT events/05/part-0001, backing off"),
        (Level.INFO, "retry 1/5 \x1b[32mok\x1b[0m"),
        (Level.INFO, "progress 25% · eta 11m 20s"),
        (Level.INFO, "<img src=x onerror=alert(1)> is only text"),
    )  # fmt: skip
    return [WireLine(NOW - 560_000 + n * 1370, *texts[n % len(texts)]) for n in range(count)]


def _add_log(
    conn: sa.Connection, run_id: int, attempt: int, lines: list[WireLine], *, first_seq: int = 1
) -> None:
    conn.execute(
        tables.run_log.insert().values(
            run_id=run_id,
            attempt=attempt,
            first_seq=first_seq,
            line_count=len(lines),
            lines=msgspec.json.encode(lines).decode(),
        )
    )
