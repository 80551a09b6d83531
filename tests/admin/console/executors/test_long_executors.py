"""The page of an executor with more nodes than it shows at once."""

from __future__ import annotations

import json
import re
from pathlib import Path

import sqlalchemy as sa

from tests.admin.kit.routes import headers_of, logged_in
from tests.admin.kit.served import served
from tests.admin.kit.services import FAR
from tickwheel_admin.console.executors.page import NODES_PER_PAGE
from tickwheel_admin.domain.users.user import Role, everywhere
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.clock import now_ms

NODES = 2 * NODES_PER_PAGE + 30


async def test_many_nodes_are_shown_page_by_page_and_found_by_name_and_label(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as admin:
        made = await admin.services.executors.create(COMMAND_LINE, name="billing")
        await admin.services.store.run(add_nodes, made.id)
        session = await logged_in(admin, "olga", everywhere(Role.VIEWER))

        async def names(query: str = "") -> list[str]:
            page = await admin.client.get(
                f"/executors/{made.id}{query}", headers=headers_of(session)
            )
            return re.findall(r">(host-\d+)</a>", await page.text())

        first, last = await names(), await names("?page=3")
        assert first == [f"host-{n:04}" for n in range(NODES_PER_PAGE)]
        assert last == [f"host-{n:04}" for n in range(2 * NODES_PER_PAGE, NODES)]
        assert await names("?page=99") == last
        assert await names("?page=x") == first
        assert await names("?q=HOST-0123") == ["host-0123"]
        assert await names("?q=zone%3Dus") == [f"host-{n:04}" for n in range(0, NODES, 10)]
        assert await names("?q=nothing") == []


async def test_a_long_queue_without_nodes_is_told_once_and_not_as_an_exact_number(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as admin:
        made = await admin.services.executors.create(COMMAND_LINE, name="billing")
        job = await admin.services.jobs.create(
            COMMAND_LINE, made.id, {"name": "invoice", "handler": "send"}
        )
        await admin.services.store.run(add_lost_node_and_queue, made.id, job)
        session = await logged_in(admin, "olga", everywhere(Role.VIEWER))
        page = await admin.client.get(f"/executors/{made.id}", headers=headers_of(session))
        text = await page.text()
    assert text.count("1,000+ runs wait for a node.") == 1
    assert "slots are taken" not in text  # there are none


def add_lost_node_and_queue(conn: sa.Connection, executor_id: int, job_id: int) -> None:
    add_nodes(conn, executor_id)
    conn.execute(sa.update(tables.node).values(state="lost", ended_at=now_ms(conn) - 60_000))
    now = now_ms(conn)
    common = {
        "executor_id": executor_id, "job_id": job_id, "job_revision": 1, "origin": "manual",
        "scheduled_at": now - 60_000, "created_at": now - 60_000, "due_at": now - 60_000,
        "shard_index": 0, "shard_total": 1, "priority": 0, "state": "queued", "attempt": 0,
        "tries": 0, "log_lines": 0,
    }  # fmt: skip
    conn.execute(sa.insert(tables.run), [common | {"id": n} for n in range(1, 1_201)])


def add_nodes(conn: sa.Connection, executor_id: int) -> None:
    text = dict.fromkeys(("sdk", "address"), "x") | {"handlers": "[]", "unstoppable": "[]"}
    flags = dict.fromkeys(("draining", "cordoned", "drain_wanted"), False)
    numbers = {"slots": 4, "in_use": 0, "weight": 1, "connected_at": 1}
    leases = dict.fromkeys(("lease_expires_at", "full_lease_at"), FAR)
    conn.execute(
        sa.insert(tables.node),
        [
            {"id": n + 1, "executor_id": executor_id, "node_key": str(n), "name": f"host-{n:04}"}
            | {"state": "live", "labels": json.dumps({"zone": "eu" if n % 10 else "us"})}
            | text | flags | numbers | leases
            for n in range(NODES)
        ],
    )  # fmt: skip
