"""Transactions of an import from XXL-JOB: each executor with all of its jobs in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.imports.fate import Fate
from tickwheel_admin.domain.imports.merge import ImportKind
from tickwheel_admin.domain.input.job import job_to_raw, parse_job
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.executors.service import check_name_is_free
from tickwheel_admin.services.imports.new_jobs import NewImportedJob, add_imported_jobs
from tickwheel_admin.services.jobs import edits as job_edits
from tickwheel_admin.services.jobs.edits import Edit
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.xxl_job.imports.plan import PlannedExecutor, PlannedJob
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.executors.executors import add_executor, get_executor
from tickwheel_admin.store.imports.records import (
    StoredImport,
    imported_keys,
    lock_imports,
    read_imports,
    write_imports,
)
from tickwheel_admin.store.jobs import jobs as store_jobs
from tickwheel_admin.store.jobs.child_links import lock_child_links
from tickwheel_admin.store.system.audit import NewAudit, find_audits, write_audits
from tickwheel_admin.store.xxl_job import executors as xxl_executors

_NAMES_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportEdit:
    """One executor with its new jobs, and the ids that its transaction may use."""

    source: str
    actor: Actor
    executor: PlannedExecutor
    jobs: Sequence[PlannedJob]  # new ones
    rebased: Sequence[PlannedJob]  # unchanged here, but what counts as imported is not
    executor_id: int  # of ours; a new one when it is to be created
    sealed_token: str = field(repr=False, default="")  # encrypted; of a new executor
    audit_ids: Sequence[int]  # one for the executor, then one for each job
    job_ids: Mapping[int, int]  # by theirs
    trigger_ids: Mapping[int, Sequence[int]]  # by theirs


def import_executor(conn: sa.Connection, edit: ImportEdit) -> None:
    """Write an executor and its new jobs; all of it, or nothing.

    Raises:
        Conflict: something else changed meanwhile; the import can be run again.
    """
    lock_imports(conn)
    if find_audits(conn, edit.audit_ids):  # an earlier try was committed
        return
    present = imported_keys(conn, edit.source)
    if any((ImportKind.JOB, each.their_id) in present for each in edit.jobs):
        raise _raced()
    _write_executor(conn, edit)
    _create(conn, edit)
    rows = [_row(ImportKind.EXECUTOR, edit.executor, edit.executor_id)]
    rows += [_row(ImportKind.JOB, each, edit.job_ids[each.their_id]) for each in edit.jobs]
    rows += [_row(ImportKind.JOB, each, each.our_id) for each in edit.rebased if each.our_id]
    write_imports(conn, edit.source, rows, now=now_ms(conn))


def change_job(conn: sa.Connection, edit: Edit, source: str, planned: PlannedJob) -> None:
    """Bring what changed in XXL-JOB, and the children, which are all imported now.

    Raises:
        UserError: the job cannot be changed so.
    """
    if edit.earlier(conn):
        return
    lock_imports(conn)
    lock_child_links(conn)
    concerned = {planned.their_id, *(planned.links or ())}
    stored = read_imports(conn, source, kind=ImportKind.JOB, their_ids=concerned)
    own = stored.get((ImportKind.JOB, planned.their_id))
    job = None if own is None else store_jobs.lock_job(conn, own.our_id)
    if own is None or job is None:
        raise not_found()
    is_new = planned.our_id is None
    raw = job_to_raw(job.config)
    content = dict(own.content if is_new else planned.content)
    if set(planned.changes) - {"children"}:
        raw = {**planned.raw, "children": raw["children"]}
    if planned.links is not None:
        links = [each for each in planned.links if (ImportKind.JOB, each) in stored]
        ids = [stored[ImportKind.JOB, each].our_id for each in links]
        raw["children"] = [{"job": each, "on": "success"} for each in ids]
        content["children"] = links
    revision = job.revision if is_new else planned.revision
    config = parse_job(raw, Protocol.XXL_JOB)
    job_edits.update_job(conn, edit, job_id=job.id, revision=revision, config=config)
    row = replace(own, content=content)
    write_imports(conn, source, [row], now=now_ms(conn))


def check_not_imported(conn: sa.Connection, source: str, kind: ImportKind, their_id: int) -> None:
    """Raise Conflict when another import was faster."""
    lock_imports(conn)
    if (kind, their_id) in imported_keys(conn, source):
        raise _raced()


def _raced() -> Conflict:
    return Conflict("xxl_job.import_raced", "Somebody else imports at the same time.")


def _row(kind: ImportKind, planned: PlannedExecutor | PlannedJob, our_id: int) -> StoredImport:
    return StoredImport(
        kind=kind, their_id=planned.their_id, our_id=our_id, content=planned.content
    )


def _write_executor(conn: sa.Connection, edit: ImportEdit) -> None:
    planned, now = edit.executor, now_ms(conn)
    told = {
        "app_name": planned.app_name,
        "addresses": None if planned.addresses is None else list(planned.addresses),
    }
    if planned.fate is Fate.CREATED:
        check_name_is_free(conn, planned.name)
        taken = xxl_executors.xxl_executor_of_app(conn, planned.app_name)
        if taken is not None:
            raise Conflict(
                "executor.app_name_taken",
                "The processes of “%(name)s” already register as “%(app_name)s”.",
                name=taken.name,
                app_name=planned.app_name,
            )
        add_executor(
            conn,
            executor_id=edit.executor_id,
            name=planned.name,
            description=planned.title,
            token_hash=f"xxl_job {edit.executor_id}",  # no hash, so that nothing opens the door
            protocol=Protocol.XXL_JOB,
            now=now,
        )
        xxl_executors.add_xxl_executor(
            conn,
            edit.executor_id,
            app_name=planned.app_name,
            addresses=planned.addresses,
            token=edit.sealed_token,
        )
        xxl_executors.set_xxl_addresses(conn, edit.executor_id, planned.addresses, now=now)
        detail = {"name": planned.name, "protocol": Protocol.XXL_JOB.value, **told}
        _note(conn, edit, 0, "executor.created", edit.executor_id, detail)
        return
    if get_executor(conn, edit.executor_id, lock=True) is None:
        raise not_found()
    if planned.fate is not Fate.CHANGED:
        return
    old = xxl_executors.get_xxl_executor(conn, edit.executor_id)
    if old is None:
        raise not_found()
    xxl_executors.change_xxl_executor(
        conn,
        edit.executor_id,
        app_name=planned.app_name,
        addresses=planned.addresses,
        token=old.token,
    )
    if old.addresses != planned.addresses:
        xxl_executors.set_xxl_addresses(conn, edit.executor_id, planned.addresses, now=now)
    detail = {"name": planned.name, "changed": list(planned.changes), **told}
    _note(conn, edit, 0, "executor.xxl_changed", edit.executor_id, detail)


def _create(conn: sa.Connection, edit: ImportEdit) -> None:
    """Add jobs that are paused: XXL-JOB goes on firing them."""
    new = [
        NewImportedJob(
            config=parse_job(each.raw, Protocol.XXL_JOB),
            job_id=edit.job_ids[each.their_id],
            audit_id=audit_id,
            trigger_ids=edit.trigger_ids[each.their_id],
            detail={"xxl_job": each.their_id},
            earlier=[
                parse_job({**each.raw, "script": script}, Protocol.XXL_JOB)
                for script in each.earlier_scripts
            ],
        )
        for each, audit_id in zip(edit.jobs, edit.audit_ids[1:], strict=True)
    ]
    add_imported_jobs(conn, edit.actor, edit.executor_id, new, paused=True, calendars={})


def _note(
    conn: sa.Connection,
    edit: ImportEdit,
    place: int,
    action: str,
    object_id: int,
    detail: Mapping[str, object],
) -> None:
    new = NewAudit(
        id=edit.audit_ids[place],
        action=action,
        executor_id=edit.executor_id,
        object_id=object_id,
        detail=detail,
    )
    write_audits(conn, edit.actor, [new])
