"""Reading through the API: what several tools need."""

from __future__ import annotations

from typing import Any, Final

from tickwheel_admin.cli.client.connection import AdminApi
from tickwheel_admin.cli.client.errors import ApiRefused, NotFoundFailure
from tickwheel_admin.cli.failure import Failure

MOST: Final = 50  # items of a list that a tool gives at once

# Of a run in a list: what happened, without what a program wrote.
_RUN_FACTS = (
    *("id", "job_id", "job_name", "job_revision", "executor_id", "executor_name", "state"),
    *("reason", "origin", "requested_by", "retry_of", "retried_as", "resolved", "scheduled_at"),
    *("started_at", "ended_at", "attempt", "tries", "node_name", "waiting_for", "why_waiting"),
    *("cancel_reason", "cancelled_by", "misfire", "backfill_id", "nominal_at"),
)
_JOB_FACTS = (
    *("id", "executor_id", "executor_name", "revision", "paused", "managed", "next_fire_at"),
    "last_run",
)


def job_id_of(api: AdminApi, job: str) -> int:
    """The id of a job, given so, or by “executor/name”, or by its name alone.

    Raises:
        Failure: no job has this name, or several have; the message lists them.
    """
    if job.isdecimal():
        return int(job)
    executor, slash, name = job.partition("/")
    wanted = [(executor.strip(), name.strip())] if slash else []
    # A name may have a slash itself.
    found = {
        each["id"]: each
        for text in dict.fromkeys((job, *(name for _executor, name in wanted)))
        for each in api.pages("/jobs", most=500, text=text)
        if each["config"]["name"] == job
        or (each["executor_name"], each["config"]["name"]) in wanted
    }
    if len(found) == 1:
        return int(next(iter(found)))
    if not found:
        raise NotFoundFailure(f"no job is named “{job}”, or this token may not see it")
    several = ", ".join(f"{id_} ({each['executor_name']})" for id_, each in found.items())
    raise Failure(f"several jobs are named “{job}”; name one by its id: {several}")


def executor_id_of(api: AdminApi, executor: str) -> int:
    """The id of an executor, given so or by its name."""
    if executor.isdecimal():
        return int(executor)
    for each in api.get("/executors")["items"]:
        if each["name"] == executor:
            return int(each["id"])
    raise NotFoundFailure(f"no executor is named “{executor}”, or this token may not see it")


def or_none(api: AdminApi, path: str) -> Any:
    """What is there, or None if it is gone or not to be seen."""
    try:
        return api.get(path)
    except ApiRefused as refused:
        if refused.status in (403, 404):
            return None
        raise


def run_facts(run: dict[str, Any]) -> dict[str, Any]:
    """What Tickwheel says of a run; fields without a value are left out."""
    return _some(run, _RUN_FACTS)


def job_facts(job: dict[str, Any]) -> dict[str, Any]:
    """What a list tells of a job."""
    config = job["config"]
    return {
        "name": config["name"],
        **_some(job, _JOB_FACTS),
        **_some(config, ("handler", "description", "owner", "tags")),
    }


def page_of(page: dict[str, Any], items: list[dict[str, Any]]) -> dict[str, Any]:
    """Items of a page, and how to ask for the next one."""
    more = {"cursor": page["next"]} if page.get("next") else {}
    return {"items": items, **more}


def _some(values: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {
        name: value
        for name in names
        if (value := values.get(name)) is not None and value not in ("", [], {})
    }
