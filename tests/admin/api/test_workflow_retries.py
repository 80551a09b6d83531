"""Retries of workflows, and steps that are skipped and paused, by the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.admin.api.test_alarms import Program
from tests.admin.api.test_backfills import add_job
from tests.admin.kit.served import served
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.domain.workflows.states import StepState, StepStatus
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.workflows.steps import insert_steps

STEPS: list[dict[str, Any]] = [
    {"key": "a", "handler": "a"},
    {"key": "b", "handler": "b", "needs": ["a"]},
    {"key": "c", "handler": "c", "needs": ["b"]},
]


async def test_steps_by_hand_and_retries(tmp_path: Path) -> None:
    async with served(tmp_path) as admin:
        program = Program(admin, await admin.token_for("root", Role.ADMIN))
        job_id = await add_job(admin, handler="workflow", triggers=[], workflow={"steps": STEPS})
        run_id = await admin.services.jobs.run_now(COMMAND_LINE, job_id)
        steps, again = f"/runs/{run_id}/steps", f"/runs/{run_id}/retry"

        async def code(path: str, body: dict[str, Any]) -> str:
            status, told = await program.call("POST", path, body)
            assert status >= 400, told
            problems = told["error"].get("problems")
            return str(problems[0]["code"] if problems else told["error"]["code"])

        def begin(conn: sa.Connection) -> None:
            run = sa.update(tables.run).where(tables.run.c.id == run_id)
            conn.execute(run.values(state="running", started_at=0))
            states = (StepState.SUCCEEDED, StepState.RUNNING, StepState.WAITING)
            insert_steps(
                conn,
                [
                    StepStatus(workflow_run_id=run_id, step_index=n, state=state, since=1)
                    for n, state in enumerate(states)
                ],
            )

        assert await code(f"{steps}/c/skip", {"reason": "?"}) == "run.not_begun"
        await admin.services.store.run(begin)
        assert await code(f"{steps}/c/skip", {}) == "required"
        assert await code(f"{steps}/b/skip", {"reason": "?"}) == "step.not_skippable"
        assert await code(f"{steps}/b/pause", {}) == "step.begun"
        assert await code(f"{steps}/c/resume", {}) == "step.not_paused"
        assert await code(f"{steps}/none/pause", {}) == "not_found"
        assert await code(again, {"steps": "failed"}) == "run.not_ended"
        assert (await program.call("POST", f"{steps}/c/pause", {}))[0] == 204
        assert (await program.call("POST", f"{steps}/c/resume", {}))[0] == 204
        assert (await program.call("POST", f"{steps}/c/skip", {"reason": "later"}))[0] == 204

        def end(conn: sa.Connection) -> None:
            run = sa.update(tables.run).where(tables.run.c.id == run_id)
            conn.execute(run.values(state="failed", ended_at=9))
            of_b = tables.workflow_step.c.step_index == 1
            conn.execute(sa.update(tables.workflow_step).where(of_b).values(state="failed"))

        await admin.services.store.run(end)
        assert await code(again, {"steps": "some"}) == "not_one_of"
        assert await code(again, {"steps": "from"}) == "step.with_from_or_only"
        assert await code(again, {"steps": "only", "step": "none"}) == "step.unknown"
        assert await code(again, {"steps": "failed", "skip": "b"}) == "wrong_type"
        refused = {"steps": "failed", "skip": ["a"], "reason": "?"}
        assert await code(again, refused) == "step.taken_over"
        wish = {"steps": "failed", "skip": ["b"], "reason": "by hand"}
        status, told = await program.call("POST", again, wish)
        assert status == 202
        assert await code(again, {"steps": "failed"}) == "run.retry_goes_on"

        _, listed = await program.call("GET", f"/runs/{told['run_id']}/steps")
        assert [(s["state"], s["reason"], s["taken_from"]) for s in listed["steps"]] == [
            ("succeeded", None, run_id),
            ("succeeded", "passed_by_hand", None),
            ("waiting", None, None),
        ]
