"""A workflow whose run stands in the middle: every kind of step, in every state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from tests.browser.samples.rows import ADMIN, NOW, row
from tickwheel_admin.domain.workflows.graph import Workflow
from tickwheel_admin.domain.workflows.states import StepState, StepStatus
from tickwheel_admin.services.services import Services
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.workflows.steps import ItemRun, insert_items, insert_steps

HANDLER = "billing.download"  # which the nodes of warehouse offer
CUSTOMERS = '{"rows":1983204,"file":"s3://lake/2026/11/23/customers-0001-of-0001.parquet"}'
STEPS: list[dict[str, Any]] = [
    {"key": "extract-orders", "handler": HANDLER},
    {"key": "extract-customers", "handler": HANDLER},
    {
        "key": "convert",
        "handler": HANDLER,
        "needs": ["extract-orders"],
        "for_each": {"items": "${steps.extract-orders.result.files}", "max_parallel": 20},
        "parameters": {"file": "${item}"},
        "description": "One file after the other, in Parquet.",
    },
    {"key": "settle", "wait": {"seconds": 600}, "needs": ["extract-customers"]},
    {
        "key": "check",
        "approval": {
            "people": ["li.wei"],
            "roles": ["operator"],
            "deadline_seconds": 86_400,
            "message": "客户都在这里了吗？\n应该大约有两百万。",
        },
        "needs": ["extract-customers"],
    },
    {"key": "load", "handler": HANDLER, "needs": ["convert", "check", "settle"]},
    {
        "key": "tell-somebody-that-the-conversion-failed",
        "handler": HANDLER,
        "needs": [{"step": "extract-orders", "outcome": "ended"}],
        "when": "parameters.tell == true",
    },
    {"key": "check-again", "handler": HANDLER, "needs": [{"step": "load", "outcome": "skipped"}]},
]


async def add_workflows(services: Services, executor_id: int, ids: Iterator[int]) -> dict[str, int]:
    """The ids of its job and of its run, by name."""
    raw = {"name": "weekly-load", "workflow": {"steps": STEPS, "output": "load"}}
    job_id = await services.jobs.create(ADMIN, executor_id, raw)
    workflow = (await services.jobs.get(ADMIN, job_id)).item.job.config.workflow
    assert workflow is not None
    run_id = next(ids)
    await services.store.run(_add_run, workflow, job_id, executor_id, run_id, ids)
    return {"job:weekly-load": job_id, "run:weekly-load": run_id}


def _add_run(
    conn: sa.Connection,
    workflow: Workflow,
    job_id: int,
    executor_id: int,
    run_id: int,
    ids: Iterator[int],
) -> None:
    begun = NOW - 600_000
    whole = {"scheduled_at": begun, "created_at": begun, "due_at": begun, "started_at": begun}
    rows = [
        row(
            id=run_id, executor_id=executor_id, job_id=job_id, origin="manual", shard_index=-2,
            state="running", requested_by="li.wei", **whole,
        )
    ]  # fmt: skip

    def of_step(key: str, item: int, state: str, after: int, until: int | None) -> int:
        """A run of a step from so many seconds after the whole began until so many."""
        place = workflow.job_of(key)
        assert place is not None
        own = next(ids)
        at = begun + after * 1_000
        rows.append(
            row(
                id=own, executor_id=executor_id, job_id=place[0], origin="step", state=state,
                parent_run_id=run_id, request_key=f"step:{run_id}:{key}:{item}",
                scheduled_at=at, created_at=at, due_at=at, dispatched_at=at, started_at=at + 4_000,
                ended_at=None if until is None else begun + until * 1_000,
                result=CUSTOMERS if key == "extract-customers" else None,
            )
        )  # fmt: skip
        return own

    def step(index: int, state: StepState, since: int, **more: Any) -> StepStatus:
        return StepStatus(
            workflow_run_id=run_id,
            step_index=index,
            state=state,
            since=begun + since * 1_000,
            **more,
        )

    ends = ["succeeded"] * 30 + ["failed", "timed_out"] + ["running"] * 8
    items = [
        of_step("convert", n, end, 130 + n, None if end == "running" else 300 + n)
        for n, end in enumerate(ends)
    ]
    orders = of_step("extract-orders", 0, "succeeded", 0, 120)
    customers = of_step("extract-customers", 0, "succeeded", 0, 60)
    steps = [
        step(0, StepState.SUCCEEDED, 120, run_id=orders, started_at=begun),
        step(1, StepState.SUCCEEDED, 60, run_id=customers, started_at=begun),
        step(
            2, StepState.RUNNING, 120, started_at=begun + 120_000, items=1_200, next_item=40,
            items_started=40, items_succeeded=30, items_failed=2,
        ),
        step(3, StepState.SUCCEEDED, 560, started_at=begun + 60_000),
        step(
            4, StepState.READY, 60, reason="approval", started_at=begun + 60_000,
            due_at=begun + 86_400_000,
        ),
        step(5, StepState.WAITING, 0),
        step(6, StepState.FAILED, 70, reason="value.missing", started_at=begun + 70_000,
             message="There is no value “parameters.tell”. “parameters” is there, and does not"
             " hold it."),
        step(7, StepState.SKIPPED, 90, reason="needs"),
    ]  # fmt: skip
    conn.execute(sa.insert(tables.run), rows)
    insert_steps(conn, steps)
    insert_items(conn, [ItemRun(run_id, 2, n, each) for n, each in enumerate(items)])
