"""Tools that find and explain; none of them changes anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any, Final, Literal

from tickwheel_admin.cli.client.connection import AdminApi
from tickwheel_admin.cli.client.errors import ApiRefused
from tickwheel_admin.cli.mcp.answers import by_programs
from tickwheel_admin.cli.mcp.lookups import (
    MOST,
    executor_id_of,
    job_facts,
    job_id_of,
    or_none,
    page_of,
    run_facts,
)

RunFilter = Literal[
    "any", "active", "failed_any", "unresolved", "queued", "running", "succeeded", "failed",
    "timed_out", "cancelled", "lost", "skipped",
]  # fmt: skip
_LAST_LINES = 40  # of a log, in an explanation
_MOST_LINES = 300  # of a log, at once
_LATEST = 10  # runs of the same job, in an explanation


def what_needs_attention(api: AdminApi) -> dict[str, Any]:
    """What needs attention now: failing jobs, lost nodes, runs that wait, open alarms.

    Begin here when somebody asks what is wrong.
    """
    looked: dict[str, Any] = api.get("/attention")
    return looked


def find_jobs(
    api: AdminApi,
    text: str = "",
    executor: str = "",
    tag: str = "",
    view: Literal["all", "failing", "running", "paused", "active"] = "all",
    cursor: str = "",
) -> dict[str, Any]:
    """Jobs by part of a name, handler, owner or tag, 50 at a time.

    Args:
        text: part of the name, handler, owner or a tag; empty: all.
        executor: name or id of the executor.
        tag: a whole tag.
        view: only failing, running, paused or active jobs.
        cursor: of the answer before, for the next page.
    """
    page = api.get(
        "/jobs",
        text=text or None,
        executor_id=executor_id_of(api, executor) if executor else None,
        tag=tag or None,
        view=view,
        cursor=cursor or None,
        limit=MOST,
    )
    return page_of(page, [job_facts(each) for each in page["items"]])


def show_job(api: AdminApi, job: str) -> dict[str, Any]:
    """A job: what it runs and when, its rules, its next fires and latest runs.

    Args:
        job: its id, “executor/name”, or its name if only one job has it.
    """
    found: dict[str, Any] = api.get(f"/jobs/{job_id_of(api, job)}")
    runs = found.pop("recent_runs", [])
    return {"job": found, "recent_runs": [run_facts(each) for each in runs]}


def find_runs(
    api: AdminApi,
    job: str = "",
    executor: str = "",
    state: RunFilter = "any",
    since: str = "",
    until: str = "",
    error: str = "",
    cursor: str = "",
) -> dict[str, Any]:
    """Runs, newest first, 50 at a time.

    Args:
        job: id, “executor/name” or name of the job; empty: of all jobs.
        executor: name or id of the executor.
        state: failed_any: failed, timed out or lost; unresolved: those without a retry that
            succeeded; active: those that have not ended.
        since: only runs due from then on: 2026-03-01T00:00:00Z, with an offset from UTC.
        until: only runs due before then.
        error: part of the first line of the error.
        cursor: of the answer before, for the next page.
    """
    page = api.get(
        "/runs",
        job_id=job_id_of(api, job) if job else None,
        executor_id=executor_id_of(api, executor) if executor else None,
        state=None if state == "any" else state,
        from_at=since or None,
        to_at=until or None,
        error=error or None,
        cursor=cursor or None,
        limit=MOST,
    )
    items = [
        run_facts(each)
        | ({"by_program": {"message": each["message"]}} if each.get("message") else {})
        for each in page["items"]
    ]
    return page_of(page, items) | {"by_program": by_programs()["warning"]}


def explain_run(api: AdminApi, run_id: int) -> dict[str, Any]:
    """Everything about one run: why it failed or waits, and what it was to do.

    That is its attempts and nodes, the end of its log, its result and parameters, the job with
    what it runs and starts afterwards, the steps of a workflow that did not succeed, and how the
    latest runs of the same job ended.

    Args:
        run_id: the number of the run.
    """
    run = api.get(f"/runs/{run_id}")
    job = or_none(api, f"/jobs/{run['job_id']}")
    latest = api.get("/runs", job_id=run["job_id"], limit=_LATEST)["items"]
    found = {
        "run": run_facts(run)
        | {
            name: run[name]
            for name in ("why_node", "waiting_since", "start_by", "children", "shards")
            if run.get(name)
        },
        "attempts": run.get("attempts", []),
        "job": None if job is None else _what_it_does(job),
        "latest_runs_of_the_job": [run_facts(each) for each in latest],
        "by_programs": by_programs(
            message=run.get("message"),
            parameters=run.get("parameters"),
            result=run.get("result"),
            progress=run.get("progress_text"),
            checkpoint=run.get("checkpoint"),
            last_log_lines=_last_lines(api, run),
            script=_script(api, job, run_id),
        ),
    }
    if job is not None and job["config"].get("workflow"):
        steps = api.get(f"/runs/{run_id}/steps")["steps"]
        found["steps_that_did_not_succeed"] = [
            {name: each.get(name) for name in _STEP_FACTS if each.get(name) is not None}
            for each in steps
            if each["state"] != "succeeded"
        ]
    return found


_STEP_FACTS = ("key", "state", "reason", "message", "run_id", "waits_for", "items", "decided_by")


def read_log(api: AdminApi, run_id: int, after: int = 0, attempt: int = 0) -> dict[str, Any]:
    """Lines of a run's log, 300 at a time.

    Args:
        run_id: the number of the run.
        after: the number of the line after which to begin; `next` of the answer before.
        attempt: an earlier attempt; 0: the last one.
    """
    log = api.get(f"/runs/{run_id}/log", after=after, attempt=attempt or None, limit=_MOST_LINES)
    return {
        "attempt": log["attempt"],
        "next": log["next"],
        "more": log["more"],
        "by_programs": by_programs(lines=_texts(log["lines"])),
    }


def explain_fires(api: AdminApi, job: str, day: str) -> dict[str, Any]:
    """Why a job fired on a date, or did not: each trigger by its rules, and the runs of that date.

    Args:
        job: id, “executor/name” or name of the job.
        day: a date in the time zone of each trigger: 2026-03-01.
    """
    wanted = date.fromisoformat(day)
    found = api.get(f"/jobs/{job_id_of(api, job)}")
    triggers = []
    for trigger in found["triggers"]:
        told = {name: trigger.get(name) for name in ("id", "state", "reason", "paused")}
        try:
            said = api.post("/schedule/explain", {"trigger_id": trigger["id"], "date": day})
        except ApiRefused as refused:  # a kind that goes by the end of runs has no dates
            said = {"not_explained": str(refused)}
        triggers.append(told | {"explanation": said})
    # A date of any zone lies within these hours of UTC.
    runs = api.get(
        "/runs",
        job_id=found["id"],
        from_at=f"{wanted - timedelta(days=1)}T10:00:00Z",
        to_at=f"{wanted + timedelta(days=1)}T14:00:00Z",
        limit=MOST,
    )
    return {
        "job": job_facts(found),
        "executor_paused_at": found.get("executor_paused_at"),
        "everything_paused_at": found.get("everything_paused_at"),
        "triggers": triggers,
        "runs_around_that_date": [run_facts(each) for each in runs["items"]],
    }


def show_executors(api: AdminApi, executor: str = "") -> dict[str, Any]:
    """The executors with their slots and queues; of a single one also its nodes and handlers.

    Args:
        executor: name or id; empty: all.
    """
    if executor:
        one: dict[str, Any] = api.get(f"/executors/{executor_id_of(api, executor)}")
        return {name: value for name, value in one.items() if name != "schemas"}
    return {"items": api.get("/executors")["items"]}


def find_alarms(
    api: AdminApi, state: Literal["open", "all"] = "open", cursor: str = ""
) -> dict[str, Any]:
    """Alarms, those that happened last first: what they are about, and who looks after them.

    Args:
        state: open ones, or all.
        cursor: of the answer before, for the next page.
    """
    page = api.get("/alarms", state=state, cursor=cursor or None, limit=MOST)
    return page_of(page, page["items"])


# The first parameter is given by the server; assistants see the others.
READING: Final[Mapping[str, Callable[..., dict[str, Any]]]] = {
    tool.__name__: tool
    for tool in (
        what_needs_attention,
        find_jobs,
        show_job,
        find_runs,
        explain_run,
        read_log,
        explain_fires,
        show_executors,
        find_alarms,
    )
}


def _what_it_does(job: dict[str, Any]) -> dict[str, Any]:
    """What a run of the job does, and what follows it."""
    config = job["config"]
    shown = ("timeout_seconds", "retries", "blocking", "routing", "children", "workflow", "pool")
    return job_facts(job) | {name: config[name] for name in shown if config.get(name)}


def _last_lines(api: AdminApi, run: dict[str, Any]) -> list[str] | None:
    lines = run.get("log_lines") or 0
    if not lines:
        return None
    after = max(0, lines - _LAST_LINES)
    return _texts(api.get(f"/runs/{run['id']}/log", after=after, limit=_LAST_LINES)["lines"])


def _script(api: AdminApi, job: dict[str, Any] | None, run_id: int) -> Any:
    if job is None or not job["config"].get("script"):
        return None
    return or_none(api, f"/runs/{run_id}/script")


def _texts(lines: list[dict[str, Any]]) -> list[str]:
    return [f"{each['seq']} {each['at']} {each['level']}: {each['text']}" for each in lines]
