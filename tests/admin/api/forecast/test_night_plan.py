"""The night plan by the API, over a real socket."""

from __future__ import annotations

from pathlib import Path

from tests.admin.kit.served import served
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.users.administration import COMMAND_LINE

JOB = {
    "name": "bills",
    "handler": "h",
    "triggers": [{"kind": "cron", "expression": "0 * * * *"}],
    "alarms": [{"kind": "deadline_missed", "limits": {"by": "06:00"}}],
}


async def test_an_answer_tells_runs_and_deadlines(tmp_path: Path) -> None:
    """Without a node nothing starts, so the deadline of the day ahead is missed."""
    async with served(tmp_path) as admin:
        executor = await admin.services.executors.create(
            COMMAND_LINE, name="billing", description=""
        )
        job_id = await admin.services.jobs.create(COMMAND_LINE, executor.id, JOB)
        headers = await admin.token_for("vic", Role.VIEWER)
        address = f"/api/v1/night-plan?executor_id={executor.id}&hours=24"
        async with admin.client.get(address, headers=headers) as answer:
            assert answer.status == 200
            told = await answer.json()
        assert (told["executor_id"], told["slots"], told["runs"]) == (executor.id, 0, [])
        [deadline] = told["deadlines"]
        assert (deadline["job_id"], deadline["job_name"]) == (job_id, "bills")
        assert (deadline["verdict"], deadline["miss_share"]) == ("missed", 1)
        assert (deadline["late_seconds"], deadline["remedies"]) == (None, [])
        [step] = deadline["path"]
        assert (step["job_name"], step["waits_for"], step["start_at"]) == ("bills", "slot", None)
        score = told["score"]
        assert (score["deadlines"], score["warned"], score["end_error_seconds"]) == (0, 0, None)
        assert told["basis"]["draws"] == 20
        assert told["basis"]["assumed_jobs"] == 1

        for wrong in ("/api/v1/night-plan", f"{address}5", f"{address}&from=2001-01-01T00:00Z"):
            async with admin.client.get(wrong, headers=headers) as answer:
                assert answer.status == 422
        missing = "/api/v1/night-plan?executor_id=999"
        async with admin.client.get(missing, headers=headers) as answer:
            assert answer.status == 404
