"""Secrets of jobs of XXL-JOB executors: sent with the call, hidden in what comes back."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from tests.admin.kit.engine import Admin
from tests.admin.kit.rows import add_job, ask
from tests.admin.kit.services import ADMIN, SECRET_KEY
from tests.admin.xxl_job.test_work_per_run import Bridge, Node
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.secrets.service import Secrets
from tickwheel_admin.services.xxl_job.nodes import XxlNodes
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.xxl_job.dialects import Callback, log_id
from tickwheel_admin.xxl_job.runs import param_of
from tickwheel_shared.protocol import RunRequest

OTHER_KEY = bytes(range(1, 33))
MARKER = "canary-7c1f9e"


@pytest.mark.parametrize("reader", ["knows them", "has another key", "finds them deleted"])
async def test_results_and_logs_do_not_show_them(database: Database, reader: str) -> None:
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
    known = await XxlNodes(database, Events(), cipher).facts(runs)
    assert {each.code for each in known.values()} == {requests[0].handler}
    node = Node(session.node_id, 1)
    node.line = f"2026-03-01 key={MARKER}"
    if reader == "finds them deleted":
        database.run_sync(lambda conn: conn.execute(sa.delete(tables.secret)))
    keys = [OTHER_KEY if reader == "has another key" else SECRET_KEY]
    bridge = Bridge(database, admin, [node], Cipher(keys))  # it has sent none of the runs itself
    recording = asyncio.create_task(admin.engine.recorder.run())
    with capture_logs() as logged:
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
    lines = await database.read(lambda conn: conn.execute(sa.select(tables.run_log.c.lines)).all())
    texts = repr([msgspec.json.decode(line.lines) for line in lines])
    if reader == "knows them":
        assert rows["run"].count("said •••") == len(runs)
        assert texts.count("key=•••") == 2 * 3
        return
    assert rows["run"].count("[Hidden: the value of KEY could not be read") == len(runs)
    assert texts.count("[Hidden: the value of KEY could not be read") == len(runs)
    assert texts.count("•••") == 2 * (3 - 1)
    warned = [each for each in logged if each["event"] == "xxl.secret_unknown"]
    assert [(each["unreadable"], each["missing"]) for each in warned] == [
        (["KEY"], []) if reader == "has another key" else ([], ["KEY"])
    ]
