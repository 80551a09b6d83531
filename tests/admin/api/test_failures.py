"""Failure groups by the API and as pages: what programs and people do with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.admin.kit.served import Served, served
from tests.admin.kit.services import RUN_COLUMNS, run_row
from tickwheel_admin.domain.failures.group import FailureGroup
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.failures.groups import GroupJob, insert_groups, write_jobs

GROUP = 2**53 - 2  # ids are fingerprints, as long as JSON holds exactly


async def _added(admin: Served) -> tuple[int, int]:
    executor = await admin.services.executors.create(COMMAND_LINE, name="billing", description="")
    job_id = await admin.services.jobs.create(
        COMMAND_LINE, executor.id, {"name": "bills", "handler": "h"}
    )
    group = FailureGroup(
        id=GROUP,
        executor_id=executor.id,
        text="bank-gw <refused>",
        since=1_800_000_000_000,
        last_at=1_800_000_060_000,
        runs=43,
        jobs=40,
        first_run_id=5,
        first_job_id=job_id,
        first_revision=12,
        first_node_id=7,
        last_run_id=9,
    )
    job = GroupJob(group_id=GROUP, job_id=job_id, runs=4, last_run_id=9, last_at=group.last_at)

    def insert(conn: Any) -> None:
        insert_groups(conn, [group])
        write_jobs(conn, [job], [])

    await admin.services.store.run(insert)
    return executor.id, job_id


async def test_groups_by_the_api(tmp_path: Path) -> None:
    async with served(tmp_path) as admin:
        executor_id, job_id = await _added(admin)
        headers = await admin.token_for("root", Role.ADMIN)

        async def call(method: str, path: str, body: object = None) -> tuple[int, Any]:
            answer = await admin.client.request(
                method, f"/api/v1/failures{path}", json=body, headers=headers
            )
            return answer.status, await answer.json() if answer.status != 204 else None

        status, listed = await call("GET", f"?state=standing&executor_id={executor_id}")
        assert status == 200
        [group] = listed["items"]
        assert (group["id"], group["state"], group["text"]) == (GROUP, "open", "bank-gw <refused>")
        assert (group["runs"], group["jobs"], group["first_revision"]) == (43, 40, 12)
        assert (group["executor_name"], group["first_job_name"]) == ("billing", "bills")
        assert group["since"] == "2027-01-15T08:00:00Z"
        one = f"/{GROUP}"
        assert (await call("POST", f"{one}/acknowledge", {}))[0] == 204
        refused = (await call("POST", f"{one}/acknowledge", {}))[1]["error"]
        assert refused["code"] == "failure_group.acknowledged"
        assert (await call("POST", f"{one}/mute", {}))[0] == 422
        assert (await call("POST", f"{one}/mute", {"seconds": 60}))[0] == 204
        assert (await call("GET", one))[1]["state"] == "muted"
        assert (await call("POST", f"{one}/mute", {"seconds": None}))[0] == 204
        edited = {"owner": "ann", "notes": "call 4711", "version": 1}
        assert await call("PUT", one, edited) == (200, {"id": GROUP, "version": 2})
        assert (await call("PUT", one, edited))[1]["error"]["code"] == "failure_group.changed"
        status, shown = await call("GET", one)
        assert (shown["owner"], shown["notes"], shown["version"]) == ("ann", "call 4711", 2)
        assert (shown["state"], shown["acknowledged_by"]) == ("acknowledged", "root")
        [job] = shown["jobs_failed"]
        assert (job["job_id"], job["job_name"], job["is_over"]) == (job_id, "bills", False)
        assert shown["newest_runs"] == []
        assert shown["canary_retry"] is None
        status, begun = await call("POST", f"{one}/retry", {})
        assert (status, list(begun)) == (200, ["id"])
        shown = (await call("GET", one))[1]["canary_retry"]
        assert (shown["id"], shown["started_by"], shown["wave"]) == (begun["id"], "root", 0)
        assert (shown["state"], shown["open_runs"]) == ("running", [])
        refused = (await call("POST", f"{one}/retry", {}))[1]["error"]
        assert refused["code"] == "failure_group.retrying"
        assert (await call("POST", f"{one}/retry/stop", {}))[0] == 204
        refused = (await call("POST", f"{one}/retry/stop", {}))[1]["error"]
        assert refused["code"] == "failure_group.not_retrying"
        shown = (await call("GET", one))[1]["canary_retry"]
        assert (shown["state"], shown["reason"], shown["stopped_by"]) == (
            "stopped", "by_hand", "root",
        )  # fmt: skip
        assert (await call("POST", f"{one}/resolve", {}))[0] == 204
        assert (await call("POST", f"{one}/resolve", {}))[0] == 409
        assert (await call("GET", ""))[1]["items"] == []
        assert [each["id"] for each in (await call("GET", "?state=all"))[1]["items"]] == [GROUP]


async def test_pages_of_groups(tmp_path: Path) -> None:
    async with served(tmp_path) as admin:
        await _added(admin)
        await admin.log_in("dora", Role.OPERATOR)

        async def page(path: str, **headers: str) -> str:
            async with admin.client.get(f"/alarms/failures{path}", headers=headers) as answer:
                assert answer.status == 200
                return await answer.text()

        listed = await page("")
        assert "bank-gw &lt;refused&gt;" in listed
        assert "43 runs of 40 jobs" in listed
        assert f'href="/alarms/failures/{GROUP}"' in listed
        shown = await page(f"/{GROUP}")
        assert "revision 12" in shown
        assert f'action="/alarms/failures/{GROUP}/acknowledge"' in shown
        assert "bills" in shown
        assert f'action="/alarms/failures/{GROUP}/retry"' in shown
        await admin.services.failures.retry(COMMAND_LINE, GROUP)
        shown = await page(f"/{GROUP}")
        assert f'action="/alarms/failures/{GROUP}/retry"' not in shown
        assert f'action="/alarms/failures/{GROUP}/retry/stop"' in shown
        await admin.services.failures.stop_retry(COMMAND_LINE, GROUP)
        assert "stopped by command line" in await page(f"/{GROUP}")
        await admin.services.failures.edit(
            COMMAND_LINE, GROUP, owner="ann", notes="<call 4711>", version=1
        )
        assert "&lt;call 4711&gt;" in await page(f"/{GROUP}", **{"X-Block": "failure"})
        await admin.services.failures.resolve(COMMAND_LINE, GROUP)
        assert "Nothing fails" in await page("")
        assert "resolved" in await page("?state=all")
        assert "/acknowledge" not in await page(f"/{GROUP}")


async def test_a_page_of_runs_without_node_or_job(tmp_path: Path) -> None:
    """Workflows and fires with shards run on no node; jobs and nodes are deleted before runs."""
    async with served(tmp_path) as admin:
        executor_id, job_id = await _added(admin)
        failed = {"executor_id": executor_id, "state": "failed", "error_id": GROUP}
        rows = [
            run_row(71, failed | {"job_id": job_id, "node_id": None}),
            run_row(72, failed | {"job_id": 4_711, "node_id": 4_712}),
        ]
        await admin.services.store.run(insert_rows, tables.run, rows, columns=RUN_COLUMNS)
        await admin.log_in("dora", Role.OPERATOR)
        async with admin.client.get(f"/alarms/failures/{GROUP}") as answer:
            assert answer.status == 200
            shown = await answer.text()
        assert 'href="/runs/71"' in shown
        assert "#4711" in shown


async def test_a_failed_run_is_explained(tmp_path: Path) -> None:
    async with served(tmp_path) as admin:
        executor_id, job_id = await _added(admin)
        headers = await admin.token_for("root", Role.ADMIN)
        of_job = {"executor_id": executor_id, "job_id": job_id, "started_at": 5, "ended_at": 9}
        rows = [
            run_row(71, of_job | {"scheduled_at": 1, "parameters": '{"a": "<1>"}'}),
            run_row(72, of_job | {"scheduled_at": 2, "parameters": "{}", "state": "failed"}),
        ]
        await admin.services.store.run(insert_rows, tables.run, rows, columns=RUN_COLUMNS)
        async with admin.client.get("/api/v1/runs/72/why", headers=headers) as answer:
            told = await answer.json()
        assert (told["failed_run_id"], told["good_run_id"]) == (72, 71)
        assert told["parameters"] == [{"name": "a", "good": "<1>", "failed": None}]
        async with admin.client.get("/api/v1/runs/71/why", headers=headers) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (
                409,
                "run.not_failed",
            )
        await admin.log_in("dora", Role.OPERATOR)
        async with admin.client.get("/runs/72") as answer:
            assert 'hx-get="/runs/72/why"' in await answer.text()
        for part in ({}, {"X-Block": "why"}):
            async with admin.client.get("/runs/72/why", headers=part) as answer:
                shown = await answer.text()
            assert "Parameter a" in shown
            assert "&lt;1&gt;" in shown
            assert ("<html" in shown) == (not part)
