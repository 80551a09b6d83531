"""What users call things: an id or a name; what an ambiguous name could mean is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tickwheel_admin.cli.client.connection import AdminApi
from tickwheel_admin.cli.client.errors import NotFoundFailure, UsageFailure

_MOST_TOLD = 10  # of what an ambiguous name could mean


def executor_id(api: AdminApi, given: str) -> int:
    """The id of an executor by its name, or by that id."""
    if given.isdecimal():
        return int(given)
    for each in api.get("/executors")["items"]:
        if each["name"] == given:
            return int(each["id"])
    raise NotFoundFailure(f"there is no executor {given!r}, or the token may not see it")


def job_id(api: AdminApi, given: str) -> int:
    """The id of a job by `executor/job`, by its name alone, or by that id."""
    if given.isdecimal():
        return int(given)
    executor, slash, name = given.partition("/")  # no executor has a slash in its name
    found = _jobs_called(api, name, executor) if slash and name else []
    found = found or _jobs_called(api, given, None)
    return _only(found, given, "job", lambda each: f"{each['executor_name']}/{_job_name(each)}")


def run_id(api: AdminApi, given: str) -> int:
    """The id of a run, also as the newest run of a job that is named."""
    if given.isdecimal():
        return int(given)
    page = next(api.pages("/runs", most=1, job_id=job_id(api, given)), None)
    if page is None:
        raise NotFoundFailure(f"the job {given} has no run")
    return int(page["id"])


def node_id(api: AdminApi, given: str) -> int:
    """The id of a node by `executor/node`, by its name alone, or by that id; live ones first."""
    if given.isdecimal():
        return int(given)
    executor, slash, name = given.partition("/")
    found = _nodes_called(api, name, executor) if slash and name else []
    found = found or _nodes_called(api, given, None)
    live = [each for each in found if each["state"] == "live"]
    return _only(
        live or found,
        given,
        "node",
        lambda each: f"{each['id']} ({each['executor_name']}, {each['state']})",
    )


def nodes(api: AdminApi, executor: str | None = None, **query: object) -> Iterable[dict[str, Any]]:
    """The nodes of one executor or of all, each with its `executor_name`."""
    if executor is not None:
        query["executor_id"] = executor_id(api, executor)
    return api.pages("/nodes", most=None, **query)


def calendar_id(api: AdminApi, given: str) -> int:
    """The id of a calendar by its name, or by that id."""
    if given.isdecimal():
        return int(given)
    found = [
        each
        for each in api.pages("/calendars", most=None, text=given[:200])
        if each["config"]["name"] == given
    ]
    return _only(found, given, "calendar", lambda each: str(each["id"]))


def pool_id(api: AdminApi, given: str) -> int:
    """The id of a pool by its name, by `executor/pool`, or by that id."""
    if given.isdecimal():
        return int(given)
    executor, slash, name = given.partition("/")
    found = _pools_called(api, name, executor) if slash and name else []
    found = found or _pools_called(api, given, None)
    return _only(
        found,
        given,
        "pool",
        lambda each: f"{each['id']} ({each['executor_name'] or 'of the installation'})",
    )


def _jobs_called(api: AdminApi, name: str, executor: str | None) -> list[dict[str, Any]]:
    return [
        each
        for each in api.pages("/jobs", most=None, text=name[:200])
        if _job_name(each) == name and executor in (None, each["executor_name"])
    ]


def _nodes_called(api: AdminApi, name: str, executor: str | None) -> list[dict[str, Any]]:
    return [
        each
        for each in nodes(api, text=name[:200])
        if each["name"] == name and executor in (None, each["executor_name"])
    ]


def _pools_called(api: AdminApi, name: str, executor: str | None) -> list[dict[str, Any]]:
    return [
        each
        for each in api.pages("/pools", most=None, text=name[:200])
        if each["name"] == name and executor in (None, each["executor_name"])
    ]


def _job_name(job: dict[str, Any]) -> str:
    return str(job["config"]["name"])


def _only(
    found: Sequence[dict[str, Any]], given: str, noun: str, told: Callable[[dict[str, Any]], str]
) -> int:
    if not found:
        raise NotFoundFailure(f"there is no {noun} {given!r}, or the token may not see it")
    if len(found) > 1:
        meant = ", ".join(told(each) for each in found[:_MOST_TOLD])
        raise UsageFailure(f"{given!r} could be several: {meant}; say which")
    return int(found[0]["id"])
