"""Ids of jobs and executors in the fields of a job, as names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tickwheel_admin.store.jobs.child_links import LinkedJob

_JOB_KINDS = ("job", "workflow")


def jobs_named_in(raw: Mapping[str, Any]) -> Iterator[int]:
    """Ids of the jobs that children and steps name, in fields that `job_to_raw` wrote."""
    for link in raw["children"]:
        yield link["job"]
    for step in _steps(raw):
        for kind in _JOB_KINDS:
            if kind in step:
                yield step[kind]


def with_reference_names(
    raw: Mapping[str, Any],
    executor_id: int,
    jobs: Mapping[int, LinkedJob],
    executors: Mapping[int, str],
) -> dict[str, Any]:
    """The fields with names for ids; what is not known, or may not be seen, keeps its id."""

    def job(job_id: int) -> Any:
        found = jobs.get(job_id)
        if found is None or found.executor_id not in executors:
            return job_id
        if found.executor_id == executor_id:
            return found.name
        return {"executor": executors[found.executor_id], "name": found.name}

    def step(raw_step: Mapping[str, Any]) -> dict[str, Any]:
        shown = dict(raw_step)
        if "executor" in shown:
            shown["executor"] = executors.get(shown["executor"], shown["executor"])
        for kind in _JOB_KINDS:
            if kind in shown:
                shown[kind] = job(shown[kind])
        return shown

    named = {**raw, "children": [{**link, "job": job(link["job"])} for link in raw["children"]]}
    if (workflow := raw["workflow"]) is not None:
        named["workflow"] = {**workflow, "steps": [step(each) for each in workflow["steps"]]}
    return named


def _steps(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    workflow = raw["workflow"]
    return [] if workflow is None else workflow["steps"]
