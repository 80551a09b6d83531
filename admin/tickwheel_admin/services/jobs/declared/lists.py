"""Declared jobs as lists and pages show them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.input.job import changed_fields, job_to_raw, parse_job, without_source
from tickwheel_admin.domain.jobs.declared_job import DeclaredJob, DeclaredState
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.workflows.graph import HANDLER
from tickwheel_admin.services.jobs.declared.configs import declared_fields
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.store.executors.executors import get_executor
from tickwheel_admin.store.jobs import declared as store
from tickwheel_admin.store.jobs.jobs import current_configs, jobs_named


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field of a job in which code and the stored job differ, as the API writes it."""

    field: str
    before: Any  # of the stored job; None: there is no job, or it does not say
    after: Any  # as code declares it


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredItem:
    """A job that code declares, and what became of it."""

    name: str
    state: DeclaredState
    reason: str | None  # a DeclaredReason
    handler: str  # "" when code names none
    job_id: int | None  # of the job that code manages, or of the one that stands in its way
    job_name: str | None
    managed: bool  # code manages that job
    differences: list[Difference]  # what accepting it would change; none when there is nothing to
    problems: list[Problem]
    declared_by: str  # name of the node that said so first
    declared_at: int  # when that node connected
    declared_now: bool  # by a live node; also true while that cannot be told
    renamed_from: str | None  # the managed job whose new name this probably is

    @property
    def undeclared(self) -> bool:
        """Whether code manages the job and no live node declares it any more."""
        return self.managed and not self.declared_now


def read_items(conn: sa.Connection, executor_id: int) -> list[DeclaredItem]:
    """What code declares at an executor, by name.

    What no live node declares any more is left out, unless it has a job. Raises NotFound for an
    executor that is deleted.
    """
    if get_executor(conn, executor_id) is None:
        raise not_found()
    declared = store.read_declared(conn, executor_id)
    now = store.names_declared_now(conn, [executor_id]).get(executor_id)
    # A person may be asked to rename the job that stands under the earlier name.
    standing = jobs_named(
        conn, executor_id, [each.name for each in declared.values() if each.job_id is None]
    )
    jobs = {
        name: found
        for name, each in declared.items()
        if (found := _job_of(each, declared, standing)) is not None
    }
    configs = current_configs(conn, set(jobs.values()))
    return [
        _item(
            conn,
            each,
            jobs.get(name),
            configs,
            declared_now=now is None or name in now,
            renamed_from=_renamed_from(each, declared),
        )
        for name, each in declared.items()
        if now is None or name in now or each.job_id is not None
    ]


def read_waiting(
    conn: sa.Connection, executor_ids: Collection[int] | None
) -> dict[int, dict[str, int]]:
    """Names that wait for a person and since when, by executor; None: of all executors."""
    return read_in_state(conn, DeclaredState.WAITING, executor_ids)


def read_in_state(
    conn: sa.Connection, state: DeclaredState, executor_ids: Collection[int] | None
) -> dict[int, dict[str, int]]:
    """Names in this state and since when, by executor; None: of all executors.

    What no live node declares any more concerns nobody, unless no node is live to ask.
    """
    standing = store.names_in_state(conn, state, executor_ids)
    if not standing:
        return {}
    now = store.names_declared_now(conn, standing.keys())
    found = {
        executor_id: {
            name: at
            for name, at in names.items()
            if (said := now.get(executor_id)) is None or name in said
        }
        for executor_id, names in standing.items()
    }
    return {executor_id: names for executor_id, names in found.items() if names}


def _renamed_from(declared: DeclaredJob, others: Mapping[str, DeclaredJob]) -> str | None:
    """The earlier name, unless its job was deleted or released meanwhile."""
    earlier = others.get(declared.ruling.renamed_from or "")
    return None if earlier is None or earlier.job_id is None else earlier.name


def _job_of(
    declared: DeclaredJob, others: Mapping[str, DeclaredJob], standing: Mapping[str, int]
) -> int | None:
    """The job that accepting the declaration would change."""
    if declared.job_id is not None:
        return declared.job_id
    earlier = others.get(declared.ruling.renamed_from or "")
    if earlier is not None and earlier.job_id is not None:
        return earlier.job_id
    return standing.get(declared.name)


def _item(
    conn: sa.Connection,
    declared: DeclaredJob,
    job_id: int | None,
    configs: Mapping[int, JobConfig],
    *,
    declared_now: bool,
    renamed_from: str | None,
) -> DeclaredItem:
    ruling = declared.ruling
    raw = declared_fields(conn, declared.executor_id, declared.raw)
    before = None if job_id is None else configs.get(job_id)
    is_as_declared = ruling.state is DeclaredState.APPLIED
    handler = raw.get("handler", HANDLER if "workflow" in raw else None)
    return DeclaredItem(
        name=declared.name,
        state=ruling.state,
        reason=None if ruling.reason is None else ruling.reason.value,
        handler=handler if isinstance(handler, str) else "",
        job_id=None if before is None else job_id,
        job_name=None if before is None else before.name,
        managed=declared.job_id is not None,
        differences=[] if is_as_declared else differences(before, raw),
        problems=list(ruling.problems),
        declared_by=declared.declared_by,
        declared_at=declared.declared_at,
        declared_now=declared_now,
        renamed_from=renamed_from,
    )


def differences(before: JobConfig | None, raw: Mapping[str, Any]) -> list[Difference]:
    """What would change in a job, in the order of the API's fields; none for a broken declaration.

    A job that is not there yet has every field that code names.
    """
    try:
        config = parse_job(raw)
    except InvalidInput:
        return []
    if before is None:
        named = job_to_raw(without_source(config)).items()
        return [Difference(field=f, before=None, after=value) for f, value in named if f in raw]
    changed = changed_fields(before, config)
    return [Difference(field=field, before=b, after=a) for field, (b, a) in changed.items()]
