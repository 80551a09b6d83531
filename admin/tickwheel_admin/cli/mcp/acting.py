"""Tools that act; each asks the person in front of the assistant first."""

from __future__ import annotations

from typing import Any, Literal

from tickwheel_admin.cli.client.connection import AdminApi, new_key
from tickwheel_admin.cli.mcp.lookups import job_id_of


def retry_question(api: AdminApi, run_id: int) -> str:
    """What a person is asked before a retry."""
    run = api.get(f"/runs/{run_id}")
    return (
        f"Retry run {run_id} of “{run['executor_name']} / {run['job_name']}”, which ended"
        f" “{run['state']}”? What it does would be done again, with the same parameters."
    )


def retry(api: AdminApi, run_id: int, steps: Literal["all", "failed"] = "all") -> dict[str, Any]:
    """The new run."""
    body = {} if steps == "all" else {"steps": steps}
    made: dict[str, Any] = api.post(f"/runs/{run_id}/retry", body, key=new_key())
    return made


def run_question(api: AdminApi, job: str) -> str:
    """What a person is asked before a run."""
    found = api.get(f"/jobs/{job_id_of(api, job)}")
    return f"Run “{found['executor_name']} / {found['config']['name']}” now?"


def run(api: AdminApi, job: str) -> dict[str, Any]:
    """The new run."""
    made: dict[str, Any] = api.post(f"/jobs/{job_id_of(api, job)}/run", {}, key=new_key())
    return made


def cancel_question(api: AdminApi, run_id: int) -> str:
    """What a person is asked before a cancel."""
    found = api.get(f"/runs/{run_id}")
    return (
        f"Cancel run {run_id} of “{found['executor_name']} / {found['job_name']}”, which is"
        f" “{found['state']}”? What it has done so far is not undone."
    )


def cancel(api: AdminApi, run_id: int) -> dict[str, Any]:
    """That its node was asked."""
    api.post(f"/runs/{run_id}/cancel")
    return {"cancel_requested": True, "run_id": run_id}
