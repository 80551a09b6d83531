"""What becomes of each job that a process declares: looked at without locks, decided under them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.input.node_manifest import NodeManifest, Process
from tickwheel_admin.domain.jobs.declared_job import (
    MAX_KNOWN,
    CodeJobs,
    DeclaredJob,
    DeclaredState,
    Ruling,
    rule,
)
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.services.jobs.declared.configs import code_actor, declared_config
from tickwheel_admin.services.jobs.declared.edits import (
    APPLIED,
    DeclaredEdit,
    hold_job,
    make_job,
    note,
)
from tickwheel_admin.store.executors.executors import get_executor
from tickwheel_admin.store.jobs import declared as store
from tickwheel_admin.store.jobs.child_links import lock_links_of
from tickwheel_admin.store.jobs.jobs import current_configs, jobs_named


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarationOutcome:
    """What became of a declared job."""

    name: str
    ruling: Ruling
    change: str | None = None  # what this process brought about: "created", "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a look at the declarations of a process found."""

    outcomes: Sequence[DeclarationOutcome]  # of those for which nothing changes
    open: Sequence[str]  # to be decided
    forgotten: Sequence[str]  # that nobody declares any more and no job was made of
    too_many: Sequence[str] = ()  # for which the executor has no room


def look(conn: sa.Connection, process: Process, manifest: NodeManifest) -> View:
    """What would change, read without locks."""
    executor = get_executor(conn, process.executor_id)
    if executor is None:
        return View(outcomes=(), open=(), forgotten=())
    policy = executor.code_jobs
    known = store.read_declared(conn, process.executor_id)
    gone = [
        name
        for name, each in known.items()
        if name not in manifest.jobs and each.job_id is None and not each.is_given_up
    ]
    forgotten = _not_declared_elsewhere(conn, process, gone)
    room = MAX_KNOWN - (len(known) - len(forgotten))
    outcomes = []
    open_: list[str] = []
    too_many: list[str] = []
    for name, raw in manifest.jobs.items():
        standing = known.get(name)
        if (
            standing is not None
            and standing.raw == raw
            and (
                standing.is_settled(raw, policy)
                or standing.ruling == _ruling(conn, process, manifest, name, policy, known)
            )
        ):
            outcomes.append(DeclarationOutcome(name=name, ruling=standing.ruling))
        elif standing is None and room <= 0:
            too_many.append(name)
        else:
            open_.append(name)
            room -= standing is None
    return View(outcomes=outcomes, open=open_, forgotten=forgotten, too_many=too_many)


def propose(
    conn: sa.Connection,
    edit: DeclaredEdit,
    process: Process,
    manifest: NodeManifest,
    name: str,
    *,
    run_ids: Sequence[int],
) -> DeclarationOutcome | None:
    """Decide on one declaration, and do what follows; None: it is not for this process to say.

    Raises:
        UserError: no job can be made of it; nothing was written.
        TooFewIds: fires are overdue.
    """
    if done := edit.earlier(conn):
        return DeclarationOutcome(name=name, ruling=APPLIED, change=done.detail.get("change"))
    config = declared_config(conn, edit.actor, process.executor_id, manifest.jobs[name])
    lock_links_of(conn, config)
    held = _hold(conn, process, manifest, name)
    if held is None:
        return None
    policy, known, new = held
    if known is not None and known.is_settled(new.raw, policy):
        return DeclarationOutcome(name=name, ruling=known.ruling)
    others = store.read_declared(conn, process.executor_id)
    ruling = _ruling(conn, process, manifest, name, policy, others)
    new = replace(new, ruling=ruling)
    if ruling.state is not DeclaredState.APPLIED:
        return _write(conn, known, new)
    job_id, made = make_job(conn, replace(edit, run_ids=run_ids), new, config)
    store.write_declared(conn, replace(new, job_id=job_id))
    change = None if made == "unchanged" else made
    note(conn, edit, "declared.applied", new, job_id, change=change)
    return DeclarationOutcome(name=name, ruling=ruling, change=change)


def refuse(
    conn: sa.Connection,
    process: Process,
    manifest: NodeManifest,
    name: str,
    *,
    problems: tuple[Problem, ...],
) -> DeclarationOutcome | None:
    """Note that no job can be made of a declaration; a job that it made earlier stays as it is."""
    held = _hold(conn, process, manifest, name)
    if held is None:
        return None
    _, known, new = held
    ruling = Ruling(state=DeclaredState.INVALID, problems=problems)
    if known is not None and known.is_given_up:
        ruling = known.ruling
    return _write(conn, known, replace(new, ruling=ruling))


def forget(conn: sa.Connection, process: Process, names: Collection[str]) -> None:
    """Remove declarations that no live node makes any more and that no job came of."""
    if get_executor(conn, process.executor_id, lock=True) is None:
        return
    known = store.read_declared(conn, process.executor_id)
    gone = [
        name
        for name in _not_declared_elsewhere(conn, process, names)
        if (each := known.get(name)) is not None and each.job_id is None and not each.is_given_up
    ]
    store.forget_declared(conn, process.executor_id, gone)


def _not_declared_elsewhere(
    conn: sa.Connection, process: Process, names: Collection[str]
) -> list[str]:
    """Those of the names that no other live node declares, as far as that is known."""
    if not names:
        return []
    others = store.names_declared_now(
        conn, [process.executor_id], without_node=process.node_id
    ).get(process.executor_id, frozenset())
    return [] if others is None else sorted(set(names) - others)


def _hold(
    conn: sa.Connection, process: Process, manifest: NodeManifest, name: str
) -> tuple[CodeJobs, DeclaredJob | None, DeclaredJob] | None:
    """(policy, what is known, what this process says), under the executor's lock.

    None: the executor is deleted, or a process that started later has said something else.
    """
    executor = get_executor(conn, process.executor_id, lock=True)
    if executor is None:
        return None
    known = store.get_declared(conn, process.executor_id, name)
    new = DeclaredJob(
        executor_id=process.executor_id,
        name=name,
        raw=manifest.jobs[name],
        job_id=None if known is None else known.job_id,
        ruling=APPLIED,
        declared_by=process.name,
        node_id=process.node_id,
        declared_at=process.connected_at,
    )
    if known is not None and known.raw != new.raw:
        if (known.declared_at, known.node_id) > process.place:
            return None
        jobs, _ = store.said_by_newer_nodes(
            conn,
            process.executor_id,
            node_id=process.node_id,
            connected_at=process.connected_at,
        )
        if name in jobs:  # which found its own words written already
            return None
    return executor.code_jobs, known, new


def _write(conn: sa.Connection, known: DeclaredJob | None, new: DeclaredJob) -> DeclarationOutcome:
    """Write a declaration that makes no job, unless it stands there already."""
    if known is None or (known.raw, known.ruling) != (new.raw, new.ruling):
        hold_job(conn, new)
        store.write_declared(conn, new)
    return DeclarationOutcome(name=new.name, ruling=new.ruling)


def _ruling(
    conn: sa.Connection,
    process: Process,
    manifest: NodeManifest,
    name: str,
    policy: CodeJobs,
    known: Mapping[str, DeclaredJob],
) -> Ruling:
    """What is to become of a declaration, as far as reading tells."""
    try:
        actor = code_actor(process.executor_id)
        config = declared_config(conn, actor, process.executor_id, manifest.jobs[name])
    except InvalidInput as error:
        return Ruling(state=DeclaredState.INVALID, problems=error.problems)
    return rule(
        known.get(name),
        policy=policy,
        name_is_taken=bool(jobs_named(conn, process.executor_id, [name])),
        renamed_from=_earlier_name(conn, manifest, config, known),
    )


def _earlier_name(
    conn: sa.Connection, manifest: NodeManifest, config: JobConfig, known: Mapping[str, DeclaredJob]
) -> str | None:
    """The declared job whose new name this probably is.

    One that code manages, that this process does not declare, and that fires when this one would:
    making another job of it would double every fire.
    """
    if not config.triggers:
        return None
    candidates = {
        each.job_id: name
        for name, each in known.items()
        if each.job_id is not None and name not in manifest.jobs
    }
    configs = current_configs(conn, candidates.keys())
    for job_id, name in candidates.items():
        standing = configs.get(job_id)
        if (
            standing is not None
            and standing.handler == config.handler
            and set(standing.triggers) == set(config.triggers)
        ):
            return name
    return None
