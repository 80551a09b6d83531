"""Plans the executors of an import: each group of theirs, and which names of jobs it has here."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

import sqlalchemy as sa

from tickwheel_admin.domain.executors.executor import MAX_DESCRIPTION_CHARS
from tickwheel_admin.domain.executors.xxl_job import normal_address, read_settings
from tickwheel_admin.domain.fields import is_clean
from tickwheel_admin.domain.imports.fate import Fate
from tickwheel_admin.domain.imports.merge import ImportKind, merge_fields
from tickwheel_admin.domain.imports.notes import ImportNote, note
from tickwheel_admin.domain.xxl_job.records import XxlGroup, XxlJob
from tickwheel_admin.services.xxl_job.imports.known import CONFIGS_AT_ONCE, KnownHere
from tickwheel_admin.services.xxl_job.imports.plan import PlannedExecutor, kept
from tickwheel_admin.store.executors.executors import executor_name_is_taken
from tickwheel_admin.store.imports.records import StoredImport
from tickwheel_admin.store.jobs import jobs as store_jobs
from tickwheel_admin.store.xxl_job.executors import StoredXxlExecutor, read_xxl_executors


class ExecutorPlans:
    """The groups that are planned so far."""

    def __init__(self, conn: sa.Connection, known: KnownHere, jobs: Sequence[XxlJob]) -> None:
        """`jobs` are all of theirs."""
        self._conn = conn
        self._known = known
        self._ours: dict[int, StoredXxlExecutor] = {
            each.executor_id: each for each in read_xxl_executors(conn)
        }
        self._by_app = {each.app_name: each for each in self._ours.values()}
        self._planned_apps: dict[str, PlannedExecutor] = {}
        self._names: set[str] = set()
        self._taken: dict[int, dict[str, int]] = {}  # by group
        self._job_names: dict[int, set[str]] = {}  # of theirs, by group
        for job in jobs:
            self._job_names.setdefault(job.group_id, set()).add(job.name)
        self.planned: dict[int, PlannedExecutor] = {}  # by group

    def taken_names(self, group_id: int) -> dict[str, int]:
        """Names of jobs of a planned group's executor, by the id of the job here; 0: a planned one.

        Whoever plans a job adds its name.
        """
        return self._taken[group_id]

    def add(self, group: XxlGroup) -> None:
        """Plan a group."""
        planned = self._executor(group)
        self.planned[group.id] = planned
        if planned.fate is Fate.CANNOT:
            return
        if planned.same_as is None:
            self._planned_apps[planned.app_name] = planned
        self._taken[group.id] = self._taken_names(planned)

    def _executor(self, group: XxlGroup) -> PlannedExecutor:
        addresses, notes = _addresses(group)
        title = _title(group.title)
        settings, problems = read_settings(
            app_name=group.app_name, token=None, addresses=addresses or None
        )
        content = {
            "app_name": settings.app_name,
            "addresses": None if settings.addresses is None else list(settings.addresses),
        }
        planned = PlannedExecutor(
            their_id=group.id,
            name=group.app_name,
            fate=Fate.CREATED,
            app_name=settings.app_name,
            title=title,
            addresses=settings.addresses,
            content=content,
            notes=tuple(notes),
        )
        if problems:
            reasons = tuple(note("app_name", f"AppName: {each.message}") for each in problems)
            return replace(planned, fate=Fate.CANNOT, reasons=reasons)
        stored = self._known.imports.get((ImportKind.EXECUTOR, group.id))
        first = self._planned_apps.get(planned.app_name)
        if stored is not None:
            return self._known_executor(planned, stored, first)
        if first is not None:
            text = f"has the AppName of executor {first.their_id}: its jobs go to that one"
            return replace(
                planned,
                name=first.name,
                fate=Fate.UNCHANGED,
                our_id=first.our_id,
                same_as=first.their_id,
                notes=(*notes, note("same_app_name", text)),
            )
        if (ours := self._by_app.get(planned.app_name)) is not None:
            return replace(
                planned,
                name=ours.name,
                fate=Fate.UNCHANGED,
                our_id=ours.executor_id,
                notes=(*notes, note("exists", "is here already: its jobs are added to it")),
            )
        return replace(planned, name=self._free_name(planned.app_name, group.id))

    def _known_executor(
        self, planned: PlannedExecutor, stored: StoredImport, first: PlannedExecutor | None
    ) -> PlannedExecutor:
        ours = self._ours.get(stored.our_id)
        if ours is None:
            reason = note("deleted_here", "was imported, and deleted here since")
            return replace(planned, fate=Fate.CANNOT, reasons=(reason,))
        planned = replace(planned, name=ours.name, our_id=ours.executor_id)
        if first is not None:
            told = note("same_app_name", f"shares the executor of {first.their_id}")
            return replace(
                planned,
                fate=Fate.UNCHANGED,
                same_as=first.their_id,
                notes=(*planned.notes, told),
            )
        mine = {
            "app_name": ours.app_name,
            "addresses": None if ours.addresses is None else list(ours.addresses),
        }
        merge = merge_fields(stored.content, planned.content, mine)
        notes = planned.notes + tuple(kept(each) for each in merge.kept)
        addresses = merge.values["addresses"]
        return replace(
            planned,
            fate=Fate.CHANGED if merge.changed else Fate.UNCHANGED,
            app_name=merge.values["app_name"],
            addresses=None if addresses is None else tuple(addresses),
            content=merge.base,
            changes=merge.changed,
            notes=notes,
        )

    def _free_name(self, app_name: str, their_id: int) -> str:
        base = re.sub(r"[^a-z0-9._-]+", "-", app_name.lower()).strip("._-")[:90]
        base = base or f"xxl-job-{their_id}"
        for name in (base, f"{base}-xxl-job", f"{base}-{their_id}", f"xxl-job-{their_id}-{base}"):
            if name not in self._names and not executor_name_is_taken(self._conn, name):
                break
        self._names.add(name)
        return name

    def _taken_names(self, planned: PlannedExecutor) -> dict[str, int]:
        """Names of jobs that the executor has here, by the id of the job; 0: a planned one."""
        if planned.same_as is not None and planned.same_as in self._taken:
            taken = self._taken[planned.same_as]
        else:
            taken = {}
        if planned.our_id is not None:
            names = self._job_names.get(planned.their_id, ())
            taken |= _jobs_named(self._conn, planned.our_id, names)
        for brief in self._known.brief.values():
            if brief.executor_id == planned.our_id:
                taken[brief.name] = brief.id
        return taken


def _addresses(group: XxlGroup) -> tuple[list[str], list[ImportNote]]:
    """Those that a person typed in; none: its processes register themselves."""
    if not group.is_manual:
        return [], []
    good = [each for each in group.addresses if normal_address(each) is not None]
    notes = [
        note("address", f"address “{each[:60]}” is none, left out")
        for each in group.addresses
        if each not in good
    ]
    if not good:
        notes.append(note("no_addresses", "has no address: its processes register themselves"))
    return good, notes


def _title(text: str) -> str:
    return text[:MAX_DESCRIPTION_CHARS] if is_clean(text) else ""


def _jobs_named(conn: sa.Connection, executor_id: int, names: Collection[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    ordered = sorted(names)
    for start in range(0, len(ordered), CONFIGS_AT_ONCE):
        some = ordered[start : start + CONFIGS_AT_ONCE]
        found |= store_jobs.jobs_named(conn, executor_id, some)
    return found
