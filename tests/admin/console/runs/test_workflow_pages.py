"""Pages of workflows: the graph of a job, the steps of a run, the items of a step."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.admin.kit.served import Served, served
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.domain.workflows.states import StepState, StepStatus
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.workflows.steps import ItemRun, insert_items, insert_steps

STEPS: list[dict[str, Any]] = [
    {"key": "extract", "handler": "extract"},
    {
        "key": "convert",
        "handler": "convert",
        "needs": ["extract"],
        "for_each": "${steps.extract.result}",
        "parameters": {"file": "${item}"},
    },
    {"key": "tell", "handler": "tell", "needs": [{"step": "convert", "outcome": "failed"}]},
    {
        "key": "check",
        "approval": {"message": "Is the month over?", "deadline_seconds": 3_600},
        "needs": ["extract"],
    },
]


async def text_of(
    application: Served, path: str, status: int = 200, *, have: str = "", block: str = ""
) -> str:
    headers = {"X-Have": have} | ({"X-Block": block} if block else {})
    async with application.client.get(path, headers=headers) as answer:
        assert answer.status == status
        return await answer.text()


async def test_pages_of_a_workflow(tmp_path: Path) -> None:
    async with served(tmp_path) as application:
        await application.log_in("vera", Role.VIEWER)
        services = application.services
        executor = await services.executors.create(COMMAND_LINE, name="billing", description="")
        raw = {"name": "month-end", "workflow": {"steps": STEPS}}
        job_id = await services.jobs.create(COMMAND_LINE, executor.id, raw)
        plain = await services.jobs.create(
            COMMAND_LINE, executor.id, {"name": "plain", "handler": "x"}
        )

        page = await text_of(application, f"/jobs/{job_id}")
        assert page.count('<a class="g-node"') == 4
        assert "<title>step convert, convert</title>" in page
        assert "has failed" in page

        of_job = {"name": "nightly", "workflow": {"steps": [{"key": "load", "job": plain}]}}
        nightly = await services.jobs.create(COMMAND_LINE, executor.id, of_job)
        night = await services.jobs.run_now(COMMAND_LINE, nightly)
        page = await text_of(application, f"/jobs/{nightly}")
        assert page.count("Job plain") == 3  # in the graph, to be spoken, and in the list
        assert "Job plain" in await text_of(application, f"/runs/{night}")

        run_id = await services.jobs.run_now(COMMAND_LINE, job_id)
        item = await services.jobs.run_now(COMMAND_LINE, plain)
        page = await text_of(application, f"/runs/{run_id}")
        assert page.count('data-state="waiting"') == 4

        def begin(conn: sa.Connection) -> None:
            def step(index: int, state: StepState, **more: Any) -> StepStatus:
                return StepStatus(
                    workflow_run_id=run_id, step_index=index, state=state, since=1_000, **more
                )

            conn.execute(
                sa.update(tables.run)
                .where(tables.run.c.id == run_id)
                .values(state="running", started_at=0)
            )
            insert_steps(
                conn,
                [
                    step(0, StepState.SUCCEEDED, run_id=item, started_at=0),
                    step(
                        1,
                        StepState.RUNNING,
                        started_at=1_000,
                        items=12_345,
                        items_started=5,
                        items_failed=2,
                    ),
                    step(2, StepState.WAITING),
                    step(3, StepState.READY, reason="approval", started_at=1_000, due_at=2**41),
                ],
            )
            insert_items(conn, [ItemRun(run_id, 1, 7, item)])
            conn.execute(
                sa.update(tables.run).where(tables.run.c.id == item).values(result='{"rows":7}')
            )

        await services.store.run(begin)
        page = await text_of(application, f"/runs/{run_id}")
        assert f'<a class="g-node g-succeeded" id="node-extract" href="/runs/{item}"' in page
        assert "<title>step convert, running, 2 of 12,345 items</title>" in page
        assert "waits for convert" in page
        assert "Needs approval" in page
        assert "2 of 12,345 items" in page
        assert "critical path" in page
        assert f'href="/runs/{run_id}/steps/convert"' in page
        assert " style=" not in page
        assert re.search(r'hx-swap-oob="morph"[^>]*>', page) is None

        # A page that stays open is told of what differs from what it shows, and of nothing else.
        have = re.search(r'data-have="([^"]+)"', page)
        assert have is not None
        changes = f"/runs/{run_id}/steps"
        assert "<tr" not in await text_of(application, changes, have=have[1])
        other = have[1][:4] + "...." + have[1][8:]
        told = await text_of(application, changes, have=other)
        assert re.findall(r'<tr id="([^"]+)"', told) == ["step-convert"]
        assert re.findall(r'id="(node-[^"]+)"', told) == ["node-convert"]
        assert (await text_of(application, changes)).count("<tr ") == 4

        items = await text_of(application, f"/runs/{run_id}/steps/convert")
        assert f'href="/runs/{item}"' in items
        failed = await text_of(application, f"/runs/{run_id}/steps/convert?state=failed")
        assert "No item stands so." in failed
        await text_of(application, f"/runs/{run_id}/steps/none", 404)
        await text_of(application, f"/runs/{item}/steps/convert", 404)

        assert "/steps/check/answer" not in page  # whoever may only look answers nothing
        address = f"/runs/{run_id}/steps/check/answer"
        looked_at = await text_of(application, address)
        assert "It is not for you to answer." in looked_at
        assert "Is the month over?" in looked_at
        assert 'name="answer"' not in looked_at
        other = await text_of(application, f"/runs/{run_id}/steps/extract/answer")
        assert "asks nobody now" in other
        await text_of(application, f"/runs/{run_id}/steps/none/answer", 404)
        await application.log_in("olga", Role.OPERATOR)
        assert "/steps/check/answer" in await text_of(application, f"/runs/{run_id}")
        dialog = await text_of(application, address)
        for told in (
            "month-end",
            "Whoever may operate the workflow",
            "declined",
            "&#34;rows&#34;: 7",
        ):
            assert told in dialog
        token = re.search(r'name="csrf_token" value="([^"]+)"', dialog)
        assert token is not None
        sent = {"csrf_token": token[1], "answer": "approve", "message": "Looks right."}
        async with application.client.post(address, data=sent, allow_redirects=False) as answer:
            assert answer.status == 303
        view = await services.workflow_runs.get(COMMAND_LINE, run_id)
        status = view.steps[3].status
        assert (status.state, status.reason, status.decided_by) == ("succeeded", "approved", "olga")
        answered = await text_of(application, address)
        assert "asks nobody now" in answered
        assert 'name="answer"' not in answered

        # What waits can be skipped, and the run be done again when it has ended.
        address = f"/runs/{run_id}/steps/tell/by-hand"
        assert 'value="pause"' in await text_of(application, address, block="dialog")
        sent = {"csrf_token": token[1], "do": "skip", "reason": "Told by phone."}
        async with application.client.post(address, data=sent, allow_redirects=False) as answer:
            assert answer.status == 303
        view = await services.workflow_runs.get(COMMAND_LINE, run_id)
        status = view.steps[2].status
        assert (status.reason, status.message) == ("passed_by_hand", "Told by phone.")
        await text_of(application, f"/runs/{run_id}/retry", 409)

        def fail(conn: sa.Connection) -> None:
            table = tables.workflow_step
            of_convert = (table.c.workflow_run_id == run_id, table.c.step_index == 1)
            conn.execute(sa.update(table).where(*of_convert).values(state="failed"))
            conn.execute(
                sa.update(table)
                .where(table.c.workflow_run_id == run_id, table.c.step_index == 2)
                .values(state="skipped", reason="needs")
            )
            runs = sa.update(tables.run).where(tables.run.c.id == run_id)
            conn.execute(runs.values(state="failed", ended_at=9_000))
            items = sa.update(tables.run).where(tables.run.c.id == item)
            conn.execute(items.values(state="failed", ended_at=8_000))

        await services.store.run(fail)
        page = await text_of(application, f"/runs/{run_id}")
        assert f'href="/runs/{run_id}/retry?steps=from&amp;step=check"' in page
        chosen = f"/runs/{run_id}/retry?steps=only&step=check"
        dialog = await text_of(application, chosen, block="dialog")
        assert 'value="only" checked' in dialog
        assert '<option value="check" selected>' in dialog
        sent = {"csrf_token": token[1], "steps": "failed", "skip": "convert"}
        again = f"/runs/{run_id}/retry"
        async with application.client.post(again, data=sent | {"parameters": "{}"}) as answer:
            assert answer.status == 422
            assert "Say why the steps are skipped." in await answer.text()
        sent["reason"] = "Converted by hand."
        async with application.client.post(again, data=sent, allow_redirects=False) as answer:
            assert answer.status == 303
            page = await text_of(application, answer.headers["Location"])
        assert f'<a class="link mono" href="/runs/{run_id}">#{run_id}</a>' in page
        assert "Converted by hand." in page
