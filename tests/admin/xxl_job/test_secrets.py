"""Secrets of jobs of XXL-JOB executors: sent with the call, hidden in what comes back."""

from __future__ import annotations

import asyncio

import msgspec
import sqlalchemy as sa

from tests.admin.kit.engine import Admin
from tests.admin.kit.rows import add_job, ask
from tests.admin.kit.services import ADMIN, SECRET_KEY
from tests.admin.xxl_job.test_work_per_run import Bridge, Node
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.secrets.service import Secrets
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.xxl_job.dialects import Callback, log_id
from tickwheel_admin.xxl_job.runs import param_of
from tickwheel_shared.protocol import RunRequest

MARKER = "canary-7c1f9e"


async def test_results_and_logs_do_not_show_them(database: Database) -> None:
    cipher = Cipher([SECRET_KEY])
    admin = Admin(database, cipher=cipher)
    secrets = Secrets(database, Ids(database), Events(), cipher)
    await admin.engine.membership.enter()
    session = await admin.add_node(1, slots=3)
    given = '{"param":"--key ${secret.KEY}"}'
    job_id = await add_job(database, parameters=given)
    await secrets.put(ADMIN, 1, "KEY", MARKER)
    runs = [await ask(database, job_id) for _ in range(2)]
    await admin.engine.dispatcher.run_once()
    requests = session.take(RunRequest)
    assert [param_of(bytes(each.parameters)) for each in requests] == [f"--key {MARKER}"] * 2
    node = Node(session.node_id, 1)
    node.line = f"2026-03-01 key={MARKER}"
    bridge = Bridge(database, admin, [node], cipher)  # it has sent none of the runs itself
    recording = asyncio.create_task(admin.engine.recorder.run())
    try:
        await bridge.end_runs(
            [
                [
                    Callback(
                        log_id=log_id(each.run, each.attempt, 0),
                        time_ms=None,
                        code=code,
                        message=f"said {MARKER}",
                    )
                    for each, code in zip(requests, (200, 500), strict=True)
                ]
            ]
        )
        await bridge.read_logs()
    finally:
        recording.cancel()

    rows = await database.read(
        lambda conn: {
            table.name: repr(conn.execute(sa.select(table)).all())
            for table in tables.metadata.sorted_tables
        }
    )
    assert [name for name, text in rows.items() if MARKER in text] == []
    assert rows["run"].count("said •••") == len(runs)
    lines = await database.read(lambda conn: conn.execute(sa.select(tables.run_log.c.lines)).all())
    texts = repr([msgspec.json.decode(line.lines) for line in lines])
    assert texts.count("key=•••") == 2 * 3
