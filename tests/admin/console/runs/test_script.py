"""What a run of a script job shows of its script, to people and programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa

from tests.admin.kit.served import served
from tests.admin.kit.services import ADMIN
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Role
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.executors.nodes import Arrival, admit_nodes

AUTHOR = replace(ADMIN, scripts=frozenset({ALL_EXECUTORS}))
SOURCE = "import sys\n\n# <b>no</b>\nsys.exit(1)\nprint(5)\nprint(6)\nprint(7)\nprint(8)\n"
MESSAGE = 'File "/x/script.py", line 4, in <module>'
ARRIVAL = Arrival(
    executor_id=1,
    node_key="k",
    name="node-1",
    sdk="test/1",
    slots=1,
    handlers=["script"],
    unstoppable=[],
    labels={},
    weight=1,
    address="192.0.2.1",
)


async def test_a_run_shows_its_script_and_the_line_that_failed(tmp_path: Path) -> None:
    async with served(tmp_path) as admin:
        services = admin.services
        await services.executors.create(ADMIN, name="ops")
        await services.store.run(admit_nodes, [ARRIVAL], new_ids=[7], session_ids=[1], admin_id=1)
        job = {"name": "r", "script": {"language": "python", "source": "print(1)"}}
        job_id = await services.jobs.create(AUTHOR, 1, job)
        typed = {"language": "python", "source": SOURCE}
        run_id = await services.script_tries.start(AUTHOR, job_id, typed, node_id=7)
        failed = {"state": "failed", "attempt": 1, "ended_at": 5, "message": MESSAGE}
        await services.store.run(
            lambda conn: conn.execute(
                sa.update(tables.run).where(tables.run.c.id == run_id).values(failed)
            ).close()
        )
        headers = await admin.token_for("program", Role.VIEWER)
        url = f"/api/v1/runs/{run_id}"
        async with admin.client.get(f"{url}/script", headers=headers) as answer:
            told = await answer.json()
        assert (told["script"]["source"], told["failing_line"]) == (SOURCE, 4)
        async with admin.client.get(url, headers=headers) as answer:
            run = await answer.json()
        assert (run["origin"], run["job_revision"]) == ("try", None)

        await admin.log_in("li", Role.VIEWER)
        async with admin.client.get(f"/runs/{run_id}") as answer:
            page = await answer.text()
        assert answer.status == 200
        assert "print(7)" in page
        assert "print(8)" not in page  # only what is about the failing line
        assert "&lt;b&gt;no" in page
        assert f"/runs/{run_id}/script#line-4" in page
        async with admin.client.get(f"/runs/{run_id}/script") as answer:
            page = await answer.text()
        assert "print(8)" in page
        assert 'class="source-line failed" id="line-4"' in page
