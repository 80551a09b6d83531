"""The transaction that writes a page of an import: all of it, or nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.imports.fate import Fate
from tickwheel_admin.domain.imports.merge import ImportKind
from tickwheel_admin.domain.input.job import parse_job
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.imports.new_jobs import NewImportedJob, add_imported_jobs
from tickwheel_admin.services.imports.plan import PlannedImport
from tickwheel_admin.services.jobs import edits as job_edits
from tickwheel_admin.services.jobs.edits import Edit
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.store.calendars.calendars import read_calendars
from tickwheel_admin.store.calendars.edits import hold_calendars
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.ids import TooFewIds
from tickwheel_admin.store.executors.executors import get_executor
from tickwheel_admin.store.imports.records import (
    StoredImport,
    imported_keys,
    lock_imports,
    write_imports,
)
from tickwheel_admin.store.system.audit import find_audits
from tickwheel_admin.store.triggers.triggers import pause_triggers, triggers_of_jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class PageEdit:
    """New and changed jobs, and the ids that their transaction may use."""

    actor: Actor
    executor_id: int
    paused: bool  # whether new jobs are
    jobs: Sequence[PlannedImport]
    audit_ids: Sequence[int]  # one for each job
    job_ids: Sequence[int]  # one for each job; that of a changed one is not used
    trigger_ids: Sequence[Sequence[int]]  # for each job, one for each trigger
    rule_ids: Sequence[Sequence[int]]  # for each job, one for each alarm


def write_page(conn: sa.Connection, edit: PageEdit, run_ids: Sequence[int]) -> None:
    """Write a page.

    Args:
        run_ids: for fires that are overdue at a job that is changed.

    Raises:
        UserError: something changed meanwhile; the import can be run again.
        TooFewIds: more `run_ids` are needed.
    """
    lock_imports(conn)
    if find_audits(conn, edit.audit_ids):  # an earlier try was committed
        return
    if get_executor(conn, edit.executor_id, lock=True) is None:
        raise not_found()
    _refuse_race(conn, edit)
    _create(conn, edit)
    _change(conn, edit, run_ids)
    now = now_ms(conn)
    for source, rows in _records(edit).items():
        write_imports(conn, source, rows, now=now)


def _refuse_race(conn: sa.Connection, edit: PageEdit) -> None:
    new: defaultdict[str, list[int]] = defaultdict(list)
    for each in edit.jobs:
        if each.fate is Fate.CREATED:
            new[each.of.source].append(each.of.their_id)
    for source, their_ids in new.items():
        for start in range(0, len(their_ids), 500):
            if imported_keys(
                conn, source, kind=ImportKind.JOB, their_ids=their_ids[start : start + 500]
            ):
                raise Conflict("import.raced", "Somebody else imports at the same time.")


def _create(conn: sa.Connection, edit: PageEdit) -> None:
    new = [
        NewImportedJob(
            config=each.config or parse_job(each.raw),
            job_id=edit.job_ids[place],
            audit_id=edit.audit_ids[place],
            trigger_ids=edit.trigger_ids[place],
            rule_ids=edit.rule_ids[place],
            detail={"imported_from": each.of.source},
            paused=each.paused,
        )
        for place, each in _with(edit, Fate.CREATED)
    ]
    named = {s.calendar for each in new for s in each.config.triggers if s.calendar is not None}
    if named:
        hold_calendars(conn, named)
    add_imported_jobs(
        conn,
        edit.actor,
        edit.executor_id,
        new,
        paused=edit.paused,
        calendars=read_calendars(conn, named) if named else {},
    )


def _change(conn: sa.Connection, edit: PageEdit, run_ids: Sequence[int]) -> None:
    changed = [(place, each) for place, each in _with(edit, Fate.CHANGED) if each.changes]
    share = len(run_ids) // max(len(changed), 1)
    for number, (place, each) in enumerate(changed):
        assert each.our_id is not None  # noqa: S101 - what is changed is there
        one = Edit(
            actor=edit.actor,
            audit_id=edit.audit_ids[place],
            trigger_ids=edit.trigger_ids[place],
            rule_ids=edit.rule_ids[place],
            run_ids=run_ids[number * share : (number + 1) * share],
        )
        try:
            job_edits.update_job(
                conn,
                one,
                job_id=each.our_id,
                revision=each.revision,
                config=parse_job(each.raw),
            )
        except TooFewIds as error:
            raise TooFewIds(error.count * len(changed)) from None
        if "triggers" in each.changes and each.paused:
            stored = triggers_of_jobs(conn, [each.our_id]).get(each.our_id, [])
            paused = [t.trigger.id for t in stored if t.trigger.spec.as_written() in each.paused]
            pause_triggers(conn, paused)


def _with(edit: PageEdit, fate: Fate) -> Iterator[tuple[int, PlannedImport]]:
    return ((place, each) for place, each in enumerate(edit.jobs) if each.fate is fate)


def _records(edit: PageEdit) -> Mapping[str, list[StoredImport]]:
    rows: defaultdict[str, list[StoredImport]] = defaultdict(list)
    for place, each in enumerate(edit.jobs):
        rows[each.of.source].append(
            StoredImport(
                kind=ImportKind.JOB,
                their_id=each.of.their_id,
                our_id=each.our_id or edit.job_ids[place],
                content=each.content,
            )
        )
    return rows
